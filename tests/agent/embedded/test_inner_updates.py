"""Atomics that a row's iterations all aim at one element, beside others that data place: schedules of the rows."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder
from ktc.agent.embedded.atomics.inner_updates import inner_updates
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.passes.checks import differs

BLEND = """\
kernel blend(dw: f32* align 16 noalias, dx: f32* align 16 noalias, x: f32 const* align 16 readonly,
    dy: f32 const* align 16 readonly, w: f32 const* readonly, of: i32 const* readonly range 0..3,
    rows: i32 range 1..64, m: i32 range 1..4096)
  launch grid(rows) block(64)
  par p in 0..rows @ [block.x]
    par c in 0..m @ [thread.x 64, seq]
      let f: i32 = of[p]
      for i in 0..2
        atomic add dw[p * 2 + i], x[f * m + c] * dy[p * m + c]
        atomic add dx[(f + i) * m + c], w[p * 2 + i] * dy[p * m + c]
"""
ALL_DATA = BLEND.replace("dw[p * 2 + i]", "dw[f * m + c]")
NO_ROW = BLEND.replace("par p in 0..rows @ [block.x]", "for p in 0..rows")


def proposed(text: str, m: int) -> list[str]:
    kernel, build = parse_kernel(text), Builder(parse_kernel(text))
    seen = [facts(kernel, {"rows": 50, "m": m})]
    return [steps for steps, _, _ in inner_updates(kernel, seen, lambda steps: build.attempt(steps) is None)]


def test_long_rows_have_a_block_and_short_ones_a_warp() -> None:
    block, warp = proposed(BLEND, 2048)
    assert block == (
        "reduce-atomics{loop=c} | map{p=[block.x] c=[unroll $U:(1,2,4), thread.x $T, seq] i_1=[seq]"
        " c_1=[vec $V, thread.x $T, seq]}"
    )
    assert "p=[thread.y $ROWS:(4,8,2), block.x]" in warp and "thread.x $LANES" in warp
    assert proposed(BLEND, 40) == [warp, block]


@pytest.mark.parametrize("text", [ALL_DATA, NO_ROW])
def test_what_is_no_sum_of_a_row_stays(text: str) -> None:
    assert proposed(text, 2048) == []


def test_meaning_stays() -> None:
    before = parse_kernel(BLEND.replace(" range 0..3", ""))
    for steps in proposed(BLEND, 64):
        done = apply_script(before, parse_script(steps))
        assert done.refused is None
        knobs = {k.name: k.domain[0] for k in done.kernel.knobs}
        assert differs(before, done.kernel, [{"rows": 5, "m": 64}], elements=700, knobs=knobs) is None
