"""C++20's constraints choose among overloads and specialisations, and the bits of integers are constants.

Values are those that g++ 12 computes from the same text; what is not understood is refused, never left out.
"""

from __future__ import annotations

import numpy as np
import pytest

HEAD = """\
#include <bit>
#include <concepts>
template <typename T> concept Small = sizeof(T) <= 2;
template <std::integral T, std::integral U> __device__ constexpr auto div_up(T a, U b) { return (a + b - 1) / b; }
template <typename T> __device__ int any(T v) { return 1; }
template <std::integral T> __device__ int any(T v) { return 2; }
template <Small T> __device__ int small(T v) { return 3; }
template <typename T> requires (!Small<T>) __device__ int small(T v) { return 4; }
template <typename T> __device__ int kind(T v) requires std::floating_point<T> { return 5; }
template <typename T> __device__ int kind(T v) requires std::same_as<T, int> || std::same_as<T, char> { return 6; }
template <typename T = char, std::integral... U> __device__ int sum(T t, U... u) { return (0 + ... + u); }
template <std::integral T> struct Box { T v; __device__ T twice() const { return v + v; } };
template <typename T> struct Trait { static constexpr int v = 7; };
template <std::integral T> struct Trait<T> { static constexpr int v = 8; static constexpr bool known = true; };
template <typename T, typename = void> struct Known : std::false_type {};
template <typename T> struct Known<T, std::void_t<decltype(Trait<T>::known)>> : std::true_type {};
template <int N> struct Words { int v[N]; };
"""


@pytest.mark.parametrize("values, want", [
    ("any(1.0f), any(1), any('c')", [1, 2, 2]),
    ("small((short)1), small(1), kind(1.0f), kind(1), kind('c')", [3, 4, 5, 6, 6]),
    ("div_up(7, 2), sum('a', 1, 2), Box<int>{4}.twice()", [4, 3, 8]),
    ("Trait<float>::v, Trait<int>::v, Known<int>::value, Known<float>::value", [7, 8, 1, 0]),
    ("(int)sizeof(Words<std::countr_zero(8u)>), (int)sizeof(Words<std::bit_ceil(5u)>)", [12, 32]),
    ("std::bit_width(n), std::popcount(n), std::countl_zero((unsigned char)n), std::countr_zero(n)", [4, 2, 4, 1]),
    ("(int)std::bit_ceil(n), (int)std::bit_floor(n), std::has_single_bit(n), std::bit_width(0u)", [16, 8, 0, 0]),
    ("std::countr_zero(0u), std::countl_zero(0ull), (int)std::bit_ceil(0u), (int)std::bit_floor(0u)", [32, 64, 1, 0]),
])  # fmt: skip
def test_values(execute, values: str, want: list[int]) -> None:
    body = f"int v[] = {{{values}}}; for (int i = 0; i < {len(want)}; ++i) y[i] = v[i];"
    text = f"{HEAD}__global__ void k(int* y, unsigned n) {{ {body} }}"
    assert execute(text, {"y": np.zeros(8, np.int32), "n": 10})["y"].tolist()[: len(want)] == want


@pytest.mark.parametrize("call", ["kind(1.0)", "kind(n)"])
def test_what_no_constraint_allows_is_refused(refuses, call: str) -> None:
    head = HEAD.replace("std::floating_point<T>", "std::same_as<T, float>")
    refuses(f"{head}__global__ void k(int* y, unsigned n) {{ y[0] = {call}; }}", "E-SEMA-OVERLOAD")


@pytest.mark.parametrize("unread, use, code", [
    ("__device__ int f(int v) { return v + ; }", "f(3)", "E-PARSE-SYNTAX"),
    ("template <typename T> requires requires (T a) { a + a; } __device__ int f(T v) { return 2; }", "f(3)",
     "E-UNSUPPORTED-SYNTAX"),
    ("template <> struct S<int> { int v +; };", "S<int>::v", "E-PARSE-SYNTAX"),
    ("template <typename T> requires requires (T a) { a + a; } struct S<T> { static constexpr int v = 2; };",
     "S<int>::v", "E-UNSUPPORTED-SYNTAX"),
])  # fmt: skip
def test_what_did_not_parse_may_be_what_is_meant(refuses, unread: str, use: str, code: str) -> None:
    """The other function or the primary class would answer, with another value."""
    head = (
        "template <typename T> __device__ int f(T v) { return 1; }\n"
        "template <typename T> struct S { static constexpr int v = 1; };\n"
    )
    refuses(f"{head}{unread}\n__global__ void k(int* y) {{ y[0] = {use}; }}", code)


def test_the_place_of_a_declaration_that_is_none(refuses) -> None:
    error = refuses("__global__ void k(int* y) { y[0] = 1; }\ntemplate <+> __device__ int g() { return 1; }\n"
                    "__global__ void l(int* y) { y[0] = g<1>(); }", "E-PARSE-SYNTAX", kernel="l")  # fmt: skip
    assert error.loc.line == 2
