"""Atomics that one lane makes for all of a warp that want one, as an atomic of each.

before                                              after
    let m: u32 = ballot(wants)                          var mine: i32 = 0
    var at: i32 = 0                                     if wants
    if lane == ffs(m) - 1                                 atomic mine = add count[0], 1
      atomic at = add count[0], popc(m)                 if wants
    at = shfl(at, ffs(m) - 1)                             out[mine] = x[i]
    if wants
      out[at + popc(m & (1 << lane) - 1)] = x[i]

The lanes are those of a ballot, all that are active in a branch, or those with one address (``match_any``): each gets
the number that it would have got by itself, had the lanes come in their order. A guess: that the lane which goes first
is one of them, and that the others ask for no number of theirs, is for the exact comparison with the source to find.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.fold import cast, evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    If,
    Stmt,
    Sym,
    Var,
    WarpOp,
    fresh,
)
from ktc.ir.types import BOOL, scalar_of
from ktc.ir.walk import all_exprs, assigned, map_body, used, walk, walk_expr, with_bodies
from ktc.passes.raising.normalise.tidy import joined_declarations, without_dead
from ktc.passes.raising.recognise.statement_kinds import threads_in

from .votes import lanes_below, plain

LANES = ("ballot", "active", "match_any")


def with_single_atomics(kernel: Kernel) -> Kernel:
    """``kernel`` with such atomics apart; the same object if it has none."""
    if not any(isinstance(e, WarpOp) and e.kind in LANES for e in all_exprs(kernel.body)):
        return kernel
    named = _declared_at_once(kernel.body)
    names = definitions(named)
    changed = assigned(named)
    decls = (s for s in walk(named) if isinstance(s, Decl) and s.sym not in changed)
    held = {s.sym: x for s in decls if (x := _lanes(s)) is not None}
    found: list[_Found] = []
    body = _list(named, names, held, found)
    for f in found:
        body = map_body(body, lambda s: s, lambda e, f=f: f.own_number(e, names))  # type: ignore[misc]
    return kernel.with_(body=without_dead(body)) if found else kernel


def _declared_at_once(body: Body) -> Body:
    return tuple(with_bodies(s, _declared_at_once) for s in joined_declarations(body))


def _lanes(s: Decl) -> WarpOp | None:
    x = plain(s.init) if s.init is not None else None
    return x if isinstance(x, WarpOp) and x.kind in LANES else None


@dataclass(frozen=True)
class _Found:
    """Lanes ``m`` of which one fetched ``at`` for all; ``mine`` is what each has fetched instead."""

    m: Sym
    at: Sym
    mine: Sym

    def own_number(self, e: Expr, names: Mapping[Sym, Expr]) -> Expr:
        """``mine`` for ``at`` and as many as there are lanes before."""
        if isinstance(e, Binary) and e.op == "+":
            for a, b in ((e.a, e.b), (e.b, e.a)):
                if plain(a) == Var(self.at) and self._are_before(plain(b), names):
                    return cast(Var(self.mine), scalar_of(e.type))
        return e

    def _are_before(self, e: Expr, names: Mapping[Sym, Expr]) -> bool:
        if not isinstance(e, Call) or e.fn != "popc" or len(e.args) != 1:
            return False
        x = plain(e.args[0])
        if not isinstance(x, Binary) or x.op != "&":
            return False
        for m, lanes in ((x.a, x.b), (x.b, x.a)):
            found = lanes_below(expand(lanes, names))
            if plain(m) == Var(self.m) and found is not None and not found[1]:
                return True
        return False


def _list(body: Body, names: Mapping[Sym, Expr], held: Mapping[Sym, WarpOp], found: list[_Found]) -> Body:
    out: list[Stmt] = []
    for s in body:
        new = _apart(s, names, held)
        if new is not None:
            found.append(new[0])
            out += new[1]
        else:
            out.append(with_bodies(s, lambda b: _list(b, names, held, found)) if isinstance(s, Stmt) else s)
    return tuple(s for s in out if not any(_hands_on(s, f) for f in found))


def _apart(s: Stmt, names: Mapping[Sym, Expr], held: Mapping[Sym, WarpOp]) -> tuple[_Found, Body] | None:
    """For ``if (lane == first) at = atomicAdd(p, popc(m))``: what it finds, and the atomics of all lanes."""
    fetched = _fetched(s.then) if isinstance(s, If) and not s.orelse else None
    if fetched is None or not isinstance(s, If):
        return None
    a, at = fetched
    value = plain(a.value)
    of = [m for m in held if isinstance(value, Call) and value.fn == "popc" and plain(value.args[0]) == Var(m)]
    if not of or not _is_one_lane(s.cond, of[0], names):
        return None
    (m,) = of
    mine = fresh("mine", scalar_of(at.type))
    own = dataclasses.replace(a, dst=mine, value=Const(1, scalar_of(a.value.type)))
    wants = held[m].value if held[m].kind == "ballot" else None
    each: Body = (own,) if wants is None else (If(cast(wants, BOOL), (own,)),)
    return _Found(m, at, mine), (Decl(mine, Const(0, scalar_of(at.type))), *each)


def _fetched(body: Body) -> tuple[Atomic, Sym] | None:
    """The one atomic of ``body`` that adds, and the variable that what it finds ends up in."""
    atomics = [s for s in body if isinstance(s, Atomic)]
    if len(atomics) != 1 or (a := atomics[0]).op != "add" or a.dst is None:
        return None
    at = a.dst
    for s in body:
        if isinstance(s, Assign) and plain(s.value) == Var(at):
            at = s.sym
        elif s is not a and not (isinstance(s, Decl) and s.init is None):
            return None
    return a, at


def _is_one_lane(cond: Expr, m: Sym, names: Mapping[Sym, Expr]) -> bool:
    """Whether ``cond`` asks for the first lane of all, or the first of those of ``m``."""
    e = expand(cond, {v: x for v, x in names.items() if v != m})
    if not isinstance(e, Binary) or e.op != "==":
        return False
    for lane, first in ((e.a, e.b), (e.b, e.a)):
        least = evaluate(first, {}) == 0 or (used(first) == {m} and any(map(_finds_first, walk_expr(first))))
        if threads_in(lane) and not used(lane) and least:
            return True
    return False


def _finds_first(e: Expr) -> bool:
    return isinstance(e, Call) and e.fn == "ffs"


def _hands_on(s: Stmt, f: _Found) -> bool:
    """Whether ``s`` gives all lanes what one has fetched."""
    if not isinstance(s, Assign) or s.sym != f.at or not isinstance(x := plain(s.value), WarpOp):
        return False
    return x.kind == "shfl" and plain(x.value) == Var(f.at)


__all__ = ["with_single_atomics"]
