"""Loops that count elements in steps of whole vectors, as loops that count the vectors.

before                                          after
    for i in tx * 8..d step 8 * threads             for i in tx..cdiv(d, 8) step threads
      var v: f16x8 = x[i +: 8]                        var v: f16x8 = x[i * 8 +: 8]

Sources that take their elements one by one, or by their bytes, deal out several at once in the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import gcd

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import add, cast, cdiv, i32, lt, mul
from ktc.ir.nodes import Body, Expr, For, Par, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_body, substitute, walk
from ktc.passes.raising.recognise.coordinates import depends_on_thread
from ktc.passes.shared.loop_bounds import upper_bound

from .wide_accesses import lanes_in


def counting_vectors(body: Body) -> Body:
    """``body`` with its loops over vectors counting these, also where the first element has a name."""
    named = definitions(body)
    return map_body(body, lambda s: _counted(s, named) if isinstance(s, For) else s)


def counting_parts(body: Body) -> Body:
    """``body`` with its loops over what threads take at once counting these, whether or not an access says how much."""
    named = definitions(body)
    return map_body(body, lambda s: _by_parts(s, named) if isinstance(s, For) else s)


def one_by_one(body: Body) -> Body:
    """``body`` with the loops that threads go through one after another, over vectors and over the elements behind
    them, each in a loop over threads of its own."""

    def on(s: Stmt) -> Stmt | Body:
        if not isinstance(s, Par) or len(s.body) < 2 or not all(isinstance(x, For) for x in s.body):
            return s
        if not lanes_in(s.body):
            return s
        each = [(fresh(s.var.name, s.var.type), x) for x in s.body]
        return tuple(dataclasses.replace(s, var=v, body=substitute((x,), {s.var: Var(v)})) for v, x in each)

    return map_body(body, on)


def _counted(s: For, named: Mapping[Sym, Expr]) -> Stmt:
    inner = any(isinstance(x, For) and lanes_in(x.body) for x in walk(s.body))
    return s if inner else _counting(s, lanes_in(s.body), named)


def _by_parts(s: For, named: Mapping[Sym, Expr]) -> Stmt:
    step, first = loop_step(s), expand(s.init, named)
    if step is None or not depends_on_thread(first):
        return s
    if lanes_in(s.body):
        return _counted(s, named)
    return _counting(s, gcd(*polynomial(first).values(), *polynomial(expand(step, named)).values()), named)


def _counting(s: For, count: int, named: Mapping[Sym, Expr]) -> Stmt:
    """``s``, which begins and steps by multiples of ``count``, one by one; as it is where it does not."""
    hi, step, t = upper_bound(s.cond, s.var), loop_step(s), s.var.type
    if count < 2 or hi is None or step is None or s.var in assigned(s.body) or not isinstance(t, Scalar):
        return s
    first, stride = _over(expand(s.init, named), count), _over(expand(step, named), count)
    if first is None or stride is None:
        return s
    q = fresh(s.var.name, t)
    n = cast(i32(count), t)
    body = substitute(s.body, {s.var: mul(Var(q), n)})
    return For(q, cast(first, t), lt(Var(q), cdiv(cast(hi, t), n)), add(Var(q), cast(stride, t)), body, s.unroll,
               loc=s.loc, comments=s.comments, tags=s.tags)  # fmt: skip


def _over(e: Expr, count: int) -> Expr | None:
    """``e / count`` where that leaves no rest, whatever ``e`` is made of."""
    p = polynomial(e)
    if any(k % count for k in p.values()):
        return None
    return from_polynomial({f: k // count for f, k in p.items()}, e.type)


__all__ = ["counting_parts", "counting_vectors", "one_by_one"]
