"""Integer expressions as polynomials that are the same numbers: nothing that may wrap is taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, HwIndex, Select, Unary, Var
from ktc.ir.types import Scalar, Type

from .divisors import quotient
from .enclosures import is_integer
from .integer_casts import is_index_cast, of_one_type
from .interval import Interval
from .interval_operators import BINARY, UNARY
from .polynomial import ARITHMETIC, Polynomial, constant, scaled

if TYPE_CHECKING:
    from .kernel_facts import Facts

_TAKEN_WHOLE = frozenset({"/", "%", ">>"})
"""Operators that give the same number in every type that holds their operands."""

MOST_TERMS = 24
"""Terms of a polynomial that is multiplied with another."""


def exact_polynomial(e: Expr, facts: Facts) -> Polynomial:
    """``e`` over atoms whose products and sums are ``e``, as a number."""
    match e:
        case Const(value=v) if not isinstance(v, float):
            return constant(int(v))
        case Var():
            return _variable(e, facts)
        case HwIndex():
            return facts.extent(e) or {(e,): 1} if e.level in ("block_dim", "grid_dim") else {(e,): 1}
        case Cast(to=t, x=Binary(op="+" | "-" | "*" as op, a=a, b=b) as x) if _comes_back(x, t, facts):
            return facts.polynomial(Binary(op, Cast(t, a, "implicit"), Cast(t, b, "implicit")))
        case Cast(x=x) if without_wrapping(e, facts):
            return facts.polynomial(x)
        case Unary(op="-", x=x) if without_wrapping(e, facts):
            return scaled(facts.polynomial(x), -1)
        case Binary(op="+" | "-" | "*" as op, a=a, b=b) if without_wrapping(e, facts):
            p, q = facts.polynomial(a), facts.polynomial(b)
            if op != "*" or len(p) * len(q) <= MOST_TERMS:
                return ARITHMETIC[op](p, q)
        case Binary(op="<<", a=a, b=Const(value=n)) if without_wrapping(e, facts):
            if 0 <= n < 63:
                return scaled(facts.polynomial(a), 1 << int(n))
    whole = _whole_quotient(e, facts)
    if whole is not None:
        return whole
    one = facts.interval(e).constant
    return {(plain(e, facts),): 1} if one is None else constant(one)


def _whole_quotient(e: Expr, facts: Facts) -> Polynomial | None:
    """``batch`` of ``batch * length / length``, rounded up or not: what is divided is a multiple, term by term."""
    match e:
        case Binary(op="/", a=a, b=b) if is_integer(a.type) and without_wrapping(e, facts):
            return quotient(facts.polynomial(a), facts.polynomial(b))
        case Call(fn="cdiv", args=(a, b)) if is_integer(e.type) and without_wrapping(e, facts):
            if facts.interval(a).never_negative and facts.interval(b).positive:
                return quotient(facts.polynomial(a), facts.polynomial(b))
    return None


def _variable(e: Var, facts: Facts) -> Polynomial:
    """A variable as what it is equal to, or stands for; as itself where that would be one atom that says less."""
    n = facts.interval(e).constant
    if n is not None:
        return constant(n)
    if e.sym in facts.equal_to:
        return facts.equal_to[e.sym]
    named = facts.symbols.names.get(e.sym)
    t = e.sym.type
    if named is None or not isinstance(t, Scalar) or not facts.interval(named).fits(t):
        return {(e,): 1}
    p = facts.polynomial(named)
    return {(e,): 1} if any(isinstance(a, Cast) for factors in p for a in factors) else p


def without_wrapping(e: Expr, facts: Facts) -> bool:
    """Whether the outermost operator of ``e`` gives the number that it would without a type."""
    t = e.type
    if not isinstance(t, Scalar) or not is_integer(t):
        return False
    match e:
        case Cast() if facts.trust.no_wrap and is_index_cast(e) and _keeps_sign(e, facts):
            return True
        case Cast(style=style, x=x):
            return style != "bit" and is_integer(x.type) and t.kind != "bool" and facts.interval(x).fits(t)
        case Unary(op=op, x=x):
            return is_integer(x.type) and (_defined(t, facts, op) or UNARY[op](facts.interval(x)).fits(t))
        case Binary(op="<<", b=b):
            return facts.interval(b).within(Interval(0, t.bits - 1)) and facts.raw(e).fits(t)
        case Binary(op=op, a=a, b=b):
            if not is_integer(a.type):
                return False
            if (_defined(t, facts, op) and op in "+-*") or facts.raw(e).fits(t):
                return True
            return op == "-" and not t.is_signed and facts.at_most(b, a)
        case Call(fn="cdiv", args=(a, b)):
            total = BINARY["+"](facts.interval(a), facts.interval(b))
            return _defined(t, facts, "+") or total.fits(t)
        case Call(fn=fn):
            return fn in ("min", "max")
    return True


def plain(e: Expr, facts: Facts) -> Expr:
    """``e`` without conversions that are shown to change no value, at its top and below operators that give the same
    number in every type that holds their operands."""
    while isinstance(e, Cast) and without_wrapping(e, facts):
        e = e.x
    match e:
        case Binary(op=op, a=a, b=b) if op in _TAKEN_WHOLE:
            operands = of_one_type((plain(a, facts), plain(b, facts)))
            if operands is None:
                return e
            bare = Binary(op, *operands)
            t = bare.type
            return bare if isinstance(t, Scalar) and facts.raw(bare).fits(t) else e
        case Call(fn="min" | "max" | "cdiv") if is_integer(e.type) and without_wrapping(e, facts):
            args = of_one_type(tuple(plain(a, facts) for a in e.args))
            return e if args is None else Call(e.fn, args, e.ty, e.effects)
        case Select(cond=c, a=a, b=b) if is_integer(e.type):
            sides = of_one_type((plain(a, facts), plain(b, facts)))
            return e if sides is None else Select(c, *sides)
    return e


def _defined(t: Scalar, facts: Facts, op: str) -> bool:
    """Whether arithmetic in ``t`` is taken to have a value."""
    if t.is_signed:
        return t.bits >= 32 and facts.trust.no_overflow
    return t.bits >= 32 and facts.trust.no_wrap and (facts.trust.no_borrow or op != "-")


def _comes_back(x: Binary, to: Type, facts: Facts) -> bool:
    """Whether ``x`` is unsigned arithmetic whose result is made a signed number again, ``int(block * 4u + t - 1u)``: a
    difference that wrapped is what it would be without a type. Between types of as many bits it is the same whether
    sums, differences and products come before the conversion or after it.
    """
    of = x.type
    if not (isinstance(to, Scalar) and isinstance(of, Scalar) and facts.trust.no_wrap) or facts.trust.no_borrow:
        return False
    return to.kind == "int" and of.kind == "uint" and to.bits == of.bits >= 32


def _keeps_sign(e: Cast, facts: Facts) -> bool:
    """Whether the conversion makes no negative number an unsigned one, or is taken not to."""
    unsigned = isinstance(e.to, Scalar) and not e.to.is_signed
    return not unsigned or facts.trust.no_borrow or facts.interval(e.x).never_negative


__all__ = ["exact_polynomial", "plain", "without_wrapping"]
