"""Whether the elements of a kernel's own arrays that are named exist: code that is run where it was not before must
stay within them."""

from __future__ import annotations

from ktc.ir.fold import evaluate, i32
from ktc.ir.nodes import Atomic, Expr, Load, Stmt, Store
from ktc.ir.types import Array, Vec
from ktc.ir.walk import stmt_exprs, walk_expr
from ktc.search.verification.integers import smt


def stays_inside(s: Stmt, context: smt.Context) -> bool:
    """Whether the elements of arrays and vectors that ``s`` itself names, not what is inside it, exist wherever the
    facts hold."""
    found: list[Load | Store | Atomic] = [e for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load)]
    own = (x for x in [*found, *([s] if isinstance(s, Store | Atomic) else [])] if _extents(x))
    return all(inside(x, context) for x in own)


def inside(x: Load | Store | Atomic, context: smt.Context) -> bool:
    """Whether ``x`` is within an array or vector of its kernel wherever the facts hold."""
    return within(x, _extents(x), context)


def within(x: Load | Store | Atomic, extents: tuple[Expr, ...], context: smt.Context) -> bool:
    """Whether the subscripts of ``x`` are below ``extents`` wherever the facts hold."""
    import z3

    width = evaluate(_whole(getattr(x, "width", 1)), context.kernel.knob_values)
    if width is None or not _dimensions(x) <= len(x.index) <= len(extents) or (width != 1 and _lanes(x)):
        return False
    if not all(context.lasting(e) for e in (*x.index, *extents)):
        return False
    places = [(context.of(i), context.of(n)) for i, n in zip(x.index, extents)]
    (last, end) = places.pop()
    places.append((last + (int(width) - 1), end))
    return context.proves(z3.And(last >= 0, *(z3.And(i >= 0, i < n) for i, n in places)))


def _extents(x: Load | Store | Atomic) -> tuple[Expr, ...]:
    t = x.buffer.type
    return (*t.shape, *_lanes(x)) if isinstance(t, Array) else _lanes(x)


def _dimensions(x: Load | Store | Atomic) -> int:
    t = x.buffer.type
    return len(t.shape) if isinstance(t, Array) else 1


def _lanes(x: Load | Store | Atomic) -> tuple[Expr, ...]:
    """The extent of a vector, or of the elements of an array of vectors, whose lanes may be named one by one."""
    t = x.buffer.type.elem if isinstance(x.buffer.type, Array) else x.buffer.type
    return (_whole(t.n),) if isinstance(t, Vec) else ()


def _whole(n: int | Expr) -> Expr:
    return n if isinstance(n, Expr) else i32(n)


__all__ = ["inside", "stays_inside", "within"]
