"""collapse: loops over blocks, threads and strides as one loop over all elements."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.loops import collapse
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: i32* restrict, x: i32 const* restrict, n: i32, m: i32)\n"
NEST = "  par b in 0..m @ [block.x]\n    par t in 0..32 @ [thread.x 32]\n"
LOOP = "      for i = t + b * 32; i < n; i + 32 * m\n"
STRIDED = f"{HEAD}{NEST}{LOOP}        y[i] = 2 * x[i]\n"
NAMED = STRIDED.replace(
    LOOP, "      let t0: i32 = t + b * 32\n      let all: i32 = 32 * m\n      for i = t0; i < n; i + all\n"
)
SINGLE = f"{HEAD}{NEST}      var i: i32 = b * 32 + t\n      if i < n\n        y[i] = 2 * x[i]\n"
UNGUARDED = f"{HEAD}{NEST}      let i: i32 = b * 32 + t\n      let v: i32 = x[i]\n      y[i] = v * v\n"
SIZES = [{"n": n, "m": m} for n, m in ((0, 1), (1, 2), (33, 1), (100, 3), (255, 4))]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (STRIDED, "  par i in 0..n @ [thread.x 32, block.x m, seq]\n    y[i] = 2 * x[i]\n"),
        (NAMED, "  par i in 0..n @ [thread.x 32, block.x m, seq]\n    y[i] = 2 * x[i]\n"),
        (SINGLE, "  par i in 0..min(n, m * 32) @ [thread.x 32, block.x]\n    y[i] = 2 * x[i]\n"),
        (UNGUARDED, "  par i in 0..m * 32 @ [thread.x 32, block.x]\n    let v: i32 = x[i]\n    y[i] = v * v\n"),
    ],
)
def test_before_and_after(text: str, after: str) -> None:
    kernel = parse_kernel(text)
    done = applied(kernel, "collapse{loop=b}")
    assert body_of(done) == after
    assert differs(kernel, done, SIZES) is None
    anew = applied(kernel, "collapse{loop=b} | distribute{loop=i map=[thread.x 64, block.x]}")
    assert differs(kernel, anew, SIZES) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"{NEST}      for i = t + b * 16; i < n; i + 32 * m\n        y[i] = x[i]\n", "E-COLLAPSE-INDEX"),
        (f"{NEST}      for i = t + b * 32; i < n; i + 32\n        y[i] = x[i]\n", "E-COLLAPSE-INDEX"),
        (f"{NEST}{LOOP}        y[i] = x[i] + b\n", "E-COLLAPSE-INDEX"),
        (f"{NEST}      let e: i32 = x[t]\n{LOOP}        y[i] = x[i] + e\n", "E-COLLAPSE-INDEX"),
        (f"{NEST}{LOOP}        if x[i] == 3\n          break\n        y[i] = x[i]\n", "E-COLLAPSE-CARRIED"),
        (f"{NEST}{LOOP}        y[i + 32 * m] = y[i] + x[i]\n", "E-COLLAPSE-CARRIED"),
        (f"{NEST}      var i: i32 = b * 32 + t\n      y[i] = t\n", "E-COLLAPSE-INDEX"),
        (f"{NEST}      y[t] = b\n", "E-COLLAPSE-INDEX"),
        ("  par b in 0..m @ [block.x]\n    y[b] = x[b]\n", "E-COLLAPSE-NEST"),
        (f"{NEST}      array s: shared i32[4]\n{LOOP}        y[i] = x[i]\n", "E-COLLAPSE-NEST"),
        (f"{NEST}      for i = 0; i < n; i + 1\n        y[0] = 1\n", "E-COLLAPSE-INDEX"),
    ],
)  # fmt: skip
def test_refusals(body: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), "collapse{loop=b}").code == code


def test_a_serial_loop_is_no_nest() -> None:
    assert refused(parse_kernel(STRIDED), "collapse{loop=i}").code == "E-COLLAPSE-NEST"


def test_sites() -> None:
    (site,) = collapse.Collapse().sites(parse_kernel(STRIDED))
    assert str(site.step) == "collapse{loop=b}"
