"""Threads that go through chunks of elements, of which one goes on with the rest: threads that share out all elements.

before (a thread of 128)                           after
    var l = 4 * t                                      for l = t; l < n; l + 128
    while l + 3 < n                                      s += x[l]
      for k in 0..4
        s += x[l + k]
      l += 512
    while l < n
      s += x[l]
      l += 1

The thread whose chunk would end behind ``n`` finds the rest. What is done to an element is taken from the loop over the
rest; that the other one does the same is a guess, as all that is raised is.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import add, cast, evaluate, i32, lt, mul, product, simplify
from ktc.ir.nodes import Assign, Decl, Expr, For, Par, Reduce, Stmt, Sym, Var, While, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, substitute, used, used_in
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound


def shared_out_evenly(s: Par | Reduce) -> Par | Reduce:
    """``s``, over threads, with such loops at its end as one strided loop."""
    if len(s.body) < 3 or any(lv.n is None for lv in s.dist):
        return s
    *before, chunks, rest = s.body
    if not isinstance(chunks, While) or not isinstance(rest, While):
        return s
    counter = rest.body[-1].sym if rest.body and isinstance(rest.body[-1], Assign) else None
    at = next((d for d in before if isinstance(d, Decl) and d.sym == counter), None)
    if at is None or at.init is None:
        return s
    place, t = at.sym, at.sym.type
    start, end = linear_form(at.init, {s.var}), upper_bound(rest.cond, place)
    length = evaluate(start.coeff(s.var), {}) if start is not None else None
    whole = upper_bound(chunks.cond, place)
    if start is None or end is None or whole is None or not length or length < 2 or not isinstance(t, Scalar):
        return s
    threads = product([lv.n for lv in s.dist if lv.n is not None])
    steps = _step(chunks, place), _step(rest, place)
    if steps[0] is None or steps[1] is None or not same(steps[1], i32(1)):
        return s
    if not same(steps[0], mul(threads, i32(int(length)))) or not same_value(add(whole, i32(int(length) - 1)), end):
        return s
    moving = assigned((chunks, rest))
    if used(end) & (moving | {s.var}) or used_in(tuple(x for x in before if x is not at)) & {place}:
        return s
    if isinstance(s, Reduce) and any(place in used(a.value) for a in s.accs):
        return s
    i = fresh(place.stem, t)
    first = simplify(add(cast(Var(s.var), t), cast(start.rest, t)))
    body = substitute(rest.body[:-1], {place: Var(i)})
    loop = For(i, first, lt(Var(i), cast(end, t)), add(Var(i), cast(threads, t)), body, loc=rest.loc,
               tags=frozenset({f"loop:{i.name}"}))  # fmt: skip
    return dataclasses.replace(s, body=(*(x for x in before if x is not at), loop))


def _step(loop: While, place: Sym) -> Expr | None:
    """What ``loop`` adds to ``place`` in its last statement, where it does not change it before."""
    last: Stmt | None = loop.body[-1] if loop.body else None
    if not isinstance(last, Assign) or last.sym != place or place in assigned(loop.body[:-1]):
        return None
    form = linear_form(last.value, {place})
    return form.rest if form is not None and same(form.coeff(place), i32(1)) else None


__all__ = ["shared_out_evenly"]
