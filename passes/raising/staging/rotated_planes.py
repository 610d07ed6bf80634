"""Planes in shared memory that a block moves on from iteration to iteration, filled from global memory in each of them.

before                                                  after
    if (in) plane[2][y][x] = a[at];                         for (z = 0; z < m; ++z) {
    for (z = 0; z < m; ++z) {                                 if (in) {
      if (in) {                                                 if (z >= 1) plane0[y][x] = a[at + (z - 1) * n];
        plane[0][y][x] = plane[1][y][x];                        plane1[y][x] = a[at + z * n];
        plane[1][y][x] = plane[2][y][x];                        plane2[y][x] = a[at + (z + 1) * n];
        plane[2][y][x] = a[at + (z + 1) * n];                 }
      }                                                       barrier; ..
      barrier; ..

Each cell is a variable of the thread that moves it, and known by what it was loaded from
(:mod:`ktc.passes.loops.carried_values`); the planes are arrays of their own then, which :mod:`.destage` knows. A guess
like all of this package: that no other thread writes a cell in between, and that a guard comes out alike before and in
the loop, is for the exact comparison with the source to find.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from ktc.ir.fold import binary, evaluate, plus_number
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Assign, Barrier, Body, Const, Decl, Expr, For, If, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.storage import is_shared
from ktc.ir.types import BOOL, Array, Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    loads_in,
    map_body,
    map_expr,
    used,
    used_in,
    walk,
    with_bodies,
)
from ktc.passes.core.refusals import Result, attempted
from ktc.passes.loops.carried_values import Carried, after, as_one_load, by_step, carried_values
from ktc.passes.loops.unrotate import unrotated
from ktc.passes.loops.unwritten import why_written
from ktc.passes.raising.normalise.flags import flags_in_place
from ktc.passes.raising.normalise.nests import closed_forms
from ktc.passes.raising.normalise.straight import straightened
from ktc.passes.shared.array_elements import with_elements_apart

from .flat_planes import by_plane
from .plain_counts import counted_by_all, with_choices, without_common_names
from .ring_planes import in_each_iteration

Cell = tuple[Sym, tuple[Expr, ...]]
"""One element of a shared array, by the index that a thread writes it with."""

ALWAYS = Const(True, BOOL)
"""The guard of what all threads do."""


def filled_planes(kernel: Kernel, body: Body) -> Body:
    """``body``, a form of ``kernel`` for threads, with rotated planes filled in each iteration; the same object where
    there are none."""
    arrays = _shared_numbers(body)
    if not arrays:
        return body
    apart = with_elements_apart(kernel.with_(body=body)).body
    plain = counted_by_all(without_common_names(flags_in_place(straightened(with_choices(apart)))))
    plain = straightened(counted_by_all(closed_forms(plain)))
    again = in_each_iteration(_from_memory(kernel, plain), arrays)
    shaped = by_plane(again, arrays)
    arrays = _shared_numbers(shaped)
    filled = _in_list(kernel.with_(body=shaped), shaped, arrays)
    return body if filled == shaped and again == plain else _planes_apart(filled, arrays)


def _shared_numbers(body: Body) -> set[Sym]:
    """The shared arrays of ``body`` whose elements are numbers, no structures, and moved one by one: a cell is a
    variable of a thread."""
    arrays = (s.sym for s in walk(body) if isinstance(s, Alloc) and is_shared(s.sym))
    wide = {x.buffer for x in (*walk(body), *all_exprs(body)) if isinstance(x, Load | Store) and x.width != 1}
    return {b for b in arrays if isinstance(b.type, Array) and isinstance(b.type.elem, Scalar)} - wide


# ----------------------------------------------------------------------------------------------------------- filling


def _from_memory(kernel: Kernel, body: Body) -> Body:
    """``body`` with what its threads hand on in registers loaded again: a plane may be filled from them."""
    now = kernel.with_(body=body)
    for var in [s.var for s in walk(now.body) if isinstance(s, For)]:
        loop = next((s for s in walk(now.body) if isinstance(s, For) and s.var == var), None)
        done = None if loop is None else attempted(unrotated, now, loop)
        now = done.kernel if isinstance(done, Result) else now
    return now.body


@dataclass(frozen=True)
class _Group:
    """What threads do under one guard in each iteration, and the cells that they fill in all of them."""

    body: If
    cells: frozenset[Cell]


def _in_list(kernel: Kernel, body: Body, arrays: Collection[Sym]) -> Body:
    """``body`` with the loops that rotate cells of ``arrays`` filling them."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For) and any(isinstance(x, Barrier) for x in s.body):
            s = dataclasses.replace(s, body=_guarded(s, arrays))
            groups = {id(x): _filled(kernel, tuple(out), s, x, arrays) for x in s.body if _is_group(x, arrays)}
            inner = (groups[id(x)].body if id(x) in groups else x for x in s.body)
            s = dataclasses.replace(s, body=tuple(y for x in inner for y in _unguarded(x)))
            out = [y for x in out for y in _without_cells(x, list(groups.values()))]
        elif isinstance(s, For | If):
            s = with_bodies(s, lambda b: _in_list(kernel, b, arrays))
        out.append(s)
    return tuple(out)


def _is_group(s: Stmt, arrays: Collection[Sym]) -> TypeGuard[If]:
    return isinstance(s, If) and not s.orelse and any(isinstance(x, Store) and x.buffer in arrays for x in walk(s.then))


def _guarded(loop: For, arrays: Collection[Sym]) -> Body:
    """The body of ``loop``, what all threads store to ``arrays`` in a row under a guard that always holds."""
    moving = assigned(loop.body) | set(declared(loop.body)) | {loop.var}
    out: list[Stmt] = []
    for s in loop.body:
        stores = all(isinstance(x, If) or (isinstance(x, Store) and x.buffer in arrays) for x in walk((s,)))
        if not stores or (isinstance(s, If) and not used(s.cond) & moving):
            out.append(s)
        elif out and isinstance(last := out[-1], If) and last.cond == ALWAYS:
            out[-1] = dataclasses.replace(last, then=(*last.then, s))
        else:
            out.append(If(ALWAYS, (s,), ()))
    return tuple(out)


def _unguarded(s: Stmt) -> Body:
    return s.then if isinstance(s, If) and s.cond == ALWAYS else (s,)


def _without_cells(s: Stmt, groups: Sequence[_Group]) -> Body:
    """``s``, in front of the loop, without what it stores to cells that the loop fills."""
    cond = s.cond if isinstance(s, If) else ALWAYS
    gone = {c for g in groups if g.body.cond == cond for c in g.cells}

    def kept(x: Stmt) -> bool:
        return not (isinstance(x, Store) and (x.buffer, x.index) in gone)

    if isinstance(s, If):
        return (dataclasses.replace(s, then=tuple(filter(kept, s.then))),)
    return (s,) if kept(s) else ()


def _filled(kernel: Kernel, before: Body, loop: For, group: If, arrays: Collection[Sym]) -> _Group:
    """What is under the guard of ``group``, with values from global memory for all cells that it moves."""
    stores = (s for s in walk(group.then) if isinstance(s, Store) and s.buffer in arrays)
    cells = {(s.buffer, s.index): fresh("cell", _element(s.buffer)) for s in stores}
    start = tuple(x for s in before for x in (s.then if isinstance(s, If) and s.cond == group.cond else (s,)))
    first = (*(Decl(v, None) for v in cells.values()), *_on_cells(start, cells))
    inner = _on_cells(group.then, cells)
    names = tuple(s for s in loop.body if isinstance(s, Decl | Assign))
    view = dataclasses.replace(loop, body=(*names, *inner))
    found, _ = carried_values(kernel.with_(body=(*first, view)), view, first, from_the_first=False)
    held = {v: found[v] for v in cells.values() if v in found and _lasts(found[v], kernel)}
    then = _stores(group.then, inner, loop, {v: c for c, v in cells.items()}, held)
    return _Group(dataclasses.replace(group, then=then), frozenset(c for c, v in cells.items() if v in held))


def _lasts(c: Carried, kernel: Kernel) -> bool:
    """Whether ``kernel`` writes nothing of what ``c`` was loaded from."""
    why = why_written(kernel)
    return not any(why(x.buffer) for e in (c.later, *c.first) if e is not None for x in loads_in(e))


def _stores(then: Body, inner: Body, loop: For, cells: Mapping[Sym, Cell], held: Mapping[Sym, Carried]) -> Body:
    """The statements ``then``, which are ``inner`` where cells are variables, with what is known of ``held`` ones."""
    now: dict[Sym, Expr] = {v: c.at(Var(loop.var)) for v, c in held.items()}
    unset = {v: c.unset for v, c in held.items()}
    out: list[Stmt] = []
    for s, x in zip(then, inner, strict=True):
        moved, read = after(x, now), used_in((x,)) & held.keys()
        written = [y.sym for y in walk((x,)) if isinstance(y, Assign) and y.sym in held]
        if not written:
            out.append(s)
        for v in written:
            missing = max((unset[r] for r in read - {v}), default=0)
            array, index = cells[v]
            value = map_expr(by_step(moved[v], loop.var), as_one_load)
            store = Store(array, index, value, loc=s.loc)
            known = binary(">=", Var(loop.var), plus_number(loop.init, missing))  # type: ignore[arg-type]
            out.append(If(known, (store,), ()) if missing else store)
            unset[v] = missing
        now = moved
    return tuple(out)


def _element(array: Sym) -> Scalar:
    assert isinstance(array.type, Array) and isinstance(array.type.elem, Scalar)
    return array.type.elem


def _on_cells(body: Body, cells: Mapping[Cell, Sym]) -> Body:
    """``body`` with variables for ``cells``."""

    def value(e: Expr) -> Expr:
        return Var(cells[key]) if isinstance(e, Load) and (key := (e.buffer, e.index)) in cells else e

    def statement(s: Stmt) -> Stmt:
        if isinstance(s, Store) and (key := (s.buffer, s.index)) in cells:
            return Assign(cells[key], s.value, loc=s.loc)
        return s

    return map_body(body, statement, value)


# ----------------------------------------------------------------------------------------------------- planes apart


def _planes_apart(body: Body, arrays: Collection[Sym]) -> Body:
    """``body`` with an array for each plane of those of ``arrays`` whose first index is always a number."""
    planes: dict[tuple[Sym, int], Sym] = {}
    firsts: defaultdict[Sym, set[int | None]] = defaultdict(set)
    for buffer, index in _accesses(body):
        if buffer in arrays:
            n = evaluate(index[0], {}) if len(index) > 1 else None
            firsts[buffer].add(None if n is None else int(n))
    split = {b for b, ns in firsts.items() if None not in ns and len(ns) > 1}
    for b in split:
        t = b.type
        assert isinstance(t, Array)
        for n in sorted(x for x in firsts[b] if x is not None):
            planes[b, n] = fresh(f"{b.name}{n}", dataclasses.replace(t, shape=t.shape[1:]))

    def of(buffer: Sym, index: Sequence[Expr]) -> Sym:
        return planes[buffer, int(evaluate(index[0], {}) or 0)]

    def value(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in split:
            return dataclasses.replace(e, buffer=of(e.buffer, e.index), index=e.index[1:])
        return e

    def statement(s: Stmt) -> Stmt | Body:
        if isinstance(s, Store) and s.buffer in split:
            return dataclasses.replace(s, buffer=of(s.buffer, s.index), index=s.index[1:])
        if isinstance(s, Alloc) and s.sym in split:
            return tuple(dataclasses.replace(s, sym=p) for (b, _), p in planes.items() if b == s.sym)
        return s

    return map_body(body, statement, value)


def _accesses(body: Body) -> list[Cell]:
    loads = [(x.buffer, x.index) for x in all_exprs(body) if isinstance(x, Load)]
    return loads + [(s.buffer, s.index) for s in walk(body) if isinstance(s, Store)]


__all__ = ["filled_planes"]
