"""Which expressions may be moved, merged or dropped."""

from __future__ import annotations

from ktc.ir.fold import is_const
from ktc.ir.nodes import AddrOf, Binary, Call, Expr, Knob, Load, Raw, Stmt, WarpOp
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import walk_expr


def is_removable(e: Expr) -> bool:
    """Whether not evaluating ``e`` changes nothing: no effects, no volatile load, no warp-wide meeting point."""
    return not any(map(acts, walk_expr(e)))


def is_movable(e: Expr) -> bool:
    """Whether ``e`` has one value wherever its variables have theirs, and may be computed where the source did not.

    Excludes memory (it may change, or not be there to read) and integer division by what could be zero.
    """
    return is_removable(e) and not any(isinstance(x, Load) or _may_trap(x) for x in walk_expr(e))


def is_volatile(x: Expr | Stmt) -> bool:
    """Whether ``x`` is an access that must happen as often as the source says, where it says."""
    t = getattr(getattr(x, "buffer", None), "type", None)
    return getattr(x, "cache", "") == "volatile" or (isinstance(t, Ptr) and t.volatile)


def acts(x: Expr) -> bool:
    """Whether ``x`` itself, whatever its operands are, has an effect, or has to be evaluated where it stands."""
    if isinstance(x, Call):
        return x.effects not in ("pure", "read")
    if isinstance(x, Load | AddrOf):
        return is_volatile(x)
    return isinstance(x, WarpOp | Raw)


def _may_trap(x: Expr) -> bool:
    if isinstance(x, Call):
        return x.effects != "pure" or (x.fn == "cdiv" and not is_const(x.args[1]))
    if not isinstance(x, Binary) or x.op not in ("/", "%"):
        return False
    floating = isinstance(x.a.type, Scalar) and x.a.type.is_float
    return not floating and (is_const(x.b, 0) or not (is_const(x.b) or isinstance(x.b, Knob)))
