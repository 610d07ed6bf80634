"""Sizes that fill blocks exactly, that give a launch of many idle blocks a third row of them, that are broad: mutants
that nothing else shows, each of which was accepted once."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.search.verification import verify
from ktc.search.verification.instances.filled import filled
from ktc.search.verification.instances.instances import LAUNCHED, MAX_ELEMENTS, Maker
from tests.mutation.subjects import Subject, replayed

TEMPORAL = ("stencil/jacobi2d", "raise | temporal-block{steps=3 tile=$TI,$TJ}")
TILED = (
    "stencil/hotspot",
    "raise | tile{loops=row,col sizes=$TROW,$TCOL} | unroll-and-jam{loop=row factor=$B:2,4}"
    " | persistent{loop=col_tile blocks=$GRID} [TROW=16 TCOL=16 B=2 GRID=256]",
)
PEELED = ("serving/rmsnorm", "raise | peel{loop=block_x first=2}")
SHARED_OUT = (
    "serving/merge_attn_states",
    "raise | distribute{loop=i map=[vec $V, thread.x $T, unroll $U, seq]} | persistent{loop=head_idx blocks=$GRID}"
    " | unroll{loop=token_idx factor=$U} [V=4 T=1024 U=4 GRID=2048]",
)

MANY_IDLE = (
    "stencil/heat3d",
    "coarsen{at=block.z factor=$C} | raise | persistent{loop=y blocks=$GRID} [C=2 GRID=2048]",
)
DEEP = ("stencil/heat3d", "raise | temporal-block{steps=3 tile=$TZ,$TY,$TX} [TZ=26 TY=2 TX=2]")
THICK = ("stencil/heat3d", "raise | temporal-block{steps=3 tile=$TZ,$TY,$TX} [TZ=116 TY=32 TX=4]")
DEEP_THREADS = ("dense/transpose", "raise | distribute{loop=row map=[seq 64, unroll 64, thread.y] tail=guard}")
FOR_Z = "let z: i32 = (block_z + c * cdiv((nz {}) / 2, $C) as u32)"

WRONG = {
    "tiles begin a row too early": (TEMPORAL, "let y0: i32 = 1 +", "let y0: i32 = 0 +"),
    "and a column": (TEMPORAL, "let x0: i32 = 1 +", "let x0: i32 = 0 +"),
    "a third row of blocks": (TILED, "for row in row_tile * $TROW +", "for row in row_tile % 2 * $TROW +"),
    "a row behind those that were peeled": (PEELED, "sum_sq += sum_sq_warp[w]", "sum_sq += f32(f16(sum_sq_warp[w]))"),
    "one axis of three has few sizes that fit": (MANY_IDLE, FOR_Z.format("+ 1"), FOR_Z.format("+ 0")),
    "the fifth block along an outer size": (DEEP, "for z_t_3 in tid_z..", "for z_t_3 in z_tile.."),
    "a tile that cannot be afforded full along each axis": (THICK, "let y0: i32 = 1 +", "let y0: i32 = 0 +"),
    "the fourth block of such": (THICK, "for z_t_2 in tid_z..", "for z_t_2 in z_tile.."),
    "a second thread of a block": (DEEP_THREADS, "threadIdx.y as i32 * 4096 + s", "threadIdx.y as i32 + s"),
    "rows that are not there": (SHARED_OUT, "if token_idx + u_4 < num_tokens", "if u_4 < num_tokens"),
}


def made(script: tuple[str, str]) -> Subject:
    return replayed(script[0], "f32" if script is SHARED_OUT else None, script[1])


LONG = {"the fourth block of such"}
"""Those that take longer than all others together: of the second tier."""


@pytest.mark.parametrize("what", [pytest.param(w, marks=pytest.mark.campaign if w in LONG else ()) for w in WRONG])
def test_the_sizes_that_show_it_are_tried(what: str) -> None:
    script, old, new = WRONG[what]
    good = made(script)
    text = print_kernel(good.candidate)
    assert old in text
    mutant = parse_kernel(new.join(text.rsplit(old, 1)))
    verdict = verify(good.original, mutant, good.workload, variant=good.variant)
    assert verdict.status == "REJECTED", verdict.reason


def test_a_tile_behind_a_border_is_full_with_the_border() -> None:
    good = made(TEMPORAL)
    tiles = [tuple(s.values()) for s in filled(Maker((good.original, good.candidate), good.workload, MAX_ELEMENTS))]
    assert tiles == [(62, 62), (63, 63), (122, 122)]


def test_a_condition_that_earlier_ones_settle_is_no_doubt() -> None:
    """``z_t >= 3 && (whole || z >= 1)``: of the last sweep's elements all are behind the border."""
    tiles = "raise | temporal-block{steps=3 tile=$TZ,$TY,$TX} [TZ=4 TY=8 TX=32]"
    good = replayed("stencil/heat3d", None, tiles)
    verdict = verify(good.original, good.candidate, good.workload)
    assert verdict.status == "TESTED", verdict.reason


def test_nothing_is_full_where_every_element_is_a_block() -> None:
    good = replayed("serving/rope", None, "raise")
    assert not list(filled(Maker((good.original, good.candidate), good.workload, MAX_ELEMENTS)))


def test_no_launch_is_larger_than_what_can_be_run() -> None:
    good = made(SHARED_OUT)
    maker = Maker((good.original, good.candidate), good.workload, 1 << 40)
    blocks = LAUNCHED // (2048 * 1024)
    assert maker.make({"n": 4 * blocks, "h": 1, "d": 4}) is not None
    assert maker.make({"n": 4 * blocks + 1, "h": 1, "d": 4}) is None
