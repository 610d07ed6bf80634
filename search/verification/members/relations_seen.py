"""Whether members of a family show what does not hold for the candidate's sizes.

A candidate may rely on a relation between a size and a number that its own sizes do not have: that 256 threads are
enough for a row of 1000, that 32 divides it. It is right for smaller sizes that have it by accident. So of each such
relation that fails for the candidate one member has to fail it too.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Const, Decl, Expr, For
from ktc.ir.types import Array
from ktc.ir.walk import walk, walk_expr
from ktc.ir.workload import Workload, size_expressions
from ktc.ir.workload.reference import names as names_in

from .template import numbers

SMALL = 16
"""Numbers up to which several may be factors of one tile: vectors and copies of a thread's work."""

LARGEST_TILE = 1 << 15
"""Elements of the largest tile that is a product of several numbers."""

MOST_PRODUCTS = 512

Values = tuple[int, ...]
"""A quantity of the candidate, and of each member."""

AT_MOST = "is at most"

RELATIONS: dict[str, Callable[[int, int], bool]] = {
    AT_MOST: lambda size, tile: size <= tile,
    "is at least": lambda size, tile: size >= tile,
    "is a multiple of": lambda size, tile: size % tile == 0,
}


@dataclass(frozen=True)
class Unseen:
    """That ``extent``, elements along some dimensions, is ``value`` here, and for all members in the ``relation`` to
    ``tile`` that it is not in here."""

    extent: tuple[str, ...]
    value: int
    relation: str
    tile: Values

    def __str__(self) -> str:
        what = " * ".join(self.extent)
        return (
            f"{what} {self.relation} {self.tile[0]} in all that could be run (there {self.tile[1:]}), here {self.value}"
        )


def unseen_relation(kernels: Sequence[Kernel], sizes: Sequence[Mapping[str, int]], workload: Workload) -> Unseen | None:
    """A relation that fails for the first kernel, the candidate, and for none of the others.

    ``sizes``: those that each kernel binds.
    """
    extents = _extents(workload, sizes)
    single = {n for what, n in extents.items() if len(what) == 1}
    for what, n in extents.items():
        for tile in sorted(_tiles(kernels) | single):
            for name, holds in RELATIONS.items():
                if not holds(n[0], tile[0]) and all(t < 1 or holds(v, t) for v, t in zip(n[1:], tile[1:])):
                    return Unseen(what, n[0], name, tile)
    return None


def _extents(workload: Workload, sizes: Sequence[Mapping[str, int]]) -> dict[tuple[str, ...], Values]:
    """Elements of arrays along a dimension, all up to one and all from one on, as far as bound sizes decide them."""
    bound = set(sizes[0])
    found: dict[tuple[str, ...], Values] = {}
    for a in workload.args:
        dims = a.shape if a.role != "scalar" else ()
        ends = range(1, len(dims) + 1)
        for part in (*((e,) for e in dims), *(dims[:k] for k in ends), *(dims[-k:] for k in ends)):
            if all(names_in(e) for e in part) and all(set(names_in(e)) <= bound for e in part):
                every = (math.prod(int(size_expressions.evaluate(e, s)) for e in part) for s in sizes)
                found.setdefault(tuple(part), tuple(every))
    return found


def _tiles(kernels: Sequence[Kernel]) -> set[Values]:
    """Numbers of the kernels; what a block may take at once, products of its threads, of knobs and of how often loops
    go round; and threads of the grid."""
    every = {v for v in zip(*(_whole(k) for k in kernels), strict=True) if v[0] > 1}
    counts = {v for v in zip(*map(_counts, kernels), strict=True) if 1 < v[0] <= SMALL}
    small = {v for v in counts if len(set(v)) == 1}
    blocks, grids = _launched(kernels, "block"), _launched(kernels, "grid")
    threads = _products({*blocks, *_knobs(kernels), *small}, len(kernels))
    along = [_times(b, g) for b, g in zip(blocks, grids)]
    launched = {*along, *(_times(a, b) for a, b in itertools.combinations(along, 2)), functools.reduce(_times, along)}
    copied = {_times(t, c) for t in threads for c in counts - small}  # as many as a size has tiles
    return every | threads | launched | copied | {_times(t, c) for t in launched for c in small}


def _products(factors: set[Values], count: int) -> set[Values]:
    products: set[Values] = {(1,) * count}
    for f in sorted(factors, reverse=True):
        products |= {p for q in products if (p := _times(q, f))[0] <= LARGEST_TILE}
        if len(products) > MOST_PRODUCTS:
            break
    return {p for p in products if p[0] > 1}


def _times(a: Values, b: Values) -> Values:
    return tuple(map(operator.mul, a, b))


def _whole(kernel: Kernel) -> list[int]:
    return [n if isinstance(n, int) else 0 for n in numbers(kernel)]


def _counts(kernel: Kernel) -> list[int]:
    """Whole numbers that say how often a loop goes round, or how many elements an array has."""
    found: list[Expr] = []
    for s in walk(kernel.body):
        if isinstance(s, For):
            found.append(s.cond)
        elif isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array):
            found += s.sym.type.shape
    every = (x for e in found for x in walk_expr(e) if isinstance(x, Const))
    return [int(x.value) if isinstance(x.value, int) else 0 for x in every]


def _launched(kernels: Sequence[Kernel], which: str) -> list[Values]:
    """Blocks of a grid, or threads of a block, along each axis, as far as they are known."""
    found = []
    for axis in range(3):
        values = [evaluate(getattr(k.launch, which)[axis], k.knob_values) for k in kernels]
        found.append(tuple(v if isinstance(v, int) else 1 for v in values))
    return found


def _knobs(kernels: Sequence[Kernel]) -> Iterator[Values]:
    for name, value in kernels[0].knob_values.items():
        if value > 1:
            yield tuple(k.knob_values[name] for k in kernels)


__all__ = ["AT_MOST", "Unseen", "unseen_relation"]
