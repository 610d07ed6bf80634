"""Rows that have to be gone along in their order: the planner's schedules, from structure alone."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder
from ktc.agent.embedded.ordered_rows import ordered_rows
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.passes.checks import differs

HEAD = """\
kernel k(q: f32* restrict, x: f32 const* restrict, wide: i32 range 1..64, rows: i32 range 1..64)
  par row in 0..rows @ [thread.x 64, block.x]
"""
ALONG = (
    f"{HEAD}    for t in 1..wide\n      q[row * 64 + t] = q[row * 64 + t - 1] * q[row * 64 + t - 1] + x[row * 64 + t]\n"
)
DOWN = ALONG.replace("row * 64 + t - 1", "t * 64 - 64 + row").replace("row * 64 + t", "t * 64 + row")
RUNNING = f"{HEAD}    var s: f32 = 0.0\n    for t in 0..wide\n      s += x[row * 64 + t]\n      q[row * 64 + t] = s\n"
EACH = f"{HEAD}    for t in 0..wide\n      q[row * 64 + t] = x[row * 64 + t]\n"
SMALL = "forward-stores{loop=t} | distribute{loop=row map=[thread.x $T:(32,64,128), block.x]}"


def proposed(text: str) -> list[str]:
    return [s for s, _, _ in ordered_rows(parse_kernel(text))]


def test_rows_are_staged_and_kept() -> None:
    staged, small = proposed(ALONG)
    assert staged == (
        "forward-stores{loop=t} | tile{loops=row sizes=$R:(16,32,64)}"
        " | distribute{loop=row map=[thread.x $R:(16,32,64)]} | tile{loops=t sizes=$C:(32,64,128)}"
        " | register-tile{loop=t_tile} | stage-rows{array=q loop=t rows=$TY:(4,8,16)}"
        " | stage-rows{array=x loop=t rows=$TY:(4,8,16)} | pad-shared{array=q_s by=1} | pad-shared{array=x_s by=1}"
        " | unroll{loop=t factor=$U:(2,4,8)}"
    )
    assert small == f"{SMALL} | unroll{{loop=t factor=$U:(2,4,8)}}"


def test_columns_lie_side_by_side_already() -> None:
    assert proposed(DOWN) == [f"{SMALL} | unroll{{loop=t factor=$U:(2,4,8)}}"]


@pytest.mark.parametrize("text", [RUNNING, EACH])
def test_what_needs_no_order_is_left_to_others(text: str) -> None:
    assert proposed(text) == []


@pytest.mark.parametrize("text", [ALONG, DOWN])
def test_meaning_stays(text: str) -> None:
    kernel = parse_kernel(text)
    for script in proposed(text):
        assert Builder(kernel).attempt(script) is None
        done = apply_script(kernel, parse_script(script)).kernel
        knobs = {"R": 16, "C": 32, "TY": 4, "T": 32, "U": 4}
        sizes = [{"wide": w, "rows": r} for w, r in ((1, 3), (33, 9), (64, 17))]
        assert differs(kernel, done, sizes, 4100, {k.name: knobs[k.name] for k in done.knobs}) is None
