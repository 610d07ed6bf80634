"""Vectors that a thread keeps while it exchanges values with others, as small arrays of its own.

before                                                 after
    float4 v = in4[i];                                     float v[4]; v[0 +: 4] = in[i * 4 +: 4];
    total = reduce(v.x + v.y + v.z + v.w);                 total = reduce(v[0] + v[1] + v[2] + v[3]);
    v.x /= total; ...                                      v[0] /= total; ...

What lives from one loop over threads to the next becomes a row of the block, an element a thread
(:mod:`.privates`): arrays can be, vectors cannot. Vectors of the whole block, which are no thread's own, are a variable
for each component instead, ``range_x`` and ``range_y``, if they never change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions
from ktc.ir.fold import i32
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Barrier,
    Body,
    Const,
    Decl,
    Eval,
    Expr,
    For,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Sym,
    Var,
    VecGet,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array, Vec
from ktc.ir.walk import assigned, map_body, mentions, used, used_in, walk
from ktc.passes.raising.recognise.statement_kinds import has_warp_op, made_of_threads, threads_in
from ktc.passes.raising.recognise.vector_components import as_components

PLAIN = (Alloc, Assign, Barrier, Decl, Eval, For, If, Return, Store, While)
"""Statements that may touch such a vector: what else does, takes it as a whole."""


def kept_as_arrays(body: Body) -> Body:
    """``body`` with vectors that live across an exchange as arrays."""
    vectors = {s.sym for s in walk(body) if isinstance(s, Decl) and _fixed(s.sym)}
    if not vectors:
        return body
    across = vectors & set(_across(body)) - _taken_whole(body)
    if not across:
        return body
    body, apart = as_components(body, across & _of_all_threads(body))
    arrays = {v: _array(v) for v in across - apart}
    return map_body(body, lambda s: _stmt(s, arrays), lambda e: _expr(e, arrays))


def _of_all_threads(body: Body) -> set[Sym]:
    """Variables that begin as the same in all threads of a block."""
    threads = made_of_threads(definitions(body)).keys()
    begun = ((s.sym, s.init) for s in walk(body) if isinstance(s, Decl) and s.init)
    return {v for v, e in begun if not threads_in(e) and not threads & used(e)}


def _fixed(v: Sym) -> bool:
    return isinstance(v.type, Vec) and isinstance(v.type.n, int)


def _array(v: Sym) -> Sym:
    t = v.type
    assert isinstance(t, Vec) and isinstance(t.n, int)
    return fresh(v.name, Array(t.elem, (i32(t.n),), "local"))


def _taken_whole(body: Body) -> set[Sym]:
    """Vectors that something other than plain statements touches."""
    other = tuple(s for s in walk(body) if not isinstance(s, PLAIN))
    return used_in(other) | assigned(other)


def _across(body: Body) -> Iterator[Sym]:
    """Variables of ``body`` that are touched behind an exchange that stands behind their declaration."""
    for k, s in enumerate(body):
        for inner in bodies(s):
            yield from _across(inner)
        if not isinstance(s, Decl):
            continue
        met = False
        for later in body[k + 1 :]:
            inside = any(isinstance(x, Barrier) for x in walk((later,))) or has_warp_op(later)
            met |= inside
            if met and s.sym in mentions(later):
                yield s.sym
                break


def _stmt(s: Stmt, arrays: dict[Sym, Sym]) -> Stmt | Body:
    if isinstance(s, Decl) and s.sym in arrays:
        a = arrays[s.sym]
        room = Alloc(a, loc=s.loc, comments=s.comments)
        return room if s.init is None else (room, Store(a, (i32(0),), s.init, _lanes(a), loc=s.loc))
    if isinstance(s, Assign) and s.sym in arrays:
        a = arrays[s.sym]
        return Store(a, (i32(0),), s.value, _lanes(a), loc=s.loc, comments=s.comments)
    return dataclasses.replace(s, buffer=arrays[s.buffer]) if isinstance(s, Store) and s.buffer in arrays else s


def _expr(e: Expr, arrays: dict[Sym, Sym]) -> Expr:
    if isinstance(e, VecGet) and isinstance(e.x, Load) and e.x.buffer in arrays.values():
        return Load(e.x.buffer, (e.lane,))
    if isinstance(e, Var) and e.sym in arrays:
        return Load(arrays[e.sym], (i32(0),), _lanes(arrays[e.sym]))
    if isinstance(e, Load) and e.buffer in arrays:
        return Load(arrays[e.buffer], e.index, e.width)
    return e


def _lanes(a: Sym) -> int:
    assert isinstance(a.type, Array)
    n = a.type.shape[0]
    assert isinstance(n, Const)
    return int(n.value)


__all__ = ["kept_as_arrays"]
