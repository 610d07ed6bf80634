"""Flat shared arrays of several planes by plane, row and column: what threads move on is whole planes apart.

    s[x + 1 + (y + 1) * 34 + 340] = s[x + 1 + (y + 1) * 34]           s[1, y + 1, x + 1] = s[0, y + 1, x + 1]

The distance between cells that a thread moves is a plane, the largest factor of an index a row. A guess: that an index
leaves no row and no plane is for whoever builds on it to find.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.polynomial import Polynomial, from_polynomial, minus, polynomial
from ktc.ir.fold import cast, evaluate, i32, simplify
from ktc.ir.nodes import Alloc, Binary, Body, Expr, For, If, Load, Stmt, Store, Sym, fresh
from ktc.ir.types import I32, Array
from ktc.ir.walk import all_exprs, map_body, walk


def by_plane(body: Body, arrays: Iterable[Sym]) -> Body:
    """``body`` with those of ``arrays`` by plane, row and column that are flat and hold rotated planes."""
    names = definitions(body)
    for array in arrays:
        indices = indices_of(body, array)
        plane = _plane(body, array, names)
        sides = None if plane is None else _sides(array, plane, [flat_index(i, names) for i in indices])
        if sides is not None:
            body, _ = reshaped(body, array, sides, names)
    return body


def flat_index(index: Sequence[Expr], names: Mapping[Sym, Expr]) -> Polynomial:
    return polynomial(simplify(expand(cast(index[0], I32), names)))


def indices_of(body: Body, array: Sym) -> list[tuple[Expr, ...]]:
    loads = [x.index for x in all_exprs(body) if isinstance(x, Load) and x.buffer == array]
    return [*loads, *(s.index for s in walk(body) if isinstance(s, Store) and s.buffer == array)]


def _plane(body: Body, array: Sym, names: Mapping[Sym, Expr]) -> int | None:
    """Elements of one plane of ``array``: the distance between cells that are stored from one another in a loop."""
    if not isinstance(array.type, Array) or len(array.type.shape) != 1:
        return None
    found = 0
    for loop in (s for s in walk(body) if isinstance(s, For)):
        for s in (x for g in loop.body if isinstance(g, If) for x in g.then if isinstance(x, Store)):
            if s.buffer == array and isinstance(s.value, Load) and s.value.buffer == array:
                gap = minus(flat_index(s.index, names), flat_index(s.value.index, names))
                if set(gap) != {()}:
                    return None
                found = gcd(found, abs(gap[()]))
    return found or None


def _sides(array: Sym, plane: int, indices: Sequence[Polynomial]) -> tuple[int, ...] | None:
    """The lengths of ``array`` by plane, row and column; None if it has no whole planes."""
    assert isinstance(array.type, Array)
    whole = evaluate(array.type.shape[0], {})
    if whole is None or whole % plane or whole == plane:
        return None
    factors = {abs(k) for p in indices for f, k in p.items() if f and abs(k) > 1 and plane % abs(k) == 0}
    row = max(factors, default=plane)
    return (int(whole) // plane, plane // row, row) if row < plane else (int(whole) // plane, plane)


def reshaped(
    body: Body, array: Sym, sides: tuple[int, ...], names: Mapping[Sym, Expr], divided: bool = False
) -> tuple[Body, Sym]:
    """``body`` with ``array``, which is flat, of these lengths; and that array. ``divided``: places in rows that are
    written are quotients and remainders of what they were, whatever that is made of."""
    t = array.type
    assert isinstance(t, Array)
    new = fresh(array.name, dataclasses.replace(t, shape=tuple(map(i32, sides))))

    def digits(index: Sequence[Expr]) -> tuple[Expr, ...]:
        p, out = flat_index(index, names), []
        strides = [sides[-1] * sides[-2], sides[-1]] if len(sides) == 3 else [sides[-1]]
        for stride in strides:
            first = {f: k // stride for f, k in p.items() if k % stride == 0 or not f}
            p = minus(p, {f: k * stride for f, k in first.items()})
            out.append(from_polynomial({f: k for f, k in first.items() if k}, I32))
        return (*out, from_polynomial(p, I32))

    def written(index: Sequence[Expr]) -> tuple[Expr, ...]:
        flat, row = from_polynomial(flat_index(index, names), I32), i32(sides[-1])
        return (Binary("/", flat, row), Binary("%", flat, row)) if divided else digits(index)

    def value(e: Expr) -> Expr:
        return dataclasses.replace(e, buffer=new, index=digits(e.index)) if _is_of(e, array) else e  # type: ignore[attr-defined,call-arg]

    def statement(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer == array:
            return dataclasses.replace(s, buffer=new, index=written(s.index))
        return dataclasses.replace(s, sym=new) if isinstance(s, Alloc) and s.sym == array else s

    return map_body(body, statement, value), new


def _is_of(e: Expr, array: Sym) -> bool:
    return isinstance(e, Load) and e.buffer == array


__all__ = ["by_plane", "flat_index", "indices_of", "reshaped"]
