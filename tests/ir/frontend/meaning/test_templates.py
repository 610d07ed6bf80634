"""Templates: instantiation, deduction, specialisation, overloads, traits."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import template_arguments
from ktc.ir.types import BF16, F16, F32

HELPERS = """
__device__ float to_float(float x) { return x; }
__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> __device__ T from_float(float x);
template <> __device__ float from_float<float>(float x) { return x; }
template <> __device__ __half from_float<__half>(float x) { return __float2half(x); }
template <> __device__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16(x); }
template <typename T> __global__ void twice(T* out, const T* in, int n) {
  int i = threadIdx.x; if (i < n) out[i] = from_float<T>(2.f * to_float(in[i])); }
template <typename T> void host(T* out, const T* in, int n) { twice<T><<<1, 8>>>(out, in, n); }
"""


@pytest.mark.parametrize(("arg", "scalar"), [("float", F32), ("half", F16), ("__nv_bfloat16", BF16), ("f16", F16)])
def test_scalar_type_parameter(cu, arg, scalar):
    k = cu(HELPERS, template={"T": arg})
    assert k.param("out").sym.type.elem == scalar
    assert k.launch is not None


def test_overloads_and_specialisations_run(execute):
    x = np.arange(8).astype(np.float16)
    got = execute(HELPERS, {"out": np.zeros(8, np.float16), "in": x, "n": 8}, template={"T": "half"})["out"]
    np.testing.assert_array_equal(got, 2 * x)


def test_arguments_from_the_launch_site(cu):
    k = cu("""template <typename T, int N> __global__ void k(T* p) { p[threadIdx.x] = N; }
    constexpr int kN = 4;
    void f(float* p) { k<float, kN * 2><<<1, kN>>>(p); }""")
    assert k.param("p").sym.type.elem == F32 and k.launch.block[0].value == 4


DEDUCED = """struct Pair { float a, b; };
    template <typename T, typename U, int N = 3> __global__ void k(T* p, U n) { (void)p; (void)(n + N); }
"""


@pytest.mark.parametrize(
    ("host", "types"),
    [
        ("void f(int n) { double* p; cudaMalloc((void**)&p, 8 * n); k<<<1, 4>>>(p, n); }", ("double", "int")),
        ("void f(float* a, long m) { k<<<1, 4>>>(a + 4, m); }", ("float", "long long")),
        ("void f(void* a) { typedef short S; using R = S; k<<<1, 4>>>((R*)a, 1.5f); }", ("short", "float")),
        ("void f(void* a) { int (*p)[5]; k<<<1, 4>>>(p, 2); }", ("int[5]", "int")),
        ("void f(void* a) { char c[5]; k<<<1, 4>>>(&c[0], 2); k<<<1, 4>>>(c, 2); }", ("signed char", "int")),
        ("void f(Pair* p) { k<<<1, 4>>>(static_cast<const Pair*>(p), 2.0); }", ("Pair const", "double")),
    ],
)
def test_arguments_that_the_launch_leaves_out_are_deduced(tmp_path, host, types):
    (tmp_path / "k.cu").write_text(DEDUCED + host)
    found = list(template_arguments(str(tmp_path / "k.cu")))
    assert found[0] == {"T": types[0], "U": types[1], "N": "3"}


def test_a_guess_for_the_host_template_says_what_the_kernels_arguments_are(tmp_path):
    host = "template <typename R> void f(int n) { typedef R* Rows; Rows* p; k<<<1, 4>>>(p, (R)n); }"
    (tmp_path / "k.cu").write_text(DEDUCED + host)
    guesses = [(a["T"], a["U"]) for a in template_arguments(str(tmp_path / "k.cu"))]
    assert guesses[:2] == [("float*", "float"), ("float", "float")] and ("double*", "double") in guesses


def test_an_instance_that_reaches_beyond_a_vector_is_not_proposed(tmp_path) -> None:
    text = """template <typename T> __global__ void k(float2* y, const T* x) {
      float2 v;
      T* lanes = (T*)&v;
      lanes[0] = x[threadIdx.x];
      lanes[3] = x[threadIdx.x + 3];
      y[threadIdx.x] = v;
    }
    void go(float2* y, const float* a, const __half* b) { k<<<1, 32>>>(y, a); k<<<1, 32>>>(y, b); }
    """
    (tmp_path / "k.cu").write_text(text)
    assert list(template_arguments(str(tmp_path / "k.cu"), guesses=False)) == [{"T": "__half"}]


def test_an_instance_for_usual_sizes_is_proposed_first(tmp_path) -> None:
    text = """template <int N> __global__ void k(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = N; }
    void go(float* y, int n, int heads) {
      if (n <= 32) k<1><<<1, 32>>>(y, n);
      else if (n <= 1024) k<2><<<1, 32>>>(y, n);
      else if (n <= 8192 && heads > 7) k<3><<<1, 32>>>(y, n);
      else k<4><<<1, 32>>>(y, n);
    }
    """
    (tmp_path / "k.cu").write_text(text)
    found = template_arguments(str(tmp_path / "k.cu"), guesses=False)
    assert [g["N"] for g in found] == ["3", "4", "1", "2"]


def test_a_structure_of_the_file_is_a_template_argument(cu):
    text = "struct P { float x, y; }; template <class T> __global__ void k(float* o, const T* p) { *o = p->y; }"
    assert cu(text, template={"T": "P"}).param("p").sym.type.elem == F32


def test_the_launch_that_matches_is_used(cu):
    text = """template <typename T, int B> __global__ void k(T* p) { p[threadIdx.x] = B; }
    template <typename T> void f(T* p, int n) { constexpr int B = 64; if (n > 9) k<T, B><<<n, B>>>(p); else k<T,
    32><<<1, 32>>>(p); }"""
    assert cu(text, template={"T": "float", "B": 32}).launch.block[0].value == 32
    assert cu(text, template={"T": "float", "B": 64}).launch.block[0].value == 64


def test_several_instances_are_listed(refuses):
    error = refuses(
        "template <int N> __global__ void k(int* p) { *p = N; }\n"
        "void f(int* p) { k<1><<<1,1>>>(p); k<2><<<1,1>>>(p); }",
        "E-TEMPLATE-MISSING",
    )
    assert "<1>" in error.message and "<2>" in error.message and "--template N=" in error.hint


def test_missing_and_unknown_arguments(refuses):
    text = "template <typename T> __global__ void k(T* p) { *p = 0; }"
    assert "--template T=half" in refuses(text, "E-TEMPLATE-MISSING").hint
    assert refuses(text, "E-TEMPLATE-UNKNOWN", template={"U": "half"}).exit_code == 2
    refuses(text, "E-TEMPLATE-VALUE", template={"T": "no_such_type"})


def test_if_constexpr_drops_the_branch_that_does_not_compile(execute):
    text = """template <typename T> __device__ float f(T x) {
        if constexpr (std::is_same_v<T, float>) return x; else return __half2float(x); }
    template <typename T> __global__ void k(float* out, T x) { out[0] = f(x) + f(__float2half(2.f)); }
    void h(float* o, float x) { k<float><<<1, 1>>>(o, x); }"""
    assert execute(text, {"out": np.zeros(1, np.float32), "x": 1.5})["out"][0] == 3.5


def test_class_templates_traits_and_members(execute):
    text = """namespace n {
      template <typename T> struct Traits { static constexpr int kVec = 16 / sizeof(T); using acc = float; };
      template <> struct Traits<double> { static constexpr int kVec = 2; using acc = double; };
      template <typename T, int N> struct Vec { T v[N]; __device__ T& operator[](int i) { return v[i]; }
        __device__ T sum() const { T s = 0; for (int i = 0; i < N; ++i) s += v[i]; return s; } };
    }
    template <typename T> __global__ void k(T* out) {
      constexpr int V = n::Traits<T>::kVec;
      typename n::Traits<T>::acc s = 0;
      n::Vec<T, V> a;
      for (int i = 0; i < V; ++i) a[i] = i;
      s = a.sum();
      out[0] = s; out[1] = V; }
    void h(float* out) { k<float><<<1, 1>>>(out); }"""
    assert list(execute(text, {"out": np.zeros(2, np.float32)})["out"]) == [6, 4]


def test_partial_specialisation_and_conditional(execute):
    text = """template <bool B, typename A, typename C> struct If { using type = A; };
    template <typename A, typename C> struct If<false, A, C> { using type = C; };
    __global__ void k(int* out) {
      using X = typename If<(sizeof(int) > 4), char, double>::type;
      std::conditional_t<true, short, int> y = 70000;
      out[0] = sizeof(X); out[1] = y; }"""
    assert list(execute(text, {"out": np.zeros(2, np.int32)})["out"]) == [8, 70000 - 65536]


def test_non_template_beats_template_and_exact_beats_conversion(execute):
    text = """template <typename T> __device__ int f(T) { return 1; }
    __device__ int f(int) { return 2; }
    __device__ int g(double) { return 3; }
    __device__ int g(long long) { return 4; }
    __device__ int g(unsigned char) { return 5; }
    template <typename F> __device__ int apply(F op, int x) { return op(x); }
    template <int W = 4> __device__ int w(int x) { return x * W; }
    template <typename... Ts> __device__ int count(Ts... xs) { return sizeof...(xs) + (... + xs); }
    __global__ void k(int* out, unsigned char c, float x) {
      out[0] = f(1); out[1] = f(1.f); out[2] = g(c); out[3] = g(x); out[4] = apply([](int v) { return v + 1; }, 6);
      out[5] = w(2) + w<10>(1); out[6] = count(1, 2, 3); }"""
    got = execute(text, {"out": np.zeros(7, np.int32), "c": 1, "x": 1.0})["out"]
    assert list(got) == [2, 1, 5, 3, 7, 18, 9]


@pytest.mark.parametrize(
    "enabled",
    [
        "typename std::enable_if<IF>::type* = nullptr",
        "typename std::enable_if<IF, int>::type = 0",
        "typename std::enable_if<IF, void*>::type = nullptr",
        "std::enable_if_t<IF, int> = 0",
    ],
)
def test_overloads_that_a_pointer_or_a_number_disables(execute, enabled: str) -> None:
    whole = enabled.replace("IF", "std::is_integral<T>::value")
    other = enabled.replace("IF", "!std::is_integral<T>::value")
    text = f"""template <typename T, {whole}> __device__ int f(T x) {{ return 1; }}
    template <typename T, {other}> __device__ int f(T x) {{ return 2; }}
    __global__ void k(int* out) {{ out[0] = f(3); out[1] = f(3.f); }}"""
    assert list(execute(text, {"out": np.zeros(2, np.int32)})["out"]) == [1, 2]


def test_default_template_arguments_and_enable_if(cu):
    k = cu("""template <typename T, std::enable_if_t<std::is_integral<T>::value,
    int> = 0> __device__ int f(T x) { return 1; }
    template <typename T, std::enable_if_t<!std::is_integral<T>::value, int> = 0> __device__ int f(T x) { return 2; }
    template <typename T = float, int N = 2 * 3> __global__ void k(T* p) { p[0] = f(1) + 10 * f(1.f) + 100 * N; }""")
    assert k.param("p").sym.type.elem == F32
    assert k.body[0].value.value == 1 + 20 + 600


def test_captures_by_copy_are_made_when_the_lambda_is(execute):
    text = """struct S { int v; };
    __global__ void k(int* out, int n) {
        int x = 1, y = 2; S s = {5}; const int* p = out; int sum = 0;
        auto all = [=] { return x * 100 + y * 10 + s.v; };
        auto some = [x, &y] { return x * 10 + y; };
        auto renamed = [z = x + 1, &sum] () { sum += z; return z; };
        auto counter = [x] () mutable { return ++x; };
        x = 7; y = 8; s.v = 9;
        out[0] = all(); out[1] = some(); out[2] = renamed() + renamed(); out[3] = sum; out[4] = [&] { return x; }();
        out[5] = counter(); out[6] = counter(); out[7] = x; }"""
    import numpy as np

    got = execute(text, {"out": np.zeros(8, np.int32), "n": 1})["out"]
    assert list(got) == [125, 18, 4, 4, 7, 2, 3, 7]


def test_enumerators_and_aliases_belong_to_their_class(execute):
    text = """template <int N> struct A { typedef int T; enum { SIZE = N * 2, NEXT }; T v[SIZE];
        __device__ int size() const { return SIZE + NEXT; } };
    struct B { enum { SIZE = 50 }; using T = float; };
    enum { SIZE = 7 };
    __global__ void k(int* out) { A<2> a; A<5> b; B::T f = 1.5f; out[0] = a.size(); out[1] = b.size();
        out[2] = B::SIZE; out[3] = SIZE; out[4] = A<3>::NEXT; out[5] = f * 2; out[6] = sizeof(a); }"""
    import numpy as np

    assert list(execute(text, {"out": np.zeros(7, np.int32)})["out"]) == [9, 21, 50, 7, 7, 3, 16]


def test_braced_arguments_mean_what_they_mean_at_the_call(execute):
    text = """struct P { float a; int n; };
    __device__ float f(P p, int x) { return p.a * x + p.n; }
    __global__ void k(float* out) { int x = 3; float y = 2; out[0] = f({y + x, x}, 10);
        constexpr float c = -1.5f * 2 + 1 / 4.f; out[1] = c; }"""
    import numpy as np

    assert list(execute(text, {"out": np.zeros(2, np.float32)})["out"]) == [53, -2.75]


def test_functions_of_the_file_overload_built_ins(execute):
    """A function of a built-in's name is one candidate more: built-ins are not hidden, nor beaten by conversions."""
    text = """inline __device__ float3 make_float3(float s) { return make_float3(s, s, s); }
    inline __device__ float3 make_float3(float4 a) { return make_float3(a.x, a.y, a.z); }
    inline __device__ float2 floorf(float2 v) { return make_float2(floorf(v.x), floorf(v.y)); }
    inline __device__ unsigned min(unsigned a, double b) { return 77u; }
    inline __device__ double max(double a, double b) { return 99.0; }
    inline __device__ float cosf(float x) { return 5.f; }
    __global__ void k(float* out, float x, int i, unsigned u) {
        float3 v = make_float3(x); float3 w = make_float3(x, i, 3); float2 f = floorf(make_float2(x, -x));
        out[0] = v.z; out[1] = w.y; out[2] = f.x; out[3] = f.y;
        out[4] = min(u, u + 1u); out[5] = max(i, 2 * i); out[6] = max(1.0, 2.0); out[7] = cosf(x); }"""
    got = execute(text, {"out": np.zeros(8, np.float32), "x": 2.5, "i": 4, "u": 6})["out"]
    assert list(got) == [2.5, 4, 2, -3, 6, 8, 99, 5]


def test_a_function_template_with_its_arguments_is_a_value(execute) -> None:
    text = """
template <typename T, int K> __device__ T op(const T& a, const T& b) { return a + b * K; }
template <typename F> __device__ int ap(int a, F f) { return f(a, 2); }
template <typename T, int K> __global__ void k(int* y) {
  y[0] = ap(y[0], op<T, K>); auto f = op<int, 4>; y[1] = f(1, 2); y[2] = ap(3, &op<int, 7>);
}
void host(int* y) { k<int, 3><<<1, 1>>>(y); }
"""
    assert execute(text, {"y": np.full(3, 5, np.int32)})["y"].tolist() == [11, 9, 17]


def test_unsigned_of_a_template_argument(execute) -> None:
    text = """
template <typename T> __global__ void k(int *y, T v) {
  using U = typename std::make_unsigned<T>::type;
  y[0] = (U)v / 2;
}
void launch(int *y) { k<short><<<1, 1>>>(y, -2); }
"""
    assert execute(text, {"y": np.zeros(1, np.int32), "v": -2})["y"].tolist() == [32767]


def test_no_conversion_says_what_a_template_parameter_is(execute) -> None:
    """``C<T>`` took a number of another class by way of two conversions, and was called."""
    head = """\
template <typename T> struct C { T v; __device__ C(T x) : v(x) {} };
struct Small { int x; __device__ operator float() const { return x + 1; } };
template <typename T> __device__ C<T> operator*(const C<T>& a, T b) { return C<T>(a.v * b * 100); }
template <typename T> __device__ int which(C<T> a, T b) { return 1; }
__device__ int which(float a, float b) { return 2; }
"""
    body = (
        "Small s{4}; o[0] = s * 2.0f; C<float> c(3.0f); o[1] = (c * 2.0f).v; "
        "o[2] = which(s, 1.0f); o[3] = which(c, 1.0f);"
    )
    got = execute(f"{head}__global__ void k(float* o) {{ {body} }}", {"o": np.zeros(4, np.float32)})
    assert got["o"].tolist() == [10, 600, 2, 1]


def test_a_name_from_the_root_is_no_name_of_a_namespace(execute) -> None:
    """``::max`` in a namespace that has a ``max`` of its own called itself for ever."""
    head = """\
namespace m {
template <typename T> struct Trait {
  __device__ static T max(const T& x, const T& y) { return ::max(x, y); }
  __device__ static T abs(T x) { return ::abs(x); }
};
template <typename T> __device__ T max(T a, T b) { return Trait<T>::max(a, b); }
}
"""
    body = "using namespace m; o[0] = m::max(o[1], o[2]); o[3] = m::Trait<int>::abs(o[4]);"
    got = execute(f"{head}__global__ void k(int* o) {{ {body} }}", {"o": np.array([0, 3, 7, 0, -5], np.int32)})
    assert got["o"].tolist() == [7, 3, 7, 5, -5]


@pytest.mark.parametrize("numbers", ["Q<1, 2, 3>(), Q<4, 5>()", "Q<1, 2>(), Q<4, 5, 6>()"])
def test_packs_expanded_together_have_one_length(refuses, numbers: str) -> None:
    text = """template <int... I> struct Q {};
    template <int... I, int... J> __device__ int f(int *p, Q<I...>, Q<J...>) {
      int s = 0;
      ((s += p[I] * J), ...);
      return s;
    }
    """
    refuses(f"{text}__global__ void k(int *p) {{ p[0] = f(p, {numbers}); }}", "E-SEMA-PACK")


def test_a_call_has_so_many_arguments_and_no_more(refuses) -> None:
    many = ", ".join(["1"] * 9000)
    refuses(
        f"template <int... I> __device__ int f() {{ return g(I...); }} template <class... T> __device__ int g(T... t) "
        f"{{ return sizeof...(t); }} __global__ void k(int *p) {{ p[0] = f<{many}>(); }}",
        "E-SEMA-SIZE",
    )


def test_an_array_that_a_template_takes_by_reference_stays_one(execute):
    text = """struct Pair { float z; int at; };
    template <typename Q> __device__ void keep(Q& q, int& size, float z) { q[size].z = z; q[size].at = size; size++; }
    template <typename Q> __device__ int room(const Q& q) { return sizeof(q) / sizeof(q[0]); }
    template <typename T> __device__ T last(T* p, int n) { return p[n - 1]; }
    __global__ void k(float* o) { Pair q[3]; int size = 0; keep(q, size, 5.f); keep(q, size, 7.f);
        float x[2] = {1, 9}; o[0] = q[1].z + q[1].at; o[1] = room(q); o[2] = last(x, 2); }
    void h(float* o) { k<<<1, 1>>>(o); }"""
    assert execute(text, {"o": np.zeros(3, np.float32)})["o"].tolist() == [8, 3, 9]


def test_a_template_that_a_class_declares_names_its_other_instances(execute):
    """... inside itself too, down to its partial specialisation."""
    text = """
    template <int N> struct Shape {
        int at[N];
        template <const int K, const int D> struct Digits {
            __device__ static void of(int i, int* d, const int* at) {
                d[K] = i % at[K];
                Digits<K - 1, D>::of(i / at[K], d, at);
            }
        };
        template <const int D> struct Digits<0, D> {
            __device__ static void of(int i, int* d, const int* at) { d[0] = i; }
        };
        __device__ void digits(int i, int* d) const { Digits<N - 1, N>::of(i, d, at); }
    };
    __global__ void k(int* out, int n) {
        Shape<3> s{{9, 3, 4}}; int d[3]; s.digits(n, d);
        for (int i = 0; i < 3; ++i) out[i] = d[i];
    }"""
    assert execute(text, {"out": np.zeros(3, np.int32), "n": 31})["out"].tolist() == [2, 1, 3]


def test_functions_of_namespaces_that_are_not_used_hide_none_of_the_language_s(execute):
    text = """
    namespace lib { struct Box { float v; __device__ Box(float x) : v(x + 100) {} };
        __device__ float fabsf(Box b) { return b.v; } __device__ int min(Box a, Box b) { return 7; } }
    namespace app { __global__ void k(float* out) { out[0] = fabsf(-2.f); out[1] = min(lib::Box(1), lib::Box(2)); } }
    """
    assert execute(text, {"out": np.zeros(2, np.float32)})["out"].tolist() == [2, 7]
