"""Ideas for sums of products that tensor cores take: staged, pipelined tiles, by warpgroups and by warps.

The names of loops and factors come from the product itself; tile shapes are those at which one instruction's
accumulators (a thread's sums) fill the registers of a thread without spilling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktc.driver.printing import fragments_of
from ktc.ir.fragments import FRAGMENTS
from ktc.ir.kernel import Kernel
from ktc.passes.tensor.contractions import Product, products

GAIN = 20.0
"""What tensor cores give over one element a thread, to order of magnitude: it only ranks the ideas."""


@dataclass(frozen=True)
class Tile:
    """Rows and columns of a block's tile, terms of a step, warps (warpgroups) along rows and columns, stages."""

    rows: int
    cols: int
    terms: int
    warps: tuple[int, int]
    stages: str


BY_WARPGROUPS = (
    Tile(128, 256, 64, (2, 2), "$STAGES:(3,4)"),
    Tile(128, 128, 64, (2, 1), "$STAGES:(3,4)"),
    Tile(64, 128, 64, (1, 1), "$STAGES:(3,4)"),
)
BY_WARPS = (Tile(128, 128, 32, (2, 2), "$STAGES:(3,4,5)"), Tile(64, 64, 64, (2, 2), "$STAGES:(3,4)"))


def tensor_products(raised: Kernel, profile: str) -> Iterator[tuple[str, str, float]]:
    """(steps after raise, reason, expected gain) for each product of ``raised`` that ``profile`` has a fragment for."""
    known = fragments_of(profile)
    for p in products(raised):
        wide = f"m64n128k16_{p.a.type}"
        if wide in known:
            for t in BY_WARPGROUPS:
                yield _steps(p, t, "exact", f"fragment={wide} "), "tensor cores: warpgroups read shared tiles", GAIN
        if f"m16n8k16_{p.a.type}" in known and p.a.type == FRAGMENTS[f"m16n8k16_{p.a.type}"].operand:
            for t in BY_WARPS:
                yield _steps(p, t, "cut", ""), "tensor cores: warps load fragments from shared tiles", GAIN / 2


def _steps(p: Product, t: Tile, tail: str, fragment: str) -> str:
    a, b = p.a.buffer.name, p.b.buffer.name
    term, whole = p.loop.var.name, f"{p.loop.var.name}_tile"
    k, terms = (whole, term) if tail == "exact" else (f"{p.loop.var.stem}_tile.*", f"{p.loop.var.stem}.*")
    panels = f" | panel-shared{{array={b}_s}}" if fragment else ""
    return (
        f"tile{{loops={p.rows.var.name},{p.cols.var.name} sizes={t.rows},{t.cols}}}"
        f" | tile{{loops={term} sizes={t.terms} tail={tail}}} | register-tile{{loop={k}}}"
        f" | tensorize{{loop={terms} {fragment}warps={t.warps[0]},{t.warps[1]} pairs=yes}}"
        f" | stage-shared{{array={a} loop={k} vec=8}} | stage-shared{{array={b} loop={k} vec=8}}"
        f" | async-copy{{loop={whole}}} | multi-buffer{{loop={whole} stages={t.stages}}}{panels}"
        f" | swizzle-shared{{array={a}_s}} | swizzle-shared{{array={b}_s}}"
    )
