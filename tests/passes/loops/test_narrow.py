"""narrow: loops of which one iteration does something."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.loops import narrow
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: i32* restrict, x: i32 const* restrict, n: i32 range 0..40, m: i32 range 0..9)\n"
LOOP = "  par b in 0..m @ [block.x]\n    var s: i32 = 0\n    for i in 0..n\n      s += x[i]\n"
FIRST = f"{HEAD}{LOOP}    if b == 0\n      y[0] = s\n"
THIRD = f"{HEAD}{LOOP}    if n > 2 && b == 2\n      y[0] = s + b\n    if b == 2\n      y[1] = n\n"
THREADS = f"{HEAD}  par t in 0..m @ [thread.x 4, block.x]\n    if 0 == t\n      y[3] = x[1]\n"
ALIKE = f"{HEAD}{LOOP}    par i in 0..n @ [thread.x 8, seq]\n      if x[i] > 0\n        y[i] = s\n".replace(
    "in 0..m", "in 1..m"
)
SIZES = [{"n": n, "m": m} for n, m in ((0, 0), (1, 1), (3, 2), (40, 3), (7, 9))]


@pytest.mark.parametrize(
    ("text", "loop", "has"),
    [
        (FIRST, "b", "  par b in 0..min(m, 1) @ [block.x]\n"),
        (FIRST, "b", "    y[0] = s\n"),
        (THIRD, "b", "  par b in 2..min(m, 3) @ [block.x]\n"),
        (THIRD, "b", "    if n > 2\n      y[0] = s + b\n    y[1] = n\n"),
        (ALIKE, "b", "  if 1 < m\n    var s: i32 = 0\n"),
        (ALIKE.replace("0..9", "2..9"), "b", "  var s: i32 = 0\n"),
        (THREADS, "t", "  par t in 0..min(m, 1) @ [thread.x 4, block.x]\n    y[3] = x[1]\n"),
    ],
)
def test_before_and_after(text: str, loop: str, has: str) -> None:
    assert has in body_of(applied(parse_kernel(text), f"narrow{{loop={loop}}}"))


@pytest.mark.parametrize(("text", "loop"), [(FIRST, "b"), (THIRD, "b"), (ALIKE, "b"), (THREADS, "t")])
def test_meaning_stays(text: str, loop: str) -> None:
    before = parse_kernel(text)
    assert differs(before, applied(before, f"narrow{{loop={loop}}}"), SIZES) is None


@pytest.mark.parametrize(
    "rest",
    [
        "    y[b] = s\n",
        "    if b == 0\n      y[0] = s\n    if b == 1\n      y[1] = s\n",
        "    if b == 0\n      y[0] = s\n    else\n      y[1] = s\n",
        "    if b == n\n      y[0] = s\n",
        "    if b as u8 == 0_u8\n      y[b] = s\n",  # that is each 256th
        "    if b < 1\n      y[0] = s\n",
        "    if b == 0 || n > 3\n      y[0] = s\n",
        "    if b == 0\n      y[0] = s\n    atomic add y[2], 1\n",
        "    y[0] = y[0] + s\n",
        "    atomic add y[2], 1\n",
        "    n = s\n",
    ],
)
def test_refusals(rest: str) -> None:
    assert refused(parse_kernel(f"{HEAD}{LOOP}{rest}"), "narrow{loop=b}").code == "E-NARROW-ACTS"


def test_iterations_that_may_read_what_others_store_are_not_alike() -> None:
    for kernel in (ALIKE.replace(" restrict", ""), ALIKE.replace("y[i] = s", "y[i] = y[n]")):
        refused(parse_kernel(kernel), "narrow{loop=b}")


def test_loops_that_begin_later() -> None:
    assert refused(parse_kernel(FIRST.replace("in 0..m", "in 1..m")), "narrow{loop=b}").code == "E-NARROW-LOOP"
    assert refused(parse_kernel(FIRST), "narrow{loop=i}").code == "E-NARROW-LOOP"


def test_sites() -> None:
    (site,) = narrow.Narrow().sites(parse_kernel(FIRST))
    assert str(site.step) == "narrow{loop=b}"


def test_another_iteration_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "_number", lambda s, loop: 1)
    before = parse_kernel(THIRD)
    assert differs(before, applied(before, "narrow{loop=b}"), SIZES) is not None
