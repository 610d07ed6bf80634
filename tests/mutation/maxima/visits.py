"""Loops that take a maximum over elements: which elements they visit, whatever the order and however often.

A nest of loops around ``m = max(m, f(e))``, where ``f`` hangs on the loops through one sum ``e`` of their variables
alone, gives the maximum over the set of values of ``e``. Where the first values are numbers and a thread's index, the
steps numbers, and only the outermost loop has no end that is known, that set is periodic: some offsets, repeated every
so many elements, below a bound.

Two such nests are the same for every thread if their sets are. If only the union over the threads of a block is the
same, they are where the rest of the kernel cannot tell the threads' maxima from the largest of all (:func:`combined`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ktc.ir.analysis.uniformity import Uniformity, uniformity, varies_itself
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Expr, For, Load, Return, Sym, Var
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import all_exprs, assigned, declared, walk, walk_expr
from tests.mutation.symbolic.effort import Lost
from tests.mutation.symbolic.lockstep import Run
from tests.mutation.symbolic.symbolic import blocks
from tests.mutation.symbolic.terms import Terms
from tests.mutation.zeros.cells import shape
from tests.mutation.zeros.formats import NONE, formats

from .forwarded import forwarded
from .nests import MOST, Reader, Visits
from .rows import Row, row_of

SAME, COVERED = "one maximum of the same elements", "one maximum over the block, of the same elements"


def same_visits(s: For, t: For, kernel: Kernel) -> str:
    """Why the nests ``s``, of ``kernel``, and ``t`` leave the same maximum, or the same ones for each of several rows;
    '' if that is not shown."""
    one, other = forwarded(s), forwarded(t)
    mine = row_of(one)
    theirs = row_of(other, mine.into) if mine is not None else None
    if mine is None or theirs is None:
        return _same(s, one, other, kernel, None)
    rows = [(r.array, r.guards, r.copy.var, r.copy.init, r.copy.cond, r.copy.step) for r in (mine, theirs)]
    return _same(s, forwarded(mine.nest), forwarded(theirs.nest), kernel, mine) if rows[0] == rows[1] else ""


def _same(nest: For, s: For, t: For, kernel: Kernel, row: Row | None) -> str:
    """Why ``s`` and ``t``, of which the first is the ``nest`` of ``kernel`` for any one ``row``, leave the same."""
    one, other = (Reader(kernel, x).visits() for x in (s, t))
    if one is None or other is None:
        return ""
    if replace(one, offsets=other.offsets, stride=other.stride, thread=other.thread) != other:
        return ""
    if one.thread == other.thread and _alike(one, other):
        return SAME
    around = _around(kernel.body, nest)
    threads = next((b.count for b in blocks(kernel, kernel.body) if b.extents and b.extents[1:] == (1, 1)), 0)
    if min(one.thread, other.thread) < 0 or not threads or around is None:
        return ""
    facts = uniformity(kernel)
    if facts.is_divergent(nest) or any(isinstance(x, Return) for x in walk(kernel.body)):
        return ""
    changed = assigned((s,)) - set(one.value.lanes)
    parts = [*_parts(one), *(e for guard in (row.guards if row else ()) for e in walk_expr(guard))]
    if any(varies_itself(e, facts.varying) or (isinstance(e, Var) and e.sym in changed) for e in parts):
        return ""  # what an element gives hangs on who visits it
    if not all(_lasts(x, nest, kernel, facts) for x in _loaded(s)):
        return ""
    wide = (
        replace(v, offsets=frozenset(o + v.thread * k for o in v.offsets for k in range(threads))) for v in (one, other)
    )
    return COVERED if _alike(*wide) and combined(one, kernel, around, nest, row) else ""


def _loaded(s: For) -> set[Sym]:
    return {e.buffer for x in walk((s,)) for e in all_exprs((x,)) if isinstance(e, Load)}


def _lasts(buffer: Sym, nest: For, kernel: Kernel, facts: Uniformity) -> bool:
    """Whether all threads of a block find the same in ``buffer`` all through ``nest``: nobody writes it, or each has
    one of its own with the same in it."""
    t = buffer.type
    own = isinstance(t, Array) and t.space != "shared" and buffer not in facts.varying | assigned((nest,))
    return own or buffer not in assigned(kernel.body)


def _around(body: Body, nest: For) -> Body | None:
    """The body that ``nest`` itself stands in, the kernel's or one that whole blocks run round a loop."""
    if any(x is nest for x in body):
        return body
    inside = (_around(x.body, nest) for x in body if isinstance(x, For))
    return next((found for found in inside if found is not None), None)


def _alike(a: Visits, b: Visits) -> bool:
    """Whether both visit the same elements, were there no bound: from their last offset on, both are periodic."""
    period = math.lcm(a.stride, b.stride)
    end = max(*a.offsets, *b.offsets) + period
    if end > MOST:
        return False
    visited = np.zeros((2, end), bool)
    for row, v in zip(visited, (a, b)):
        for o in v.offsets:
            row[o :: v.stride] = True
    return bool((visited[0] == visited[1]).all())


def combined(visits: Visits, kernel: Kernel, body: Body, nest: For, row: Row | None = None) -> bool:
    """Whether what follows ``nest`` in ``body``, which all threads of a block of ``kernel`` run together, does the same
    if every thread finds the largest of all threads' maxima in its own."""
    known, fn = formats(kernel), visits.fn
    cells = _cells(row, kernel)
    if cells is None:
        return False
    sym = row.array if row is not None else visits.into
    outlives = {s for s in assigned(body) if isinstance(s.type, Ptr)}
    if body is not kernel.body:
        outlives |= assigned(body) - set(declared(body))
    at = next(k for k, s in enumerate(body) if s is nest)
    for threads in blocks(kernel, kernel.body):
        if threads.extents is None:
            continue
        terms, left = Terms("reassociates" in kernel.flags), []
        everyone = dict.fromkeys(range(threads.count), terms.const(True, "bool"))
        try:
            for together in (False, True):
                run = Run(terms, kernel, known, threads)
                run.body(body[:at], everyone)
                for cell in cells:
                    own = [terms.opaque(known.get(sym, NONE), "visited", sym, cell, k) for k in everyone]
                    largest = functools.reduce(functools.partial(terms.extreme, fn), own)
                    for k in everyone:
                        run.give(sym, cell, k, largest if together else own[k])
                run.body(body[at + 1 :], everyone)
                left.append(run.summary(outlives))
        except Lost:
            continue
        if left[0] == left[1]:
            return True
    return False


def _cells(row: Row | None, kernel: Kernel) -> list[int | None] | None:
    """The elements of the array that has one maximum for each row; None for a variable that has the only one."""
    if row is None:
        return [None]
    reader = Reader(kernel, row.copy)
    reader.loops[row.copy.var] = row.copy
    found = reader.counting(row.copy)
    size = shape(row.array.type, kernel) if isinstance(row.array.type, Array) else ()
    inside = found is not None and all(0 <= k < n for k in found for n in size)
    return list(found) if inside and found is not None and size else None


def _parts(v: Visits) -> Iterator[Expr]:
    """All expressions that an element, its value and the bound are made of."""
    yield from walk_expr(v.value.text)
    forms = [v.bound, v.first, *(f for _, _, fixed, _ in v.value.subscripts for f in fixed)]
    yield from (x for f in forms for e, _ in f for x in walk_expr(e))


__all__ = ["same_visits"]
