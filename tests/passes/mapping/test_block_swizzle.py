"""block-swizzle: another order of blocks, every tile once."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Decl
from ktc.ir.text import parse_kernel
from ktc.passes.mapping import block_swizzle
from tests.passes.checks import applied, body_of, differs, refused
from tests.passes.tile_sources import GEMM, GEMM_ODD, GEMM_SIZES, SIMPLE, STAGED

MANY = [{"M": m, "N": n, "K": 2} for m, n in ((1, 1), (4, 8), (13, 17), (21, 9), (9, 33))]


def test_before_and_after() -> None:
    text = body_of(applied(GEMM, "tile{loops=row,col sizes=4,8} | block-swizzle{loop=row_tile group=2}"))
    assert (
        text[text.index("  par block") : text.index("    par row")]
        == """\
  par block in 0..cdiv(M, 4) * cdiv(N, 8) @ [block.x]
    let first: i32 = block / (2 * cdiv(N, 8)) * 2
    let rows: i32 = min(2, cdiv(M, 4) - first)
    let row_tile: i32 = first + block % (2 * cdiv(N, 8)) % rows
    let col_tile: i32 = block % (2 * cdiv(N, 8)) / rows
"""
    )


@pytest.mark.parametrize("group", [1, 2, 8])
def test_every_tile_is_computed_once(group: int) -> None:
    k = applied(GEMM, f"{SIMPLE} | block-swizzle{{loop=row_tile group=$GROUP:1,2,8}}")
    assert differs(GEMM, k, [*MANY, *GEMM_ODD], knobs={"GROUP": group}) is None


def test_under_a_staged_product() -> None:
    assert differs(GEMM, applied(GEMM, f"{STAGED} | block-swizzle{{loop=row_tile group=2}}"), GEMM_SIZES) is None


HEAD = "kernel k(C: f32* restrict, M: i32)\n"


@pytest.mark.parametrize(
    ("source", "script", "code"),
    [
        (None, "block-swizzle{loop=row}", "E-SWIZZLE-NEST"),
        (None, "tile{loops=row sizes=4} | block-swizzle{loop=row_tile}", "E-SWIZZLE-NEST"),
        (None, "block-swizzle{loop=q}", "E-PLACE"),
        (
            HEAD + "  par a in 0..M @ [block.y]\n    par b in 0..a @ [block.x]\n      C[a * M + b] = 1.0\n",
            "block-swizzle{loop=a}",
            "E-SWIZZLE-RANGE",
        ),
        (
            HEAD + "  par a in 1..M @ [block.y]\n    par b in 0..M @ [block.x]\n      C[a * M + b] = 1.0\n",
            "block-swizzle{loop=a}",
            "E-SWIZZLE-RANGE",
        ),
    ],
)
def test_refusals(source: str | None, script: str, code: str) -> None:
    assert refused(parse_kernel(source) if source else GEMM, script).code == code


def test_a_last_band_of_full_height_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting that the last band may be lower: some tiles twice, others beyond the edge."""
    right = block_swizzle._swizzled

    def wrong(outer, group):
        import dataclasses

        new = right(outer, group)
        body = tuple(
            dataclasses.replace(s, init=group) if isinstance(s, Decl) and s.sym.name == "rows" else s for s in new.body
        )
        return dataclasses.replace(new, body=body)

    monkeypatch.setattr(block_swizzle, "_swizzled", wrong)
    k = applied(GEMM, f"{SIMPLE} | block-swizzle{{loop=row_tile group=4}}")
    assert differs(GEMM, k, MANY) is not None
