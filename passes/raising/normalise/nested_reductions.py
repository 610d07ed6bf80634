"""A reduction over rows of threads around one over the threads of a row, as one over all of them.

before                                                     after
    reduce(+) s over ty in 0..4 @ [thread.y 4]                 reduce(+) s over t in 0..128 @ [thread.x 32, thread.y 4]
      reduce(+) s_1 over tx in 0..32 @ [thread.x 32]             for i in t..n step 128
        for i in tx + 32 * ty..n step 128                          p += x[i]
          p += x[i]                                              yield p
        yield p
      yield s_1

Where the two numbers only occur as that of the thread in the block; the loop is a strided one then (:mod:`.tidy`).
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.accumulators import is_identity
from ktc.ir.fold import cast, is_const, mul, simplify
from ktc.ir.nodes import Assign, Reduce, Stmt, Var, fresh
from ktc.ir.types import Scalar, scalar_of

from .merge import rewritten


def joined_reduction(s: Stmt) -> Stmt:
    """``s`` as one reduction, if it is two around each other."""
    if not isinstance(s, Reduce) or len(s.body) != 1 or not isinstance(inner := s.body[0], Reduce):
        return s
    t = s.var.type
    of = {a.sym: a for a in inner.accs}
    pairs = [(a, of.get(a.value.sym) if isinstance(a.value, Var) else None) for a in s.accs]
    if not (isinstance(t, Scalar) and s.dist and inner.dist and is_const(s.lo, 0) and is_const(inner.lo, 0)):
        return s
    if len(pairs) != len(of) or not {s.var, inner.var}.isdisjoint(a.sym for a in s.accs):
        return s
    values = []
    for a, b in pairs:
        if (
            b is None
            or b.op != a.op
            or a.sym.type != b.sym.type
            or not is_identity(b.init, b.op, scalar_of(b.sym.type))
        ):
            return s
        values.append(Assign(fresh(a.sym.name, a.sym.type), b.value))
    extent = cast(inner.hi, t)
    found = rewritten((*inner.body, *values), inner.var, s.var, extent, "t")
    if found is None:
        return s
    var, whole = found
    body, last = whole[: -len(values)], whole[-len(values) :]
    accs = tuple(
        dataclasses.replace(a, value=x.value) for (a, _), x in zip(pairs, last) if isinstance(x, Assign)
    )  # fmt: skip
    vt = scalar_of(var.type)
    hi = simplify(mul(cast(extent, vt), cast(s.hi, vt)))
    return Reduce(accs, var, cast(s.lo, vt), hi, (*inner.dist, *s.dist), body, loc=s.loc,
                  comments=(*s.comments, *inner.comments), tags=s.tags)  # fmt: skip


__all__ = ["joined_reduction"]
