"""Rows times one vector: a thread has several, where each by itself reads more of the vector than of the matrix."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder
from ktc.agent.embedded.rows_together import rows_together
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, differs

BLOCK_A_ROW = """\
kernel k(y: f32* restrict align 16, w: i32 const* restrict align 16, x: f32 const* restrict align 16, m: i32, n: i32)
  launch grid(m) block(128)
  par r in 0..m @ [block.x]
    reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 128, seq]
      yield (w[r * n + i] & 15) * x[i * 2] + (w[r * n + i] >> 4) * x[i * 2 + 1]
    y[r] = s
"""


def proposed(k: Kernel, m: int) -> list[str]:
    build = Builder(k)
    return [s for s, _, _ in rows_together(k, [facts(k, {"m": m, "n": 1024})], lambda s: build.attempt(s) is None)]


def test_blocks_and_lanes_have_several_rows_each() -> None:
    k = parse_kernel(BLOCK_A_ROW)
    blocks, lanes = proposed(k, 4096)
    assert blocks.startswith("divisible-by{m=32} | map{r=[unroll $R:(4,8,2), block.x] i=[vec $V, thread.x $T")
    for steps, knobs in ((blocks, {"R": 2, "V": 2, "T": 64}), (lanes, {"R": 2, "ROWS": 2, "V": 2, "LANES": 16})):
        sizes = [{"m": 32, "n": n} for n in (2, 6, 36)]
        assert differs(k, applied(k, steps), sizes, elements=32 * 36 * 2, knobs=knobs) is None


def test_a_row_a_thread_is_one_of_several_too() -> None:
    alone = BLOCK_A_ROW.replace("grid(m)", "grid(cdiv(m, 128))").replace("@ [block.x]", "@ [thread.x 128, block.x]")
    alone = alone.replace(
        "reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 128, seq]", "var s: f32 = 0.0\n    for i in 0..n"
    )
    alone = alone.replace("yield", "s +=")
    assert all(" | normalise | map{r=[unroll $R" in s for s in proposed(parse_kernel(alone), 4096))


@pytest.mark.parametrize(
    ("old", "new", "m"),
    [
        ("n: i32)", "n: i32)", 4100),  # no whole groups
        ("x[i * 2 + 1]", "0.5", 4096),  # as much of its own
        ("x[i * 2", "x[r * n + i * 2", 4096),  # nothing that all rows read
    ],
)
def test_rows_that_are_alone(old: str, new: str, m: int) -> None:
    assert proposed(parse_kernel(BLOCK_A_ROW.replace(old, new)), m) == []
