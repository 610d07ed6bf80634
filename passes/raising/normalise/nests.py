"""Loop nests made plain: counted pointers as functions of the loop, tile loops joined, guards moved outward.

for t in 0..cdiv(K, 16): for k in 0..16: acc += t * 16 + k < K ? f(t * 16 + k) : 0     ->     for k in 0..K: acc += f(k)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith import NATURAL
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.divisors import quotient
from ktc.ir.arith.polynomial import Polynomial, from_polynomial, minus, polynomial
from ktc.ir.fold import add, binary, cast, cdiv, evaluate, fold_node, i32, is_const, mul, plus_number, simplify, sub
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Call,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    fresh,
)  # fmt: skip
from ktc.ir.purity import is_movable, is_removable
from ktc.ir.types import I32, Scalar, is_signed_integer
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    rename,
    substitute,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
)
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound
from ktc.passes.shared.serial_sums import counted_to

from .merge import rewritten
from .range_digits import Ranges, resolved

# ------------------------------------------------------------------------------------------------- counted pointers


def closed_forms(body: Body) -> Body:
    """``p += d`` once per round of a counted loop, as a function of the loop variable.

    before                     after
        var p: i32 = p0            var p: i32 = p0
        for k in 1..n              for k in 1..n
          use(p)                     use(p + (k - 1) * d)
          p += d
        use(p)                     let p_end: i32 = p + max(n - 1, 0) * d
                                   use(p_end)

    One that is declared further out has the same added after the loop, and is a function of the outer loops, too:

        for j in 0..m              for j in 0..m
          for k in 0..8              for k in 0..8
            use(p)                     use(p + j * 8 + k)
            let old: i32 = p
            p = old + 1
    """
    out: list[Stmt] = []
    rest = list(body)
    while rest:
        s = rest.pop(0)
        ends: list[Stmt] = []
        if isinstance(s, If):
            s = dataclasses.replace(s, then=closed_forms(s.then), orelse=closed_forms(s.orelse))
        elif isinstance(s, For):
            s = dataclasses.replace(s, body=closed_forms(s.body))
            for sym in dict.fromkeys(a.sym for a in s.body if isinstance(a, Assign)):
                a = next(a for a in s.body if isinstance(a, Assign) and a.sym == sym)
                s, rest = _closed(s, a, rest, out, ends)
        out += [s, *ends]
    return _without_unused(tuple(out), kept=set(declared(body)) - assigned(body))


def _without_unused(body: Body, kept: set[Sym]) -> Body:
    """``body`` without declarations that nothing uses or assigns, but for those of ``kept``."""
    while True:
        needed = used_in(body) | assigned(body) | kept
        rest = tuple(s for s in body if not isinstance(s, Decl) or s.sym in needed or not _is_free(s))
        if len(rest) == len(body):
            return body
        body = rest


def _is_free(s: Decl) -> bool:
    return s.init is None or is_removable(s.init)


def _closed(loop: For, a: Assign, after: list[Stmt], before: list[Stmt], ends: list[Stmt]) -> tuple[For, list[Stmt]]:
    """``loop`` without the increment ``a``, and what follows it; what the variable ends as, if that is used, is added
    to ``ends``. Both as they were where the increment is something else."""
    t, vt = a.sym.type, loop.var.type
    if not (isinstance(t, Scalar) and t.is_int and isinstance(vt, Scalar)):
        return loop, after
    if a.sym in set(declared(loop.body)):
        return loop, after  # each iteration has its own, which begins anew
    at = loop.body.index(a)
    copies = [d.sym for d in loop.body[:at] if isinstance(d, Decl) and d.const and d.init == Var(a.sym)]
    form, step = linear_form(substitute_expr(a.value, dict.fromkeys(copies, Var(a.sym))), {a.sym}), loop_step(loop)
    if form is None or not same(form.coeff(a.sym), i32(1)) or step is None:
        return loop, after
    changed = assigned(loop.body) | set(declared(loop.body)) | {loop.var}
    if used(step) & changed or used(form.rest) & changed or any(isinstance(x, Load) for x in walk_expr(form.rest)):
        return loop, after
    if sum(isinstance(x, Assign) and x.sym == a.sym for x in walk(loop.body)) != 1 or _leaves(loop.body):
        return loop, after
    each = cast(form.rest, t)
    start = next((d for d in reversed(before) if isinstance(d, Decl) and d.sym == a.sym), None)
    is_declared_here = start is not None
    is_known = start is not None and isinstance(start.init, Const) and a.sym not in assigned(tuple(before))
    entry = start.init if start is not None and start.init is not None and is_known else Var(a.sym)
    changes_later = a.sym in assigned(tuple(after))
    if not is_declared_here or changes_later or a.sym in used_in(tuple(after)):
        end = counted_to(loop)
        if end is None or used(end) & changed:
            return loop, after
        rounds = fold_node(Call("max", (cast(sub(end, loop.init), vt), cast(i32(0), vt)), vt))
        value = add(entry, mul(cast(rounds, t), each))
        if is_declared_here:
            last = fresh(f"{a.sym.name.removesuffix('_end')}_end", t)
            ends.append(Decl(last, value, const=not changes_later, loc=a.loc))
            after = list(rename(tuple(after), {a.sym: last}))
        else:
            ends.append(Assign(a.sym, value, loc=a.loc))
    first = evaluate(loop.init, {})
    rounds = sub(Var(loop.var), loop.init) if first is None else plus_number(Var(loop.var), -int(first))
    if same(form.rest, step):
        moved = cast(rounds, t)
    else:
        moved = mul(cast(binary("/", rounds, cast(step, vt)), t), each)
    now, then = add(entry, moved), add(add(entry, moved), each)
    body = substitute(loop.body[:at], {a.sym: now}) + substitute(loop.body[at + 1 :], {a.sym: then})
    return dataclasses.replace(loop, cond=substitute_expr(loop.cond, {a.sym: now}), body=body), after


def _leaves(body: Body) -> bool:
    return any(isinstance(x, Break | Continue | Return) for x in walk(body))


# ---------------------------------------------------------------------------------------------------- guards outward


def guarded(body: Body) -> Body:
    """Private computation that only a final guarded statement uses, inside that guard."""
    if not body or not isinstance(body[-1], If) or body[-1].orelse or len(body) == 1:
        return body
    guard = body[-1]
    front: list[Stmt] = list(body[:-1])
    back: list[Stmt] = []
    needed = used(guard.cond)
    while front and _private(front[-1]) and not (set(declared((front[-1],))) | assigned((front[-1],))) & needed:
        back.insert(0, front.pop())
    stay: list[Stmt] = []
    moved: list[Stmt] = []
    for s in front:  # index constants that the condition needs stay; the rest may follow
        (stay if not _private(s) or (set(declared((s,))) | assigned((s,))) & needed else moved).append(s)
    if any(not _private(s) for s in front):
        stay, moved = front, []
    if {a for s in stay for a in used_in((s,))} & {d for s in moved for d in (*declared((s,)), *assigned((s,)))}:
        stay, moved = front, []
    if not back and not moved:
        return body
    return (*stay, dataclasses.replace(guard, then=(*moved, *back, *guard.then)))


def guards_outward(body: Body) -> Body:
    """``guarded`` in every parallel loop: what bounds it is seen, and an iteration beyond computes nothing."""
    return map_body(body, lambda s: dataclasses.replace(s, body=guarded(s.body)) if isinstance(s, Par) else s)


def unswitched(body: Body) -> Body:
    """A condition that every round of a serial loop shares, around the loop."""
    return map_body(body, _unswitched)


def _unswitched(s: Stmt) -> Stmt:
    inner = guarded(s.body) if isinstance(s, For) else ()
    if not isinstance(s, For) or len(inner) != 1 or not isinstance(inner[0], If) or inner[0].orelse:
        return s
    guard = inner[0]
    changed = assigned(s.body) | set(declared(s.body)) | {s.var}
    if used(guard.cond) & changed or any(isinstance(x, Load) for x in walk_expr(guard.cond)):
        return s
    return dataclasses.replace(guard, then=(dataclasses.replace(s, body=guard.then),))


def _private(s: Stmt) -> bool:
    for x in walk((s,)):
        if isinstance(x, Barrier | Return | Atomic):
            return False
        if isinstance(x, Store) and getattr(x.buffer.type, "space", "local") != "local":
            return False
    if isinstance(s, Break | Continue):
        return False
    return not any(isinstance(e, WarpOp) or (isinstance(e, Call) and e.effects not in ("pure", "read"))
                   for e in all_exprs((s,)))  # fmt: skip


# -------------------------------------------------------------------------------------------------------- tile loops


def joined(body: Body, ranges: Ranges) -> Body:
    """Loops over tiles and the elements of a tile, used together only, as one loop."""
    named = definitions(body)
    return map_body(body, lambda s: _join(s, ranges, named))


def _join(s: Stmt, ranges: Ranges, named: Mapping[Sym, Expr]) -> Stmt:
    if not isinstance(s, For) or not s.body or not isinstance(s.body[-1], For):
        return s
    outer = _without_names(s)
    if len(outer.body) != 1 or not isinstance(inner := outer.body[0], For):
        return s
    t = outer.var.type
    hi_in, hi_out = upper_bound(inner.cond, inner.var), upper_bound(outer.cond, outer.var)
    if not (is_const(inner.init, 0) and is_const(outer.init, 0)) or hi_in is None or hi_out is None:
        return s
    if not isinstance(t, Scalar) or _leaves(inner.body) or inner.var.type != t:
        return s
    if not (_steps(inner, i32(1)) and (used(hi_in) & ({outer.var} | set(declared(outer.body)))) == set()):
        return s
    if {outer.var, inner.var} & assigned(outer.body) or assigned(outer.body) & (used(hi_out) | used(hi_in)):
        return s
    content = inner.body
    if _steps(outer, i32(1)):
        tiles = hi_out
    elif _steps(outer, hi_in):
        content = substitute(content, {outer.var: mul(Var(outer.var), hi_in)})
        content = resolved(content, {**ranges, Var(outer.var): NATURAL, Var(inner.var): NATURAL})
        tiles = cdiv(hi_out, hi_in)
    else:
        return s
    found = rewritten(content, inner.var, outer.var, hi_in, inner.var.name, digits=True)
    if found is None:
        return s
    w, new = found
    hi = _end(new, w, hi_in, expand(cast(tiles, t), named))
    cond, step = Binary("<", Var(w), hi), add(Var(w), Const(1, t))
    return For(w, Const(0, t), cond, step, new, loc=outer.loc, comments=(*outer.comments, *inner.comments),
               tags=frozenset({f"loop:{w.name}"}))  # fmt: skip


def _without_names(s: For) -> For:
    """``s`` with the integers that it names in front of its loop in their places: ``first = tile * 8``."""
    values: dict[Sym, Expr] = {}
    for d in s.body[:-1]:
        if not isinstance(d, Decl) or d.init is None or d.sym in assigned(s.body) or not is_movable(d.init):
            return s
        if not isinstance(d.sym.type, Scalar) or not d.sym.type.is_int:
            return s
        values[d.sym] = substitute_expr(d.init, values)
    return dataclasses.replace(s, body=substitute(s.body[-1:], values))


def _steps(s: For, by: Expr) -> bool:
    step = loop_step(s)
    return step is not None and same(step, by)


def _end(body: Body, w: Sym, tile: Expr, tiles: Expr) -> Expr:
    """Where the joined loop ends: at the bound that the elements' guards give, if they have one; else tile * tiles."""
    t = w.type
    assert isinstance(t, Scalar)
    guards = [c for e in all_exprs(body) if isinstance(e, Select) for c in conjuncts_of(e.cond)]
    bounds = [b for c in guards if (b := upper_bound(c, w)) is not None]
    if not bounds or not all(same(bounds[0], b) for b in bounds):
        bounds = [b for c in guards if (b := _rows(c, w)) is not None]
    if bounds and all(same(bounds[0], b) for b in bounds) and covers(tiles, tile, bounds[0]):
        return cast(bounds[0], t)
    return cast(simplify(mul(tiles, cast(tile, t))), t)


def _rows(c: Expr, w: Sym) -> Expr | None:
    """``m`` where ``c`` says that the element ``w * n + x`` is one of the first ``m * n``: the row ``w`` is one of
    ``m``, if ``x`` is a column, which the comparison with the source has to show."""
    if not isinstance(c, Binary) or c.op not in ("<", ">") or not is_signed_integer(c.a.type):
        return None
    small, large = (c.a, c.b) if c.op == "<" else (c.b, c.a)
    room = minus(polynomial(large), polynomial(small))
    steps = [f for f in room if Var(w) in f]
    if len(steps) != 1 or steps[0].count(Var(w)) != 1 or room[steps[0]] != -1 or len(steps[0]) == 1:
        return None
    n: Polynomial = {tuple(x for x in steps[0] if x != Var(w)): 1}
    return None if (m := quotient({f: k for f, k in room.items() if k > 0}, n)) is None else from_polynomial(m, I32)


def covers(tiles: Expr, tile: Expr, n: Expr) -> bool:
    """Whether ``tiles`` is ceil(n / tile)."""
    return same(tiles, cdiv(n, tile)) or same(tiles, binary("/", sub(add(n, tile), i32(1)), tile))


__all__ = ["closed_forms", "covers", "guarded", "guards_outward", "joined", "unswitched"]
