"""Values that a narrower floating-point type holds already: rounding them to it changes nothing.

Elements of f16 that were widened, and maxima, minima, choices and exchanges among them, are f16's values in f32: what
``m = max(m, f32(x[i]))`` keeps, ``m = f32(f16(max(m, f32(x[i]))))`` keeps as well, if it began with one.
"""

from __future__ import annotations

import numpy as np
from ktc.ir.inputs import numpy_dtype
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
)
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, walk

from .sites import branches

AMONG = frozenset({"max", "min", "fmax", "fmin", "fabs", "abs"})
"""Functions whose value is one of their operands, but for its sign."""


def held_already(body: Body, e: Expr, f: Expr) -> bool:
    """Whether ``f`` is ``e``, an expression of ``body``, rounded to a type that holds every value of ``e``."""
    if not (isinstance(f, Cast) and isinstance(f.x, Cast) and f.x.x == e and "bit" not in (f.style, f.x.style)):
        return False
    wide, narrow = e.type, f.x.to
    floats = all(isinstance(t, Scalar) and t.is_float for t in (wide, narrow))
    return floats and f.to == wide and _held(e, narrow, _variables(body, narrow))


def _variables(body: Body, narrow: object) -> set[Sym]:
    """Variables and arrays of the kernel's own that never hold anything but values of ``narrow``."""
    found = {s.sym for s in walk(body) if isinstance(s, Decl) or (isinstance(s, Alloc) and not s.dynamic)}
    found = {sym for sym in found if isinstance(_element(sym), Scalar)}
    for e in all_exprs(body):
        if isinstance(e, AddrOf):
            found.discard(e.buffer)
        elif isinstance(e, Var) and isinstance(e.sym.type, Array):
            found.discard(e.sym)
    while True:
        wrong = {sym for s in walk(body) for sym in _given(s) & found if not _gives(s, narrow, found)}
        if not wrong:
            return found
        found -= wrong


def _given(s: Stmt) -> set[Sym]:
    """What ``s`` itself, without what is inside it, gives a value to."""
    if branches(s):
        return {s.var} if hasattr(s, "var") else set()
    return assigned((s,)) | ({s.sym} if isinstance(s, Decl) else set())


def _gives(s: Stmt, narrow: object, found: set[Sym]) -> bool:
    if isinstance(s, Decl):
        return s.init is None or _held(s.init, narrow, found)
    return isinstance(s, Assign | Store) and _held(s.value, narrow, found)


def _held(e: Expr, narrow: object, found: set[Sym]) -> bool:
    assert isinstance(narrow, Scalar)
    match e:
        case Const():
            with np.errstate(over="ignore"):
                return float(numpy_dtype(str(narrow)).type(e.value)) == e.value
        case Cast():
            return e.style != "bit" and e.x.type == narrow and isinstance(e.to, Scalar) and e.to.is_float
        case Var():
            return e.sym in found
        case Load():
            return e.width == 1 and e.buffer in found
        case Unary(op="-"):
            return _held(e.x, narrow, found)
        case Select():
            return _held(e.a, narrow, found) and _held(e.b, narrow, found)
        case Call():
            return e.fn in AMONG and all(_held(x, narrow, found) for x in e.args)
        case WarpOp():
            return e.kind.startswith("shfl") and _held(e.value, narrow, found)
    return False


def _element(sym: Sym) -> object:
    return sym.type.elem if isinstance(sym.type, Array) else sym.type


__all__ = ["held_already"]
