"""Proofs that a kernel need not leave to the original what a guard sends there: it does the same for the same
points."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

HEAD = "kernel k(b: f32* noalias, a: f32 const* noalias readonly, ny: i32 range 1..1000, nx: i32 range 1..1000)\n"
BODY = "b[y * nx + x] = a[y * nx + x - 1] + a[y * nx + x + 1] * 0.5"
ORIGINAL = f"""{HEAD}  launch grid((nx + 31) / 32, (ny + 7) / 8) block(32, 8)
  let x: i32 = i32(blockIdx.x * blockDim.x + threadIdx.x)
  let y: i32 = i32(blockIdx.y * blockDim.y + threadIdx.y)
  if x >= 1 && x < nx - 1 && y >= 1 && y < ny - 1
    {BODY}
"""
GUARD = "  assume (nx - 2) % 2 == 0 origin guessed\n"
WIDE = f"""{HEAD}  launch grid(cdiv(nx - 2, 64), cdiv(ny - 2, 8)) block(32, 8)
{GUARD}  let y: i32 = 1 + (i32(threadIdx.y) + i32(blockIdx.y) * 8)
  if y < ny - 1
    let x: i32 = 1 + (i32(threadIdx.x) * 2 + i32(blockIdx.x) * 64)
    for v = 0; v < 2; v + 1
      if x + v < nx - 1
        let left: f32 = a[y * nx + (x + v) - 1]
        let right: f32 = a[y * nx + (x + v) + 1]
        b[y * nx + (x + v)] = left + right * 0.5
"""


def proof(original: str, text: str, *changes: tuple[str, str]) -> str:
    """The proof that ``text``, changed so, does without its guard what ``original`` does."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    assert GUARD in text
    made = (canonical(parse_kernel(t)) for t in (text, text.replace(GUARD, ""), original))
    return equivalent(*made)


SAME = "does what the original does"


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("cdiv(nx - 2, 64)", "cdiv(nx, 64)")],
        [("* 64)", "* 32)"), (", 64)", ", 32)")],
        [("if y < ny - 1", "if y < ny - 1 && ny > 2 && nx > 2")],
        [("x + v < nx - 1", "x + v <= nx - 2")],
    ],
)
def test_each_point_once_or_more_often(changes: list[tuple[str, str]]) -> None:
    assert SAME in proof(ORIGINAL, WIDE, *changes)


@pytest.mark.parametrize(
    "changes",
    [
        [("v < 2", "v < 1")],
        [("x + v < nx - 1", "x < nx - 1")],
        [("x + v < nx - 1", "x + 1 < nx - 1")],
        [("x + v < nx - 1", "x + v < nx")],
        [("y < ny - 1", "y < ny - 2")],
        [("cdiv(nx - 2, 64)", "(nx - 2) / 64")],
        [("cdiv(nx - 2, 64)", "cdiv(nx - 3, 64)")],
        [("cdiv(ny - 2, 8)", "cdiv(ny - 200, 8)")],
        [("* 64)", "* 65)")],
        [("threadIdx.x) * 2", "threadIdx.x) * 3")],
        [("let x: i32 = 1 +", "let x: i32 = 2 +")],
        [("let y: i32 = 1 +", "let y: i32 = 0 +")],
        [("block(32, 8)", "block(32, 4)")],
        [("b[y * nx + (x + v)]", "b[y * nx + x]")],
        [("(x + v) + 1]", "(x + v) + 2]")],
        [("left + right * 0.5", "right + left * 0.5")],
        [("left + right * 0.5", "left - right * 0.5")],
        [("let right: f32 = a[y", "let right: f32 = b[y")],
        [("a: f32 const* noalias", "a: f32 const*"), ("b: f32* noalias", "b: f32*")],
        [("nx: i32 range 1..1000", "nx: i32 range 1..999")],
    ],
)
def test_but_no_other_points_and_nothing_else_there(changes: list[tuple[str, str]]) -> None:
    assert not proof(ORIGINAL, WIDE, *changes)


HALVES = GUARD.replace("(nx - 2)", "n")
ROUNDS = """kernel k(y: f32* noalias, n: i32 range 1..1000)
  launch grid(4) block(32)
  for i = i32(threadIdx.x); i < n; i + 32
    let one: f32 = y[READ]
    y[WRITTEN] = one * one + 1.0
"""
PAIRS = f"""kernel k(y: f32* noalias, n: i32 range 1..1000)
  launch grid(4) block(32)
{HALVES}  for i = i32(threadIdx.x) * 2; i < n; i + 64
    for v = 0; v < 2; v + 1
      if i + v < n
        let one: f32 = y[READ]
        y[WRITTEN] = one * one + 1.0
"""
ELEMENT = "i32(blockIdx.x) * 2000 + i"


def in_place(*changes: tuple[str, str], read: str = ELEMENT, written: str = ELEMENT) -> str:
    text, original = PAIRS, ROUNDS.replace("READ", read).replace("WRITTEN", written)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    read, written = (e.replace("+ i", "+ (i + v)") for e in (read, written))
    text = text.replace("READ", read).replace("WRITTEN", written)
    return equivalent(*(canonical(parse_kernel(t)) for t in (text, text.replace(HALVES, ""), original)))


def test_what_is_changed_in_place_is_changed_once() -> None:
    assert SAME in in_place()
    assert not in_place(("v < 2", "v < 3"))
    assert not in_place(("i + 64", "i + 32"))
    assert not in_place(("i + 64", "i + 128"))
    assert not in_place(("i32(threadIdx.x) * 2", "i32(threadIdx.x)"))


def test_rounds_of_one_thread_may_hang_on_each_other() -> None:
    """The next round reads what this one stores, or stores there again; so rounds may not become threads."""
    assert not in_place(read=ELEMENT + " + 32")
    assert not in_place(written=ELEMENT + " / 64")
    assert SAME in in_place(read=ELEMENT + " + 1000")
    assert SAME in in_place(written=ELEMENT + " * 2", read=ELEMENT + " * 2")
