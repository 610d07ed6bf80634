"""Loops that move two counters on and end by either: loops of the one, with a guard for the other.

before                                           after
    while r < 4 && i < n                             while r < 4
      y[i] = f(x[i])                                   if i < n
      r += 1                                             y[i] = f(x[i])
      i += 128                                         i += 128
                                                       r += 1

Once ``i`` is beyond ``n`` it stays there, so that further rounds do nothing. What the counters end as is not the same:
both begin before the loop, in the list of statements that it is in, and nothing reads them after it.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import i32
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Return,
    Stmt,
    Sym,
    Var,
    While,
)
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, used, used_in, walk, walk_expr
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.equal_integers import same

from .loop_exits import is_positive


def with_guarded_counters(body: Body) -> Body:
    """``body`` with such loops as loops of one counter: the one whose end is a number, or the one that comes first."""
    out: list[Stmt] = []
    for k, s in enumerate(body):
        if isinstance(s, If):
            s = dataclasses.replace(s, then=with_guarded_counters(s.then), orelse=with_guarded_counters(s.orelse))
        elif isinstance(s, For | While | Par):
            s = dataclasses.replace(s, body=with_guarded_counters(s.body))
        loop = _guarded(s, tuple(out), body[k + 1 :]) if isinstance(s, While) else None
        out.append(s if loop is None else loop)
    return tuple(out)


def _guarded(s: While, before: Body, after: Body) -> While | None:
    work, moves = list(s.body), dict[Sym, Assign]()
    while work and isinstance(last := work[-1], Assign) and (by := _moves(last)) is not None:
        if last.sym in moves or not is_positive(by):
            return None
        moves[last.sym] = last
        work.pop()
    inside = tuple(work)
    changed = assigned(inside) | set(declared(inside))
    counters = dict.fromkeys(v for e in conjuncts_of(s.cond) for v in used(e) & {*moves})
    if s.post or len(counters) != 2 or {*moves} & changed or any(isinstance(x, LEAVING) for x in walk(inside)):
        return None
    begun = {d.sym for d in before if isinstance(d, Decl) and d.init is not None}
    ends = {v: [e for e in conjuncts_of(s.cond) if v in used(e)] for v in counters}
    rest = [e for e in conjuncts_of(s.cond) if not used(e) & {*counters}]
    if rest or not {*counters} <= begun - used_in(after) - assigned(after):
        return None
    if any(len(found) != 1 or not _is_end(found[0], v, changed | {*moves}) for v, found in ends.items()):
        return None
    one, other = sorted(ends, key=lambda v: bool(used(ends[v][0]) - {v}))
    guard = If(ends[other][0], inside, loc=s.loc)
    tail = [a for v, a in reversed(moves.items()) if v is not one]
    return dataclasses.replace(s, cond=ends[one][0], body=(guard, *tail, moves[one]))


LEAVING = Break | Continue | Return


def _moves(s: Assign) -> Expr | None:
    """By how much ``s`` moves a variable on; None if it does something else."""
    if not isinstance(s.sym.type, Scalar) or not s.sym.type.is_int:
        return None
    form = linear_form(s.value, {s.sym})
    return form.rest if form is not None and same(form.coeff(s.sym), i32(1)) else None


def _is_end(e: Expr, v: Sym, changed: set[Sym]) -> bool:
    """Whether ``e`` is ``v < n``, ``n`` being the same in all rounds."""
    if not isinstance(e, Binary) or e.op not in ("<", "<=") or without_casts(e.a) != Var(v):
        return False
    return not used(e.b) & changed and not any(isinstance(x, Load) for x in walk_expr(e.b))


__all__ = ["with_guarded_counters"]
