"""Wide accesses as the scalar accesses they stand for, so that one element can be followed on its own.

float4 v = in4[i];  s[t*4] = v.x; ...      ->      s[t*4] = in[i]; s[t*4+1] = in[i+1]; ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.fold import add, i32, is_const
from ktc.ir.nodes import Body, Cast, Decl, Expr, Load, Select, Stmt, Store, Sym, Var, VecGet, VecMake
from ktc.ir.storage import is_shared
from ktc.ir.types import Scalar, Vec, scalar_of
from ktc.ir.walk import declared, initial_values, keep, map_body, used_in, walk


def scalarised(body: Body) -> Body:
    """Vector constants put into their uses, wide shared accesses split into scalar ones."""
    if not any(isinstance(b.type, Vec) for b in declared(body)) and not any(
        isinstance(s, Store) and s.width != 1 for s in walk(body)
    ):
        return body
    values = {s: e for s, e in initial_values(body).items() if isinstance(s.type, Vec)}
    body = map_body(body, lambda s: _split(s, values))
    body = map_body(body, keep, lambda e: lane_in_place(e, values))
    return map_body(
        body, lambda s: None if isinstance(s, Decl) and s.sym in values and s.sym not in used_in(body) else s
    )


def _split(s: Stmt, values: dict[Sym, Expr]) -> Stmt | Body:
    if not isinstance(s, Store) or not isinstance(s.width, int) or s.width == 1:
        return s
    if not (is_shared(s.buffer) or isinstance(s.value, VecMake | Load)):
        return s
    out = []
    for k in range(s.width):
        value = lane_of(s.value, k, values)
        if value is None:
            return s
        index = (*s.index[:-1], add(s.index[-1], _like(k, s.index[-1])))
        out.append(dataclasses.replace(s, index=index, value=value, width=1))
    return tuple(out)


def _like(k: int, e: Expr) -> Expr:
    from ktc.ir.nodes import Const

    return Const(k, e.type) if isinstance(e.type, Scalar) else i32(k)


def lane_of(e: Expr, k: int, values: Mapping[Sym, Expr]) -> Expr | None:
    """Lane ``k`` of a vector expression as a scalar expression."""
    if isinstance(e, Var) and e.sym in values:
        return lane_of(values[e.sym], k, values)
    if isinstance(e, Load) and e.width != 1:
        return Load(e.buffer, (*e.index[:-1], add(e.index[-1], _like(k, e.index[-1]))), 1, e.cache)
    if isinstance(e, Load) and isinstance(e.type, Vec):  # an element of an array of vectors
        return Load(e.buffer, (*e.index, i32(k)), 1, e.cache)
    if isinstance(e, VecMake):
        return e.args[k] if len(e.args) > k else e.args[0]
    if isinstance(e, Select):
        a, b = lane_of(e.a, k, values), lane_of(e.b, k, values)
        return None if a is None or b is None else Select(e.cond, a, b)
    if isinstance(e, Cast) and isinstance(e.to, Vec):
        x = lane_of(e.x, k, values)
        return None if x is None else Cast(scalar_of(e.to), x, e.style)
    return None


def lane_in_place(e: Expr, values: Mapping[Sym, Expr]) -> Expr:
    """``e``, if it is a lane of one of the vectors ``values``, as a scalar expression."""
    if isinstance(e, VecGet) and is_const(e.lane):
        found = lane_of(e.x, int(e.lane.value), values)  # type: ignore[attr-defined]
        return e if found is None else found
    if isinstance(e, Load) and e.buffer in values and len(e.index) == 1 and is_const(e.index[0]):
        found = lane_of(values[e.buffer], int(e.index[0].value), values)  # type: ignore[attr-defined]
        return e if found is None else found
    return e
