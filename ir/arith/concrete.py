"""Integers as they are: an expression's value where its leaves have given ones, with C's meaning.

None stands for no value: a division by zero, an overflow of signed arithmetic of 32 bits and more, a leaf that nobody
gave. Unsigned and narrow arithmetic wraps; shifts by the width or more shift everything out, as the IR says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ktc.ir.fold import INT_FUNCS, INT_OPS
from ktc.ir.nodes import COMPARISONS, LOGICAL, Binary, Call, Cast, Const, Expr, Select, Unary
from ktc.ir.types import Scalar, Type

from .interval import Interval

_UNARY: dict[str, Callable[[int], int]] = {
    "+": lambda x: x,
    "-": lambda x: -x,
    "~": lambda x: ~x,
    "!": lambda x: int(not x),
}


class Numbers:
    """The algebra of numbers: ``at`` gives the leaves their values."""

    def __init__(self, at: Mapping[Expr, int]) -> None:
        self.at = at

    def leaf(self, e: Expr) -> int | None:
        return self.at.get(e)

    def constant(self, e: Const) -> int | None:
        return None if isinstance(e.value, float) else int(e.value)

    def brought(self, x: int, t: Scalar) -> int | None:
        """The number ``x``, which an operator gave, in the type ``t``; None where it has no value."""
        return computed(x, t)

    def unary(self, e: Unary, x: int | None) -> int | None:
        return None if x is None else self._in(e.type, _UNARY[e.op](x))

    def binary(self, e: Binary, a: int | None, b: int | None) -> int | None:
        if e.op in LOGICAL:
            return _lazy(e.op, a, b)
        if a is None or b is None or (e.op in ("/", "%") and b == 0):
            return None
        if e.op in COMPARISONS:
            return int(INT_OPS[e.op](a, b))
        if e.op in ("<<", ">>"):
            return self._shifted(e, a, b)
        if e.op == "%" and computed(INT_OPS["/"](a, b), e.type) is None:
            return None
        return self._in(e.type, INT_OPS[e.op](a, b))

    def select(self, e: Select, cond: int | None, a: int | None, b: int | None) -> int | None:
        return None if cond is None else a if cond else b

    def convert(self, e: Cast, x: int | None) -> int | None:
        if not isinstance(e.to, Scalar) or e.to.is_float or x is None:
            return None
        return int(x != 0) if e.to.kind == "bool" else self.converted(x, e.to)

    def call(self, e: Call, args: Sequence[int | None]) -> int | None:
        given = [a for a in args if a is not None]
        if len(given) < len(args) or e.fn not in INT_FUNCS:
            return None
        if e.fn == "cdiv":
            a, b = given
            return None if b <= 0 or computed(a + b - 1, e.type) != a + b - 1 else computed(-(-a // b), e.type)
        return self._in(e.type, INT_FUNCS[e.fn](*given))

    def converted(self, x: int, t: Scalar) -> int | None:
        """``x`` converted to the integer type ``t``."""
        return wrapped(x, t)

    def _shifted(self, e: Binary, a: int, b: int) -> int | None:
        t = e.type
        assert isinstance(t, Scalar)
        if not 0 <= b < t.bits:
            return -1 if e.op == ">>" and a < 0 else 0
        return self.converted(INT_OPS[e.op](a, b), t)

    def _in(self, t: Type, x: int) -> int | None:
        assert isinstance(t, Scalar)
        return self.brought(x, t)


def _lazy(op: str, a: int | None, b: int | None) -> int | None:
    """``&&`` and ``||``: where the left operand decides, the right one need have no value."""
    if a is None or bool(a) == (op == "||"):
        return None if a is None else int(bool(a))
    return None if b is None else int(bool(b))


def computed(x: int, t: Type) -> int | None:
    """What arithmetic in the type ``t`` makes of the number ``x``; None where C leaves that undefined."""
    assert isinstance(t, Scalar)
    if t.kind == "bool" or (t.is_signed and t.bits >= 32):
        return x if x in Interval.of_type(t) else None
    return wrapped(x, t)


def wrapped(x: int, t: Scalar) -> int:
    """``x`` modulo the size of the integer type ``t``."""
    low = Interval.of_type(t).low or 0
    return ((x - low) & ((1 << t.bits) - 1)) + low


__all__ = ["Numbers", "computed", "wrapped"]
