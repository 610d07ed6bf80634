"""What an argument is (a place, a constant one, a temporary) chooses overloads and what a reference means; traits and
decltype ask for it."""

from __future__ import annotations

import numpy as np
import pytest

BEFORE = """
struct A { int v; mutable int m = 0; };
struct R { int& r; };
__device__ int f(int& x) { x += 10; return 1; }
__device__ int f(int&& x) { return 2; }
__device__ int f(const int& x) { return 3; }
__device__ int g(A& x) { x.v += 10; return 1; }
__device__ int g(A&& x) { return 2; }
__device__ int g(const A& x) { return 3; }
template <class T> __device__ int kind(T&& x) { return std::is_lvalue_reference<T>::value ? 1 : 2; }
template <class T> __device__ void more(T&& x) { x += 3; }
"""


def ints(execute, body: str, n: int, before: str = BEFORE) -> list[int]:
    text = before + "__global__ void k(int* o, int n) {" + body + "}"
    return execute(text, {"o": np.zeros(16, np.int32), "n": n})["o"].tolist()


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize(
    "body, want",
    [
        ("int x = 1, y = 2; o[0] = f(n ? x : y); o[1] = x; o[2] = y;", lambda n: [1, 1 + 10 * n, 12 - 10 * n]),
        ("int x = 1; o[0] = f(n ? x : 3); o[1] = x;", lambda n: [2, 1]),
        ("int x = 1; const int c = 4; o[0] = f(n ? x : c); o[1] = x;", lambda n: [3, 1]),
        ("int x = 1; float w = 2; o[0] = f(n ? x : w); o[1] = f(true ? x : w); o[2] = x;", lambda n: [2, 2, 1]),
        ("int x = 1, y = 2; o[0] = f(true ? x : y); o[1] = x;", lambda n: [1, 11]),
        ("int x = 1, y = 2, z = 3; o[0] = f(n ? x : n < 0 ? y : z); o[1] = x; o[2] = z;",
         lambda n: [1, 1 + 10 * n, 13 - 10 * n]),
        ("f(n ? o[3] : o[4]); o[5] = o[3]; o[6] = o[4];", lambda n: [0, 0, 0, 10 * n, 10 - 10 * n, 10 * n]),
        ("A a{1}, b{2}; o[0] = g(n ? a : b); o[1] = a.v;", lambda n: [1, 1 + 10 * n]),
        ("A a{1}; const A c{2}; o[0] = g(n ? a : c); o[1] = g(n ? a : A{9}); o[2] = a.v;", lambda n: [3, 2, 1]),
        ("A a{1}; const A c{2}; o[0] = f(a.v); o[1] = f(A{3}.v); o[2] = f(c.v); o[3] = f(c.m);",
         lambda n: [1, 2, 3, 1]),
        ("int x = 1; const R r{x}; o[0] = f(r.r); o[1] = x;", lambda n: [1, 11]),
        ("int x = 1, y = 2; more(n ? x : y); o[0] = x; o[1] = y;", lambda n: [1 + 3 * n, 5 - 3 * n]),
        ("int x = 1, y = 2; float w; o[0] = kind(n ? x : y); o[1] = kind(n ? x : 3); o[2] = kind(n ? x : w);",
         lambda n: [1, 2, 2]),
    ],
)  # fmt: skip
def test_a_choice_of_places_is_a_place(execute, body: str, want, n: int) -> None:
    expected = want(n)
    assert ints(execute, body, n)[: len(expected)] == expected


def test_choices_that_are_passed_by_value_are_selected_in_place(round_trip) -> None:
    k = round_trip("__global__ void k(int* o, int n) { int x = o[1], y = o[2]; o[0] = max(n ? x : y, 3); }")
    from ktc.backends import emit

    assert "o[0] = max(n ? x : y, 3);" in emit(k, "cuda").text


def test_a_bool_is_promoted_to_int_alone(execute) -> None:
    before = "__device__ int h(unsigned) { return 1; } __device__ int h(int) { return 2; }"
    assert ints(execute, "o[0] = h(n > 0); o[1] = h((unsigned char)n);", 1, before)[:2] == [2, 2]


def test_characters_are_signed(execute) -> None:
    body = (
        r"o[0] = '\xff'; o[1] = '\377' == -1; o[2] = '\x41'; o[3] = '\0'; o[4] = (unsigned char)'\xfe'; o[5] = '\12';"
    )
    assert ints(execute, body, 1)[:6] == [-1, 1, 65, 0, 254, 10]


TRAITS = """
template <class T> struct is_f : std::is_same<T, float> {};
struct B {}; struct D : B { int x; }; union U { int a; float b; };
"""


@pytest.mark.parametrize(
    "question, answer",
    [
        ("std::is_same<float, double>{}", 0), ("std::is_same<int, int>()", 1), ("is_f<float>::value", 1),
        ("std::is_base_of_v<B, D>", 1), ("std::is_base_of_v<D, B>", 0), ("std::is_empty_v<B>", 1),
        ("std::is_empty_v<D>", 0), ("std::conjunction_v<std::is_same<int, int>, is_f<float>>", 1),
        ("std::disjunction_v<is_f<int>, std::is_same<int, float>>", 0), ("std::negation_v<is_f<int>>", 1),
        ("std::is_class_v<B> + 2 * std::is_class_v<U> + 4 * std::is_class_v<int>", 1), ("std::is_union_v<U>", 1),
        ("std::is_same_v<std::remove_const_t<int&>, int&>", 1),
        ("std::is_same_v<std::remove_cvref_t<const int&>, int>", 1),
        ("std::is_same_v<std::decay_t<int[3]>, int*>", 1), ("std::is_array_v<int[2]>", 1),
        ("std::is_signed_v<char> + 2 * std::is_unsigned_v<bool> + 4 * std::is_signed_v<float>", 7),
        ("std::is_integral_v<__half> + std::is_floating_point_v<__half> + std::is_signed_v<__half>", 0),
        ("std::is_same_v<decltype(o[0]), int&>", 1), ("std::is_same_v<decltype(n), int>", 1),
        ("std::is_same_v<decltype((n)), int&>", 1), ("std::is_same_v<decltype(n + 1), int>", 1),
        ("std::is_same_v<decltype(*o), int&>", 1), ("std::is_same_v<decltype(-n), int>", 1),
        ("std::is_same_v<__typeof__(o[0]), int>", 1),
    ],
)  # fmt: skip
def test_traits_answer(execute, question: str, answer: int) -> None:
    assert ints(execute, f"o[0] = {question};", 1, "#include <type_traits>\n" + TRAITS)[0] == answer


def test_decltype_of_an_element_is_a_reference_to_it(execute) -> None:
    assert ints(execute, "decltype(o[0]) r = o[3]; r = 5; __typeof__(o[0]) c = o[4]; c = 6;", 1)[3:5] == [5, 0]


def test_arrays_are_bound_by_name(execute, refuses) -> None:
    body = """int a[2] = {n, 2}; auto [e, f] = a; e = 100; o[0] = a[0]; auto& [g, h] = a; h = 55; o[1] = a[1];
        o[2] = e + f; const auto& [p, q] = a; a[0] = 8; o[3] = p + q;"""
    assert ints(execute, body, 1)[:4] == [1, 55, 102, 63]
    refuses("__global__ void k(int* o) { int a[2] = {1, 2}; auto [x] = a; o[0] = x; }", "E-SEMA-BINDING")


REFERENCES = """struct R { int& r; }; struct O { R a; int k; }; struct C { int a; int& r; const int& c; };
__device__ void put(R r) { r.r = 33; } template <class T> __device__ void more(T&& x) { x += 3; }
"""


@pytest.mark.parametrize(
    "body, want",
    [
        ("int x = 1; R r{x}; r.r++; o[0] = x == 1; x = 9; o[1] = r.r;", [0, 9]),
        ("int x = 1; const R r = {x}; r.r = 5; o[0] = x == 5;", [1]),
        ("int p = 1; put({p}); o[0] = p == 33; int q = 1; put(R{q}); o[1] = q == 33;", [1, 1]),
        ("int s = 1; O w{{s}, 2}; w.a.r = 9; o[0] = s == 9; R u = w.a; u.r = 4; o[1] = s;", [1, 4]),
        ("int i = 2; C z{1, o[i + 4], o[i]}; i = 7; z.r = 50; o[2] = 60; o[8] = z.c;", [0, 0, 60, 0, 0, 0, 50, 0, 60]),
        ("int x = 1; C z{1, x, 7}; z.r += z.c; o[0] = x;", [8]),
    ],
)
def test_members_that_are_references_name_what_the_braces_list(execute, body: str, want: list[int]) -> None:
    assert ints(execute, body, 1, REFERENCES)[: len(want)] == want


@pytest.mark.parametrize("n, want", [(0, [1, 0, 1, 4, 5]), (1, [0, 1, 0, 4, 5])])
def test_what_is_changed_through_an_expression_is_no_constant(execute, n: int, want: list[int]) -> None:
    body = """int x = 1, y = 2, z = 1, w = 1, v = 1, t = 2; more(n ? x : y); o[0] = x == 1; o[1] = y == 2;
        (n ? z : w) = 8; o[2] = z == 1; (v += 1) += 2; o[3] = v == 1 ? 1 : v; more((n, t)); o[4] = t == 2 ? 2 : t;"""
    assert ints(execute, body, n, REFERENCES)[:5] == want
