"""Lanes of values that are computed again, with what they read as vectors where it lies side by side in memory.

before                                               after
    a[i * 4] + b[i * 4]                                  let a4: f32x4 = a[i * 4 +: 4], b4: f32x4 = b[i * 4 +: 4]
    a[i * 4 + 1] + b[i * 4 + 1]                          a4[0] + b4[0]
    ...                                                  a4[1] + b4[1]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

from ktc.ir.arith.polynomial import minus, polynomial
from ktc.ir.fields import children, with_children
from ktc.ir.fold import i32
from ktc.ir.nodes import Body, Const, Decl, Expr, Load, Select, Sym, Var, VecGet, VecMake, fresh
from ktc.ir.types import Array, Ptr, Scalar, Vec
from ktc.ir.walk import all_exprs, loads_in

Widths = Collection[tuple[Sym, int]]
"""Buffers, and how many elements of them a source reads at once: nothing else is known to be aligned to so many."""


def widths_in(body: Body) -> Widths:
    """The buffers that ``body`` reads in vectors, with the lengths of these."""
    loads = (e for e in all_exprs(body) if isinstance(e, Load))
    return {(e.buffer, e.width) for e in loads if isinstance(e.width, int) and e.width != 1}


def of_vectors(values: list[Expr], read: list[Decl], wide: Widths) -> list[Expr]:
    """``values``, each a lane of something, with what is read for them as lanes of vectors, which are added to
    ``read``: of those that are ``wide`` in the source."""
    whole = side_by_side(values, wide)
    if whole is not None and (load := next(loads_in(whole), None)) is not None:
        name = fresh(load.buffer.name, whole.type)
        read.append(Decl(name, whole, const=True))
        return [VecGet(Var(name), i32(k)) for k in range(len(values))]
    first, operands = values[0], [list(children(e)) for e in values]
    if any(type(e) is not type(first) or _with(e, operands[0]) != first for e in values) or isinstance(first, Load):
        return values
    parts = [of_vectors(list(each), read, wide) for each in zip(*operands)]
    return [_with(e, own) for e, own in zip(values, zip(*parts))] if parts else values


def _with(e: Expr, operands: Iterable[Expr]) -> Expr:
    rest = iter(operands)
    return with_children(e, lambda x: next(rest, x))


def side_by_side(values: list[Expr], wide: Widths) -> Expr | None:
    """``values``, of which those that are read lie side by side in memory, as one vector, if it is one of ``wide``, or
    in memory as such; None if they are others."""
    first = values[0]
    if isinstance(first, Select):
        choices = [e for e in values if isinstance(e, Select) and e.cond == first.cond]
        if len(choices) < len(values):
            return None
        a, b = side_by_side([e.a for e in choices], wide), side_by_side([e.b for e in choices], wide)
        return None if a is None or b is None else Select(first.cond, a, b)
    if isinstance(first, Const):
        same = all(e == first for e in values)
        return VecMake(Vec(first.type, len(values)), tuple(values)) if same else None
    if not isinstance(first, Load) or first.width != 1 or not isinstance(first.type, Scalar):
        return None
    if not isinstance(first.buffer.type, Ptr | Array):
        return None
    element, start = first.buffer.type.elem, polynomial(first.index[-1])  # type: ignore[attr-defined]
    for k, e in enumerate(values):
        if not isinstance(e, Load) or dataclasses.replace(e, index=first.index) != first:
            return None
        gap = minus(polynomial(e.index[-1]), start)
        if e.index[:-1] != first.index[:-1] or gap != ({(): k} if k else {}):
            return None
    if isinstance(element, Vec) and isinstance(first.buffer.type, Ptr):  # the last index is a lane
        whole = start == {} and element.n == len(values)
        return dataclasses.replace(first, index=first.index[:-1]) if whole else None
    return dataclasses.replace(first, width=len(values)) if (first.buffer, len(values)) in wide else None


__all__ = ["Widths", "of_vectors", "side_by_side", "widths_in"]
