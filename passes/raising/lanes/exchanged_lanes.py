"""Lanes of vectors that threads hand to each other, as variables of their own.

before                                                    after
    var both: f32x2 = f32x2{a, b}                             var both_0: f32 = a
    both[0] += shfl_xor(both[0], 16)                          var both_1: f32 = b
    both[1] += shfl_xor(both[1], 16)                          both_0 += shfl_xor(both_0, 16)
    parts[warp] = both                                        both_1 += shfl_xor(both_1, 16)
    barrier                                                   parts_0[warp] = both_0
    both = parts[lane]                                        parts_1[warp] = both_1
                                                              barrier
                                                              both_0 = parts_0[lane]
                                                              both_1 = parts_1[lane]

What is exchanged is known of scalars. Vectors that are copies of such a one, and shared arrays that hold some, are
taken apart with it, if nothing takes one as a whole but another of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Body,
    Decl,
    Expr,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    VecGet,
    VecMake,
    WarpOp,
    fresh,
)  # fmt: skip
from ktc.ir.purity import is_removable
from ktc.ir.storage import is_shared
from ktc.ir.types import Array, Vec
from ktc.ir.walk import all_exprs, assigned, map_body, used, used_in, walk, walk_expr


def lanes_apart(kernel: Kernel) -> Kernel:
    """``kernel`` with the vectors whose lanes threads hand on apart, and what they are copied to and from; the same
    object where there are none, or where one is used in another way."""
    moved = (e.value for e in all_exprs(kernel.body) if isinstance(e, WarpOp))
    group = {at[0] for value in moved for y in walk_expr(value) if (at := _lane(y)) is not None}
    if not group:
        return kernel
    links = [link for s in walk(kernel.body) for link in _copies(s)]
    while more := {v for link in links if group & {*link} for v in link} - group:
        group |= more
    body = _Apart(group).body(kernel.body)
    left = used_in(body) | assigned(body) | {s.sym for s in walk(body) if isinstance(s, Decl | Alloc)}
    return kernel if group & left else kernel.with_(body=body)


def _lane(e: Expr) -> tuple[Sym, int] | None:
    """The private vector, and which lane of it, that ``e`` reads."""
    vector = e.x.sym if isinstance(e, VecGet) and isinstance(e.x, Var) else e.buffer if isinstance(e, Load) else None
    lane = e.lane if isinstance(e, VecGet) else e.index[0] if isinstance(e, Load) else None
    k = evaluate(lane, {}) if lane is not None else None
    return (vector, int(k)) if vector is not None and isinstance(vector.type, Vec) and k is not None else None


def _copies(s: Stmt) -> Iterator[tuple[Sym, Sym]]:
    """What ``s`` copies as a whole, and to what: vectors, and shared arrays of some."""
    to, value = (s.buffer, s.value) if isinstance(s, Store) else (getattr(s, "sym", None), _value(s))
    if to is not None and value is not None and (isinstance(to.type, Vec) or _holds_vectors(to)):
        ways = [value.a, value.b] if isinstance(value, Select) else [value]
        yield from ((to, of) for e in ways if (of := _whole(e)) is not None)


def _value(s: Stmt) -> Expr | None:
    return s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None


def _whole(e: Expr) -> Sym | None:
    """The vector, or the shared array, that ``e`` is, or reads, a whole vector of."""
    if isinstance(e, Var) and isinstance(e.type, Vec):
        return e.sym
    return e.buffer if isinstance(e, Load) and isinstance(e.type, Vec) and _holds_vectors(e.buffer) else None


def _holds_vectors(b: Sym) -> bool:
    return is_shared(b) and isinstance(b.type, Array) and isinstance(b.type.elem, Vec)


class _Apart:
    """Takes the vectors of ``group``, and the shared arrays of vectors in it, apart."""

    def __init__(self, group: set[Sym]) -> None:
        self.lanes = {v: lanes for v in group if (lanes := _lanes(v))}

    def body(self, body: Body) -> Body:
        return map_body(body, lambda s: _said_once(self._stmt(s)), self._expr)

    def _expr(self, e: Expr) -> Expr:
        at = _lane(e)
        if at is not None and at[0] in self.lanes:
            return Var(self.lanes[at[0]][at[1]])
        if isinstance(e, VecGet) and (k := evaluate(e.lane, {})) is not None and (parts := self._parts(e.x)):
            return parts[int(k)]
        if isinstance(e, Load) and e.buffer in self.lanes and not isinstance(e.type, Vec):
            k = evaluate(e.index[-1], {})
            return e if k is None else Load(self.lanes[e.buffer][int(k)], e.index[:-1])
        return e

    def _parts(self, e: Expr | None) -> Sequence[Expr]:
        """The lanes of a vector that is given lane by lane, or read of one that is taken apart, or one of two such;
        empty of any other."""
        if isinstance(e, VecMake):
            return e.args
        if isinstance(e, Select) and is_removable(e.cond):
            return [Select(e.cond, a, b) for a, b in zip(self._parts(e.a), self._parts(e.b))]
        of = self.lanes.get(_whole(e)) if e is not None else None  # type: ignore[arg-type]
        if of is None:
            return ()
        return [dataclasses.replace(e, buffer=b) for b in of] if isinstance(e, Load) else [Var(v) for v in of]

    def _stmt(self, s: Stmt) -> Stmt | Body:
        if isinstance(s, Alloc) and s.sym in self.lanes and not s.dynamic:
            return tuple(dataclasses.replace(s, sym=b) for b in self.lanes[s.sym])
        if isinstance(s, Decl) and s.sym in self.lanes and s.init is None:
            return tuple(dataclasses.replace(s, sym=v) for v in self.lanes[s.sym])
        if isinstance(s, Store) and s.buffer in self.lanes:
            return self._stored(s)
        parts = self._parts(_value(s)) if getattr(s, "sym", None) in self.lanes else ()
        if isinstance(s, Decl) and parts:
            return tuple(dataclasses.replace(s, sym=v, init=e) for v, e in zip(self.lanes[s.sym], parts))
        if isinstance(s, Assign) and parts:
            return self._assigned(s, parts)
        return s

    def _stored(self, s: Store) -> Stmt | Body:
        to = self.lanes[s.buffer]
        if isinstance(s.buffer.type, Vec):
            k = evaluate(s.index[0], {})
            return s if k is None or s.width != 1 else Assign(to[int(k)], s.value, loc=s.loc, comments=s.comments)
        parts = self._parts(s.value) if s.width == 1 else ()
        return tuple(dataclasses.replace(s, buffer=b, value=e) for b, e in zip(to, parts)) if parts else s

    def _assigned(self, s: Assign, parts: Sequence[Expr]) -> Body:
        """Lane by lane; by way of others where a lane is made of those of the vector itself."""
        own = self.lanes[s.sym]
        if not any(used(e) & {*own} for e in parts):
            return tuple(dataclasses.replace(s, sym=v, value=e) for v, e in zip(own, parts))
        new = [fresh(v.name, v.type) for v in own]
        made = tuple(Decl(n, e, const=True, loc=s.loc) for n, e in zip(new, parts))
        return (*made, *(dataclasses.replace(s, sym=v, value=Var(n)) for v, n in zip(own, new)))


def _said_once(found: Stmt | Body) -> Stmt | Body:
    """The statements that one has become, the first of which has its comments."""
    if not isinstance(found, tuple):
        return found
    return (*found[:1], *(dataclasses.replace(s, comments=()) for s in found[1:]))


def _lanes(v: Sym) -> list[Sym]:
    """A variable, or a shared array, for each lane of ``v``; none where their number is open."""
    t = v.type.elem if isinstance(v.type, Array) else v.type
    if not isinstance(t, Vec) or not isinstance(t.n, int):
        return []
    of = dataclasses.replace(v.type, elem=t.elem) if isinstance(v.type, Array) else t.elem
    return [fresh(f"{v.name}_{k}", of) for k in range(t.n)]


__all__ = ["lanes_apart"]
