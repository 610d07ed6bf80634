"""normalise: serial loops as the parallel loops and reductions that they are, split where they do several things."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32* align 16 noalias, x: f32 const* align 16 noalias, n: i32 range 1..64, c: i32 range 1..64)
  launch grid(cdiv(n, 32)) block(32)
  par i in 0..n @ [thread.x 32, block.x]
"""
SIZES = [{"n": n, "c": c} for n, c in ((1, 1), (3, 5), (33, 32), (2, 33))]


def rows(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"    {line}\n" for line in lines))


STORES_WHAT_IT_SUMS = rows(
    "var s: f32 = 0.0",
    "for j = 0; j <= i; j + 1",
    "  let e: f32 = x[i * c + j] * 3.0",
    "  s += e",
    "  y[i * c + j] = e",
    "y[(n + i) * c] = s",
)


def test_a_loop_that_stores_what_it_sums_is_two() -> None:
    k = applied(STORES_WHAT_IT_SUMS, "normalise")
    assert body_of(k).split("block.x]\n", 1)[1] == (
        "    reduce(+) s: f32 = 0.0 over j in 0..i + 1 @ [seq]\n"
        "      let e: f32 = x[i * c + j] * 3.0\n"
        "      yield e\n"
        "    par j_1 in 0..i + 1 @ [seq]\n"
        "      let e_1: f32 = x[i * c + j_1] * 3.0\n"
        "      y[i * c + j_1] = e_1\n"
        "    y[(n + i) * c] = s\n"
    )
    assert "reassociates" in k.flags
    assert differs(STORES_WHAT_IT_SUMS, k, [{"n": n, "c": 64} for n in (1, 5, 33)], elements=128 * 64) is None


def test_the_normal_form_is_a_fixed_point() -> None:
    assert refused(applied(STORES_WHAT_IT_SUMS, "normalise"), "normalise").code == "E-NORMALISE-NOTHING"


def test_loops_that_nothing_helps_and_a_threads_own_elements_stay() -> None:
    carried = rows("for j in 1..c", "  y[i * c + j] = y[i * c + j - 1] + x[i * c + j]")
    assert refused(carried, "normalise").code == "E-NORMALISE-NOTHING"
    own = rows("for j in 0..4", "  y[i * 4 + j] = x[i * 4 + j]")
    assert refused(own, "normalise").code == "E-NORMALISE-NOTHING"
    assert refused(parse_kernel("kernel k(y: f32*)\n  launch grid(1) block(1)\n  y[0] = 1.0\n"), "normalise").code == (
        "E-PLACE-SPMD"
    )


@pytest.mark.parametrize("second", ["y[i * c + j] = y[i * c + j - 1]", "y[(i + 1) * c + j] = s"])
def test_what_a_split_would_change_is_not_split(second: str) -> None:
    """The second part reads what it wrote an iteration before, or the running sum."""
    k = rows("var s: f32 = 0.0", "for j in 1..c", "  s += x[i * c + j]", f"  {second}", "y[i * c] = s")
    assert refused(k, "normalise").code == "E-NORMALISE-NOTHING"


def test_sums_of_three_things_in_one_loop() -> None:
    k = rows(
        "var s: f32 = 0.0",
        "var m: f32 = -1000.0",
        "for j in 0..c",
        "  if x[i * c + j] > m",
        "    m = x[i * c + j]",
        "  s += x[i * c + j]",
        "  y[i * c + j] = x[i * c + j]",
        "y[i * c] = s + m",
    )
    after = applied(k, "normalise")
    assert body_of(after).count("reduce") >= 1 and " for " not in body_of(after)
    assert differs(k, after, SIZES, elements=2200) is None


COUNTS = (
    "var v: f32",
    "array m: i32[2]",
    "array s: f32[2]",
    "for b in 0..2",
    "  m[b] = 1",
    "  s[b] = 0.0",
    "for j in 0..c",
    "  v = x[i * c + j]",
    "  if v > 2.0",
    "    m[0] += 1",
    "  elif v < -2.0",
    "    m[1] += 1",
    "  s[j % 2] += v",
    "for j in 0..n",
    "  v = x[j]",
    "  if v > 0.0",
    "    m[0] += 1",
    "for b in 0..2",
    "  y[i * 4 + b] = f32(m[b])",
    "  y[i * 4 + 2 + b] = s[b]",
)


def test_counts_in_a_small_array_are_sums_of_their_own() -> None:
    k = rows(*(line for line in COUNTS if "s[" not in line and "array s" not in line))
    after = applied(k, "normalise")
    text = body_of(after)
    assert "array" not in text and text.count("reduce(+)") == 2 and text.count("var v") == 2
    assert "y[i * 4 + 1] = f32(m_1)" in text
    assert differs(k, after, SIZES, elements=64 * 64) is None


def test_an_array_of_which_any_element_may_be_meant_stays_one() -> None:
    text = body_of(applied(rows(*COUNTS, "for j in 0..c", "  y[(n + i) * 64 + j] = 1.0"), "normalise"))
    assert "array s: f32[2]" in text and "array m" not in text and "s[j % 2] += v" in text


def test_a_variable_that_goes_from_one_iteration_to_the_next_stays_outside() -> None:
    carried = ("var v: f32 = 0.0", "for j in 0..c", "  y[i * c + j] = v", "  v = x[i * c + j] - v")
    assert refused(rows(*carried), "normalise").code == "E-NORMALISE-NOTHING"
    read_after = ("var v: f32", "for j in 0..c", "  v = x[i * c + j]", "  y[i * c + j] = v", "y[i * c] = v")
    assert refused(rows(*read_after), "normalise").code == "E-NORMALISE-NOTHING"
    own = ("var v: f32", "for j in 0..c", "  v = x[i * c + j]", "  y[i * c + j] = v")
    assert "var v: f32 = x[" in body_of(applied(rows(*own), "normalise"))


def test_a_variable_that_each_branch_sets_first_is_the_iterations_own() -> None:
    sets = ("  if x[i * c + j] > 0.0", "    v = 1.0", "  else", "    v = x[i * c + j]")
    k = rows("var v: f32", "for j in 0..c", *sets, "  y[i * c + j] = v")
    after = applied(k, "normalise")
    assert "par j in 0..c @ [seq]" in body_of(after) and differs(k, after, SIZES, elements=64 * 64) is None
    half = rows("var v: f32 = 0.0", "for j in 0..c", *sets[:2], "  y[i * c + j] = v")
    assert refused(half, "normalise").code == "E-NORMALISE-NOTHING"


def test_a_loop_over_a_tile_runs_as_often_as_the_tile_is_long() -> None:
    k = parse_kernel("""\
kernel k(out: f32* restrict, x: f32 const* restrict, n: i32 divisible_by 32)
  launch grid(1) block(32)
  par r in 0..32 @ [thread.x 32]
    for t in 0..n step 64
      for c in t..t + 64 step 2
        out[r * n + c] = x[r * n + c]
""")
    text = body_of(applied(k, "normalise"))
    assert "par c in 0..32 @ [seq]" in text, text
