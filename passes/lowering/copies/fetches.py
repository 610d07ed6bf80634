"""Copies into shared memory in two parts: a thread issues all its loads before it waits for the first to store it.

    for u: if (row_u < 6):                              for u:
      s[row_u] = row_u < n ? a[row_u] : 0                 x[u] = 0
                                                          if (row_u < 6 && row_u < n) x[u] = a[row_u]
                                                        for u: if (row_u < 6) s[row_u] = x[u]

All that stands before an access is one condition, which becomes a predicate: no branch keeps compilers from moving
other loads up beside these.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.fold import both
from ktc.ir.nodes import Assign, Body, Const, Decl, If, Load, Select, Stmt, Store, Sym, Var, fresh
from ktc.ir.storage import is_private, is_shared
from ktc.ir.walk import all_exprs
from ktc.passes.lowering.distribution.levels import Jam
from ktc.passes.lowering.distribution.loads import is_memory_load
from ktc.passes.lowering.distribution.record_loads import Records
from ktc.passes.lowering.distribution.scope import Scope, guard_of


@dataclass(frozen=True)
class Group:
    """Consecutive statements that vary along the same jams. ``vec``: the lane jam of a group of whole-vector loads;
    ``predicated``: each is one condition and one access; ``records``: the records that lanes load whole."""

    dims: frozenset[Sym]
    body: Body
    vec: Jam | None = None
    predicated: bool = False
    records: Records | None = None


def in_two(g: Group, scope: Scope) -> list[Group]:
    """A copy into shared memory as its loads, then its stores; any other group as it is."""
    if not g.dims or g.vec is not None:
        return [g]
    loads = tuple(s for s in g.body if is_memory_load(s))
    stores = tuple(s for s in g.body if isinstance(s, Store) and is_shared(s.buffer))
    if loads and g.body == (*loads, *stores) and not any(map(_reads_shared, loads)):
        if guard_of(scope.guards, g.dims) is not None:
            loads = tuple(x for s in loads for x in _filled(s))
        return [Group(g.dims, loads, predicated=True), Group(g.dims, stores, predicated=True)]
    parts = [_conditional(s) for s in g.body]
    if any(p is None for p in parts):
        return [g]
    before, after = zip(*(p for p in parts if p is not None))
    return [Group(g.dims, sum(before, ()), predicated=True), Group(g.dims, sum(after, ()), predicated=True)]


def _filled(s: Stmt) -> Body:
    """``x = cond ? load : constant`` as the constant, and the load in its place where there is one."""
    match s:
        case Decl(sym=x, init=Select(cond=cond, a=load, b=Const() as other)):
            return Decl(x, other, loc=s.loc), If(cond, (Assign(x, load, loc=s.loc),), loc=s.loc)
    return (s,)


def _reads_shared(s: Stmt) -> bool:
    return any(isinstance(x, Load) and is_shared(x.buffer) for x in all_exprs((s,)))


def _conditional(s: Stmt) -> tuple[Body, Body] | None:
    """The load and the store of ``if (c) shared[i] = global[j];`` as conditional statements of their own."""
    match s:
        case If(cond=cond, then=(Store(value=Load() as load) as store,), orelse=()):
            plain = is_shared(store.buffer) and not is_private(load.buffer) and store.width == load.width == 1
            if plain and not _reads_shared(s):
                x = fresh(f"{load.buffer.name}_i", load.type)
                loads = (Decl(x, None, loc=s.loc), If(cond, (Assign(x, load, loc=s.loc),), loc=s.loc))
                return loads, (dataclasses.replace(s, then=(dataclasses.replace(store, value=Var(x)),)),)
    return None


def predicated(body: Body, scope: Scope, dims: frozenset[Sym]) -> Body:
    """``body`` with the guards in force along ``dims`` in one condition with its statements' own."""
    guard = guard_of(scope.guards, dims)
    if guard is None:
        return body
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, If):
            out.append(If(both(guard, s.cond) or s.cond, s.then, loc=s.loc))
        elif isinstance(s, Store | Assign) and isinstance(s.value, Const) and not _is_shared_store(s):
            out.append(s)
        else:
            out.append(If(guard, (s,)))
    return tuple(out)


def _is_shared_store(s: Stmt) -> bool:
    return isinstance(s, Store) and is_shared(s.buffer)
