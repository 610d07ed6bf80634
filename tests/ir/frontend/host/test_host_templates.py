"""Instances of kernels that host templates launch."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import deep_recursion, load, parse_unit
from ktc.ir.frontend.host.guessing.guesses import guesses
from ktc.ir.frontend.host.launch_sites import launch_sites
from ktc.ir.frontend.host.template_instances import instances, spell
from ktc.ir.text import print_expr
from ktc.ir.text.printer import print_type

KERNEL = "template <typename T, int N> __global__ void k(T* p) { p[threadIdx.x] = N; }\n"


def found(text: str, guessed: bool = False) -> list[str]:
    """The instances of the last kernel of ``text``, each as its arguments."""
    with deep_recursion("k.cu"):
        unit = parse_unit(text, "k.cu", {}, ())
        entity = unit.program.kernels[-1]
        low = unit.lowering()
        sites = launch_sites(low, entity.name)
        bound = guesses(low, entity, sites) if guessed else (b for b, _, _ in instances(low, entity, sites, {}))
        return [", ".join(spell(b[p.name]) for p in entity.params or ()) for b in bound]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("template <typename A> void f(A* p) { k<A, 4><<<1, 32>>>(p); } void g(float* p) { f<float>(p); f(p); }",
         ["float, 4"]),
        ("template <typename A> void f(A* p) { k<A, 4><<<1, 32>>>(p); } template void f<short>(short*);", ["short, 4"]),
        ("template <typename A> void f(A* p) { k<A, 4><<<1, 32>>>(p); } template void f(double*);", ["double, 4"]),
        ("template <typename A, int M = 3> void f(A* p) { constexpr int W = M * 2; k<A, W><<<1, 32>>>(p); }\n"
         "template <typename A> void g(A* p) { f<A>(p); f<A, 8>(p); } void h(int* p) { g(p); }", ["int, 6", "int, 16"]),
        ("template <typename A> void f(void* p) { k<A, 4><<<1, 32>>>((A*)p); }\n"
         "void g(int t, void* p) { switch (t) { case 0: { using X = float; [&] { f<X>(p); }(); break; }\n"
         "case 1: { typedef double X; f<X>(p); break; } } }", ["float, 4", "double, 4"]),
        ("void g(Tensor x) { k<unsigned char, 1><<<1, 32>>>(x); k<short, 1><<<1, 32>>>(x); k<int, 1><<<1, 32>>>(x);"
         " k<unsigned, 1><<<1, 32>>>(x); }", ["int, 1", "unsigned int, 1", "unsigned char, 1", "short, 1"]),
        ("template <typename A> struct L { template <int M> static void run(A* p) { k<A, M><<<1, 32>>>(p); } };\n"
         "void g(float* p) { L<float>::run<64>(p); }", ["float, 64"]),
        ("template <typename A> struct L { void run(A* p) { k<A, 2><<<1, 32>>>(p); } }; template struct L<int>;",
         ["int, 2"]),
        ("template <typename A> struct L { void run(A* p); template <int M> void all(A* p); };\n"
         "template <typename A> void L<A>::run(A* p) { k<A, 2><<<1, 32>>>(p); }\n"
         "template void L<float>::run(float* p); template void L<double>::run(double* p);", ["float, 2", "double, 2"]),
        ("template <typename A> struct L { template <int M> void run(A* p) { k<A, M><<<1, 32>>>(p); } };\n"
         "template void L<float>::run<5>(float* p);", ["float, 5"]),
        ("void g(Tensor x) { auto kern = &k<float, 2>; kern<<<1, 32>>>(x.data_ptr<float>()); }", ["float, 2"]),
        ("void g(Tensor x) { cudaLaunchKernel((void*)k<float, 2>, dim3(1), dim3(32), args, 0, 0); }", ["float, 2"]),
        ("template __global__ void k<int, 7>(int*);", ["int, 7"]),
        ("template <typename A> void f(A* p) { k<A, 4><<<1, 32>>>(p); }", []),
        ("template <int M> void f() { k<int, M><<<1, 32>>>(0); f<M + 1>(); }", []),
    ],
)  # fmt: skip
def test_instances(host, expected):
    assert found(KERNEL + host) == expected


DEVICE_TYPES = """
namespace dev {
  struct half_t { unsigned short bits; };
  template <typename T> struct Of { using type = T; };
  template <> struct Of<half_t> { using type = __half; };
  template <typename T> using of = typename Of<T>::type;
  template <typename T> const of<T>* as(const T* x) { return reinterpret_cast<const of<T>*>(x); }
  template <typename T> of<T>* as(T* x) { return reinterpret_cast<of<T>*>(x); }
  template <typename T> T* moved(T* x, int by = 0) { return x + by; }
  float* pick(int n);
  int* pick(int* n);
  float* one(const char* name);
}
template <typename T> void launch(const T* p) { k<T, 4><<<1, 32>>>(const_cast<T*>(p)); }
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("launch(dev::as<float>(x.data<float>()))", ["float, 4"]),
        ("launch(dev::as(x.data<dev::half_t>()))", ["__half, 4"]),
        ("auto* p = x.data<float>(); launch(dev::as(p))", ["float, 4"]),
        ("auto* p = dev::as(x.data<dev::half_t>()); launch(p + 1)", ["__half, 4"]),
        ("launch(dev::moved(dev::as(x.data<dev::half_t>()), 3))", ["__half, 4"]),
        ('launch(x ? dev::one("a") : nullptr)', ["float, 4"]),
        ("launch(dev::pick(3))", []),  # which of the two it is, is not looked into
        ('launch(dev::one("a", 2))', []),
        ("launch(dev::unheard_of(x))", []),
    ],
)
def test_what_functions_of_the_file_return_is_deduced_from(call, expected):
    assert found(KERNEL + DEVICE_TYPES + f"void go(Tensor& x) {{ {call}; }}") == expected


def test_arguments_are_deduced_from_the_launch():
    text = "template <typename T> __global__ void k(T* p) { *p = 1; }\n"
    assert found(text + "void f(Tensor a) { k<<<1, 1>>>(a.data_ptr<short>()); }") == ["short"]


def test_the_launch_of_an_instance_is_followed_with_its_arguments():
    k = load(
        KERNEL + "template <typename A, int W> void f(A* p, int n) { k<A, W><<<n, W * 32>>>(p); }\n"
        "void g(float* p, int n) { f<float, 4>(p, n); }",
        name="k.cu",
    )
    assert k.launch is not None and k.launch.block[0].value == 128


def test_the_launch_of_the_wanted_instance_is_followed():
    """Not the first in the file, though both have the same arguments but for their types."""
    text = """template <typename T> __global__ void k(T* p) { p[threadIdx.x] = 1; }
void d(double* p) { k<<<1, 64>>>(p); }
void f(float* p) { k<<<1, 32>>>(p); }"""
    launch = load(text, name="k.cu", template={"T": "float"}).launch
    assert launch is not None and print_expr(launch.block[0]) == "32"
    other = load(text, name="k.cu", template={"T": "int"}).launch  # launched by nobody: as the others are
    assert other is not None and print_expr(other.block[0]) == "64"


def test_what_the_launch_says_is_kept_where_the_rest_is_guessed():
    text = (
        "template <typename T, int N> struct Traits { using type = T; static constexpr int n = N; };\n"
        "template <typename K, int M> __global__ void k(typename K::type* p) { p[threadIdx.x] = K::n + M; }\n"
        "void f(Tensor a) { DISPATCH(a.type(), [&] { constexpr int Q = 8;"
        " k<Traits<scalar_t, Q>, 3><<<1, 32>>>(a.data_ptr<scalar_t>()); }); }"
    )
    assert found(text) == []
    assert found(text, guessed=True)[0] == "Traits<float, 8>, 3"


def test_an_error_inside_a_class_leaves_the_rest_as_it_is():
    text = """struct Bad { ] };
    template <typename T, int N> struct V {
      T d[N];
      template <typename S> __device__ void to(V<S, N>& o) { o.d[0] = d[0]; }
    };
    __global__ void k(float* p) { V<float, 2> a, b; a.d[0] = *p; a.to(b); *p = b.d[0]; }"""
    assert load(text, name="k.cu").name == "k"


def test_nested_switches_over_types_expand():
    switch = "#define SW(n, T, ...) switch (n) { " + " ".join(
        f"case {i}: {{ using T = {t}; {{ __VA_ARGS__ }} break; }}" for i, t in enumerate(["float", "int", "short"])
    )
    text = (
        switch + " }\n" + KERNEL + "template <typename A, typename B, typename C> void f() { k<C, 1><<<1, 1>>>(0); }\n"
    )
    assert len(found(text + "void g(int n) { SW(n, A, SW(n, B, SW(n, C, f<A, B, C>();))) }")) == 3


def test_parameter_packs_of_a_kernel_become_its_parameters(execute):
    text = """template <typename T> struct Scale {
      __device__ void operator()(T* p, T by, int plus) { p[threadIdx.x] = p[threadIdx.x] * by + plus; } };
    template <typename F, typename... Args> __global__ void k(float* p, F call, Args... args) { call(p, args...); }
    template <typename F, typename... Args>
    void apply(float* p, F call, Args... args) { k<<<1, 4>>>(p, call, args...); }
    void f(float* p, float by, int plus) { using S = float; apply(p, Scale<S>(), by, plus); }"""
    a = np.float32([1, 2, 3, 4])
    out = execute(text, {"p": a, "args_0": 2.0, "args_1": 3})
    np.testing.assert_array_equal(out["p"], [5, 7, 9, 11])


def test_guesses_are_values_of_enumerations_and_types_of_specialisations():
    text = """enum class M : int { A, B };
    template <M m> struct Kv; template <> struct Kv<M::B> { static constexpr int n = 5; };
    template <typename T> struct Q; template <> struct Q<int8_t> { static constexpr float max = 127.f; };
    template <M m, typename T> __global__ void k(T* p) { *p = Kv<m>::n + Q<T>::max; }"""
    assert "1, signed char" in found(text, guessed=True)


@pytest.mark.parametrize("made", ["N::Unknown{}", "Unknown{1}"])
def test_an_unknown_type_with_braces_is_said_to_be_unknown(made):
    with pytest.raises(KtcError, match=r"unknown type '(N::)?Unknown'"):
        load(f"__global__ void k(float* p) {{ f({made}, 2); }}", name="k.cu")


def test_classes_in_classes_are_spelled_with_what_is_around_them():
    text = """namespace n { struct O { struct I { int v; }; };
    template <int K, bool B> struct P { struct I { int w; }; }; }
    template <class T, class U> __global__ void k(T* a, U* b) { a->v = b->w; }
    void f(n::O::I* a, n::P<3, true>::I* b) { k<n::O::I, n::P<3, true>::I><<<1, 1>>>(a, b); }"""
    assert found(text) == ["n::O::I, n::P<3, true>::I"]
    assert len(load(text + "\n", template={"T": "n::O::I", "U": "n::P<3, true>::I"}).params) == 2


PACKED = """
struct Op {
  __device__ float operator()(float x, float a) const { return x * a; }
  __device__ float operator()(float x, int a, const float* b) const { return x + a + b[0]; }
};
template <typename T, typename F, typename... Args>
__global__ void k(T* p, F f, Args... args) { p[0] = f(p[0], args...); }
"""


def test_instances_that_differ_in_a_pack_are_several() -> None:
    host = (
        "void f(float* p, const float* q, bool b) "
        "{ k<<<1, 1>>>(p, Op(), 2.5f); k<<<1, 1>>>(p, Op(), 3, b ? q : nullptr); }"
    )
    assert found(PACKED + host) == ["float, Op, <float>", "float, Op, <int, const float*>"]
    with pytest.raises(KtcError) as several:
        load(PACKED + host, name="k.cu")
    assert several.value.code == "E-TEMPLATE-MISSING"
    assert several.value.hint.endswith("--template T=float --template F=Op --template 'Args=<float>'")
    kernel = load(PACKED + host, name="k.cu", template={"Args": "<int, const float*>"})
    assert [print_type(p.sym.type) for p in kernel.params[1:]] == ["i32", "f32 const*"]


def test_a_pack_whose_arguments_are_not_known_is_not_empty() -> None:
    host = "template <typename... A> void f(float* p, A... a) { k<<<1, 1>>>(p, Op(), a...); }\n"
    assert found(PACKED + host + "void g(float* p) { f(p, 2.5f); }") == ["float, Op, <float>"]
    assert found(PACKED + host + "void g(float* p) { f(p, size_of(p)); }") == []
    with pytest.raises(KtcError) as missing:
        load(PACKED + host + "void g(float* p) { f(p, size_of(p)); }", name="k.cu", template={"T": "float", "F": "Op"})
    assert missing.value.hint == "for example --template 'Args=<half>'"


def test_templates_as_arguments_are_told_apart() -> None:
    text = """
template <typename T> struct One { __device__ T get() { return T(1); } };
template <typename T> struct Two { __device__ T get() { return T(2); } };
template <template <typename> class E, typename T> __global__ void k(T* p) { E<T> e; p[0] = e.get(); }
void f(float* p) { k<One><<<1, 1>>>(p); k<Two><<<1, 1>>>(p); }
"""
    assert found(text) == ["One, float", "Two, float"]
    assert "2.0f" in emit(load(text, name="k.cu", template={"E": "Two"}), "cuda").text


def test_a_launch_in_a_discarded_branch_is_none() -> None:
    text = (
        KERNEL
        + """
template <typename A, bool Twice, int M> void f(A* p) {
  if constexpr (Twice && M > 2) { k<A, M * 2><<<1, 32>>>(p); } else { if constexpr (M == 1) k<A, M><<<1, 32>>>(p); }
}
void g(float* p) { f<float, true, 1>(p); f<float, true, 3>(p); f<float, false, 5>(p); f<int, true, 7>((int*)p); }"""
    )
    assert found(text) == ["float, 6", "int, 14", "float, 1"]


def test_a_launch_that_an_instance_never_comes_to_is_none() -> None:
    text = (
        KERNEL
        + """
struct Sum { static constexpr bool places = false; };
struct Largest { static constexpr bool places = true; };
template <typename A, typename R> void f(A* p, int places) {
  if (R::places) k<A, 1><<<1, 32>>>(p);
  if (places) k<A, 2><<<1, 32>>>(p);
}
void g(float* p) { f<float, Sum>(p, 0); f<int, Largest>((int*)p, 0); }"""
    )
    assert found(text) == ["int, 1", "float, 2", "int, 2"]


def test_of_many_calls_each_makes_some_of_the_instances() -> None:
    numbers = ", ".join(f"dispatched<float, {n}>(p, op)" for n in range(1, 10))
    text = (
        KERNEL
        + f"""
template <typename A, int M, int Op> void f(A* p) {{ k<A, M * Op><<<1, 32>>>(p); }}
template <typename A, int M> void dispatched(A* p, int op) {{
  if (op == 1) f<A, M, 1>(p);
  else if (op == 2) f<A, M, 100>(p);
}}
void g(float* p, int op) {{ {numbers}; }}"""
    )
    made = found(text)
    assert made[0] == "float, 1" and len(made) == 16 and made[8:] == [f"float, {n}00" for n in range(1, 9)]


def test_arguments_are_spelled_with_their_qualifiers_and_typedef_names(execute) -> None:
    text = """
typedef struct { float d; int q[2]; } Block;
template <typename T> __device__ T* start(T* x) { return x; }
template <typename B, auto Start> __global__ void k(float* o, const B* b) { o[0] = Start(b)[1].d; }
void f(float* o, const Block* b) { k<Block, start<const Block>><<<1, 1>>>(o, b); k<Block, nullptr><<<1, 1>>>(o, b); }"""
    assert found(text) == ["Block, start<Block const>", "Block, nullptr"]
    kernel = load(text, name="k.cu", template={"Start": "start<Block const>"})
    assert "b[1].d" in emit(kernel, "cuda").text or "b[3]" in emit(kernel, "cuda").text


DISPATCH = """
template <int N> struct Int { static constexpr int value = N; };
void f(void* p, int type, bool wide) {
  const dim3 grid(2);
  auto run = [&](auto t) {
    using T = decltype(t);
    auto launch = [&](auto n) { constexpr int M = decltype(n)::value; k<T, M><<<grid, 64>>>((T*)p); };
    if (wide) { launch(Int<4>{}); } else { launch(Int<1>{}); }
  };
  switch (type) {
    case 0: run(float{}); break;
    case 1: return run(short{});
    default: break;
  }
}
"""


def test_a_generic_lambda_is_followed_for_each_call() -> None:
    assert found(KERNEL + DISPATCH) == ["float, 4", "float, 1", "short, 4", "short, 1"]
    kernel = load(KERNEL + DISPATCH, name="k.cu", template={"T": "short", "N": "1"})
    assert kernel.launch is not None and [print_type(p.sym.type) for p in kernel.params[:1]] == ["i16*"]
    assert [str(x.value) for x in kernel.launch.block[:1]] == ["64"]


def test_a_generic_lambda_with_other_parameters_and_values() -> None:
    text = (
        KERNEL
        + """
void f(void* p, int m) {
  auto run = [=](auto t, int blocks, auto* q) { k<decltype(t), 2><<<blocks, 32>>>((decltype(t)*)p); };
  run(float(1), m / 2, p);
}"""
    )
    assert found(text) == ["float, 2"]


def test_what_a_generic_lambda_is_given_elsewhere_is_not_known() -> None:
    text = KERNEL + "void f(int m) { auto run = [](auto t) { k<decltype(t), 2><<<1, 32>>>(nullptr); }; each(m, run); }"
    assert found(text) == []
    assert found(text.replace("each(m, run);", "run(1.5f); each(m, run);")) == []


TAGS = """
template <typename T> struct tag { using type = T; static constexpr int value = sizeof(T); };
template <typename F> void by_type(int type, F&& f) {
  switch (type) { case 0: f(tag<char>{}); break; case 1: f(tag<double>{}); break; case 2: f(tag<short>{}); break;
                  case 3: f(tag<unsigned>{}); break; case 4: f(tag<float>{}); break; }
}
template <typename F> void by_flag(bool on, F&& f) { if (on) { f(std::true_type{}); } else { f(std::false_type{}); } }
void f(void* p, int type, bool wide) {
  by_type(type, [&](auto t) {
    using T = typename decltype(t)::type;
    by_flag(wide, [&](auto w) { k<T, decltype(t)::value * (w() ? 2 : 1)><<<1, 32>>>((T*)p); });
  });
}"""


def test_a_lambda_that_a_function_calls_with_tags_is_called_with_the_most_usual_of_them() -> None:
    made = found(KERNEL + TAGS)
    assert made[:2] == ["float, 8", "float, 4"] and len(made) == 8


OWN_TRAIT = """
template <typename T> struct type_identity { using type = T; };
template <typename F> void dispatch(int type, F&& f) {
  if (type) f(type_identity<int>{}); else f(type_identity<float>{});
}
void f(void* p, int type) {
  dispatch(type, [&](auto t) { using T = typename decltype(t)::type; k<T, 1><<<1, 32>>>((T*)p); });
}"""


def test_a_trait_of_a_projects_own_is_not_the_standard_librarys() -> None:
    assert found(KERNEL + OWN_TRAIT) == ["float, 1", "int, 1"]


OVERLOADS = """
#include <cuda_fp16.h>
template <int R> __global__ void twice(float* y, const float* x, int n) {
  for (int r = 0; r < R; ++r) y[(blockIdx.x * R + r) * n + threadIdx.x] = 2 * x[(blockIdx.x * R + r) * n + threadIdx.x];
}
template <int R> __global__ void twice(__half* y, const __half* x, int n) {
  for (int r = 0; r < R; ++r) y[(blockIdx.x * R + r) * n + threadIdx.x] = x[(blockIdx.x * R + r) * n + threadIdx.x];
}
template <typename T> void run(T* y, const T* x, int rows, int n) { twice<2><<<rows / 2, n>>>(y, x, n); }
"""


@pytest.mark.parametrize("elem", ["float", "__half"])
def test_a_launch_in_a_template_that_nobody_calls_is_of_the_overload_for_its_type(elem: str) -> None:
    kernel = load(OVERLOADS, name="k.cu", kernel=f"twice({elem}*, const {elem}*, int)")
    assert kernel.launch is not None and print_expr(kernel.launch.grid[0]) == "rows / 2"
