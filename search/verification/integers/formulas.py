"""How operators of the IR read on unbounded integers: operations on z3's terms, by operator and function.

Terms are ``Any``: z3 takes a while to import, which is done where a question is asked.
"""

from __future__ import annotations

from typing import Any

from ktc.ir.nodes import Binary, Cast, Const, Expr, For, HwIndex, Var
from ktc.ir.types import Scalar


def widens(e: Cast) -> bool:
    """Whether every value of ``e``'s operand, an integer, is one of its own type."""
    a, b = e.x.type, e.to
    assert isinstance(a, Scalar) and isinstance(b, Scalar)
    if isinstance(e.x, HwIndex):
        return b.bits >= 32  # below 2^31
    return a == b or (b.bits > a.bits and (b.is_signed or not a.is_signed))


def increment(s: For) -> Expr | None:
    """``by`` of a loop whose step is ``i + by``, conversions aside; None for others."""
    e = _strip(s.step)
    return e.b if isinstance(e, Binary) and e.op == "+" and _strip(e.a) == Var(s.var) else None


def divisor(s: For) -> int:
    """By what number a loop divides its variable in each round; 0 for others."""
    e = s.step
    if not isinstance(e, Binary) or e.a != Var(s.var) or not isinstance(e.b, Const) or int(e.b.value) <= 0:
        return 0
    return {"/": int(e.b.value), ">>": 1 << int(e.b.value)}.get(e.op, 0)


def _strip(e: Expr) -> Expr:
    while isinstance(e, Cast):
        e = e.x
    return e


def _quotient(a: Any, b: Any) -> Any:
    import z3

    return z3.If(a >= 0, a / b, -(-a / b))


ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
}
"""Division is C's: towards zero. z3's is towards minus infinity for a positive divisor."""

SHIFTS = {">>": lambda a, n: a / n, "<<": lambda a, n: a * n}
"""By a constant: ``n`` is the power of two."""

COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


POWERS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
"""Bounds of operands that bound an exclusive or: from bits of what tiles and blocks are wide."""


def _as_wide(v: Any, a: Any, b: Any) -> Any:
    import z3

    both = [z3.Implies(z3.And(a >= 0, b >= 0, a < 1 << k, b < 1 << k), v < 1 << k) for k in POWERS]
    return z3.And(z3.Implies(z3.And(a >= 0, b >= 0), v >= 0), *both)


def _exclusive(v: Any, a: Any, b: Any) -> Any:
    """Of one bit (``lane ^ 16``): that bit of the other operand is added, or taken away."""
    import z3

    known = [_as_wide(v, a, b)]
    for x, c in ((a, b), (b, a)):
        bit = c.as_long() if z3.is_int_value(c) else 0
        if bit > 0 and bit & (bit - 1) == 0:
            known.append(v == z3.If(x / bit % 2 == 0, x + bit, x - bit))
    return z3.And(*known)


def _no_more(v: Any, a: Any, b: Any) -> Any:
    import z3

    return z3.And(*(z3.Implies(x >= 0, z3.And(v >= 0, v <= x)) for x in (a, b)))


BITS = {"^": _exclusive, "|": _as_wide, "&": _no_more}
"""What is known of the outcome, an integer, of an operation on bits, and of its operands."""


def _min(a: Any, b: Any) -> Any:
    import z3

    return z3.If(a < b, a, b)


def _max(a: Any, b: Any) -> Any:
    import z3

    return z3.If(a > b, a, b)


CALLS = {"min": _min, "max": _max, "cdiv": lambda a, b: (a + b - 1) / b}

__all__ = ["ARITHMETIC", "BITS", "CALLS", "COMPARE", "SHIFTS", "increment", "widens"]
