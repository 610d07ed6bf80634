"""Sums of quantised weights: what shares a scale is added up first, and multiplied once."""

from __future__ import annotations

import pytest

from ktc.agent.embedded.grouped_sums import grouped_sums
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, differs

KERNEL = """\
kernel k(y: f32* restrict, w: i32 const* restrict align 16, s: f32 const* restrict, x: f32 const* restrict align 16,
    m: i32 range 1..4096, n: i32 range 1..4096 divisible_by 32)
  launch grid(cdiv(m, 32)) block(32)
  par r in 0..m @ [thread.x 32, block.x]
    var sum: f32 = 0.0
    for c in 0..n step 2
      let q: i32 = w[r * (n / 2) + c / 2]
      let scale: f32 = s[r * (n / 32) + c / 32]
      sum += ((q & 15) - 8) * scale * x[c] + ((q >> 4) - 8) * scale * x[c + 1]
    y[r] = sum
"""


def proposed(k: Kernel, m: int) -> list[str]:
    return [steps for steps, _, _ in grouped_sums(k, [facts(k, {"m": m, "n": 1024})], lambda steps: True)]


def test_several_rows_a_thread_where_their_number_is_a_multiple() -> None:
    k = parse_kernel(KERNEL)
    several, one = proposed(k, 4096)
    assert several.startswith("divisible-by{m=16} | tile{loops=c sizes=16 tail=exact}") and "r=[unroll 4, " in several
    assert proposed(k, 4095) == [one] and "r=[thread.y " in one


@pytest.mark.parametrize("at", [0, 1])
def test_what_they_lead_to_computes_the_same_with_one_product_a_group(at: int) -> None:
    k = parse_kernel(KERNEL)
    after = applied(k, proposed(k, 4096)[at])
    sizes = [{"m": m, "n": n} for m, n in ((16, 32), (32, 96))]
    assert differs(k, after, sizes, elements=32 * 96, knobs={"ROWS": 1, "LANES": 8}) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("c / 32]", "c]"),  # a scale of its own for each
        ("for c in 0..n", "for c in 2..n"),  # groups that begin elsewhere
        ("sum += ", "sum = sum * "),
    ],
)
def test_other_sums_have_no_groups(old: str, new: str) -> None:
    assert proposed(parse_kernel(KERNEL.replace(old, new)), 4096) == []


COLUMNS = """\
kernel k(y: f32* restrict, w: u32 const* restrict align 16, s: f32 const* restrict align 16,
    x: f32 const* restrict align 16, m: i32 range 1..4096 divisible_by 8, n: i32 range 1..4096 divisible_by 64)
  launch grid(cdiv(m, 32)) block(32)
  par r in 0..m @ [thread.x 32, block.x]
    var sum: f32 = 0.0
    for c in 0..n
      sum += f32(w[c * (m / 8) + r / 8] >> r % 8 * 4 & 15_u32) * s[c / 64 * m + r] * x[c]
    y[r] = sum
"""


def test_columns_of_words_stand_on_lanes_and_groups_are_shared() -> None:
    k = parse_kernel(COLUMNS)
    shared, alone = proposed(k, 4096)
    assert "r=[vec $V, thread.x" in shared and "c_tile=[thread.y $TY:(4,8,16), block.y" in shared
    assert "sizes=32 " in shared and "block.y" not in alone
    sizes = [{"m": m, "n": n} for m, n in ((16, 64), (32, 128))]
    knobs = {"V": 4, "TX": 8, "TY": 4, "P": 4}
    assert differs(k, applied(k, shared), sizes, elements=32 * 128, knobs=knobs) is None
