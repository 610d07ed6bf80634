"""Sums of products on a CPU: a few rows of the result in the first cache, their columns innermost.

    par row_tile: par col_tile:                       tasks
      acc[R, C] = 0
      for k_tile in 0..K step U:                      each trip reads U rows of the right factor, C elements of each
        par row (R together): par col: U terms        R * U factors in registers, R * U products per U + R vectors

or, with the results of a smaller tile in registers for all of a tile of the sum (BLIS: Van Zee, van de Geijn, 2015):

    par row_tile: par col_tile: for k_tile:           a tile of the right factor, packed: in the core's cache
      par 4 rows together: par 16 columns together:
        acc[4, 16] from the tile's results
        for k: acc += 4 factors * 2 vectors           8 products of vectors, and 6 loads; no store
        acc to the tile's results

Where the right factor is too large to be read from the last cache for each few rows, more rows share a tile of it that
stays in the core's own cache (panels; Goto, van de Geijn: Anatomy of high-performance matrix multiplication, 2008).

What moves by one element along the columns is read in vectors, once for all R rows; what moves along the rows is one
number for a whole row. Where the right factor moves by one element along the sum instead (``x * W^T``), a tile of it is
turned over on the way into an array of the task (packing).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Load, Par, Stmt, Sym
from ktc.ir.walk import used, walk
from ktc.passes.core.places import place_of
from ktc.passes.shared.tiles import paths
from ktc.passes.tensor.contractions import Product, products

from ..nest_shapes import Idea
from ..thread_products import layout_of, runs_along
from ..trials import after

if TYPE_CHECKING:
    from .cpu_nests import Cores

GAIN = 30.0
"""What tiles give over a sum a result, to order of magnitude: it only ranks the ideas."""

ROWS, TERMS = (4, 8), (2, 4, 8)
"""Rows that run together and terms of a trip: with four of each, sixteen factors and what is read stay in the vector
registers of AVX-512; with AVX2's half of these some are read again from the first cache."""

BLOCK_ROWS, BLOCK_COLUMNS, BLOCK_TERMS = (64, 128), (32, 64), (128, 256)
"""Rows and columns of a task's results, and its terms, where a smaller tile is in registers: 16 to 64 KB of the right
factor, packed, which all of the rows go through; so many that packing it takes a tenth of the time or less."""

PANEL_ROWS, PANEL_COLUMNS, PANEL_TERMS = (32, 64, 128), (128, 256, 512), (128, 256)
"""Rows and columns of a panel's results, and its terms: the middle ones are 64 KB of results and as much of the factor
that is read for each few rows, in a cache of half a megabyte or more; twice and half as much."""

FAR = 4
"""The part of the last cache beyond which the right factor is no longer read from it for every few rows."""


def cache_products(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """Steps for each product of ``kernel``, of the elements' own type or of narrower ones."""
    seen = set()
    trips = {x.name: x.trip or 1024 for f in facts for x in f.loops}
    for p in (*products(kernel, plain=True), *products(kernel)):
        if p.loop.var in seen or p.around[-2:] not in ((p.rows, p.cols), (p.cols, p.rows)):
            continue
        seen.add(p.loop.var)
        layout = layout_of(kernel, p)
        turn = f"interchange{{outer={layout.across.var.name}}} | " if p.around[-1] is layout.down else ""
        nest = Nest(p, layout.down, layout.across, turn)
        unit = _unit_factor(kernel, p, layout.across)
        other = next((x for x in (p.a, p.b) if runs_along(kernel, p, x) and layout.across.var in used_of(x)), None)
        if unit is not None:
            right = unit.type.bytes * trips.get(p.loop.var.name, 1024) * trips.get(layout.across.var.name, 1024)  # type: ignore[attr-defined]
            yield from nest.blocks(kernel, trips, cores, unit)
            ideas = [nest.rows(trips, cores), *nest.panels(kernel, trips, cores)]
            yield from ideas if FAR * right <= cores.last_cache else ideas[::-1]
        elif other is not None:
            yield from nest.panels(kernel, trips, cores, other)
            yield from nest.blocks(kernel, trips, cores, other, " transpose=yes")


def used_of(x: Load) -> set[Sym]:
    """The variables of the subscripts of ``x``."""
    return {v for i in x.index for v in used(i)}


@dataclass(frozen=True)
class Nest:
    """A product with its loop over rows of the result and that over what lies side by side in them; ``turn``: steps by
    which the first is outside."""

    product: Product
    down: Par
    across: Par
    turn: str

    def rows(self, trips: Mapping[str, int], cores: Cores) -> Idea:
        """A few whole rows a task, as far as a tile reaches."""
        i, j = self.down.var.name, self.across.var.name
        k, stem = self.product.loop.var.name, self.product.loop.var.stem
        sizes = f"$R:({_listed(ROWS)}),$C:({widths(trips.get(j), cores)})"
        steps = (
            f"{self.turn}tile{{loops={i},{j} sizes={sizes}}} | tile{{loops={k} sizes=$U:({_listed(TERMS)}) tail=cut}}"
            f" | register-tile{{loop={stem}_tile.*}} | map{{{i}.*=[unroll $R, seq] {j}.*=[seq]}}"
            f" | unroll{{loop={k} factor=$U}}"
        )
        return steps, "rows of the result beside each other in the first cache, columns innermost", GAIN

    def blocks(
        self, kernel: Kernel, trips: Mapping[str, int], cores: Cores, packed: Load, turned: str = ""
    ) -> Iterator[Idea]:
        """Results of a few rows and columns in registers for a whole tile of the sum, over a packed tile of the factor
        ``packed``; ``turned``: how to copy it if it runs along the sum."""
        i, j, k = self.down.var.name, self.across.var.name, self.product.loop.var.name
        most = max(BLOCK_ROWS[0], trips.get(i, 1024) // cores.count)
        rows = _listed(r for r in BLOCK_ROWS if r <= most)
        steps = (
            f"{self.turn}tile{{loops={i},{j} sizes=$R:({rows}),$C:({_listed(BLOCK_COLUMNS)})}}"
            f" | tile{{loops={k} sizes=$K:({_listed(BLOCK_TERMS)})}} | register-tile{{loop={k}_tile}}"
            f" | stage-shared{{array={packed.buffer.name} loop={k}_tile copy=rows fill=none{turned}}}"
        )
        tiled = after(kernel, steps)
        around = _around(tiled, self.product.loop.var.stem) if tiled is not None else None
        if tiled is None or around is None:
            return
        down, across, term = (place_of(tiled, s) for s in around)
        sizes = f"{ROWS[0]},{together(cores, ROWS[0])}"
        yield (
            f"{steps} | tile{{loops={down},{across} sizes={sizes}}} | promote{{loop={term}}}"
            f" | register-tile{{loop={term}}} | map{{{i}.*=[seq] {j}.*=[seq]}}",
            "a tile of results in registers, and one of the right factor packed in a core's own cache",
            GAIN,
        )

    def panels(
        self, kernel: Kernel, trips: Mapping[str, int], cores: Cores, packed: Load | None = None
    ) -> Iterator[Idea]:
        """Panels of many rows: a tile of the right factor stays in a core's own cache for all of them; ``packed``: it
        is turned over on the way into an array of the task."""
        i, j, k = self.down.var.name, self.across.var.name, self.product.loop.var.name
        most = max(PANEL_ROWS[0], trips.get(i, 1024) // cores.count)
        rows = _listed(r for r in PANEL_ROWS if r <= most)
        sizes = f"$R:({rows}),$C:({_listed(PANEL_COLUMNS)})"
        pack = f" | stage-shared{{array={packed.buffer.name} loop={k}_tile transpose=yes}}" if packed else ""
        steps = (
            f"{self.turn}tile{{loops={i},{j} sizes={sizes}}} | tile{{loops={k} sizes=$K:({_listed(PANEL_TERMS)})}}"
            f" | register-tile{{loop={k}_tile}}{pack} | map{{{i}.*=[unroll {ROWS[0]}, seq] {j}.*=[seq]}}"
            f" | tile{{loops={k} sizes=4 tail=cut}}"
        )
        for step in (self._apart, self._outside, self._outside):
            more = step(after(kernel, steps))
            if not more:
                return
            steps = f"{steps} | {more}"
        why = "panels in a core's own cache" + (", the factor that runs along the sum packed" if packed else "")
        yield f"{steps} | unroll{{loop={k} factor=4}}", why, GAIN

    def _apart(self, tiled: Kernel | None) -> str:
        """The step that parts whole steps of the sum from what is left of them."""
        both = (s for s in self._columns(tiled) if len(s.body) == 2)
        return next((f"fission{{loop={place_of(tiled, s)} at=1}}" for s in both if tiled is not None), "")

    def _outside(self, tiled: Kernel | None) -> str:
        """The step by which the next of the loops over steps goes outside the columns."""
        inside = (s for s in self._columns(tiled) if len(s.body) == 1 and isinstance(s.body[0], For))
        return next((f"interchange{{outer={place_of(tiled, s)}}}" for s in inside if _steps(s.body[0]) and tiled), "")

    def _columns(self, tiled: Kernel | None) -> list[Par]:
        """The loops over columns of a tile."""
        found = walk(tiled.body) if tiled is not None else ()
        return [s for s in found if isinstance(s, Par) and s.var.stem == self.across.var.stem]


def _around(tiled: Kernel, stem: str) -> tuple[Par, Par, For] | None:
    """The innermost loop over the terms ``stem``, and the two parallel ones right around it; None if there are not."""
    for path in paths(tiled.body):
        if len(path) > 2 and isinstance(loop := path[-1], For) and loop.var.stem == stem:
            down, across = path[-3:-1]
            if isinstance(down, Par) and isinstance(across, Par):
                return down, across, loop
    return None


def together(cores: Cores, rows: int) -> int:
    """Columns whose results for ``rows`` rows fit the vector registers, beside a row of the factor and one element of
    the other: a power of two."""
    vectors = (cores.vector_registers - 1) // (rows + 1)
    return cores.vector_bits // 32 * (1 << vectors.bit_length() - 1)


def _steps(s: Stmt) -> bool:
    """Whether ``s`` is a loop over steps, with the terms of each inside."""
    return isinstance(s, For) and len(s.body) == 1 and isinstance(s.body[0], For)


def _listed(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


def _unit_factor(kernel: Kernel, p: Product, across: Par) -> Load | None:
    """The factor that moves by one element along ``across``; None if none does."""
    for x in (p.a, p.b):
        mine = [a for a in accesses(kernel) if a.buffer == x.buffer and any(y.stmt is p.loop for y in a.axes)]
        if mine and all(a.pattern(across.var.name) == "unit" for a in mine):
            return x
    return None


def widths(trip: int | None, cores: Cores) -> str:
    """Columns of a tile: those whose results fit an eighth of the first cache for the rows that run together, and half
    as many. More of them are up to a third faster at some sizes, and too many for the ladder: no instance that it can
    afford has a whole tile."""
    most = 1 << (cores.first_cache // 8 // 4 // ROWS[0]).bit_length() - 1
    return _listed([n for n in (most // 2, most) if trip is None or n < 2 * trip] or [most // 2])


__all__ = ["cache_products", "together", "widths"]
