"""Floats that are whole numbers: which values they have, and which narrower types hold each of these exactly."""

from __future__ import annotations

from ktc.ir.arith.interval import Interval
from ktc.ir.arith.interval_operators import BINARY
from ktc.ir.arith.kernel_facts import Facts
from ktc.ir.fold import binary, cast, i32
from ktc.ir.nodes import Binary, Cast, Const, Expr, Unary
from ktc.ir.types import I32, SIGNIFICANT_BITS, Scalar, scalar_of


def whole_values(e: Expr, facts: Facts) -> Interval | None:
    """What the float ``e`` lies in where it is a whole number, computed without rounding; None where that is not
    shown."""
    t = scalar_of(e.type)
    if not t.is_float:
        return None
    found: Interval | None = None
    match e:
        case Const(value=v):
            found = Interval.point(int(v)) if float(v).is_integer() else None
        case Cast(x=x) if scalar_of(x.type).is_int:
            found = facts.interval(x)
        case Cast(x=x):
            found = whole_values(x, facts)
        case Unary("-", x):
            found = BINARY["-"](Interval.point(0), inner) if (inner := whole_values(x, facts)) is not None else None
        case Binary("+" | "-" | "*" as op, a, b):
            one, other = whole_values(a, facts), whole_values(b, facts)
            found = BINARY[op](one, other) if one is not None and other is not None else None
    return found if found is not None and holds(t, found) else None


def as_integer(e: Expr) -> Expr:
    """The integer of 32 bits that the float ``e`` is, of which :func:`whole_values` says what it lies in."""
    match e:
        case Const(value=v):
            return i32(int(v))
        case Cast(x=x):
            return cast(x, I32) if scalar_of(x.type).is_int else as_integer(x)
        case Unary("-", x):
            return binary("-", i32(0), as_integer(x))
        case Binary(op, a, b):
            return binary(op, as_integer(a), as_integer(b))
    raise AssertionError(f"{type(e).__name__} is no whole number")


def holds(t: Scalar, values: Interval) -> bool:
    """Whether the float type ``t`` has each whole number of ``values``."""
    most = 1 << SIGNIFICANT_BITS[t]
    return values.within(Interval(-most, most))


__all__ = ["as_integer", "holds", "whole_values"]
