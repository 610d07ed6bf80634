"""Sums over several loops are shared by the threads of as many blocks as there are terms and units for."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder
from ktc.agent.embedded.joined_sums import joined_sums
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.text import parse_kernel

HEAD = (
    "kernel k(y: f32* align 16 noalias, x: f32 const* align 16 noalias, b: i32 range 1..1024, f: i32 range 1..1024,"
    " n: i32 range 1..1024)\n"
)
A_BLOCK_EACH = f"""{HEAD}
  launch grid(f) block(64)
  par c in 0..f @ [block.x]
    array part: shared f32[64]
    par t in 0..64 @ [thread.x 64]
      part[t] = 0.0
      for j in 0..b
        for i = 0; i < n; i + 64
          part[t] += i + t < n ? x[(j * f + c) * n + i + t] : 0.0
    y[c] = 0.0
    for q in 0..64
      y[c] += part[q]
"""
A_THREAD_EACH = f"""{HEAD}
  launch grid(cdiv(f, 64)) block(64)
  par c in 0..f @ [thread.x 64, block.x]
    var s: f32 = 0.0
    for j in 0..b
      for i in 0..n
        s += x[(j * f + c) * n + i]
    y[c] = s
"""
COLUMNS = A_THREAD_EACH.replace("x[(j * f + c) * n + i]", "x[(j * n + i) * f + c]")
LARGE = {"b": 256, "f": 256, "n": 256}


def proposed(text: str, sizes: dict[str, int]) -> list[str]:
    kernel = parse_kernel(text)
    build = Builder(kernel)
    ideas = joined_sums(kernel, 132, [facts(kernel, sizes)], lambda steps: build.attempt(steps) is None)
    return [steps for steps, _, _ in ideas]


@pytest.mark.parametrize(("text", "sum_", "flat"), [(A_BLOCK_EACH, "q", "j_i"), (A_THREAD_EACH, "j", "j_i")])
def test_blocks_share_long_sums_of_few_rows(text: str, sum_: str, flat: str) -> None:
    blocks, alone = proposed(text, LARGE)
    head = f"normalise | join-sums{{loop={sum_} width=$V}} | map{{c=[block.x] {flat}=[thread.x $T:(64,128,256,512), "
    assert blocks == f"{head}unroll $U:(1,2,4,8), block.y $P:(2,4,8), seq]}}"
    assert alone == f"{head}unroll $U:(1,2,4,8), seq]}}"


def test_what_is_read_once_a_sum_says_nothing_of_its_terms() -> None:
    blocks, _ = proposed(A_BLOCK_EACH.replace(" + i + t] :", " + i + t] - y[c] * y[c] - y[c] :"), LARGE)
    assert "c=[block.x]" in blocks and "width=$V" in blocks


def test_short_sums_of_many_rows_have_a_warp_each() -> None:
    *_, warps = proposed(A_THREAD_EACH, {"b": 4, "f": 1024, "n": 64})
    assert "c=[thread.y $ROWS:(2,4,8,16), block.x] j_i=[thread.x 32, " in warps


def test_neighbouring_sums_lie_side_by_side() -> None:
    blocks, alone = proposed(COLUMNS, LARGE)
    head = "normalise | join-sums{loop=j width=1} | map{c=[thread.x $TX:(16,32,64), block.x] j_i=[unroll $U:(1,2,4,8), "
    assert blocks == f"{head}thread.y $TY:(4,8,16,32), block.y $P:(8,16,32,64), seq]}}"
    assert alone == f"{head}thread.y $TY:(4,8,16,32), seq]}}"
