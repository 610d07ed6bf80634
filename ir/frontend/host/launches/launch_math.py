"""Launch dimensions that host code computes in floating point, as the integer expressions they mean.

``(size_t)ceil((float)n / (float)block.x)`` is ``cdiv(n, block.x)``: a quotient of integers below 2**24 is rounded to an
integer only if it is one, because it is at least 1/divisor away from any other.
"""

from __future__ import annotations

import math
import operator

from ktc.ir.arith.integer_casts import without_casts, without_implicit_integers
from ktc.ir.fold import evaluate, simplify
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Select, Unary
from ktc.ir.types import I32, U32, Scalar
from ktc.ir.walk import map_expr

_ONE = Const(1, I32)

_FLOAT_OPS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def integer_form(e: Expr) -> Expr:
    """``e`` with conversions of floating-point quotients to integers written in integers, where that is possible."""
    return map_expr(Cast(U32, e, "implicit") if _is_float(e) else e, lambda x: _of_one_type(_integral(x)))


def described(e: Expr) -> Expr:
    """``e`` as what a call passes is described: in integers, a stride in bytes by the bytes of an element in elements,
    divisors that are made sure to be none without that. Products of sizes are taken for as large as they are, whatever
    their type has room for."""
    return map_expr(map_expr(map_expr(integer_form(e), _undivided), _rounded_up), _of_sizes)


def _of_sizes(e: Expr) -> Expr:
    """``n == 0 ? 1 : n`` and ``1 * n`` as ``n``, and numbers as what they come to; anything else as it is."""
    match e:
        case Select(Binary("==", x, zero), one, n) if n == x and (evaluate(zero, {}), evaluate(one, {})) == (0, 1):
            return n
        case Binary("*", Const(1), n) | Binary("*", n, Const(1)) if n.type == e.type:
            return n
        case Binary(_, Const(), Const()) if (value := evaluate(e, {})) is not None and not _is_float(e):
            return Const(int(value), e.type)  # type: ignore[arg-type]
    return e


def _rounded_up(e: Expr) -> Expr:
    """``n / d + (n % d == 0 ? 0 : 1)`` and ``n / d + (n % d != 0)`` as ``cdiv(n, d)``, anything else as it is."""
    match e:
        case Binary("+", Binary("/", n, d) as whole, more) | Binary("+", more, Binary("/", n, d) as whole):
            rest = Binary("%", n, d)
            match without_casts(more):
                case Select(Binary("==", x, zero), none, one) | Select(Binary("!=", x, zero), one, none):
                    pass
                case Binary("!=", x, zero):
                    none, one = Const(0, I32), _ONE
                case _:
                    return e
            values = [evaluate(v, {}) for v in (zero, none, one)]
            if without_casts(x) == rest and values == [0, 0, 1] and not _is_float(whole):
                return Call("cdiv", (n, d), I32)
    return e


def _undivided(e: Expr) -> Expr:
    """``x * 4 / 2`` as ``x * 2``, anything else as it is."""
    if not isinstance(e, Binary) or e.op != "/" or _is_float(e):
        return e
    product, by = without_casts(e.a), without_casts(e.b)
    if isinstance(product, Const) and isinstance(by, Const) and by.value and product.value % by.value == 0:
        return Const(product.value // by.value, product.type)
    if isinstance(product, Binary) and product.op == "*":
        x, times = product.a, without_casts(product.b)
        if times == by:
            return x
        if isinstance(times, Const) and isinstance(by, Const) and isinstance(t := x.type, Scalar):
            left, rest = divmod(times.value, by.value) if by.value else (0, 1)
            return e if rest else x if left == 1 else Binary("*", x, Const(left, t))
    return e


def as_written(e: Expr) -> Expr:
    """A number of a ``dim3`` as the host wrote it: it is unsigned there."""
    e = without_implicit_integers(e)
    return Const(int(e.value), I32) if isinstance(e, Const) and e.type == U32 and e.value < 1 << 31 else e


def float_value(e: Expr) -> float | None:
    """The finite number that a floating-point expression without variables is, but for its rounding; None if it is
    none."""
    match e:
        case Const(value=v):
            return float(v) if math.isfinite(v) else None
        case Cast(_, x):
            return float_value(x)
        case Unary("-", x):
            value = float_value(x)
            return None if value is None else -value
        case Binary(op, a, b) if op in _FLOAT_OPS and _is_float(e):
            left, right = float_value(a), float_value(b)
            if left is None or right is None or (op == "/" and right == 0):
                return None
            return _FLOAT_OPS[op](left, right)
    return None


def _integral(e: Expr) -> Expr:
    if isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.is_int and _is_float(e.x):
        quotient = _quotient(e.x)
        if quotient is not None:
            return _fold(*quotient, up=False)
    return e


def _of_one_type(e: Expr) -> Expr:
    """``e``, of which a part may have been written in integers of another type: in the wider one of its operands."""
    if not isinstance(e, Binary) or e.op in ("<<", ">>", "&&", "||") or e.a.type == e.b.type:
        return e
    a, b = e.a.type, e.b.type
    if not (isinstance(a, Scalar) and isinstance(b, Scalar) and a.is_int and b.is_int):
        return e
    wide = a if a.bits >= b.bits else b
    return Binary(e.op, *(x if x.type == wide else Cast(wide, x, "implicit") for x in (e.a, e.b)))


def _is_float(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_float


def _quotient(e: Expr) -> tuple[Expr, Expr] | None:
    """Integers (n, d) such that the floating-point expression ``e`` means n / d."""
    if isinstance(e, Const):
        return (Const(int(e.value), I32), _ONE) if float(e.value).is_integer() and abs(e.value) < 2**24 else None
    if isinstance(e, Cast):
        if _is_float(e.x):
            return _quotient(e.x)
        return (e.x, _ONE) if isinstance(e.x.type, Scalar) and e.x.type.is_int else None
    if isinstance(e, Call) and e.fn in ("ceil", "floor"):
        inner = _quotient(e.args[0])
        return (_fold(*inner, up=e.fn == "ceil"), _ONE) if inner is not None else None
    if isinstance(e, Binary) and e.op in ("*", "/"):
        a, b = _quotient(e.a), _quotient(e.b)
        if a is None or b is None:
            return None
        n, d = b if e.op == "*" else (b[1], b[0])
        return _times(a[0], n), _times(a[1], d)
    return _of_whole_numbers(e) or _and_halves(e)


def _and_halves(e: Expr) -> tuple[Expr, Expr] | None:
    """``e``, a quotient and a number of halves, as a quotient: ``(int)((float)n / (float)d + 0.5f)`` rounds to the
    nearest."""
    match e:
        case Binary("+", a, b):
            for quotient, number in ((a, b), (b, a)):
                halves, of = float_value(number), _quotient(quotient)
                if halves is not None and of is not None and (2 * halves).is_integer() and 0 < halves < 2**20:
                    n, d = of
                    more = _times(Const(int(2 * halves), I32), d)
                    more = Cast(n.type, more, "implicit") if more.type != n.type else more
                    return Binary("+", _times(Const(2, I32), n), more), _times(Const(2, I32), d)
    return None


def _of_whole_numbers(e: Expr) -> tuple[Expr, Expr] | None:
    """``e``, a choice, bound or sum of two whole numbers, as (n, 1)."""
    match e:
        case Select(cond, a, b) if (both := _whole(a, b)) is not None:
            return Select(cond, *both), _ONE
        case Call("fmin" | "fmax" | "min" | "max" as fn, (a, b)) if (both := _whole(a, b)) is not None:
            return Call(fn.removeprefix("f"), both, both[0].type), _ONE
        case Binary("+" | "-" as op, a, b) if (both := _whole(a, b)) is not None:
            return Binary(op, *both), _ONE
    return None


def _whole(a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
    """Two floating-point expressions as integers of one type, if both are whole."""
    first, second = _quotient(a), _quotient(b)
    if first is None or second is None or (first[1], second[1]) != (_ONE, _ONE):
        return None
    x, y = first[0], second[0]
    return (x, y) if x.type == y.type else (x, Cast(x.type, y, "implicit"))  # type: ignore[arg-type]


def _times(a: Expr, b: Expr) -> Expr:
    if a == _ONE or b == _ONE:
        return b if a == _ONE else a
    return simplify(Binary("*", a, Cast(a.type, b, "implicit") if b.type != a.type else b))


def _fold(n: Expr, d: Expr, up: bool) -> Expr:
    if d == _ONE:
        return n
    d = Cast(n.type, d, "implicit") if d.type != n.type else d
    whole = Call("cdiv", (n, d), I32) if up else Binary("/", n, d)
    value = evaluate(whole, {})
    return Const(int(value), I32) if value is not None else whole
