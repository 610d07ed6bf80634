"""What may stand around declarations, and what must."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.text import print_kernel


def test_a_constant_needs_a_type(cu):
    """nvcc refuses it too; taken for a declaration of nothing, every use of it read as 0."""
    with pytest.raises(KtcError, match=r"declared without a type|unknown name 'kThreads'"):
        cu("constexpr kThreads = 256;\n__global__ void k(int* out) { out[0] = kThreads; }")


def test_words_of_compilers_between_declarations(execute):
    """GNU's ``__extension__`` says nothing; a lambda's ``__device__`` stands before its parameters or behind them."""
    text = """
    typedef struct { __extension__ union { struct { short d, m; } data; int dm; }; int q; } B;
    template <class... A> __device__ void unused(A&&...) noexcept {}
    template <class... A, class F> __device__ int last(F f, A... a) { return f(sizeof...(A)); }
    __global__ void k(int* out, int n) {
        B b; b.dm = 0x20003; b.q = n;
        auto f = [&] __device__ (auto i) { return 100 * i + b.q; };
        auto g = [&](int i) __device__ { return i; };
        unused(b, out, n);
        out[0] = b.data.d; out[1] = b.data.m; out[2] = f(2); out[3] = g(7); out[4] = last(g, 1, 2, 3);
    }"""
    assert list(execute(text, {"out": np.zeros(5, np.int32), "n": 5})["out"]) == [3, 2, 205, 7, 3]


def test_a_function_may_name_its_symbol(execute):
    text = """__device__ int load(int x) __asm("llvm.some.intrinsic"); __device__ int other(int x) __asm__("name") ;
    __global__ void k(int* y) { __int64_t a = -3; __uint32_t b = 4; y[0] = int(a) + b; }"""
    assert execute(text, {"y": np.zeros(1, np.int32)})["y"].tolist() == [1]


def test_attributes_behind_a_declarator_are_of_its_variable_alone(cu):
    text = """
    __device__ float g[4] __attribute__((aligned(8))), h[4];
    __device__ float half_of(float x) __attribute__((noinline));
    __device__ float half_of(float x) { return x * 0.5f; }
    __global__ void k(float* out) {
        __shared__ __align__(16) float a[4], b[2][4] __attribute__((aligned(32)));
        float v __attribute__((unused)) = 1.f;
        a[threadIdx.x] = g[1]; b[1][threadIdx.x] = h[0];
        out[threadIdx.x] = half_of(a[0]) + b[1][threadIdx.x];
    }"""
    printed = print_kernel(cu(text))
    assert "g: f32* align 8" in printed and "h: f32* symbol" in printed
    assert "array a: shared f32[4] align 16" in printed and "array b: shared f32[2, 4] align 32" in printed


def test_a_method_that_cannot_be_read_is_an_error_of_its_calls_alone(execute, cu):
    text = """
    struct Layer {
        int size;
        void reserve() { pool.reset(new Unknown[size]); }
        __device__ int twice() const { return 2 * size; }
        __device__ int odd() const { return size @ 2; }
    };
    __global__ void k(int* out, int n) { Layer layer{n}; out[0] = layer.%s(); }"""
    assert execute(text % "twice", {"out": np.zeros(1, np.int32), "n": 4})["out"].tolist() == [8]
    with pytest.raises(KtcError, match="6:50"):
        cu(text % "odd")


def test_the_type_of_a_typedef_may_be_a_template_that_is_not_known(execute):
    text = """
    template <typename T> struct Registry { typedef Ptr<Layer<T> > (*Creator)(const Parameter&); int count; };
    __global__ void k(int* out) { Registry<int> r{3}; out[0] = r.count; }"""
    assert execute(text, {"out": np.zeros(1, np.int32)})["out"].tolist() == [3]


def test_attributes_may_stand_before_a_constructor_or_a_conversion(execute):
    text = """
    struct S {
        int v;
        inline __attribute__((always_inline)) __device__ S(int x) : v(x + 1) {}
        __device__ __attribute__((always_inline)) operator int() const { return 2 * v; }
        [[nodiscard]] __device__ int get() const { return v; }
    };
    __global__ void k(int* out, int n) { S s(n); out[0] = s; out[1] = s.get(); }"""
    assert execute(text, {"out": np.zeros(2, np.int32), "n": 4})["out"].tolist() == [10, 5]


def test_a_friend_that_is_a_template_and_cannot_be_read_is_the_host_s(execute):
    text = """
    template <int n> struct Shape;
    template <int n> inline std::ostream& operator<<(std::ostream& os, const Shape<n>& shape);
    template <int n> struct Shape {
        int at[n];
        template <int m> friend std::ostream& operator<<(std::ostream& os, const Shape<m>& shape);
        template <int m> friend unknown::stream& operator>>(unknown::stream& is, Shape<m>& shape);
    };
    __global__ void k(int* out) { Shape<2> s; s.at[1] = 7; out[0] = s.at[1]; }"""
    assert execute(text, {"out": np.zeros(1, np.int32)})["out"].tolist() == [7]
