"""Sums of products on a CPU: a few rows of the result in the first cache, their columns innermost.

    par row_tile: par col_tile:                       tasks
      acc[R, C] = 0
      for k_tile in 0..K step U:                      each trip reads U rows of the right factor, C elements of each
        par row (R together): par col: U terms        R * U factors in registers, R * U products per U + R vectors

What moves by one element along the columns is read in vectors, once for all R rows; what moves along the rows is one
number for a whole row. Where the right factor moves by one element along the sum instead (``x * W^T``), a tile of it is
turned over on the way into an array of the task (packing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load, Par
from ktc.passes.tensor.contractions import Product, products

from .ideas import Idea
from .thread_products import layout_of

if TYPE_CHECKING:
    from .cpu_nests import Cores

GAIN = 30.0
"""What tiles give over a sum a result, to order of magnitude: it only ranks the ideas."""

ROWS, TERMS = (4, 8), (2, 4, 8)
"""Rows that run together and terms of a trip: with four of each, sixteen factors and what is read stay in the vector
registers of AVX-512; with AVX2's half of these some are read again from the first cache."""

PACKED_TERMS = (64, 128, 256)
"""Terms of a packed tile: enough to read whole cache lines of the factor that is turned over."""


def cache_products(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """Steps for each product of ``kernel``, of the elements' own type or of narrower ones."""
    seen = set()
    for p in (*products(kernel, plain=True), *products(kernel)):
        if p.loop.var in seen or p.around[-2:] not in ((p.rows, p.cols), (p.cols, p.rows)):
            continue
        seen.add(p.loop.var)
        layout = layout_of(kernel, p)
        along = _unit_factor(kernel, p, layout.across)
        if along is None:
            continue
        turn = f"interchange{{outer={layout.across.var.name}}} | " if p.around[-1] is layout.down else ""
        yield from _schedules(p, layout.down, layout.across, turn, cores, facts)


def _unit_factor(kernel: Kernel, p: Product, across: Par) -> Load | None:
    """The factor that moves by one element along ``across``; None if none does."""
    for x in (p.a, p.b):
        mine = [a for a in accesses(kernel) if a.buffer == x.buffer and any(y.stmt is p.loop for y in a.axes)]
        if mine and all(a.pattern(across.var.name) == "unit" for a in mine):
            return x
    return None


def _schedules(
    p: Product, down: Par, across: Par, turn: str, cores: Cores, facts: Sequence[KernelFacts]
) -> Iterator[Idea]:
    i, j, k, stem = down.var.name, across.var.name, p.loop.var.name, p.loop.var.stem
    trips = {x.name: x.trip for f in facts for x in f.loops}
    columns = widths(trips.get(j), cores)
    rows, terms = (",".join(map(str, x)) for x in (ROWS, TERMS))
    tiles = (
        f"{turn}tile{{loops={i},{j} sizes=$R:({rows}),$C:({columns})}} | tile{{loops={k} sizes=$U:({terms}) tail=cut}}"
        f" | register-tile{{loop={stem}_tile.*}} | map{{{i}.*=[unroll $R, seq] {j}.*=[seq]}}"
        f" | unroll{{loop={k} factor=$U}}"
    )
    yield tiles, "rows of the result beside each other in the first cache, columns innermost", GAIN


def widths(trip: int | None, cores: Cores) -> str:
    """Columns of a tile: those whose results fit half of the first cache for the rows that run together, and a quarter
    and four times as many, as far as there are any."""
    middle = 1 << (cores.first_cache // 2 // 4 // ROWS[0]).bit_length() - 1
    found = [n for n in (middle // 4, middle, middle * 4) if trip is None or n < 2 * trip] or [middle // 4]
    return ",".join(map(str, found))


__all__ = ["cache_products", "widths"]
