"""Definitions: variables that are names for an expression, so that an analysis can look through them.

``const int64_t token = blockIdx.x;`` is a name: declared once, never assigned, its initialiser pure and made of values
that do not change either. ``float x = input[i];`` is one only when loads are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.nodes import Body, Call, Expr, Raw, Sym, Var, WarpOp
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, initial_values, loads_in, map_expr, used, walk_expr

MAX_DEPTH = 16
"""Nesting of integer definitions followed when an index is analysed."""


def definitions(body: Body, *, loads: bool = False) -> dict[Sym, Expr]:
    """Every variable of ``body`` that stands for its initialiser, with that initialiser (not expanded).

    ``loads``: also those that read memory; the caller then vouches that nothing writes in between.
    """
    changed = assigned(body)
    return {
        s: e for s, e in initial_values(body).items() if _is_pure(e, loads) and not (used(e) & changed) - _buffers(e)
    }


def expand(e: Expr, defs: Mapping[Sym, Expr]) -> Expr:
    """``e`` with defined variables replaced by their definitions, all the way down."""
    return map_expr(e, lambda x: expand(defs[x.sym], defs) if isinstance(x, Var) and x.sym in defs else x)


def integer_constants(body: Body, loads: bool = False) -> dict[Sym, Expr]:
    """Integer variables that keep their initial value, and that value; ``loads``: also what was read from memory."""
    return {
        s: e
        for s, e in initial_values(body).items()
        if isinstance(s.type, Scalar) and s.type.is_int and (loads or not any(loads_in(e)))
    }


def _is_pure(e: Expr, loads: bool) -> bool:
    if not loads and any(True for _ in loads_in(e)):
        return False
    return not any(isinstance(x, WarpOp | Raw) or (isinstance(x, Call) and x.effects != "pure") for x in walk_expr(e))


def _buffers(e: Expr) -> set[Sym]:
    return {load.buffer for load in loads_in(e)}
