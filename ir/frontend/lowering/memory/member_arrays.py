"""Array members of a struct that is passed by value: an element that is known by its number is its parameter.

before                              after
    array t_sizes: i32[2]
    t_sizes[0] = t_sizes_0
    t_sizes[1] = t_sizes_1
    if i < t_sizes[1]                   if i < t_sizes_1

The elements are parameters of the kernel, copied into an array that any index may be used with. Where they are not
written again, a load of one of them, of a copy of the struct too, is the parameter; an array that nobody asks with any
other index is not there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from ktc.ir.fold import evaluate, simplify
from ktc.ir.nodes import Alloc, Body, Const, Expr, Load, Stmt, Store, Sym, Var, has_bodies
from ktc.ir.storage import is_local_array
from ktc.ir.types import I32
from ktc.ir.walk import map_body, map_expr, map_stmt_exprs, mentions, stmt_exprs, used, used_in, walk

Element = tuple[Sym, int]
Values = dict[Element, Expr]
S = TypeVar("S", bound=Stmt)


def without_member_arrays(body: Body, elements: Collection[Sym]) -> Body:
    """``body`` with the parameters ``elements`` of array members where an element of such an array is loaded."""
    arrays = {s.sym for s in body if isinstance(s, Alloc) and is_local_array(s.sym)} if elements else set()
    arrays -= _written_anyhow(body, arrays)
    values: Values = {}
    out: list[Stmt] = []
    for s in body:
        s = _known(s, values)
        if isinstance(s, Store) and isinstance(s.value, Var) and s.value.sym in elements and s.buffer in arrays:
            values[s.buffer, place_of(s)] = s.value
        out.append(s)
    filled = {b for b, _ in values}
    asked = {b for s in out if not (isinstance(s, Store) and s.buffer in filled) for b in used_in((s,))}
    gone = filled - asked
    return tuple(s for s in out if not _is_of(s, gone))


def _written_anyhow(body: Body, arrays: Collection[Sym]) -> set[Sym]:
    """Those of ``arrays`` that are not simply filled: an element that is stored twice, or not at the top, or at a place
    that is no number, or an array that something else than loads and stores is given."""
    found: set[Sym] = set()
    stored: set[Element] = set()
    top = {id(s) for s in body}
    for s in walk(body):
        found |= {b for b in whole_uses(s) if b in arrays}
        if isinstance(s, Store) and s.buffer in arrays:
            place = s.buffer, place_of(s)
            if place[1] < 0 or place in stored or id(s) not in top:
                found.add(s.buffer)
            stored.add(place)
    return found


def whole_uses(s: Stmt, *, wide: bool = False) -> set[Sym]:
    """What ``s`` itself uses or assigns, but for the buffers of its loads of one element, or of several where these are
    ``wide``, and of a store."""

    def value(e: Expr) -> Expr:
        return Const(0, I32) if isinstance(e, Load) and (wide or e.width == 1) and isinstance(e.buffer, Sym) else e

    if isinstance(s, Alloc):
        return set()
    if isinstance(s, Store) or has_bodies(s):
        return {b for e in stmt_exprs(s) for b in used(map_expr(e, value))}
    plain = map_stmt_exprs(s, value)
    return {*mentions(plain)}


def _known(s: S, values: Values) -> S:
    """``s`` with the values of elements that are known."""

    def value(e: Expr) -> Expr:
        return values.get((e.buffer, place_of(e)), e) if isinstance(e, Load) else e

    return map_body((s,), lambda x: x, value)[0] if values else s  # type: ignore[return-value]


def place_of(access: Load | Store) -> int:
    """Which element is accessed; -1 if that is no number, or several are."""
    one = access.width == 1 and len(access.index) == 1
    n = evaluate(simplify(access.index[0]), {}) if one else None
    return int(n) if n is not None else -1


def _is_of(s: Stmt, arrays: Collection[Sym]) -> bool:
    """Whether ``s`` declares or fills one of ``arrays``."""
    return (isinstance(s, Alloc) and s.sym in arrays) or (isinstance(s, Store) and s.buffer in arrays)


__all__ = ["place_of", "whole_uses", "without_member_arrays"]
