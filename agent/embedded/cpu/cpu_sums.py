"""Sums on a CPU that no loop inside a task adds up in the order in which memory lies: columns, everything, counts.

    par j: for i: s += x[i, j]        neighbours of j are side by side, those of i a row apart

Each task takes a part of the rows (``rfactor``) and walks over them with the sums of a tile of columns beside it; where
a part of the columns is enough for each task, it goes over all rows of these alone. So are sums of everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Reduce, Stmt, bodies
from ktc.ir.walk import walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.named_loops import loops
from ktc.passes.core.places import place_of
from ktc.passes.tensor.contractions import products

from ..nest_shapes import Idea
from ..trials import after, wherever

if TYPE_CHECKING:
    from .cpu_nests import Cores

COLUMNS_GAIN, SUM_GAIN = 20.0, 10.0
"""What they give over walking a column, and over one task, to order of magnitude."""


def parts(cores: Cores) -> str:
    """Parts of a sum: as many as cores, and a few times as many, so that none waits long for the others."""
    return ",".join(str(cores.count * k) for k in (1, 4, 16))


def column_tasks(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """Serial loops over what is a row apart, inside a parallel one over what is side by side."""
    trips = {x.name: x.trip for f in facts for x in f.loops}
    tiled = {p.loop.var for p in (*products(kernel, plain=True), *products(kernel))}
    for outer, inner in (x for x in _crossed(kernel) if x[1].var not in tiled):
        j, i = place_of(kernel, outer), place_of(kernel, inner)
        n = trips.get(j) or TILE
        size = f"$C:({','.join(str(w) for w in (TILE // 4, TILE) if w < 2 * n or w == TILE // 4)})"
        first = f"rfactor{{loop={i} parts=$P:({parts(cores)})}}"
        tile, last = f"tile{{loops={j} sizes={size}}}", f"register-tile{{loop={i}}}"
        parted = after(kernel, first)
        rest = _second(parted, outer) if parted is not None else ""
        if rest:
            levels = f"map{{{j}=[seq] {rest}=[seq {size}, block.{_axis(outer)}]}}"
            steps = f"{first} | {tile} | {levels} | {last}"
            yield steps, "each task walks over its rows, the sums of columns beside it", COLUMNS_GAIN
            several = (
                f"{first} | {tile} | tile{{loops={i} sizes={ROWS} tail=cut}} | {levels} | "
                f"register-tile{{loop={i}_tile.*}} | unroll{{loop={i} factor={ROWS}}}"
            )
            if after(kernel, several) is not None:
                why = "the same, some rows at a time: more of memory is on its way, sums are loaded less often"
                yield several, why, COLUMNS_GAIN
        yield f"{tile} | map{{{j}=[seq]}} | {last}", "each task walks over the rows of its columns", COLUMNS_GAIN / 2


TILE = 4096
"""Columns whose sums a task keeps, at most: 16 KB of them in the first cache."""

ROWS = "$U:(2,4)"
"""Rows that a task adds to its sums at a time."""


def part_sums(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """One sum over everything, however it was spread over blocks."""
    for site in PASSES["split-reduction"].sites(kernel):
        name = site.step.kwargs["loop"]
        loop = next((s for s in loops(kernel) if place_of(kernel, s) == name), None)
        if isinstance(loop, Reduce):
            yield f"rfactor{{loop={name} parts=$P:({parts(cores)})}}", "a part of the sum for each task", SUM_GAIN
    for site in PASSES["rfactor"].sites(kernel):
        if not any(isinstance(s, Par) for s in kernel.body):
            name = site.step.kwargs["loop"]
            yield f"rfactor{{loop={name} parts=$P:({parts(cores)})}}", "a part of the sum for each task", SUM_GAIN


def task_counts(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """Elements that the data choose are updated in an array of each task; a source that does so by blocks is first
    taken back to one loop over everything."""
    before, whole = "", kernel
    for name in ("unprivatize-atomics", "collapse"):
        more, whole = wherever(whole, name)
        before += more
    for site in PASSES["rfactor-atomics"].sites(whole):
        steps = str(site.step).replace("$PARTS", f"$P:({parts(cores)})")
        yield f"{before}{steps}", "each task counts for itself", SUM_GAIN


def _crossed(kernel: Kernel) -> Iterator[tuple[Par, For]]:
    """Each serial loop directly inside a parallel one along which most of what both move is side by side."""
    found = accesses(kernel)
    for p in (s for s in walk(kernel.body) if isinstance(s, Par)):
        for f in (s for s in p.body if isinstance(s, For)):
            mine = [a for a in found if a.space == "global" and {id(p), id(f)} <= {id(x.stmt) for x in a.axes}]
            both = [a for a in mine if a.moves(p.var.name) and a.moves(f.var.name)]
            side = [a for a in both if a.pattern(p.var.name) == "unit"]
            if both and 2 * len(side) > len(both) and not any(_loops(s) for s in f.body):
                yield p, f


def _loops(s: Stmt) -> bool:
    return bool(bodies(s)) and isinstance(s, For | Par | Reduce)


def _second(parted: Kernel, outer: Par) -> str:
    """The loop that brings the parts of the sums over ``outer`` together, by name."""
    last = parted.body[-1]
    return place_of(parted, last) if isinstance(last, Par) and last.var.stem == outer.var.stem else ""


def _axis(p: Par) -> str:
    return next((lv.axis or "x" for lv in p.dist if lv.kind == "block"), "x")


__all__ = ["column_tasks", "part_sums", "task_counts"]
