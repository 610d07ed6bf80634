"""A loop over flat indices as the rows that the other launch has.

    par k in 0..rows * d @ [thread.x 256, block.x]          par r in 0..rows @ [block.x]
      q[k] = i8(f32(y[k]) * s)                      ->        par i in 0..d @ [thread.x 256, seq]
                                                                q[r * d + i] = i8(f32(y[r * d + i]) * s)

Iterations of a parallel loop have no order, so any of their nests will do: the one that has the rows of the other
launch is the one whose iterations can join its. A row's loop is spread as that launch spreads the loops over its rows.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith.polynomial import polynomial, times
from ktc.ir.fold import add, cast, is_const, mul
from ktc.ir.nodes import Par, Reduce, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import substitute, used


def refolded(first: Par, second: Par) -> Par:
    """``second`` with the outer loop of ``first``, where it runs over the elements of the rows that this has; as it is
    where it does not."""
    if polynomial(first.hi) == polynomial(second.hi) or not (is_const(first.lo, 0) and is_const(second.lo, 0)):
        return second
    rows = polynomial(first.hi)
    for inner in first.body:
        if not isinstance(inner, Par | Reduce) or not is_const(inner.lo, 0) or used(inner.hi) & {first.var}:
            continue
        if times(rows, polynomial(inner.hi)) == polynomial(second.hi):
            return _nest(first, inner, second)
    return second


def _nest(first: Par, inner: Par | Reduce, second: Par) -> Par:
    flat = second.var
    assert isinstance(flat.type, Scalar)
    row, place = fresh(first.var.name, first.var.type, first.var.stem), fresh(flat.name, inner.var.type, flat.stem)
    index = add(mul(cast(Var(row), flat.type), cast(inner.hi, flat.type)), cast(Var(place), flat.type))
    body = substitute(second.body, {flat: index})
    loop = dataclasses.replace(second, var=place, lo=inner.lo, hi=inner.hi, dist=inner.dist, body=body)
    return Par(row, first.lo, first.hi, first.dist, (loop,), loc=second.loc, comments=second.comments)


__all__ = ["refolded"]
