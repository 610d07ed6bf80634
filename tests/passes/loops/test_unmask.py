"""unmask: sums behind a mask computed everywhere, where somebody reads what they read."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.catalogue import PASSES
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(out: f32* noalias, p: f32 const* noalias, q: f32 const* noalias, n: i32, d: i32, h: i32)
  launch grid(n) block(64)
  par y in 0..n @ [block.x]
    par x in 0..n @ [thread.x 64, seq]
"""
SUM = """\
        var s: f32 = 0.0
        for c in 0..d
          s += p[y * d + c] * q[x * d + c]
        out[y * n + x] = s
"""
MASKED = f"{HEAD}      if x > y\n        out[y * n + x] = 1.0\n      else\n{SUM}"
SIZES = [{"n": n, "d": d, "h": 2} for n, d in ((1, 1), (2, 0), (5, 3), (17, 8))]


def kernel(text: str) -> Kernel:
    return parse_kernel(text)


def test_a_masked_sum_is_computed_everywhere() -> None:
    k = kernel(MASKED)
    assert [str(s.step) for s in PASSES["unmask"].sites(k)] == ["unmask{loop=c}"]
    after = applied(k, "unmask{loop=c}")
    assert body_of(after).split("block(64)\n")[1].splitlines()[2:] == [
        "      var s: f32 = 0.0",
        "      for c in 0..d",
        "        s += p[y * d + c] * q[x * d + c]",
        "      out[y * n + x] = x > y ? 1.0 : s",
    ]
    assert differs(k, after, SIZES) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("out[y * n + x] = 1.0", "out[x * n + y] = 1.0"),  # another place
        ("out[y * n + x] = 1.0", "out[y * n + x] = p[x * h]"),  # which may not be there for others
        ("out[y * n + x] = 1.0", "out[y * n + x] = 1.0\n        out[y * n + x] = 2.0"),
        ("out[y * n + x] = s", "out[y * n + x] = s / f32(n / (x - y + h))"),  # zero for others
    ],
)
def test_stores_that_are_not_one_stay_under_the_condition(old: str, new: str) -> None:
    k = kernel(MASKED.replace(old, new))
    after = applied(k, "unmask{loop=c}")
    assert "        for c in 0..d" not in body_of(after) and "      if x > y\n" in body_of(after)


def test_a_branch_without_another_stays_one() -> None:
    k = kernel(f"{HEAD}      if x <= y\n{SUM}")
    after = applied(k, "unmask{loop=c}")
    assert "      if x <= y\n        out" in body_of(after) and differs(k, after, SIZES) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("x > y", "x >= y", "'p' is read"),  # row 0 is never read: nobody shows that it is there
        ("x > y", "y > h", "'p' is read"),  # rows beyond h may not be there
        ("x > y", "x > h", "'p' is read"),  # h may be negative: then nothing is read
        ("q[x * d + c]", "q[(x * n + y) * d + c]", "'q' is read"),
        ("c in 0..d", "c in 0..x", "'p' is read"),  # how far it reads is known to one x alone
        ("q[x * d + c]", "f32((x + y) / h)", "'h' is no zero"),
    ],
)
def test_what_nobody_else_reads_is_not_read_for_nothing(old: str, new: str, said: str) -> None:
    why = refused(kernel(MASKED.replace(old, new)), "unmask{loop=c}")
    assert why.code == "E-UNMASK-READS" and said in why.why


@pytest.mark.parametrize("index", ["r", "w"])
def test_what_an_iteration_has_of_its_own_says_nothing_of_others(index: str) -> None:
    """A row that a variable or memory names in this iteration is another one in the next."""
    own = "      var r: i32 = x\n      if r > 2\n        r = y\n      let w: i32 = i32(q[x])\n"
    text = MASKED.replace("      if x > y", f"{own}      if x > y").replace("p[y * d", f"p[{index} * d")
    assert refused(kernel(text), "unmask{loop=c}").code == "E-UNMASK-READS"
    inside = MASKED.replace("        var s:", "        let w: i32 = i32(q[x])\n        var s:").replace(
        "p[y * d", "p[w * d"
    )
    assert refused(kernel(inside), "unmask{loop=c}").code == "E-UNMASK-READS"


def test_what_may_be_written_meanwhile_is_not_read_for_nothing() -> None:
    k = kernel(MASKED.replace(" noalias", ""))
    assert "may write 'p'" in refused(k, "unmask{loop=c}").why


def test_a_branch_that_stores_first_stays_where_it_is() -> None:
    k = kernel(MASKED.replace("          s +=", "          out[y * n + x] = s\n          s +="))
    assert refused(k, "unmask{loop=c}").code == "E-UNMASK-ACTS"


def test_a_condition_under_a_condition_stays_where_it_is() -> None:
    inner = "".join(f"  {line}\n" for line in SUM.splitlines())
    why = refused(kernel(f"{HEAD}      if x <= y\n        if x > 0\n{inner}"), "unmask{loop=c}")
    assert why.code == "E-UNMASK-PLACE"
