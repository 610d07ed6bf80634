"""Sums in nested loops and branches are parts of an iteration's own: which are, what they mean, and what is refused."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32*, x: f32 const*, n: i32 range 1..64, c: i32 range 1..64)
  launch grid(n) block(1)
  par r in 0..n @ [block.x]
    var s: f32 = 3.0
"""
SIZES = [{"n": n, "c": c} for n, c in ((1, 1), (3, 5), (2, 32), (2, 33))]
TAPS = (
    "for i in 0..c",
    "  let w: f32 = x[i]",
    "  for t in 0..3",
    "    if t + i > 2 && x[r + i + t] > 0.0",
    "      s += w * x[r + i + t]",
)


def rows(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"    {line}\n" for line in (*lines, "y[r] = s")))


def test_before_and_after() -> None:
    k = applied(rows(*TAPS), "split-reduction{loop=i map=[thread.x 8, seq]}")
    assert (
        body_of(k).split("@ [block.x]\n")[1]
        == """\
    reduce(+) s: f32 = 3.0 over i in 0..c @ [thread.x 8, seq]
      let w: f32 = x[i]
      var s_part: f32 = 0.0
      for t in 0..3
        if t + i > 2 && x[r + i + t] > 0.0
          s_part += w * x[r + i + t]
      yield s_part
    y[r] = s
"""
    )
    assert "reassociates" in k.flags


@pytest.mark.parametrize("script", ["split-reduction{loop=i map=[unroll 2, thread.x 8, seq]}",
                                    "parallelize{loop=i map=[thread.x 32, seq]}"])  # fmt: skip
def test_the_same_sums(script: str) -> None:
    before = rows(*TAPS, "s = s * 2.0")
    assert differs(before, applied(before, script), SIZES, elements=200) is None


def test_a_pack_is_one_vector() -> None:
    before = rows("for i in 0..c", "  for b in 0..4", "    s += x[i * 4 + b]")
    k = applied(before, "parallelize{loop=i map=[thread.x 8, seq]} | split-reduction{loop=b map=[vec 4]}")
    assert differs(before, k, SIZES, elements=300) is None


def test_an_extreme_in_a_branch() -> None:
    before = rows("for i in 0..c", "  if x[i] > 1.0", "    s = min(s, x[i + 1])", "  else", "    s = min(s, x[i])")
    k = applied(before, "parallelize{loop=i map=[thread.x 8, seq]}")
    assert "reassociates" not in k.flags
    assert differs(before, k, SIZES, elements=200) is None


@pytest.mark.parametrize(
    "inside",
    [
        ("for t in 0..3", "  s += x[t]", "  y[t] = s"),  # a value on the way
        ("for t in 0..3", "  s += s * x[t]"),
        ("for t in 0..3", "  s += x[t]", "  s = min(s, x[t])"),
        ("if x[i] > 0.0", "  s += x[i]", "  continue"),
        ("for t in 0..3", "  if s < 100.0", "    s += x[t]"),
        ("if x[i] > 0.0", "  s = x[i]"),
    ],
    ids=lambda lines: "; ".join(x.strip() for x in lines),
)
def test_what_is_more_than_a_sum_stays_serial(inside: tuple[str, ...]) -> None:
    k = rows("for i in 0..c", *(f"  {x}" for x in inside))
    assert refused(k, "parallelize{loop=i}").code in ("E-PARALLEL-CARRIED", "E-PARALLEL-LOOP")
    assert refused(k, "split-reduction{loop=i}").code in ("E-SPLIT-NONE", "E-SPLIT-CARRIED")
