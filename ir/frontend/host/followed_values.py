"""What variables of host functions are after statements that were lowered: values over the symbols that were there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import ceil_log2, evaluate, is_const, simplify
from ktc.ir.nodes import Assign, Binary, Body, Break, Const, Decl, Expr, For, If, Select, Sym, Var, While
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import assigned, substitute_expr, used


def followed(body: Body, env: dict[Sym, Expr]) -> dict[Sym, Expr]:
    """Values of the variables after ``body``, over the symbols that were there before; branches become ``?:``."""
    env = dict(env)
    for s in body:
        if isinstance(s, Decl) and s.init is not None:
            env[s.sym] = substitute_expr(s.init, env)
        elif isinstance(s, Assign):
            env[s.sym] = substitute_expr(s.value, env)
        elif isinstance(s, If):
            cond = substitute_expr(s.cond, env)
            yes, no = followed(s.then, env), followed(s.orelse, env)
            for sym in assigned(body):
                if sym in yes and sym in no:
                    env[sym] = yes[sym] if yes[sym] == no[sym] else Select(cond, yes[sym], no[sym])
                else:
                    env.pop(sym, None)
        elif isinstance(s, While) and (counted := _doublings(s, env)) is not None:
            env[counted[0]] = counted[1]
        elif isinstance(s, While | For) and (ended := _rounds(s, env)) is not None:
            env |= ended
        else:
            for sym in assigned((s,)):
                env.pop(sym, None)
    return env


def _doublings(s: While, env: Mapping[Sym, Expr]) -> tuple[Sym, Expr] | None:
    """The variable, and how often 1 is doubled until it is no less than n, of ``while (1 << k < n) k++;`` from 0 on, as
    the number of bits of a divisor is counted; a bound on k that is the width of n says nothing more."""
    cond, body = _stayed_while(s)
    if body is None or not _counts_up(body):
        return None
    k, below = body.sym, [c for c in _joined(cond) if isinstance(c, Binary) and c.op == "<"]
    least = [c for c in below if isinstance(c.a, Binary) and c.a.op == "<<" and is_const(c.a.a, 1) and c.a.b == Var(k)]
    others = [c for c in below if without_casts(c.a) == Var(k) and is_const(without_casts(c.b))]
    if len(least) != 1 or len(below) != len(_joined(cond)) or len(least) + len(others) != len(below):
        return None
    n, began = without_casts(substitute_expr(least[0].b, env)), env.get(k)
    width = t.bits if isinstance(t := least[0].b.type, Scalar) else 0
    ends = [evaluate(c.b, {}) or 0 for c in others]
    if k in used(n) or began is None or not is_const(began, 0) or any(end < width for end in ends):
        return None
    return k, ceil_log2(n)


MOST_ROUNDS = 12
"""Rounds of a loop that are told apart: a block has at most 1024 threads, which is 10 doublings."""


def _rounds(s: While | For, env: Mapping[Sym, Expr]) -> dict[Sym, Expr] | None:
    """What the variables of a loop are after it that computes them from constants: what they are before the first of
    its rounds that does not go on, ``t < n ? (2 * t < n ? .. : 2 * t) : t``. None where constants do not end it."""
    steps = s.body if isinstance(s, While) else (*s.body, Assign(s.var, s.step))
    if not all(isinstance(x, Assign) for x in steps):
        return None
    at = {sym: env.get(sym) for sym in assigned(steps)}
    if isinstance(s, For):
        at[s.var] = simplify(substitute_expr(s.init, env))
    others = {sym: e for sym, e in env.items() if sym not in at}
    begun: list[tuple[Expr, dict[Sym, Expr]]] = []
    while len(begun) <= MOST_ROUNDS:
        if not all(isinstance(e, Const) for e in at.values()):
            return None
        here = {sym: e for sym, e in at.items() if e is not None}
        conds = (
            [simplify(substitute_expr(c, others | here)) for c in _joined(s.cond)] if begun or not _is_post(s) else []
        )
        if any(is_const(c, 0) for c in conds):
            return _chosen(begun, here)
        asked = [c for c in conds if not is_const(c, 1)]
        begun.append((reduce(partial(Binary, "&&"), asked) if asked else Const(1, BOOL), here))
        after = dict(here)
        for x in steps:
            assert isinstance(x, Assign)
            after[x.sym] = simplify(substitute_expr(x.value, others | after))
        at = dict(after)
    return None


def _is_post(s: While | For) -> bool:
    return isinstance(s, While) and s.post


def _chosen(begun: list[tuple[Expr, dict[Sym, Expr]]], last: dict[Sym, Expr]) -> dict[Sym, Expr]:
    """Of the rounds that began, each with the condition on which it did and what the variables were, what they are
    where the first of them does not, ``last`` where all do."""
    for goes_on, here in reversed(begun):
        if not is_const(goes_on, 1):
            last = {sym: e if e == here[sym] else Select(goes_on, e, here[sym]) for sym, e in last.items()}
    return last


def _stayed_while(s: While) -> tuple[Expr, Assign | None]:
    """The condition on which a loop goes on, and the assignment that is all it does then; ``while (true) { if (a >= b)
    break; k++; }`` goes on where ``a < b``."""
    ends, *rest = s.body if len(s.body) == 2 and is_const(s.cond, 1) else (None, *s.body)
    cond = s.cond
    leaves = isinstance(ends, If) and len(ends.then) == 1 and isinstance(ends.then[0], Break) and not ends.orelse
    if leaves and isinstance(c := ends.cond, Binary) and c.op == ">=":  # type: ignore[union-attr]
        cond, ends = Binary("<", c.a, c.b), None
    body = rest[0] if ends is None and len(rest) == 1 and not s.post else None
    return cond, body if isinstance(body, Assign) else None


def _counts_up(s: Assign) -> bool:
    return isinstance(e := s.value, Binary) and e.op == "+" and e.a == Var(s.sym) and is_const(e.b, 1)


def _joined(e: Expr) -> list[Expr]:
    return [*_joined(e.a), *_joined(e.b)] if isinstance(e, Binary) and e.op == "&&" else [e]
