"""Atomics by which all iterations of a loop update the same elements: the planner's schedules, from structure alone."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder
from ktc.agent.embedded.updates import repeated_updates
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.passes.checks import differs

BUFFERS = "g: f32* align 16 noalias, h: f32* align 16 noalias, p: f32 const* align 16 readonly, m: f32 const* readonly"


def thread_a_row(body: str) -> str:
    head = f"kernel a({BUFFERS}, rows: i32 range 1..4096, wide: i32 range 1..4096)"
    return f"{head}\n  launch grid(cdiv(rows, 64)) block(64)\n  par q in 0..rows @ [thread.x 64, block.x]\n{body}"


COLUMNS = thread_a_row("    for z in 0..wide\n      atomic add g[z], p[q * wide + z] * m[q]\n")
TOTAL = thread_a_row("    atomic max g[0], p[q]\n")
OF_ALL = thread_a_row("    for z in 0..wide\n      atomic add g[0], p[q * wide + z]\n")
BESIDE = thread_a_row(
    "    var s: f32 = 0.0\n    for z in 0..wide\n      s += p[q * wide + z]\n    for y in 0..wide\n"
    "      atomic add g[y], p[q * wide + y]\n      h[q * wide + y] = p[q * wide + y] * s\n"
)
LOSS = thread_a_row("    h[q] = 2.0 * p[q]\n    atomic add g[0], p[q] * p[q]\n")
OF_BLOCKS = f"""kernel a({BUFFERS}, rows: i32 range 1..4096, wide: i32 range 1..4096)
  launch grid(cdiv(rows, 64)) block(64)
  par b in 0..cdiv(rows, 64) @ [block.x]
    reduce(+) s: f32 = 0.0 over t in 0..64 @ [thread.x 64]
      yield b * 64 + t < rows ? p[b * 64 + t] : 0.0
    atomic add g[0], s
"""
CHOSEN_BY_DATA = thread_a_row("    atomic add g[m[q] as i32], 1.0\n")
PLAIN = thread_a_row("    h[q] = p[q]\n")


def proposed(text: str, rows: int = 1000) -> list[str]:
    kernel = parse_kernel(text)
    seen = facts(kernel, {"rows": rows, "wide": 96})
    build = Builder(kernel)
    return [s for s, _, _ in repeated_updates(kernel, 100, (seen,), lambda steps: build.attempt(steps) is None)]


def test_column_sums_have_lanes_along_the_columns_and_threads_and_blocks_along_the_rows() -> None:
    atomic, tickets, alone = proposed(COLUMNS)
    assert tickets == (
        "normalise | reduce-atomics{loop=q} | map{z=[vec $V, thread.x $TX:(8,16,32,64), block.x]"
        " q=[unroll $U:(2,4,8), thread.y $TY:(4,8,16,32), block.y $P:(8,16,32,64), seq]}"
    )
    assert atomic == f"{tickets} | reduce-strategy{{loop=q strategy=atomic}}"
    assert "block.y" not in alone


def test_one_total_is_summed_by_resident_blocks() -> None:
    assert len(proposed(TOTAL)) == 2 and all("block.x $BLOCKS:(100,200,400,800)" in s for s in proposed(TOTAL))
    assert all("z=[vec $V, thread.x 32, seq]" in s and "q=[thread.y" in s for s in proposed(OF_ALL))


def test_sums_of_blocks_that_end_in_one_total_are_one_sum_in_wide_loads() -> None:
    first = proposed(OF_BLOCKS)[0]
    assert first.startswith("reduce-atomics{loop=b} | join-sums{loop=b width=1} | map{b=[vec $V, thread.x $T, unroll")


def test_sums_beside_other_work_are_those_of_a_block_s_rows() -> None:
    kept, rounds = proposed(BESIDE)
    assert kept.startswith("normalise | tile{loops=q sizes=$TILE:(4,8,16)} | reduce-atomics{loop=q} | map{")
    assert kept.endswith("row-cache{loop=z,y keep=loaded} where V * LANES * U >= 96 where V * LANES * (U - 1) < 96")
    assert "row-cache" not in rounds


@pytest.mark.parametrize("rows, sizes", [(1000, "4,8,16"), (8192, "8,16,32"), (65536, "32,64,128")])
def test_blocks_take_as_many_rows_as_leave_each_unit_several_blocks(rows: int, sizes: str) -> None:
    assert f"sizes=$TILE:({sizes})" in proposed(BESIDE, rows)[0]


def test_single_elements_are_swept_once() -> None:
    (fused,) = proposed(LOSS)
    assert "reduce-atomics{loop=q} | fuse{first=q} | map{q=[vec $V, thread.x $T" in fused


def test_what_is_no_repeated_update_is_left_alone() -> None:
    assert proposed(CHOSEN_BY_DATA) == [] and proposed(PLAIN) == []


@pytest.mark.parametrize("text", [COLUMNS, TOTAL, OF_ALL, BESIDE, LOSS])
def test_meaning_stays(text: str) -> None:
    kernel: Kernel = parse_kernel(text)
    for script in proposed(text):
        done = apply_script(kernel, parse_script(script))
        assert done.refused is None
        small = {"V": 1, "VSUM": 1, "T": 32, "TX": 8, "TY": 4, "P": 8, "BLOCKS": 100, "ROWS": 4, "LANES": 32,
                 "TILE": 8, "U": 3 if "(U - 1)" in script else 4}  # fmt: skip
        knobs = {k.name: small[k.name] for k in done.kernel.knobs}
        sizes = [{"rows": rows, "wide": wide} for rows, wide in ((1, 1), (9, 33), (13, 40))]
        assert differs(kernel, done.kernel, sizes, knobs=knobs) is None
