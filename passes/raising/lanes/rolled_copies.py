"""Iterations that do the same for several rows or columns, as one iteration for each.

before (two rows a thread)                      after
    par i in 0..m / 2 @ [thread.y 8]                par row in 0..m @ [unroll 2, thread.y 8]
      var a: f32 = 0.0                                var s: f32 = 0.0
      var b: f32 = 0.0                                for k in 0..n
      for k in 0..n                                     s += x[row * n + k] * z[k]
        a += x[i * 2 * n + k] * z[k]                  y[row] = s
        b += x[(i * 2 + 1) * n + k] * z[k]
      y[i * 2] = a
      y[i * 2 + 1] = b

What experts keep in registers by hand (tiles of 8 x 8 results) is then a level of a loop, which passes choose anew.
Nothing is proven here: the forms are guesses for raising to check.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import suppress

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import i32, is_const, mul
from ktc.ir.nodes import Atomic, Body, Decl, If, Level, Par, Reduce, Scan, Stmt, Store
from ktc.ir.types import I32, Ptr, Scalar
from ktc.ir.walk import substitute, walk, with_bodies
from ktc.passes.raising.normalise.merge import rewritten

from .lane_loops import band_of, bounds_inside
from .rolled import Rolled
from .scalar_lanes import Effect, Item, Lanes, Nested, NotLanes
from .wide_accesses import has_wide

MOST_COPIES = 16
"""Rows or columns of an iteration."""


def rolled_copies(body: Body) -> Body:
    """``body`` with each nest of parallel loops over single rows and columns, as far as they are alike."""
    return tuple(_rolled(s) for s in body)


def _rolled(s: Stmt) -> Stmt:
    if not isinstance(s, Par):
        return with_bodies(s, rolled_copies)
    band = band_of(s)
    if any(isinstance(x, Par | Reduce | Scan) for x in walk(band[-1].body)):
        return with_bodies(s, rolled_copies)
    done = True
    while done:
        done = False
        for k in range(len(band) - 1, -1, -1):
            with suppress(NotLanes):
                if bounds_inside(band, k):
                    raise NotLanes("the ends of loops inside depend on it")
                loop = _single(dataclasses.replace(band[k], body=band[-1].body))
                band[-1] = dataclasses.replace(band[-1], body=loop.body)
                band[k] = dataclasses.replace(loop, body=band[-1].body)
                done = True
                break
    nest = band[-1]
    for p in reversed(band[:-1]):
        nest = dataclasses.replace(p, body=(nest,))
    return nest


def _single(loop: Par) -> Par:
    """``loop`` with a row or column an iteration.

    Raises:
        NotLanes: its iterations are no copies.
    """
    if not is_const(loop.lo, 0) or loop.var.type != I32:
        raise NotLanes("a loop that does not begin with the first")
    if any(map(has_wide, walk(loop.body))):
        raise NotLanes("vectors are lanes of their own")
    if not any(isinstance(s, Store | Atomic) and isinstance(s.buffer.type, Ptr) for s in walk(loop.body)):
        raise NotLanes("nothing is done with rows or columns of memory")
    lanes = Lanes().run(_without_names(loop.body))
    why = NotLanes("one copy")
    for count in _counts(lanes.items):
        try:
            return _by(loop, lanes, count)
        except NotLanes as e:
            why = e
    raise why


def _without_names(body: Body) -> Body:
    """``body`` with what its integers stand for in their place."""
    mine = {s.sym for s in body if isinstance(s, Decl) and isinstance(s.sym.type, Scalar) and s.sym.type.is_int}
    known = {v: e for v, e in definitions(body).items() if v in mine}
    rest = tuple(s for s in body if not (isinstance(s, Decl) and s.sym in known))
    return substitute(rest, {v: expand(e, known) for v, e in known.items()})


def _counts(items: list[Item]) -> list[int]:
    """How many copies there may be: parts of the number of effects, the most first."""
    n = sum(1 for _ in _effects(items))
    return [k for k in range(min(n, MOST_COPIES), 1, -1) if n % k == 0]


def _effects(items: list[Item]) -> Iterator[Effect]:
    for s in items:
        if isinstance(s, Effect):
            yield s
        elif isinstance(s, Nested):
            yield from _effects(s.items)


def _by(loop: Par, lanes: Lanes, count: int) -> Par:
    rolled = Rolled(lanes, count, apart=loop.var)
    rolled.effects()
    given = rolled.conditions()
    body = rolled.body()
    for c in reversed(given):
        body = (If(c, body),)
    found = rewritten(body, rolled.lane, loop.var, i32(count), loop.var.name)
    if found is None:
        raise NotLanes("rows or columns are not next to each other")
    w, body = found
    dist = (Level("unroll", i32(count)), *loop.dist)
    hi = from_polynomial(polynomial(mul(loop.hi, i32(count))), I32)
    return dataclasses.replace(loop, var=w, hi=hi, dist=dist, body=body)


__all__ = ["rolled_copies"]
