"""Atomics on memory of the thread itself, which nobody else can change: plain updates."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.frontend.meaning.values import ElemPlace, LanePlace, Value, VarPlace
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Select
from ktc.ir.types import Array, Scalar

Combined = Callable[[Expr, Expr, Scalar], Expr]
"""From the old value, the argument and their type to the new value."""


def _by(op: str) -> Combined:
    return lambda old, x, t: Binary(op, old, x)


def _wrapping(op: str) -> Combined:
    """Integers wrap, signed ones too."""

    def combined(old: Expr, x: Expr, t: Scalar) -> Expr:
        if not t.is_int or not t.is_signed:
            return Binary(op, old, x)
        bits = Scalar("uint", t.bits)
        return Cast(t, Binary(op, Cast(bits, old), Cast(bits, x)))

    return combined


def _chosen(fn: str) -> Combined:
    return lambda old, x, t: Call(fn, (old, x), t)


def _next(old: Expr, x: Expr, t: Scalar) -> Expr:
    return Select(Binary(">=", old, x), Const(0, t), Binary("+", old, Const(1, t)))


def _previous(old: Expr, x: Expr, t: Scalar) -> Expr:
    last = Binary("||", Binary("==", old, Const(0, t)), Binary(">", old, x))
    return Select(last, x, Binary("-", old, Const(1, t)))


UPDATES: dict[str, Combined] = {
    "add": _wrapping("+"), "sub": _wrapping("-"), "and": _by("&"), "or": _by("|"), "xor": _by("^"),
    "min": _chosen("min"), "max": _chosen("max"), "exch": lambda old, x, t: x, "inc": _next, "dec": _previous,
}  # fmt: skip
"""What each atomic leaves, ``cas`` apart."""


def updated(op: str, old: Expr, value: Expr, compare: Expr | None, t: Scalar) -> Expr:
    """What the atomic ``op`` leaves in the place of ``old``, all of the type ``t``."""
    return UPDATES[op](old, value, t) if compare is None else Select(Binary("==", old, compare), value, old)


def is_own(place: Value) -> bool:
    """Whether ``place`` is a variable of the thread, a lane of one, or an element of an array of its own."""
    if isinstance(place, ElemPlace):
        return isinstance(t := place.buffer.type, Array) and t.space == "local"
    return isinstance(place, VarPlace) or (isinstance(place, LanePlace) and is_own(place.base))


__all__ = ["is_own", "updated"]
