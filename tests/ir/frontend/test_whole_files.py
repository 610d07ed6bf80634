"""What whole programs use beyond the kernel language's core: each row is a construct that some real file has."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# ---------------------------------------------------------------------------------------------- variables in memory

WORD = 0x40490FDB
MEMORY = {
    "bytes of a word": ("unsigned w = n; unsigned char *b = (unsigned char*)&w; o[0] = b[0] + 256 * b[2];", 18907),
    "a byte is set": ("unsigned w = n; ((unsigned char*)&w)[1] = 1; o[0] = w & 0xffff;", 0x01DB),
    "a parameter": ("o[0] = ((unsigned char*)&n)[3];", 0x40),
    "halves of a float": ("float f = 3.0f; __half *h = (__half*)&f; h[0] = __float2half(1.0f); "
                          "o[0] = ((unsigned*)&f)[0] & 0xffff;", 0x3C00),
    "a reference argument": ("float f = o[1]; o[0] = top(1.0f) + top(f);", 0x3F + 0x40),
    "a struct by index": ("P p; p.x = 1; p.y = 2; p.k[0] = 3; float *q = (float*)&p; q[1] = 9; "
                          "o[0] = p.y + q[0] + p.k[0];", 13),
    "a struct's pointer moves": ("P p{1, 2, {3, 4}}; int *q = &p.k[0]; q += n & 1; o[0] = *q;", 4),
    "a vector's component": ("float4 v = make_float4(1, 2, 3, 4); float *q = &v.x; q += n & 3; *q = 7; o[0] = v.w;", 7),
    "one of two variables": ("int a = 1, b = 2; int *q = n > 1 ? &a : &b; *q = 5; o[0] = 10 * a + b;", 52),
    "a component of a reinterpreted vector": ("__shared__ float s[4]; s[3] = 1; ((float4*)s)[0].w += 4; o[0] = s[3];",
                                              5),
}  # fmt: skip


@pytest.mark.parametrize("case", MEMORY)
def test_variables_whose_address_is_used(execute, case: str) -> None:
    body, want = MEMORY[case]
    text = f"""#include <cuda_fp16.h>
    struct P {{ float x, y; int k[2]; }};
    __device__ int top(const float &v) {{ const unsigned char *c = (const unsigned char*)&v; return c[3]; }}
    __global__ void k(float *o, unsigned n) {{ {body} }}"""
    assert execute(text, {"o": floats(0, 2, 0, 0), "n": WORD})["o"][0] == want


def test_they_print_as_arrays_with_the_variable_s_alignment(cu) -> None:
    text = "__global__ void k(int *o, double d) { o[0] = ((unsigned char*)&d)[7]; }"
    assert "alignas(8) unsigned char d2[8];" in emit(cu(text), "cuda").text


# --------------------------------------------------------------------------------------------------- functions

FUNCTIONS = {
    "a lambda's result type": ("auto f = [](int i) -> float { return i; }; o[0] = f(3) / 2;", 1.5),
    "braces as a lambda's result": ("auto f = [&](int i) -> float2 { if (i) return make_float2(1, 2); return {}; }; "
                                    "o[0] = f(n).y + f(0).x;", 2),
    "an array parameter of constants": ("o[0] = second(o + 1);", 6),
    "specialisations by result type": ("o[0] = mul<float, float, float>(o[1], o[2]) + "
                                       "mul<int, float, float>(o[1], o[2]);", 30 + 7),
    "specialisations by parameter": ("o[0] = times(o[1]) + times(n);", 10 + 9),
    "declared overloads": ("o[0] = add(n) + add(o[1]);", 4 + 7),
    "an operator called by name": ("Q a{n}, b{4}; o[0] = (a != b) + 2 * (a == b);", 1),
}  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions(execute, case: str) -> None:
    body, want = FUNCTIONS[case]
    text = f"""
    __device__ float second(const float a[2]) {{ return a[1]; }}
    template <typename R, typename A, typename B> __device__ R mul(A a, B b);
    template <> __device__ int mul(float a, float b) {{ return 7; }}
    template <> __device__ float mul(float a, float b) {{ return a * b; }}
    template <typename T> __device__ T times(T x);
    template <> __device__ float times(float x) {{ return 2 * x; }}
    template <> __device__ int times(int x) {{ return 3 * x; }}
    __device__ float add(float x);
    __device__ int add(int x);
    __device__ int add(int y) {{ return y + 1; }}
    __device__ float add(float y) {{ return y + 2; }}
    struct Q {{ int k; __device__ bool operator==(const Q& o) const {{ return k == o.k; }}
               __device__ bool operator!=(const Q &o) const {{ return !operator==(o); }} }};
    __global__ void k(float *o, int n) {{ {body} }}"""
    assert execute(text, {"o": floats(0, 5, 6, 0), "n": 3})["o"][0] == want


def test_a_pointer_returned_from_inside_a_loop_is_kept_as_an_address(cu) -> None:
    text = """__device__ const float *above(const float *a, int n, float x) {
      for (int i = 0; i < n; ++i) if (a[i] > x) return &a[i];
      return nullptr;
    }
    __global__ void k(float *o, int n) { const float *p = above(o, n, 5.5f); o[0] = p ? *p : -1; }"""
    printed = emit(cu(text), "cuda").text
    assert "above_result = (unsigned long long)&o[i];" in printed and "above_result = 0;" in printed
    assert "const float* pointer = (const float*)above_result;" in printed or "float* pointer" in printed


def test_what_is_declared_without_a_definition_is_refused(refuses) -> None:
    """The body of another overload is not taken for it."""
    text = "__device__ float f(float x); __device__ int f(int x, int y) { return x; } "
    refuses(text + "__global__ void k(float *o) { o[0] = f(o[1]); }", "E-SEMA-BODY")
    text = "template <typename R, typename T> __device__ R f(T x); template <> __device__ int f(float x) { return 1; } "
    refuses(text + "__global__ void k(float *o) { o[0] = f<float, float>(o[1]); }", "E-SEMA-BODY")


# ----------------------------------------------------------------------------------------------------- parsing


@pytest.mark.parametrize(
    "expression, want",
    [("p->x < c.x && p[1].y >= c.y", 1), ("p->x < c.x && p[1].y > (c.y)", 0), ("(n < 9 >> 1) + (p->x < 3 >> 1)", 1),
     ("p->x < n || c.x > n", 1), ("t.part<4>() + t.template part<8>()", 12), ("n < 4 && n >= 3", 1)],
)  # fmt: skip
def test_less_than_after_a_member(execute, expression: str, want: int) -> None:
    text = f"""struct F {{ float x, y; }};
    template <int N> struct Tile {{ template <int M> __device__ int part() {{ return N / M; }} }};
    __global__ void k(int *o, const F *p, F c, int n) {{ Tile<32> t; o[0] = {expression}; }}"""
    args = {"o": np.zeros(1, np.int32), "p": floats(1, 2, 3, 4), "c_x": 2.0, "c_y": 4.0, "n": 3}
    text += "void host(int *o, const F *p, F c, int n) { k<<<1, 1>>>(o, p, c, n); }"
    assert execute(text, args)["o"][0] == want


def test_a_constructor_defined_outside_leaves_its_class_a_type(execute) -> None:
    text = """template <class T> class V { public: __device__ V(); __device__ V(T const &v); T l; };
    template <class T> inline __device__ V<T>::V() {}
    template <class T> inline __device__ V<T>::V(T const &v) : l(v) {}
    template <class T> __device__ V<T> operator-(V<T> const &a, V<T> const &b) { return V<T>(a.l - b.l); }
    __global__ void k(float *o) { V<float> x(3.0f); typedef V<float> I; o[0] = (x - I(1)).l; }"""
    assert execute(text, {"o": floats(0)})["o"][0] == 2


def test_a_member_class_derives_from_what_its_class_names(execute) -> None:
    text = """template <typename T> struct Raw { T v; };
    template <int N> struct Load { typedef Raw<float[N]> Storage_; struct Storage : Raw<Storage_> {}; };
    __global__ void k(float *o) { Load<4>::Storage s; s.v.v[1] = 3; o[0] = s.v.v[1]; }"""
    assert execute(text, {"o": floats(0)})["o"][0] == 3


# ------------------------------------------------------------------------------------------- memory at file scope


def test_initial_values_of_vectors_and_structs(cu) -> None:
    text = """struct S { float a; float b[2]; };
    __constant__ float3 metric = {1.0f, 2.0f};
    __device__ S table[2] = {{1, {2, 3}}, {4, {5}}};
    __device__ float4 fours[2] = {{1, 2}, make_float4(5, 6, 7, 8)};
    __global__ void k(float *o, int n) { o[0] = metric.y + table[n].b[1] + fours[n].w; }"""
    found = {p.sym.name: (p.init, p.extent, p.align) for p in cu(text).params if p.symbol}
    assert found == {
        "metric": ((1.0, 2.0, 0.0), 3, 0),
        "table": ((1.0, 2.0, 3.0, 4.0, 5.0, 0.0), 6, 0),
        "fours": ((1.0, 2.0, 0.0, 0.0, 5.0, 6.0, 7.0, 8.0), 8, 16),
    }


@pytest.mark.parametrize(
    "declaration",
    ["struct S { char a; int b; }; __constant__ S s = {1, 2};",
     "struct S { int a : 3; int b; }; __constant__ S s = {1, 2};",
     "struct S { int b; __device__ S(int x) : b(x) {} __device__ S() : b(3) {} }; __constant__ S s = {1};"],
    ids=["padding", "bits", "a constructor"],
)  # fmt: skip
def test_other_initial_values_are_refused(refuses, declaration: str) -> None:
    refuses(f"{declaration} __global__ void k(float *o) {{ o[0] = s.b; }}", "E-UNSUPPORTED-GLOBAL")


def test_large_arrays_by_value_are_read_only_buffers(execute, cu) -> None:
    text = """struct Big { int n; float w[100]; };
    __global__ void k(float *o, Big b) { o[0] = b.w[b.n + threadIdx.x] + b.w[99]; }
    void host(float *o, Big b) { k<<<1, 1>>>(o, b); }"""
    kernel = cu(text)
    assert [(p.sym.name, p.readonly) for p in kernel.params] == [("o", False), ("b_n", False), ("b_w", True)]
    w = np.arange(100, dtype=np.float32)
    assert execute(text, {"o": floats(0), "b_n": 7, "b_w": w})["o"][0] == 106


# ------------------------------------------------------------------------------------------------------ libraries


def test_what_torch_extensions_name(execute) -> None:
    text = """#include <ATen/ATen.h>
    template <typename T> C10_LAUNCH_BOUNDS_1(32) __global__ void k(T *o, int n) {
      at::acc_type<T, true> s = 0;
      CUDA_KERNEL_LOOP(i, n) s += i;
      for (int d = C10_WARP_SIZE / 2; d > 0; d /= 2) s += WARP_SHFL_XOR(s, d);
      if (threadIdx.x == 0) gpuAtomicAdd(&o[0], static_cast<T>(s));
    }
    void host(c10::Half *o, int n) { k<at::Half><<<1, 32>>>(o, n); }"""
    assert execute(text, {"o": np.zeros(1, np.float16), "n": 40})["o"][0] == 780


def test_aligned_storage(execute) -> None:
    text = """#include <type_traits>
    __global__ void k(int *o) {
      std::aligned_storage<8, 8>::type room;
      int *p = (int*)&room;
      p[1] = sizeof(room) + alignof(std::aligned_storage<4, 4>::type);
      o[0] = p[1];
    }"""
    assert execute(text, {"o": np.zeros(1, np.int32)})["o"][0] in (12, 16)


def test_built_in_atomics_with_an_order(execute) -> None:
    text = """__global__ void k(int *o) {
      __nv_atomic_fetch_add(&o[0], 2, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
      __nv_atomic_store_n(&o[1], __nv_atomic_load_n(&o[2], __NV_ATOMIC_ACQUIRE), __NV_ATOMIC_RELEASE);
      int seen = 7;
      o[4] = __nv_atomic_compare_exchange_n(&o[3], &seen, 9, false, __NV_ATOMIC_SEQ_CST, __NV_ATOMIC_RELAXED);
      o[5] = seen;
    }"""
    got = execute(text, {"o": np.array([1, 0, 5, 8, 3, 0], np.int32)})["o"]
    assert list(got) == [3, 5, 5, 8, 0, 8]


def test_a_tile_shuffles_vectors(execute, cu) -> None:
    text = """#include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    __global__ void k(uint4 *v, uchar4 *c) {
      auto tile = cg::tiled_partition<32>(cg::this_thread_block());
      v[threadIdx.x] = tile.shfl_xor(v[threadIdx.x], 1);
      c[threadIdx.x] = tile.shfl(c[threadIdx.x], 3);
    }"""
    v, c = np.arange(128, dtype=np.uint32), np.arange(128, dtype=np.uint8)
    got = execute(text, {"v": v, "c": c}, threads=32)
    rows = v.reshape(32, 4)
    np.testing.assert_array_equal(got["v"].reshape(32, 4), rows[np.arange(32) ^ 1])
    np.testing.assert_array_equal(got["c"].reshape(32, 4), np.tile(c[12:16], (32, 1)))


def test_a_graph_s_condition_is_cuda_s_own(cu) -> None:
    text = "__global__ void k(cudaGraphConditionalHandle h, int n) { cudaGraphSetConditional(h, n < 4); }"
    assert "cudaGraphSetConditional(h, (unsigned)(n < 4))" in emit(cu(text), "cuda").text
    with pytest.raises(KtcError, match="graph_condition"):
        emit(cu(text), "opencl")


# ------------------------------------------------------------------------------------------------------ templates

TEMPLATES = {
    "a lambda with template parameters": (
        "auto run = [&]<bool Twice>(int i) { return Twice ? 2 * i : i; }; "
        "o[0] = run.template operator()<true>(n) + run.template operator()<false>(n);", 9),
    "a lambda's parameters are deduced": ("auto f = []<typename T>(T x) { return x / 2; }; o[0] = f(n) + f(1.f);", 1.5),
    "members of decltype": (
        "tag<5> t; constexpr int v = decltype(t)::value; decltype(t)::type h = v / 2.0f; o[0] = v + h;",
                            7.5),
    "arguments have their parameter's type": ("constexpr int w = 2; vec<float, w> x; x.load(q); o[0] = x.v[1];", 4),
    "the more special of two templates": ("pair<int, float> p{n, 4}; o[0] = first(p) + first(5) + first(&n);", 60),
    "arguments mean what they do at the call": ("constexpr unsigned w = 2; vec<float, w> x; o[0] = x.sum(q);", 7),
    "an attribute with one underscore pair": (
        "__shared__ float __attribute((aligned(128))) s[2]; s[1] = 3; o[0] = s[1];", 3),
}  # fmt: skip


@pytest.mark.parametrize("case", TEMPLATES)
def test_templates(execute, case: str) -> None:
    body, want = TEMPLATES[case]
    text = f"""
    template <int N> struct tag {{ static constexpr int value = N; using type = float; }};
    template <typename K, typename V> struct pair {{ K k; V v; }};
    template <typename T> __device__ int first(const T x) {{ return 10 * x; }}
    template <typename K, typename V> __device__ K first(const pair<K, V> &p) {{ return p.k; }}
    template <typename T> __device__ int first(T *p) {{ return 7; }}
    template <typename T, unsigned long N> struct vec;
    template <typename A, typename B> struct cast {{
      template <unsigned long N> __device__ static A all(const B *p) {{
        A s = 0;
        for (int i = 0; i < N; ++i) s += p[i];
        return s;
      }}
    }};
    template <unsigned long N> struct vec<float, N> {{
      float v[N];
      template <typename T> __device__ void load(const T *p) {{ load_impl(*this, p); }}
      template <typename T> __device__ float sum(const T *p) {{ return cast<float, T>::all<N>(p); }}
    }};
    template <typename S, typename T, unsigned long N> __device__ void load_impl(vec<T, N> &to, const S *from) {{
      for (int i = 0; i < N; ++i) to.v[i] = from[i];
    }}
    __global__ void k(float *o, const int *q, int n) {{ {body} }}"""
    assert execute(text, {"o": floats(0), "q": np.array([3, 4], np.int32), "n": 3})["o"][0] == want


def test_initial_values_of_several_types_are_read_as_what_they_are(execute) -> None:
    text = "struct S { int a; float b; }; __constant__ S s = {1, 2}; __global__ void k(float *o) { o[0] = s.b + s.a; }"
    assert execute(text, {"o": np.zeros(1, np.float32)})["o"][0] == 3
