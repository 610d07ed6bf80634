"""Objects that lie in an array of elements, of which every access says by its number which element it means.

before                              after
    array m_value: f32[4]
    m_value[0] = a                      var m_value_0: f32 = a
    y[i] = m_value[0] + m_value[3]      y[i] = m_value_0 + m_value_3

An object is in an array where a member function asks for its members by number (``(&x)[i]``) or where a member is an
array of objects, as the columns of a matrix are. Where all functions that were inlined asked for numbers, the members
are variables again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktc.ir.nodes import Alloc, Assign, Body, Decl, Expr, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array
from ktc.ir.walk import commented, map_body, stmt_exprs, walk, walk_expr

from .member_arrays import place_of, whole_uses

Element = tuple[Sym, int]


def with_object_elements(body: Body, objects: Collection[Sym]) -> Body:
    """``body`` with a variable for each element of those of the arrays ``objects`` that only numbers index."""
    arrays = {s.sym for s in walk(body) if isinstance(s, Alloc) and s.sym in objects} if objects else set()
    places = {(a.buffer, place_of(a)) for s in walk(body) for a in _accesses(s) if a.buffer in arrays}
    arrays -= {b for b, place in places if place < 0}.union(*(whole_uses(s) for s in walk(body)))
    if not arrays:
        return body
    variables = {e: _variable(*e) for e in sorted(places, key=lambda e: e[1]) if e[0] in arrays}

    def statement(s: Stmt) -> Stmt | Body:
        if isinstance(s, Alloc) and s.sym in arrays:
            return commented(tuple(Decl(v, loc=s.loc) for (b, _), v in variables.items() if b == s.sym), s.comments)
        if isinstance(s, Store) and s.buffer in arrays:
            return Assign(variables[s.buffer, place_of(s)], s.value, loc=s.loc, comments=s.comments)
        return s

    def value(e: Expr) -> Expr:
        return Var(variables[e.buffer, place_of(e)]) if isinstance(e, Load) and e.buffer in arrays else e

    return map_body(body, statement, value)


def _variable(array: Sym, place: int) -> Sym:
    assert isinstance(array.type, Array)
    return fresh(f"{array.name}_{place}", array.type.elem)


def _accesses(s: Stmt) -> Iterator[Load | Store]:
    """The loads of ``s`` itself, and the store that it is."""
    yield from (x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load))
    if isinstance(s, Store):
        yield s


__all__ = ["with_object_elements"]
