"""Integers that a thread counts on as it goes, under a name for each value that they have.

before                                          after
    var at: i32 = x                                 var at: i32 = x
    at += n                                         let at_1: i32 = at + n
    for z in 1..m                                   for z in 1..m
      use(at)                                         use(at_1 + (z - 1) * n)
      at += n                                       let at_2: i32 = at_1 + max(m - 1, 0) * n
    use(at)                                         use(at_2)

Analyses of indices see through names and loop variables, not through assignments. Counted are variables that each
assignment changes in the list that declares them, or once, by what stands still, in each iteration of a loop of that
list.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping

from ktc.ir.analysis.order import jump
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import Counting, counting, why_unsteady
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import add, binary, cast, cdiv, fold_node, i32, is_const, mul, sub
from ktc.ir.nodes import AddrOf, Assign, Body, Call, Const, Decl, Expr, For, Load, Raw, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned, declared, substitute, substitute_expr, used, walk, walk_expr, with_bodies


def with_counted_values(body: Body, runs: Callable[[Expr], bool] = lambda n: False) -> Body:
    """``body`` with a name for each value of the integers that are counted in one of its lists. ``runs``: whether a
    loop of so many iterations is taken not to end before it begins."""
    body = tuple(with_bodies(s, lambda b: with_counted_values(b, runs)) for s in body)
    counted = _counted(body)
    now: dict[Sym, Expr] = {}
    out: list[Stmt] = []

    def named(v: Sym, value: Expr) -> None:
        name = fresh(v.name, v.type)
        out.append(Decl(name, value, const=True))
        now[v] = Var(name)

    for s in body:
        if isinstance(s, Assign) and s.sym in counted:
            named(s.sym, substitute_expr(s.value, now))
        elif isinstance(s, For) and (steps := {v: e for v in counted if (e := _step(s, v)) is not None}):
            loop, ends = _loop(s, steps, now, runs)
            out.append(loop)
            for v, end in ends.items():
                named(v, end)
        else:
            out += substitute((s,), now) if now else (s,)
    return tuple(out)


def _loop(
    s: For, steps: Mapping[Sym, Expr], now: Mapping[Sym, Expr], runs: Callable[[Expr], bool]
) -> tuple[For, dict[Sym, Expr]]:
    """The loop without what it counts, and what that is after it."""
    form = counting(s)
    assert form is not None and isinstance(form.hi.type, Scalar)
    rounds = substitute_expr(sub(form.hi, form.lo), now)
    if not runs(rounds):
        rounds = fold_node(Call("max", (rounds, cast(i32(0), form.hi.type)), form.hi.type))
    rounds = rounds if form.by_one else cdiv(rounds, form.by)
    start = {v: now.get(v, Var(v)) for v in steps}
    here = {v: _after(start[v], *_passed(s, form, steps[v])) for v in steps}
    body: list[Stmt] = []
    for x in s.body:
        if isinstance(x, Assign) and x.sym in steps:
            here[x.sym] = add(here[x.sym], cast(steps[x.sym], x.sym.type))  # type: ignore[arg-type]
        else:
            body += substitute((x,), {**now, **here})
    (head,) = substitute((dataclasses.replace(s, body=()),), now)
    assert isinstance(head, For)
    ends = {v: _after(start[v], rounds, steps[v]) for v in steps}
    return dataclasses.replace(head, body=tuple(body)), ends


def _passed(s: For, form: Counting, step: Expr) -> tuple[Expr, Expr]:
    """Two numbers whose product is what the iterations before this one have added, ``step`` each: how far the counter
    is and what that adds for one, where it counts by several."""
    far, p = sub(Var(s.var), form.lo), polynomial(step)
    if form.by_one:
        return far, step
    assert isinstance(form.by, Const) and isinstance(step.type, Scalar)
    by = int(form.by.value)
    if all(n % by == 0 for n in p.values()):
        return far, from_polynomial({f: n // by for f, n in p.items()}, step.type)
    return binary("/", far, form.by), step


def _after(start: Expr, rounds: Expr, step: Expr) -> Expr:
    """``start`` after so many steps."""
    t = start.type
    assert isinstance(t, Scalar)
    return add(start, mul(cast(rounds, t), cast(step, t)))


def _step(loop: For, v: Sym) -> Expr | None:
    """What each iteration of ``loop`` adds to ``v``; None where that is not the same in all, or nothing is known."""
    own = [s for s in loop.body if isinstance(s, Assign) and s.sym == v]
    loop_form = counting(loop)
    if len(own) != 1 or loop_form is None or why_unsteady(loop, loop_form) or jump(loop.body) is not None:
        return None
    if not isinstance(loop_form.by, Const) or loop_form.by.value < 1:
        return None
    form = linear_form(own[0].value, (v,))
    changing = assigned(loop.body) | set(declared(loop.body)) | {loop.var}
    if form is None or not is_const(form.coeff(v), 1) or used(form.rest) & changing:
        return None
    return None if any(isinstance(x, Load) for x in walk_expr(form.rest)) else form.rest


def _counted(body: Body) -> set[Sym]:
    """The integers that ``body`` declares and counts."""
    out: set[Sym] = set()
    mine = {s.sym for s in body if isinstance(s, Decl) and isinstance(s.sym.type, Scalar) and s.sym.type.is_int}
    again = assigned(body) & mine
    if not again:
        return out
    everywhere = Counter(s.sym for s in walk(body) if isinstance(s, Assign))
    others = {x for s in walk(body) for x in (getattr(s, "dst", None), *(o for _, o in getattr(s, "outputs", ())))}
    opaque = {b for x in all_exprs(body) if isinstance(x, AddrOf | Raw) for b in used(x)}
    for v in again - others - opaque:
        here = sum(isinstance(s, Assign) and s.sym == v for s in body)
        loops = sum(isinstance(s, For) and _step(s, v) is not None for s in body)
        if here + loops == everywhere[v]:
            out.add(v)
    return out


__all__ = ["with_counted_values"]
