"""Attention as a thread (or several, or a block) a row writes it: one sweep over the keys, several rows a block.

    par row: reduce(max) over keys of a dot product, sums of exponentials below it times rows of values

A block takes a tile of rows, :mod:`.row_tiles` says by which threads; keys and values come by tiles that lie in shared
memory for all rows, the next one's copies under way. Where a row's length is a parameter it is bound: what a thread
keeps of a row are registers, and so a number that the text knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.planner_facts import KernelFacts, facts
from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, For, Load, Par, Reduce, Stmt, bodies
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import all_exprs, used, walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.places import find_loop, place_of
from ktc.passes.core.refusals import Refused
from ktc.passes.lowering.value_facts import ACCESS_BYTES
from ktc.passes.shared.tiles import paths

from ..nest_shapes import Idea
from ..trials import after, wherever
from .row_tiles import RowTile, row_tiles

Able = Callable[[str], bool]

GAIN = 20.0
"""To order of magnitude: a thread a row waits for memory in each of its terms."""

TILES_TRIED = 3
"""Ways to share rows that are proposed, the fastest by count first."""

KEYS = 4
"""Positions of a step."""

TILE, STAGES, SHARED_BYTES = (32, 16, 8, 4), 2, 48 << 10
"""Positions of a tile, the most that ``STAGES`` tiles of keys and values leave room for."""

FAST = " | fast-math{fns=exp,div}"
"""An exponential and a quotient for each score are as much as the products of 16 elements."""


@dataclass(frozen=True)
class Attention:
    """One softmax: the loop that finds or keeps its maximum, the loop over rows that a thread has, and the loops over
    a row's elements with their length."""

    keys: For | Reduce
    rows: Par
    along: tuple[Par | Reduce, ...]
    length: Expr


def online_softmaxes(raised: Kernel, units: int, seen: Sequence[KernelFacts], able: Able) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``seen``: facts of ``raised`` at the sizes tuned for."""
    for before, kernel in _forms(raised):
        for site in PASSES["online-softmax"].sites(kernel):
            found = attention(kernel, str(site.step.kwargs["loop"]))
            for f in seen if found is not None else ():
                assert found is not None
                yield from islice(_ideas(kernel, before, found, units, f, able), TILES_TRIED)


def _forms(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """``raised`` as sweeps of parallel loops, each with the steps that lead to it: without the scores that a block
    keeps of its row, where it does, and as it is."""
    normal = after(raised, "normalise")
    before, kernel = ("", raised) if normal is None else ("normalise | ", normal)
    computed, again = wherever(kernel, "rematerialize")
    if computed:
        yield before + computed, again
    yield before, kernel


def attention(kernel: Kernel, loop: str) -> Attention | None:
    """What the softmax of ``loop`` looks like; None where rows are no loop over threads, and no loop over blocks that
    read the same keys, or their elements are no loops of one length."""
    keys = find_loop(kernel, loop)
    if isinstance(keys, Refused) or not isinstance(keys, For | Reduce):
        return None
    path = next(p for p in paths(kernel.body) if p[-1] is keys)
    around = [s for s in path[:-1] if isinstance(s, Par)]
    threads = [s for s in around if any(lv.kind != "block" for lv in s.dist)]
    if not around or len(around) != len(path) - 1 or threads not in ([], around[-1:]):
        return None
    rows = around[-1]
    along = tuple(_elements(rows.body, keys))
    lengths = {s.hi for s in along if is_const(s.lo, 0)}
    if len(lengths) != 1 or not all(is_const(s.lo, 0) for s in along):
        return None
    found = Attention(keys, rows, along, lengths.pop())
    return found if threads or _shared_rows(found) else None


def _elements(body: Sequence[Stmt], keys: For | Reduce) -> Iterator[Par | Reduce]:
    """The loops in ``body`` that are not over positions: those that stand in no other parallel loop once loops over
    positions are taken away."""
    for s in body:
        if isinstance(s, Par | Reduce) and s.var.stem != keys.var.stem and s is not keys:
            yield s
        else:
            for b in bodies(s):
                yield from _elements(b, keys)


def _ideas(kernel: Kernel, before: str, a: Attention, units: int, f: KernelFacts, able: Able) -> Iterator[Idea]:
    """Of each way to share rows, the best that is ``able``."""
    sizes = {n: v for n, v in f.sizes.items() if isinstance(v, int)}
    length = evaluate(a.length, sizes)
    if not isinstance(length, int):
        return
    bound = " ".join(
        f"{s.name}={sizes[s.name]}" for s in sorted(used(a.length), key=lambda s: s.name) if s.name in sizes
    )
    special = f"specialize{{{bound}}} | " if bound else ""
    loops = {x.name: x for x in facts(kernel, f.sizes).loops}
    trips = [loops[s.var.name].trip or 1 for s in _around(kernel, a.rows) if s.var.name in loops]
    count, outer = trips[-1], math.prod(trips[:-1])
    inner = _stems(kernel, a.along)
    if inner is None:
        return
    rows, keys = a.rows.var.name, place_of(kernel, a.keys)
    staged = _shared_rows(a)
    least = min((x for _, x in _read(a)), default=ACCESS_BYTES)
    for t in row_tiles(length, least, count, outer, units):
        lanes = " ".join(f"{n}.*=[{t.lane_levels}]" for n in inner)
        before_sweep = f"{before}{special}tile{{loops={rows} sizes={t.block_rows}}}"
        spread = f"map{{{rows}=[{t.row_levels}] {lanes}}}"
        found = next((s for s in _sweeps(before_sweep, spread, keys, a, staged, t) if able(s)), None)
        if found is not None:
            yield found, "one sweep over the keys: rows in registers, keys and values in shared memory", GAIN


def _stems(kernel: Kernel, along: Sequence[Par | Reduce]) -> list[str] | None:
    """What the source calls the loops, if it calls no other so; None if it does. Those inside of them compute scores
    again, which one sweep does not."""
    mine = {s.var for s in walk(tuple(along)) if isinstance(s, For | Par | Reduce)}
    stems = dict.fromkeys(s.var.stem for s in along)
    others = (s for s in walk(kernel.body) if isinstance(s, For | Par | Reduce) and s.var not in mine)
    return None if any(s.var.stem in stems for s in others) else list(stems)


def _sweeps(
    before: str, spread: str, keys: str, a: Attention, staged: Sequence[tuple[str, int]], t: RowTile
) -> Iterator[str]:
    """What is tried of one way to share rows, best first."""
    bytes_each = sum(n * t.length for _, n in staged)
    tile = next((n for n in TILE if staged and STAGES * n * bytes_each <= SHARED_BYTES), 0)
    stem = a.keys.var.name
    if tile:
        sweep = f"online-softmax{{loop={keys} keys={KEYS} tile={tile}}}"
        shared = f"{before} | {sweep} | {spread} | register-tile{{loop={stem}_tile}}" + "".join(
            f" | stage-shared{{array={name} loop={stem}_tile vec={ACCESS_BYTES // n}}}" for name, n in staged
        )
        ahead = f" | async-copy{{loop={stem}_tile}} | multi-buffer{{loop={stem}_tile stages={STAGES}}}"
        yield f"{shared}{ahead}{FAST}"
        yield f"{shared}{FAST}"
        yield shared
    if t.rows == 1:
        alone = f"{before} | online-softmax{{loop={keys} keys={KEYS} tile={KEYS}}} | {spread}"
        yield f"{alone}{FAST}"
        yield alone


def _around(kernel: Kernel, rows: Par) -> list[Par]:
    path = next(p for p in paths(kernel.body) if p[-1] is rows)
    return [s for s in path if isinstance(s, Par)]


def _read(a: Attention) -> list[tuple[Load, int]]:
    """What the loops over a row's elements read from global memory, with the bytes of an element."""
    loads = (e for e in all_exprs(a.along) if isinstance(e, Load) and isinstance(e.buffer.type, Ptr))
    return [(e, scalar_of(e.type).bytes) for e in loads]


def _shared_rows(a: Attention) -> list[tuple[str, int]]:
    """The arrays that positions move along and rows do not: what all rows of a block read."""
    positions = {s.var for s in walk(a.rows.body) if isinstance(s, For | Reduce) and s.var.stem == a.keys.var.stem}
    named = definitions(a.rows.body)
    mine = [(e.buffer.name, n, {x for i in e.index for x in used(expand(i, named))}) for e, n in _read(a)]
    return list(dict.fromkeys((name, n) for name, n, at in mine if at & positions and a.rows.var not in at))


__all__ = ["attention", "online_softmaxes"]
