"""Vectors whose components are variables of their own, where nothing changes them.

before                                     after
    let range: u32x2 = ranges[b]               let range_x: u32 = ranges[b, 0]
    for i in range[0]..range[1]                let range_y: u32 = ranges[b, 1]
                                               for i in range_x..range_y

Each component has to be had by itself: of a vector that is put together, or of one that lies in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from ktc.ir.fold import i32
from ktc.ir.nodes import Body, Const, Decl, Expr, Load, Stmt, Sym, Var, VecMake, fresh
from ktc.ir.types import Ptr, Vec
from ktc.ir.walk import all_exprs, assigned, map_body, walk

COMPONENTS = "xyzw"


def as_components(body: Body, vectors: Collection[Sym] | None = None, in_memory: bool = True) -> tuple[Body, set[Sym]]:
    """``body`` with such vectors (those of ``vectors``, or all) as a variable for each component, and which they are.

    ``in_memory``: those that are loaded, too.
    """
    begun = [s for s in walk(body) if isinstance(s, Decl) and isinstance(s.sym.type, Vec)]
    if not begun:
        return body, set()
    asked = {e.buffer for e in all_exprs(body) if isinstance(e, Load) and not isinstance(e.index[0], Const)}
    changed = assigned(body) | asked
    mine = [s for s in begun if s.sym not in changed and (vectors is None or s.sym in vectors)]
    mine = [s for s in mine if in_memory or not isinstance(s.init, Load)]
    names: dict[Sym, list[Sym]] = {}
    for s in mine:
        if sum(d.sym == s.sym for d in begun) == 1 and (found := _components(s.init)):
            names[s.sym] = [fresh(f"{s.sym.name}_{axis}", e.type) for axis, e in zip(COMPONENTS, found)]

    def stmt(s: Stmt) -> Stmt | Body:
        if not isinstance(s, Decl) or s.sym not in names:
            return s
        return tuple(dataclasses.replace(s, sym=n, init=e) for n, e in zip(names[s.sym], _components(s.init)))

    def expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in names and isinstance(e.index[0], Const):
            return Var(names[e.buffer][int(e.index[0].value)])
        if isinstance(e, Var) and e.sym in names:
            t = e.sym.type
            assert isinstance(t, Vec)
            return VecMake(t, tuple(map(Var, names[e.sym])))
        return e

    return (map_body(body, stmt, expr) if names else body), {*names}


def _components(e: Expr | None) -> tuple[Expr, ...]:
    """The components of ``e``, where each can be had by itself and there are at most four; () otherwise."""
    match e:
        case VecMake(_, args) if len(args) <= len(COMPONENTS):
            return args
        case Load(buffer, index, 1) if isinstance(buffer.type, Ptr) and isinstance(t := e.type, Vec):
            if not buffer.type.volatile and isinstance(t.n, int) and t.n <= len(COMPONENTS):
                return tuple(Load(buffer, (*index, i32(k)), cache=e.cache) for k in range(t.n))
    return ()


__all__ = ["as_components"]
