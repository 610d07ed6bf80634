"""Quotients of integers that a source rounds as floats, as quotients of integers.

before                                          after
    phase < ceil(f32(n) / 32.0)                     phase < cdiv(n, 32)
    i32(floor(f64(n) / f64(d)))                     n / d
    f32(lane) < f32(n) / 32.0                       lane < cdiv(n, 32)

For n >= 0 and d > 0, n / d is at least 1 / d away from each integer m that it is not. Rounding to a significand of p
bits moves it by 2^-p m at most, which is less where m d <= n + d < 2^p. So the rounded quotient has the ceiling and the
floor of the exact one; and rounding is monotonic, so that integers compare with it rounded as they do exactly, and
with itself as with its ceiling or its floor.
"""

from __future__ import annotations

from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.fold import binary, cast, cdiv
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, MIRRORED, ORDERINGS, Binary, Call, Cast, Const, Expr
from ktc.ir.support.memo import by_identity
from ktc.ir.types import F32, F64, I32, SIGNIFICANT_BITS, Scalar
from ktc.ir.walk import all_exprs, keep, map_body

SIGNIFICAND: dict[object, int] = {t: SIGNIFICANT_BITS[t] for t in (F32, F64)}
"""Bits of the types in which sources divide."""

MOST = 2**31 - 1


@by_identity(16)
def in_integers(kernel: Kernel) -> Kernel:
    """``kernel`` with each of these that an integer is made of, or that one is compared with."""
    if not any(_is_rounded(e) or _is_compared(e) for e in all_exprs(kernel.body)):
        return kernel
    facts = facts_of(kernel, REWRITES)

    def on(e: Expr) -> Expr:
        if isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.is_int and e.style != "bit":
            found = _quotient(e.x, facts)
            return e if found is None else cast(found, e.to)
        if isinstance(e, Binary) and _is_compared(e):
            return _compared(e, facts) or _compared(Binary(MIRRORED[e.op], e.b, e.a), facts) or e
        if isinstance(e, Binary) and e.op in COMPARISONS:
            a, b = (_quotient(x, facts) for x in (e.a, e.b))
            a, b = a or (_integer(e.a) if b else None), b or (_integer(e.b) if a else None)
            return e if a is None or b is None else binary(e.op, a, b)
        return e

    body = map_body(kernel.body, keep, on)
    return kernel if body == kernel.body else kernel.with_(body=body)


def _is_rounded(e: Expr) -> bool:
    return isinstance(e, Call) and e.fn in ("ceil", "floor") and e.type in SIGNIFICAND


def _is_compared(e: Expr) -> bool:
    """Whether ``e`` orders a quotient that is not rounded to an integer."""
    if not isinstance(e, Binary) or e.op not in ORDERINGS:
        return False
    return any(isinstance(x, Binary) and x.op == "/" and x.type in SIGNIFICAND for x in (e.a, e.b))


def _compared(e: Binary, facts: Facts) -> Expr | None:
    """The comparison ``e`` of an integer with a quotient on its right as one of integers."""
    x, q = _integer(e.a), e.b
    round_ = "ceil" if e.op in ("<", ">=") else "floor"
    whole = _quotient(Call(round_, (q,), q.type), facts) if x is not None else None
    return None if x is None or whole is None else binary(e.op, x, whole)


def _quotient(e: Expr, facts: Facts) -> Expr | None:
    """The integer that ``e`` is, a quotient of integers that is rounded to one."""
    if not isinstance(e, Call) or not _is_rounded(e) or not isinstance(e.args[0], Binary) or e.args[0].op != "/":
        return None
    n, d = _integer(e.args[0].a), _integer(e.args[0].b)
    if n is None or d is None:
        return None
    above, below = facts.interval(n), facts.interval(d)
    if not above.never_negative or not below.positive or above.high is None or below.high is None:
        return None
    if above.high + below.high >= min(1 << SIGNIFICAND[e.type], MOST):
        return None
    return cdiv(n, d) if e.fn == "ceil" else binary("/", n, d)


def _integer(e: Expr) -> Expr | None:
    """The integer that ``e`` is converted from, or that a literal is."""
    if isinstance(e, Const) and isinstance(e.value, float) and e.value.is_integer() and abs(e.value) <= MOST:
        return Const(int(e.value), I32)
    if isinstance(e, Cast) and e.style != "bit" and isinstance(t := e.x.type, Scalar) and t.is_int:
        return e.x
    return None


__all__ = ["in_integers"]
