"""Ideas for sums of products: staged, pipelined tiles, by warpgroups and by warps where tensor cores take the type,
else by threads with tiles of their own in registers.

The names of loops and factors come from the product itself; tile shapes are those at which one instruction's
accumulators (a thread's sums) fill the registers of a thread without spilling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ktc.driver.printing import fragments_of
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.fragments import FRAGMENTS
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused
from ktc.passes.core.refusals import attempted
from ktc.passes.tensor.contractions import Product, product_of

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
    for s in walk(raised.body):
        p = attempted(product_of, raised, s) if isinstance(s, For) else None
        if p is None or isinstance(p, Refused):
            continue
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


@dataclass(frozen=True)
class ThreadTile:
    """Rows and columns of a block's tile, how its threads share them, and the terms of a step."""

    rows: int
    cols: int
    down: str
    across: str
    terms: int


BY_THREADS = (
    ThreadTile(128, 256, "vec 4, thread.y 16, unroll 2", "vec 4, thread.x 8, thread.z 2, unroll 4", 16),
    ThreadTile(64, 128, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 8, thread.z 2, unroll 2", 16),
    ThreadTile(96, 128, "vec 4, thread.y 8, unroll 3", "vec 4, thread.x 8, thread.z 2, unroll 2", 8),
    ThreadTile(64, 64, "vec 4, thread.y 8, thread.z 2", "vec 4, thread.x 8, unroll 2", 16),
    ThreadTile(32, 64, "vec 4, thread.y 8", "vec 4, thread.x 16", 32),
    ThreadTile(16, 32, "vec 2, thread.y 8", "vec 4, thread.x 8", 32),
)
"""Largest first, but for one that fills last waves; measured on products of 256 to 8192 rows (kernels/EXPERT.md)."""

STAGED = (
    "stage-shared{{array={a} loop={k} transpose=yes}} | stage-shared{{array={b} loop={k} vec=4}}"
    " | pad-shared{{array={a}_s by=4}}",
    "stage-shared{{array={a} loop={k}}} | stage-shared{{array={b} loop={k} vec=4}}",
    "stage-shared{{array={a} loop={k}}} | stage-shared{{array={b} loop={k}}}",
)  # fmt: skip
"""How the factors go through shared memory, best first: turned over so that a thread's rows are one access, or as they
are."""

AHEAD = (
    "async-copy{{loop={k}}} | multi-buffer{{loop={whole} stages=$STAGES:(2,3,4) issue=spread}}",
    "multi-buffer{{loop={whole} stages=2}}",
)
"""How the next step's tiles come while this one's are used: by copies of their own, or through registers."""


def staged_products(
    raised: Kernel, units: int, facts: Sequence[KernelFacts], applies: Callable[[str], bool]
) -> Iterator[tuple[str, str, float]]:
    """As :func:`tensor_products`, for products that no fragment takes: of each tile, the best staging that ``applies``.

    Tiles that give each of the ``units`` of the device a block come first, the largest of them at the head.
    """
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for s in walk(raised.body):
        p = attempted(product_of, raised, s, plain=True) if isinstance(s, For) else None
        if p is None or isinstance(p, Refused):
            continue
        row, col, term = p.rows.var.name, p.cols.var.name, p.loop.var.name
        whole = prod(trips.get(x.var.name) or 1024 for x in p.around)

        def starved(t: ThreadTile, whole: int = whole) -> bool:
            return whole < t.rows * t.cols * units

        fed = [t for t in BY_THREADS if not starved(t)]
        for t in (*fed, *reversed([t for t in BY_THREADS if starved(t)])):
            k = f"{p.loop.var.stem}_tile.*"
            names = {"a": p.a.buffer.name, "b": p.b.buffer.name, "k": k, "whole": f"{term}_tile"}
            tiles = (
                f"tile{{loops={row},{col} sizes={t.rows},{t.cols}}} | distribute{{loop={row} map=[seq]}}"
                f" | distribute{{loop={col} map=[seq]}} | distribute{{loop={row} map=[{t.down}]}}"
                f" | distribute{{loop={col} map=[{t.across}]}} | tile{{loops={term} sizes={t.terms} tail=cut}}"
                f" | register-tile{{loop={k}}}"
            )
            last = f"unroll{{loop={p.loop.var.stem}.* factor={t.terms}}} | launch-bounds{{blocks=$M:(1,2,3,4)}}"
            choices = (
                " | ".join((tiles, staged.format_map(names), ahead.format_map(names), last))
                for staged in STAGED
                for ahead in AHEAD
            )
            found = next((steps for steps in choices if applies(steps)), None)
            if found is None:
                break  # nor will it for other tiles
            yield found, "tiles in shared memory and registers: each value read is used by many threads", GAIN / 4
