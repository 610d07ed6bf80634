"""What a loop over vectors accumulates lane by lane, once for each vector: a sum that the loop can be a reduction of.

before                                          after
    for i in tid..n / 4 step 256                    for i in tid..n / 4 step 256
      var v: f32x4 = x[i * 4 +: 4]                    var v: f32x4 = x[i * 4 +: 4]
      for k in 0..4                                   var part: f32 = 0.0
        s += v[k]                                     for k in 0..4
                                                        part += v[k]
                                                      s += part

Sums are taken in another order then, as in every reduction.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.nodes import Assign, Body, Decl, For, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import declared, map_body, rename, stmt_exprs, used, walk
from ktc.passes.shared.accumulations import accumulation

from .wide_accesses import lanes_in


def sums_of_parts(body: Body) -> Body:
    """``body`` with such sums in its loops over vectors."""
    return map_body(body, lambda s: with_parts(s) if isinstance(s, For) and lanes_in(s.body) else s)


def with_parts(s: For) -> For:
    """``s`` with such sums once an iteration."""
    outer = {x.sym for x in walk(s.body) if isinstance(x, Assign)} - set(declared(s.body))
    before: list[Stmt] = []
    after: list[Stmt] = []
    parts: dict[Sym, Sym] = {}
    for v in sorted(outer, key=lambda v: v.id):
        op = _accumulated(v, s.body)
        if op is None or not isinstance(v.type, Scalar):
            continue
        part = parts[v] = fresh(v.name, v.type)
        before.append(Decl(part, identity(op, v.type), loc=s.loc))
        after.append(Assign(v, combine(op, Var(v), Var(part)), loc=s.loc))
    if not parts:
        return s
    return dataclasses.replace(s, body=(*before, *rename(s.body, parts), *after))


def _accumulated(v: Sym, body: Body) -> str | None:
    """The operation by which ``body`` accumulates into ``v``, more than once or in a loop; None if it looks at it in
    another way."""
    ops: set[str] = set()
    for x in walk(body):
        if isinstance(x, Assign) and x.sym == v:
            found = accumulation(x)
            if found is None or v in used(found.value):
                return None
            ops.add(found.op)
        elif any(v in used(e) for e in stmt_exprs(x)):
            return None
    at_once = sum(isinstance(x, Assign) and x.sym == v for x in body)
    everywhere = sum(isinstance(x, Assign) and x.sym == v for x in walk(body))
    return ops.pop() if len(ops) == 1 and (everywhere > 1 or not at_once) else None


__all__ = ["sums_of_parts", "with_parts"]
