"""tensorize by warpgroups: operands read from swizzled shared tiles, what lowering demands of them, wrong versions."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.interp import equivalent
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AsyncWait, Barrier, Expr, Fence, Load, Stmt, TileMma, TileMmaWait
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.memory import panel_shared, swizzle_shared, tile_pipeline
from tests.passes.checks import applied, refused
from tests.passes.tensor.test_tensorize import GEMM, arguments
from tests.paths import KERNELS

PIPELINE = (
    "tile{loops=row,col sizes=64,%d} | tile{loops=k sizes=64 tail=exact} | register-tile{loop=k_tile}"
    " | tensorize{loop=k fragment=m64n64k16_f16 warps=1,%d pairs=yes}"
    " | stage-shared{array=A loop=k_tile vec=8} | stage-shared{array=B loop=k_tile vec=8}"
    " | async-copy{loop=k_tile} | multi-buffer{loop=k_tile stages=2}"
)
LAYOUT = " | panel-shared{array=B_s} | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
SIZES = ((64, 64, 64), (72, 136, 128))


def mismatch(kernel: Kernel, sizes=SIZES) -> object:
    return equivalent(GEMM, kernel, [arguments(*s) for s in sizes])


def lowered(script: str) -> Kernel:
    return materialise(applied(GEMM, script))


def test_one_statement_a_tile() -> None:
    k = lowered(PIPELINE % (128, 2) + LAYOUT)
    tiles = [s for s in walk(k.body) if isinstance(s, TileMma)]
    assert [(t.a.name, t.b.name, t.depth, len(t.acc)) for t in tiles] == [("A_s", "B_s", 64, 32)]
    assert verify(k) == []
    assert canonical(parse_kernel(print_kernel(k))) == canonical(k)


def test_writes_are_fenced_for_the_proxy_before_every_barrier() -> None:
    flat = list(walk(lowered(PIPELINE % (64, 1) + LAYOUT).body))
    barriers = [i for i, s in enumerate(flat) if isinstance(s, Barrier)]
    assert barriers and all(flat[i - 1] == Fence("async") for i in barriers)


def test_meaning_on_edges_of_rows_and_columns() -> None:
    assert mismatch(lowered(PIPELINE % (128, 2) + LAYOUT)) is None


def test_code_for_hopper_alone() -> None:
    k = lowered(PIPELINE % (64, 1) + LAYOUT)
    text = emit(k, "cuda-sm90").text
    assert "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16" in text and "fence.proxy.async" in text
    for target in ("cuda-sm80", "cuda-sm100", "hip", "opencl"):
        with pytest.raises(Exception, match="E-BACKEND-"):
            emit(k, target)


@pytest.mark.parametrize(
    "script",
    [
        PIPELINE % (64, 1),
        PIPELINE % (64, 1) + " | panel-shared{array=B_s} | swizzle-shared{array=A_s}",
        PIPELINE % (128, 1) + " | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}",
        (PIPELINE % (64, 1)).replace("tail=exact", "tail=guard") + LAYOUT,
        (PIPELINE % (64, 1)).replace("sizes=64 tail", "sizes=32 tail") + " | swizzle-shared{array=A_s}",
        "tensorize{loop=k fragment=m64n64k16_f16 warps=1,1 repeat=1,1}",
    ],
    ids=["plain rows", "plain second", "no panels", "clipped k", "short rows", "global memory"],
)
def test_lowering_demands_the_layout(script: str) -> None:
    with pytest.raises(LoweringError, match="E-LOWER-MMA"):
        lowered(script)


# ---------------------------------------------------------------------------------------------- seeded wrong versions


def test_a_wrong_permutation_is_refused_or_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows counted two by two: the hardware would read other columns than were written."""
    monkeypatch.setattr(swizzle_shared, "LINE", 256)
    with pytest.raises(LoweringError, match="E-LOWER-MMA"):
        lowered(PIPELINE % (64, 1) + LAYOUT)


def test_a_copy_that_is_not_permuted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(kernel, old, new, index):
        def on(e):
            return dataclasses.replace(e, index=index(e.index)) if isinstance(e, Load) and e.buffer == old else e

        return kernel.with_(body=map_body(kernel.body, lambda s: s, on))

    monkeypatch.setattr(swizzle_shared, "with_array", read)
    assert mismatch(lowered(PIPELINE % (64, 1) + LAYOUT)) is not None


def test_a_stale_stage_is_caught() -> None:
    """A product that starts while its own tile is still in flight: one group too few is waited for."""

    def late(s: Stmt) -> Stmt:
        return dataclasses.replace(s, pending=1) if isinstance(s, AsyncWait) else s

    k = lowered(PIPELINE % (64, 1) + LAYOUT)
    assert mismatch(k.with_(body=map_body(k.body, late)), sizes=((64, 64, 192),)) is not None


def test_the_buffer_being_filled_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round reads and fills one buffer."""
    real = tile_pipeline._at
    monkeypatch.setattr(tile_pipeline, "_at", lambda body, new, slot: real(body, new, tile_pipeline.i32(0)))
    assert mismatch(lowered(PIPELINE % (64, 1) + LAYOUT), sizes=((64, 64, 192),)) is not None


# ------------------------------------------------------------------------------------------------- products in flight

REST = (PIPELINE % (128, 2)).replace("stages=2", "stages=4 slack=1") + LAYOUT


def test_a_product_runs_into_the_next_round_where_its_buffers_rest() -> None:
    k = lowered(REST)
    flat = list(walk(k.body))
    (tile,) = [s for s in flat if isinstance(s, TileMma)]
    assert tile.pending == 1 and tile.keep is not None and TileMmaWait(0) in flat
    assert verify(k) == []
    assert canonical(parse_kernel(print_kernel(k))) == canonical(k)
    text = emit(k, "cuda-sm90").text
    assert "k_tile != 0);" in text and "wgmma_wait<0>();" in text


def test_meaning_with_products_in_flight_and_without_any() -> None:
    assert mismatch(lowered(REST), sizes=((64, 64, 0), (72, 72, 448))) is None


def _in_flight(k: Kernel) -> list[tuple[int | Expr, bool]]:
    return [(s.pending, s.keep is not None) for s in walk(k.body) if isinstance(s, TileMma)]


def test_products_in_flight_in_a_loop_that_counts_tiles() -> None:
    """As a loop does that several were made one of: it is by one, and the buffer is what it counts."""
    head, loop, body = print_kernel(applied(GEMM, REST)).partition("for k_tile in 0..K step 64\n")
    body = re.sub(r"\bk_tile\b(?! / 64)", "k_tile * 64", body).replace("k_tile / 64", "k_tile")
    assert loop and "(k_tile + 2) % 4" in body
    k = materialise(parse_kernel(f"{head}for k_tile in 0..K / 64\n{body}"))
    assert _in_flight(k) == [(1, True)]
    assert mismatch(k, sizes=((64, 64, 0), (72, 72, 448))) is None


def test_sums_that_begin_with_something_else_are_in_flight_too() -> None:
    begun = parse_kernel(print_kernel(GEMM).replace("var acc: f32 = 0.0", "var acc: f32 = 1.5"))
    k = materialise(applied(begun, REST))
    assert _in_flight(k) == [(1, False)]
    assert equivalent(begun, k, [arguments(64, 64, 0), arguments(72, 72, 448)]) is None
    body = map_body(k.body, lambda s: None if isinstance(s, TileMmaWait) else s)
    assert equivalent(begun, k.with_(body=body), [arguments(64, 64, 192)]) is not None


@pytest.mark.parametrize("stages", ["stages=4", "stages=3"])
def test_a_product_is_waited_for_where_the_next_round_fills_its_buffer(stages: str) -> None:
    k = lowered(REST.replace("stages=4 slack=1", stages))
    assert [s.pending for s in walk(k.body) if isinstance(s, TileMma)] == [0]


def test_a_product_in_flight_over_a_buffer_being_filled_is_caught() -> None:
    def hasty(s: Stmt) -> Stmt | tuple[Stmt, ...]:
        return dataclasses.replace(s, pending=1) if isinstance(s, TileMma) else s

    k = lowered((PIPELINE % (64, 1)).replace("stages=2", "stages=3") + LAYOUT)
    body = (*map_body(k.body, hasty),)
    assert mismatch(k.with_(body=body), sizes=((64, 64, 320),)) is not None


def test_sums_used_before_the_wait_are_caught() -> None:
    k = lowered(REST)
    body = map_body(k.body, lambda s: None if isinstance(s, TileMmaWait) else s)
    assert mismatch(k.with_(body=body), sizes=((64, 64, 192),)) is not None


def test_slack_takes_a_buffer() -> None:
    bad = refused(GEMM, (PIPELINE % (64, 1)).replace("stages=2", "stages=2 slack=1"))
    assert bad.code == "E-BUFFER-STAGES"


# -------------------------------------------------------------------------------------------------------- panel-shared

TILE = parse_kernel("""\
kernel t(out: f32* restrict, in: f32 const* restrict)
  par b in 0..2 @ [block.x]
    array tile: shared f32[8, 32]
    par i in 0..8 @ [thread.y 8]
      par j in 0..32 @ [thread.x 32]
        tile[i, j] = in[b * 256 + i * 32 + j]
    par i in 0..8 @ [thread.y 8]
      par j in 0..32 @ [thread.x 32]
        out[b * 256 + i * 32 + j] = tile[7 - i, 31 - j]
""")


def panels(kernel: Kernel) -> object:
    rng = np.random.default_rng(0)
    args = {"out": np.zeros(512, np.float32), "in": rng.integers(-9, 9, 512).astype(np.float32)}
    return equivalent(TILE, kernel, [args]) or equivalent(TILE, materialise(kernel), [args])


def test_panels_before_and_after() -> None:
    k = applied(TILE, "panel-shared{array=tile width=8}")
    text = print_kernel(k)
    assert "array tile: shared f32[32 / 8, 8, 8]" in text or "array tile: shared f32[4, 8, 8]" in text
    assert "tile[j / 8, i, j % 8] = " in text and "= tile[(31 - j_1) / 8, 7 - i_1, (31 - j_1) % 8]" in text
    assert panels(k) is None


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("panel-shared{array=out}", "E-PANEL-ARRAY"),
        ("panel-shared{array=tile width=12}", "E-PANEL-WIDTH"),
        ("panel-shared{array=tile width=0}", "E-PANEL-WIDTH"),
        ("panel-shared{array=q}", "E-PLACE"),
    ],
)
def test_panel_refusals(script: str, code: str) -> None:
    assert refused(TILE, script).code == code


def test_an_access_across_panels_is_refused() -> None:
    text = print_kernel(TILE).replace("= tile[7 - i_1, 31 - j_1]", "= lane(tile[7 - i_1, j_1 +: 2], 0)")
    assert refused(parse_kernel(text), "panel-shared{array=tile width=8}").code == "E-PANEL-ACCESS"


def test_panels_that_readers_do_not_follow_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = panel_shared.binary
    monkeypatch.setattr(panel_shared, "binary", lambda op, a, b: b if op == "%" else real(op, a, b))
    with pytest.raises(Exception):  # noqa: B017 (out of bounds, or a wrong value)
        assert panels(applied(TILE, "panel-shared{array=tile width=8}")) is None


# ------------------------------------------------------------------------------------------------ the library's scripts

LIBRARY = KERNELS / "dense" / "hgemm"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("expert", ("wgmma.mma_async", "cp.async.bulk.tensor", "__launch_bounds__(384, 1)")),
        ("expert-narrow", ("m64n192k16", "cp.async.bulk.tensor", "empty[5]")),
        ("expert-small-1024", ("m64n128k16", "cp.async.bulk.tensor", "__launch_bounds__(256, 1)")),
        ("expert-small-wide", ("m64n192k16", "cp.async.bulk.tensor", "empty[7]")),
        ("expert-cp-async", ("wgmma.mma_async", "cp_async<16>", "cp_async_wait<1>")),
        ("expert-mma-producer", ("mma.sync.aligned", "cp.async.bulk.tensor", "setmaxnreg.inc")),
        ("expert-mma", ("mma.sync.aligned", "cp_async<16>", "cp_async_wait<3>")),
    ],
)
def test_scripts_of_hgemm(script: str, said: tuple[str, ...]) -> None:
    from ktc.ir.workload import Workload

    naive = Workload.load(LIBRARY).load_kernel(None)
    done = apply_script(naive, parse_script((LIBRARY / f"{script}.ktp").read_text()))
    assert done.refused is None
    k = materialise(done.kernel)
    text = emit(k, "cuda").text
    assert all(x in text for x in said)
    assert verify(k) == []
