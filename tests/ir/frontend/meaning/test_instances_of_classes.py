"""Instances of class templates: which specialisation, whose members, what is constant in them."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.nodes import Alloc

REDUCER = """template <typename T, unsigned C, unsigned M, unsigned N> struct R : public R<T, 1, M, N> {
      using Base = R<T, 1, M, N>; using Type = typename Base::Type; static constexpr int kind = 0; };
    template <typename T, unsigned M, unsigned N> struct R<T, 1, M, N> : public R<T, 1, M, 1> {
      using Base = R<T, 1, M, 1>; using Type = typename Base::Type; static constexpr int kind = 1; };
    template <typename T, unsigned M> struct R<T, 1, M, 1> { using Type = T; static constexpr int kind = 2; };
"""


@pytest.mark.parametrize(("args", "kind"), [("2, 4, 4", 0), ("1, 4, 4", 1), ("1, 4, 1", 2)])
def test_the_most_specialised_class_that_matches_is_meant(execute, args, kind):
    text = REDUCER + f"__global__ void k(int* o) {{ using C = R<int, {args}>; typename C::Type x = C::kind; *o = x; }}"
    assert execute(text + "void f(int* o) { k<<<1, 1>>>(o); }", {"o": np.zeros(1, np.int32)})["o"][0] == kind


def test_a_pattern_that_names_a_constant_twice_wants_it_twice(execute):
    text = """template <int A, int B> struct S { static constexpr int n = 1; };
    template <int A> struct S<A, A> { static constexpr int n = 2; };
    __global__ void k(int* o) { o[0] = S<3, 4>::n; o[1] = S<3, 3>::n; }
    void f(int* o) { k<<<1, 1>>>(o); }"""
    np.testing.assert_array_equal(execute(text, {"o": np.zeros(2, np.int32)})["o"], [1, 2])


def test_members_defined_for_one_instance(execute):
    text = """template <int I> struct Get { template <typename T> static __device__ float of(const T& v); };
    template <> template <typename T> __device__ float Get<0>::of(const T& v) { return v.x; }
    template <> template <typename T> __device__ float Get<1>::of(const T& v) { return v.y; }
    __global__ void k(float* o) { float2 v = make_float2(o[0], o[1]); o[2] = Get<1>::of(v) - Get<0>::of(v); }
    void f(float* o) { k<<<1, 1>>>(o); }"""
    assert execute(text, {"o": np.float32([2, 7, 0])})["o"][2] == 5


def test_members_of_specialisations_defined_outside_of_them(execute):
    text = """template <typename T, int N> struct V;
    template <> struct V<float, 1> { float d; __device__ void load(const float* p); };
    template <> struct V<float, 2> { float d; __device__ void load(const float* p); };
    template <> struct V<int, 2> { int d; __device__ void load(const int* p); };
    inline __device__ void V<float, 1>::load(const float* p) { d = p[0]; }
    inline __device__ void V<float, 2>::load(const float* p) { d = p[1]; }
    inline __device__ void V<int, 2>::load(const int* p) { d = p[2]; }
    template <typename T, int N> __device__ T get(const T* p) { V<T, N> v; v.load(p); return v.d; }
    __global__ void k(float* o, const float* p, const int* q) {
      o[0] = get<float, 1>(p); o[1] = get<float, 2>(p); o[2] = get<int, 2>(q); }
    void f(float* o, const float* p, const int* q) { k<<<1, 1>>>(o, p, q); }"""
    args = {"o": np.zeros(3, np.float32), "p": np.float32([5, 6]), "q": np.int32([7, 8, 9])}
    np.testing.assert_array_equal(execute(text, args)["o"], [5, 6, 9])


def test_enumerations_of_a_function_and_sizes_of_arrays_of_classes(execute):
    text = """template <typename T> struct Pair { T a, b; };
    template <typename K> __global__ void k(int* o) {
      enum { A = sizeof(K), B = A + 1, C }; enum Kind : int { X = 7 };
      Pair<short> many[3]; o[0] = A; o[1] = B; o[2] = C; o[3] = X; o[4] = sizeof(many); }
    void f(int* o) { k<double><<<1, 1>>>(o); }"""
    np.testing.assert_array_equal(execute(text, {"o": np.zeros(5, np.int32)})["o"], [8, 9, 10, 7, 12])


def test_constants_of_the_class_that_launches_and_elements_of_constant_tables(execute):
    text = """constexpr int sizes[3] = {110, 64, 48};
    template <int A, int B> __global__ void k(int* o) { __shared__ int x[sizes[A]]; o[0] = sizeof(x) / 4; o[1] = B; }
    class Norm { static const int P = 1; static constexpr int E = P + 4;
      void run(int* o) { k<P, E><<<1, 1>>>(o); } };"""
    np.testing.assert_array_equal(execute(text, {"o": np.zeros(2, np.int32)})["o"], [64, 5])


def test_a_literal_zero_is_a_null_pointer_for_an_overload(execute):
    text = """template <int N> __device__ int f(int* o, void* a, int** b, int n) {
      int r = a ? 1 : N; for (int i = 0; i < n; ++i) r += ((short*)b[i])[3]; return r; }
    __global__ void k(int* o) { *o = f<5>(o, 0, 0, 0); }
    void h(int* o) { k<<<1, 1>>>(o); }"""
    assert execute(text, {"o": np.zeros(1, np.int32)})["o"][0] == 5


def test_a_const_pointer_deduces_a_const_type_and_auto_pointers_take_their_type(execute):
    text = """template <typename T> __device__ T first(T* a, T* b) { return a[0] + b[1]; }
    __global__ void k(float* o, const float* p) { const auto* q = p + 1; auto* w = o; w[0] = first(p, q); }
    void h(float* o, const float* p) { k<<<1, 1>>>(o, p); }"""
    assert execute(text, {"o": np.zeros(1, np.float32), "p": np.float32([1, 2, 4])})["o"][0] == 5


def test_members_of_an_unnamed_union_in_a_function_share_their_place(execute):
    text = """__global__ void k(int* o, int n) {
      union { signed char two[2]; short both; }; both = n; o[0] = two[0]; o[1] = two[1]; two[1] = 2; o[2] = both; }
    void h(int* o, int n) { k<<<1, 1>>>(o, n); }"""
    out = execute(text, {"o": np.zeros(3, np.int32), "n": 0x1234})["o"]
    np.testing.assert_array_equal(out, [0x34, 0x12, 0x234])


def test_a_variable_of_an_unnamed_union_is_the_only_one():
    text = "__global__ void k(int* o) { union { int value; short half[2]; } u; u.value = *o; o[1] = u.half[1]; }"
    kernel = load(text, name="k.cu")
    assert len([s for s in kernel.body if isinstance(s, Alloc)]) == 1


def test_memory_is_set_to_a_value_that_is_not_constant(execute):
    text = """__global__ void k(unsigned char* p, int v, int n) { memset(p + 1, v, n); }
    void h(unsigned char* p, int v, int n) { k<<<1, 1>>>(p, v, n); }"""
    out = execute(text, {"p": np.zeros(5, np.uint8), "v": 0x107, "n": 3})["p"]
    np.testing.assert_array_equal(out, [0, 7, 7, 7, 0])


def test_members_are_variables_before_they_are_declared(execute):
    text = """struct P { __device__ int f(int n) { while (a * b > n) b >>= 1; return a * b; } int a, b; };
    __global__ void k(int* o, int n) { P p; p.a = 3; p.b = n; *o = p.f(10); }
    void h(int* o, int n) { k<<<1, 1>>>(o, n); }"""
    assert execute(text, {"o": np.zeros(1, np.int32), "n": 16})["o"][0] == 6


def test_a_constructor_keeps_a_pointer_to_a_const_type_of_its_class(execute):
    text = """typedef struct S S;
    template <typename D> class Access { public: D* at; int n;
      __device__ Access(D* const p, int size) { at = p; n = size; } };
    template <typename D> class Loader : public Access<const D> { public:
      __device__ Loader(const D* p, int size) : Access<const D>(p + 1, size) {} };
    __global__ void k(int* o, const int* p) { Loader<int> l(p, 3); o[0] = l.at[1] + l.n; }
    void h(int* o, const int* p) { k<<<1, 1>>>(o, p); }"""
    assert execute(text, {"o": np.zeros(1, np.int32), "p": np.int32([1, 20, 300])})["o"][0] == 303


def test_a_built_in_function_comes_before_a_template_of_its_name(execute):
    text = """template <typename U> __device__ U rsqrt(U v) { return v; }
    template <> __device__ double rsqrt(double v) { return rsqrt(v) + 1; }
    __global__ void k(double* o, __half* h) { o[0] = rsqrt(o[1]); h[0] = rsqrt(h[1]); }
    void h(double* o, __half* h) { k<<<1, 1>>>(o, h); }"""
    out = execute(text, {"o": np.array([0, 0.25]), "h": np.float16([0, 0.25])})
    assert out["o"][0] == 2 and out["h"][0] == 0.25  # of half numbers there is none


@pytest.mark.parametrize(
    "text", ["template <typename T> struct A { A<A<T>> a; };", "template <typename T> struct A { A a; };"]
)
def test_a_class_that_contains_itself_is_refused_where_it_is_used(text):
    with pytest.raises(KtcError) as e:
        load(text + "\n__global__ void k(int* p) { A<int> a; }\n")
    assert e.value.code == "E-PARSE-DEPTH" and e.value.loc is not None and e.value.loc.line == 2, e.value


def test_defaults_of_a_declaration_count_for_the_template_and_its_specialisations() -> None:
    """``Base<>`` is the specialisation for the default."""
    text = """
template <class M = void> class Base;
template <class M> class Base;
template <> class Base<> { public: int x; };
template <class M> class Base : public Base<> { public: float y; };
template <class A, class B = int> struct Pair;
template <class A> struct Pair<A> { A first; };
__global__ void k(float* p, Base<int> b, Pair<float> q) { p[threadIdx.x] = b.x + b.y + q.first; }
"""
    assert [p.sym.name for p in load(text, name="k.cu").params] == ["p", "b_x", "b_y", "q_first"]
