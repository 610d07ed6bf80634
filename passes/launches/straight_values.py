"""What one iteration stored and reads again comes from a variable; what nobody reads then is not stored.

before                                              after
    y[r + i] = f16(x[r + i] * 2.0)                      let y_1: f16 = f16(x[r + i] * 2.0)
    q[r + i] = i8(f32(y[r + i]) * s)                    q[r + i] = i8(f32(y_1) * s)

The value has the rounding that the store gives it, so the bits are the same. Only buffers that no other name reaches
take part, and indices that are equal as polynomials.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.polynomial import same_value
from ktc.ir.nodes import Assign, Body, Decl, Expr, For, If, Load, Par, Reduce, Scan, Stmt, Store, Sym, Var, While, fresh
from ktc.ir.purity import is_removable
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    map_expr,
    map_stmt_exprs,
    used,
    used_in,
    walk,
    walk_expr,
    with_bodies,
)

Known = dict[tuple[Sym, tuple[Expr, ...]], Sym]
"""The variables that hold what elements (buffer, expanded index) contain."""


def passed_on(body: Body, buffers: Collection[Sym]) -> Body:
    """``body`` with elements of ``buffers`` taken from variables wherever the same iteration has just stored them."""
    made = _list(body, _Values(frozenset(buffers), definitions(body), assigned(body)), {})
    return _without_names_for_one(made, set(declared(made)) - set(declared(body)))


def _without_names_for_one(body: Body, new: Collection[Sym]) -> Body:
    """``body`` in which a variable of ``new`` that only its own store reads is none."""
    uses = Counter(x.sym for e in all_exprs(body) for x in (e,) if isinstance(x, Var))
    alone = {s.sym: s for s in walk(body) if isinstance(s, Decl) and s.sym in new and uses[s.sym] == 1}

    def on(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and isinstance(s.value, Var) and s.value.sym in alone:
            known = alone[s.value.sym]
            assert known.init is not None
            return dataclasses.replace(s, value=known.init, comments=known.comments)
        return None if isinstance(s, Decl) and s.sym in alone else s

    return map_body(body, on) if alone else body


@dataclasses.dataclass(frozen=True)
class _Values:
    buffers: frozenset[Sym]
    names: Mapping[Sym, Expr]
    changed: Collection[Sym]

    def place(self, buffer: Sym, index: tuple[Expr, ...]) -> tuple[Sym, tuple[Expr, ...]] | None:
        """An element as a key; None for one that is not known to stay the same element."""
        full = tuple(expand(e, self.names) for e in index)
        moving = any(isinstance(x, Load) for e in full for x in walk_expr(e)) or any(
            used(e) & set(self.changed) for e in full
        )
        return None if buffer not in self.buffers or moving else (buffer, full)

    def read(self, e: Expr, known: Known) -> Expr:
        """``e`` with known elements from their variables."""

        def on(x: Expr) -> Expr:
            if not isinstance(x, Load) or x.width != 1 or x.buffer not in self.buffers:
                return x
            place = self.place(x.buffer, x.index)
            return x if place is None else next(
                (Var(v) for (b, index), v in known.items() if b == x.buffer and _same(index, place[1])), x
            )  # fmt: skip

        return map_expr(e, on)


def _same(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b))


def _list(body: Body, values: _Values, before: Known) -> Body:
    known, out = dict(before), list[Stmt]()
    for s in body:
        if isinstance(s, For | While | Par | Reduce | Scan | If):
            out.append(_compound(s, values, known))
            for b in assigned((s,)) & values.buffers:
                known = {k: v for k, v in known.items() if k[0] != b}
            continue
        new = _read_by(s, values, known)
        if isinstance(new, Store) and new.buffer in values.buffers:
            place = values.place(new.buffer, new.index) if new.width == 1 else None
            known = {k: v for k, v in known.items() if k[0] != new.buffer}
            t = new.value.type
            if place is not None and isinstance(t, Scalar) and isinstance(new.buffer.type, Ptr):
                held = fresh(new.buffer.name, t)
                out.append(Decl(held, new.value, const=True, loc=s.loc, comments=s.comments))
                new = dataclasses.replace(new, value=Var(held), comments=())
                known[place] = held
        else:
            for b in assigned((s,)) & values.buffers:
                known = {k: v for k, v in known.items() if k[0] != b}
        out.append(new)
    return tuple(out)


def _read_by(s: Stmt, values: _Values, known: Known) -> Stmt:
    return map_stmt_exprs(s, lambda e: values.read(e, known) if isinstance(e, Load) else e)


def _compound(s: Stmt, values: _Values, known: Known) -> Stmt:
    """A statement with others inside: those see what is known before it, in a loop if that changes none of it."""
    touched = set() if isinstance(s, If) else assigned((s,)) & values.buffers
    seen = {k: v for k, v in known.items() if k[0] not in touched}
    s = _read_by(s, values, seen) if not isinstance(s, Reduce | Scan) else s
    s = with_bodies(s, lambda b: _list(b, values, seen))
    if isinstance(s, Reduce):
        inside = _known_after(s.body, values, seen)
        accs = tuple(dataclasses.replace(a, value=values.read(a.value, inside)) for a in s.accs)
        return dataclasses.replace(s, accs=accs)
    return s


def _known_after(body: Body, values: _Values, before: Known) -> Known:
    """What is known at the end of a body that :func:`_list` has been through."""
    known = dict(before)
    for s in body:
        for b in assigned((s,)) & values.buffers:
            known = {k: v for k, v in known.items() if k[0] != b}
        if isinstance(s, Store) and isinstance(s.value, Var) and s.width == 1:
            place = values.place(s.buffer, s.index)
            if place is not None:
                known[place] = s.value.sym
    return known


def without_unread(body: Body, buffers: Collection[Sym]) -> Body:
    """``body`` without stores to those of ``buffers`` that it does not read, and without what only these needed."""
    read = {e.buffer for e in all_exprs(body) if isinstance(e, Load)} | _addressed(body)
    dead = set(buffers) - read
    body = map_body(body, lambda s: None if isinstance(s, Store) and s.buffer in dead else s)
    return without_dead(body)


def _addressed(body: Body) -> set[Sym]:
    """Buffers that something else than loads and stores of elements touches."""
    rest = map_body(body, lambda s: None if isinstance(s, Store) else s)
    return used_in(rest) | assigned(rest)


def without_dead(body: Body) -> Body:
    """``body`` without variables that nothing reads, and loops and branches that do nothing."""
    while True:
        read = used_in(body) | {s for e in all_exprs(body) for s in used(e)}
        unread = set(declared(body)) - read
        new = map_body(body, partial(_needed, unread, unread - assigned(body)))
        if new is body:
            return body
        body = new


def _needed(unread: Collection[Sym], untouched: Collection[Sym], s: Stmt) -> Stmt | None:
    """``s``, unless all that it does is to variables that nothing reads (``untouched``: or assigns)."""
    match s:
        case Decl(sym, init):
            return None if sym in untouched and (init is None or is_removable(init)) else s
        case Assign(sym, value):
            return None if sym in unread and is_removable(value) else s
        case Par(body=()):
            return None
        case If(cond, (), ()):
            return None if is_removable(cond) else s
    return s


__all__ = ["passed_on", "without_dead", "without_unread"]
