"""Parameters that say how many terms in a row share an element, such as a scale of quantised weights.

    for k in 0..terms
      s += x[k] * (f32(q[k]) * scale[k / group])

With a number in their place a group's terms are added up before they are scaled, in tiles of as many (``specialize``
makes such a kernel).
"""

from __future__ import annotations

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, For, Reduce, Var
from ktc.ir.walk import all_exprs, used, walk


def group_sizes(kernel: Kernel) -> list[str]:
    """The names of the parameters of ``kernel`` by which it divides what counts the terms of a sum."""
    params = {p.sym for p in kernel.params if not p.host}
    counters = {s.var for s in walk(kernel.body) if isinstance(s, For | Reduce)}
    divisors = {
        by.sym.name
        for e in all_exprs(kernel.body)
        if isinstance(e, Binary) and e.op == "/" and isinstance(by := without_casts(e.b), Var)
        if by.sym in params and used(e.a) & counters
    }
    return sorted(divisors)


__all__ = ["group_sizes"]
