"""Statements and expressions of C++ that kernels use: what each computes, and that its re-emission reads back."""

from __future__ import annotations

import numpy as np
import pytest


def ints(execute, body: str, before: str = "", n: int = 5) -> list[int]:
    text = before + "__global__ void k(int* o, int n) {" + body + "}"
    return execute(text, {"o": np.zeros(8, np.int32), "n": n})["o"].tolist()


ITERATOR = """struct It { int i; __device__ int operator*() const { return i; }
    __device__ It& operator++() { ++i; return *this; }
    __device__ bool operator!=(const It& b) const { return i != b.i; } };
struct Span { int lo, hi; __device__ It begin() const { return {lo}; } __device__ It end() const { return {hi}; } };
"""


def test_range_based_for(execute, round_trip):
    body = """int a[4] = {1, 2, 3, 4}; int s = 0, index = 100; for (int x : a) s += x; for (auto& x : a) {
        x *= 2; index++; }
        for (const auto& x : a) s += x; for (int x : {5, 6}) { if (x == 6) continue; s += x; } o[0] = s; o[1] = index;
        s = 0; for (int i : Span{2, 6}) s += i; o[2] = s; int m[2][2] = {{1, 2}, {3, 4}};
        for (auto& row : m) for (int& x : row) x += 10; o[3] = m[1][0] + m[0][1];"""
    assert ints(execute, body, ITERATOR)[:4] == [35, 104, 14, 25]
    round_trip(ITERATOR + "__global__ void k(int* o, int n) {" + body + "}")


def test_a_range_must_have_iterators(refuses):
    refuses("__global__ void k(int* o) { for (int x : o) o[0] = x; }", "E-UNSUPPORTED-RANGE-FOR")


def test_fold_expressions(execute):
    before = """template <class... A> __device__ int sum(A... a) { return (a + ... + 100); }
    template <class... A> __device__ int left(A... a) { return (... - a); }
    template <class... A> __device__ int right(A... a) { return (a - ...); }
    template <class... A> __device__ int from(A... a) { return (1000 - ... - a); }
    template <class... A> __device__ bool all(A... a) { return (... && (a > 0)); }
    template <class... A> __device__ void put(int* o, A... a) { int i = 0; ((o[i++] = a), ...); }
    """
    body = "put(o, sum(1, 2, 3), left(1, 2, 4), right(1, 2, 4), from(1, 2), (int)all(1, 0), (int)all(), sum());"
    assert ints(execute, body, before)[:7] == [106, -5, 3, 997, 0, 1, 100]


def test_a_choice_of_places_can_be_assigned(execute):
    body = """int a = 1, b = 2; (n > 2 ? a : b) = 7; (a++, b) = 5 + a; o[0] = a; o[1] = b; (n ? o[2] : o[3]) += 4;
        int c = (a += 2, b -= 1, a * b); o[4] = c; ++(n > 9 ? a : b); o[5] = a * 100 + b;"""
    assert ints(execute, body)[:6] == [8, 12, 4, 0, 110, 1012]


def test_continue_in_a_do_while_evaluates_the_condition(execute):
    body = "int s = 0, t = 0; do { t++; if (n == 3) continue; s++; } while (--n > 0); o[0] = s; o[1] = t; o[2] = n;"
    assert ints(execute, body)[:3] == [4, 5, 0]


def test_static_members_defined_outside_their_class(execute):
    before = """struct S { static __device__ int f(int x) { return x + N; }
        static const int N; static const int T[3]; };
    const int S::N = 3; const int S::T[3] = {7, 8, 9};
    template <class T> struct Q { static const int n; static constexpr int W[2] = {sizeof(T), 1}; };
    template <class X> const int Q<X>::n = 10 * sizeof(X); constexpr int T[2] = {1, 2};
    """
    body = "o[0] = S::f(2) + Q<char>::n; o[1] = S::T[n - 3] + T[1]; o[2] = Q<double>::W[0] + Q<char>::W[0];"
    assert ints(execute, body, before)[:3] == [15, 11, 9]


def test_blocks_of_memory_are_copied_and_filled(execute, refuses):
    text = """struct P { int a; short b, c; };
    __global__ void k(float* o, const float* i, int n, P* p) { float t[8];
        memcpy(t, i, 4 * sizeof(float)); memcpy(t + 4, i + 8, 16); memset(o, 0, 8);
        memcpy(&o[2], &t[3], sizeof(float) * 2);
        memcpy(o + 8, i + 1, n * sizeof(float)); P q = p[0]; memcpy(&p[1], &q, sizeof(P)); memset(&q, 0, sizeof q);
        p[2] = q; memset(p + 3, 0xff, sizeof(P)); }"""
    i, o = np.arange(16, dtype=np.float32) + 1, np.full(16, -1, np.float32)
    p = np.zeros(4, np.dtype([("a", "i4"), ("b", "i2"), ("c", "i2")]))
    p[0], p[2] = (70000, 5, -6), (1, 2, 3)
    got = execute(text, {"o": o, "i": i, "n": 5, "p": p.view(np.int16)})
    assert got["o"].tolist() == [0, 0, 4, 9, -1, -1, -1, -1, 2, 3, 4, 5, 6, -1, -1, -1]
    assert got["p"].view(p.dtype).tolist() == [(70000, 5, -6), (70000, 5, -6), (0, 0, 0), (-1, -1, -1)]
    refuses("__global__ void k(float* o, int n) { memset(o, 0, n); }", "E-UNSUPPORTED-CALL")


def test_array_parameters_are_pointers(execute):
    text = """__device__ int pick(const int a[2], int m[][3]) { return a[1] + m[1][2]; }
    __global__ void k(int o[4], int m[][3]) { o[0] = pick(o + 2, m); }"""
    got = execute(text, {"o": np.array([0, 0, 5, 6], np.int32), "m": np.arange(6, dtype=np.int32)})
    assert got["o"][0] == 11


def test_structs_with_arrays_are_passed_by_value(execute, round_trip):
    text = """struct In { int a; float b; }; struct P { float m[2][2]; In s[2]; };
    __global__ void k(float* o, P p, int i) { o[0] = p.m[i][1] + p.s[i].a + p.s[1 - i].b; }
    void f(float* o, P p, int i) { k<<<1, 1>>>(o, p, i); }"""
    k = round_trip(text)
    args = {"o": np.zeros(1, np.float32), "i": 1}
    for n, p in enumerate(q for q in k.params if q.sym.name.startswith("p_")):
        args[p.sym.name] = n
    assert execute(text, args)["o"][0] == 3 + 6 + 5


def test_parameters_of_standard_tag_types(execute):
    before = "template <bool B> __device__ int pick(int* o, std::bool_constant<B>) { return B ? 1 : 2; }\n"
    body = """o[0] = pick(o, std::bool_constant<true>{}); o[1] = pick(o, std::false_type());
        o[2] = std::true_type{} ? 4 : 5;"""
    assert ints(execute, before=before, body=body)[:3] == [1, 2, 4]


@pytest.mark.parametrize("words", ["[[nodiscard]] __device__", "__device__ __forceinline__ [[maybe_unused]]"])
def test_attributes_are_read_over(execute, words):
    assert ints(execute, "[[maybe_unused]] int y = 2; o[0] = f(y);", words + " int f(int x) { return x + 1; }")[0] == 3


def test_statement_expressions_have_the_value_of_their_last_expression(execute):
    text = """#define MAXIMUM(a, b) ({ __typeof__(a) x_ = (a); auto y_ = (b); x_ > y_ ? x_ : y_; })
    __global__ void k(int* o, int n) { o[0] = MAXIMUM(n, 3) + MAXIMUM(o[1], 2); ({ o[2] = 5; }); }
    void h(int* o, int n) { k<<<1, 1>>>(o, n); }"""
    np.testing.assert_array_equal(execute(text, {"o": np.int32([0, 9, 0]), "n": 1})["o"], [12, 9, 5])


LITERALS = """
struct Size { unsigned long long n; };
namespace units {
__device__ constexpr unsigned long long operator""_KiB(unsigned long long v) { return v << 10; }
constexpr __device__ float operator "" _half_of(long double v) { return float(v) / 2; }
}
using namespace units;
__global__ void f(float* y) { y[0] = 3_KiB + 1; y[1] = 2.5_half_of; y[2] = 0x10_KiB - 1.0_half_of; }
"""


def test_literals_with_suffixes_of_the_program_s_own_are_calls(execute) -> None:
    out = execute(LITERALS, {"y": np.zeros(3, np.float32)})
    assert out["y"].tolist() == [3073, 1.25, 16383.5]


def test_a_suffix_that_nothing_defines_is_an_unknown_function(refuses) -> None:
    error = refuses(LITERALS.replace("3_KiB", "3_MiB"), "E-SEMA-CALL")
    assert 'operator""_MiB' in error.message and "add the folder of its header" in error.hint
