"""Launches are found by what is code, and nothing but them changes."""

from __future__ import annotations

import pytest

from ktc.exporting.launch_edits import LaunchText, launches, replaced, with_include


def parts(text: str, kernel: str = "k") -> list[tuple[str, str, str]]:
    return [(x.callee, x.config, x.arguments) for x in launches(text, kernel)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("k<<<g, b>>>(x, n);", [("k", "g, b", "x, n")]),
        ("k<T><<<g, b, 0, s>>>(x);", [("k<T>", "g, b, 0, s", "x")]),
        ("ns::k<float, (3 > 2), 4><<<dim3(n / 2), 32>>>();", [("ns::k<float, (3 > 2), 4>", "dim3(n / 2), 32", "")]),
        ("k<A<B>> <<<f(a, {1, 2}), c[3]>>> (p, q(1, 2));", [("k<A<B>>", "f(a, {1, 2}), c[3]", "p, q(1, 2)")]),
        ("k<T>\n  <<<g,\n  b>>>(\n x);", [("k<T>", "g,\n  b", "\n x")]),
        ("k << <g, b >> 1 >> > (x, n);", [("k", "g, b >> 1 ", "x, n")]),
        ("k<<<g, b>>>(x); k<<<h, b>>>(y);", [("k", "g, b", "x"), ("k", "h, b", "y")]),
        ('// k<<<1, 1>>>(x);\n/* k<<<1, 1>>>(x) */ auto s = "k<<<1, 1>>>(x)";', []),
        ("other_k<<<g, b>>>(x); k2<<<g, b>>>(x); o.k<<<g, b>>>(x);", []),
        ("__global__ void k(int* x) { x[k < 3] = 1; } int f() { return k < a; }", []),
        ("k<<<g, /* one, two */ b>>>(x, ')');", [("k", "g, /* one, two */ b", "x, ')'")]),
    ],
)
def test_launches(text: str, found: list[tuple[str, str, str]]) -> None:
    assert parts(text) == found


def test_all_else_stays_byte_for_byte() -> None:
    text = "a\r\n\tk<<<1, 2>>>(x) ;  // k<<<\n#define L k<<<3, 4>>>(y)\n"

    def call(launch: LaunchText) -> str:
        return f"[{launch.config}|{launch.arguments}]"

    assert replaced(text, launches(text, "k"), call) == "a\r\n\t[1, 2|x] ;  // k<<<\n#define L [3, 4|y]\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (
            "#pragma once\n#include <a>\n#include <b>\nint x;\n",
            "#pragma once\n#include <a>\nNEW\n#include <b>\nint x;\n",
        ),
        ("#ifdef X\n#include <a>\n#endif\n#include <b>\n", "#ifdef X\n#include <a>\n#endif\n#include <b>\nNEW\n"),
        ("int x;\n", "NEW\nint x;\n"),
        ("/*\n#include <a>\n*/\nint x;\n", "NEW\n/*\n#include <a>\n*/\nint x;\n"),
    ],
)
def test_where_the_include_goes(text: str, after: str) -> None:
    assert with_include(text, "NEW") == after
