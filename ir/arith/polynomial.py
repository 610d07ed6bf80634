"""Polynomials of integer expressions over atoms: the normal form in which indices, extents and gaps are compared.

An *atom* is an expression that is neither a sum nor a product: a variable, a quotient, a load. ``2*d*(t + 1)`` is
``{(d, t): 2, (d,): 2}``. Terms that cancel are left out, so that equal polynomials are equal dictionaries.

:func:`polynomial` assumes that index arithmetic does not wrap, as :mod:`.affine` does; :meth:`.Facts.polynomial` takes
apart only what is shown not to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ktc.ir.fold import add, cast, i32, is_const, mul, sub
from ktc.ir.nodes import Binary, Call, Const, Expr, Unary
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar

from .integer_casts import of_one_type, without_index_casts

Polynomial: TypeAlias = dict[tuple[Expr, ...], int]
"""Sum of integer multiples of products of atoms, keyed by the sorted factors; the constant term has the key ``()``."""


def polynomial(e: Expr) -> Polynomial:
    """Normal form of an integer expression: index casts dropped, products distributed, like terms joined."""
    return dict(_normal_form(e))


@by_identity(4096)
def _normal_form(e: Expr) -> Polynomial:
    """:func:`polynomial`, kept: who takes an expression apart asks for that of each part."""
    e = without_index_casts(e)
    if isinstance(e, Const) and not isinstance(e.value, float):
        return constant(int(e.value))
    if isinstance(e, Unary) and e.op == "-":
        return scaled(_normal_form(e.x), -1)
    if isinstance(e, Binary) and e.op in ARITHMETIC:
        return ARITHMETIC[e.op](_normal_form(e.a), _normal_form(e.b))
    if isinstance(e, Binary) and e.op == "<<" and is_const(e.b):
        return scaled(_normal_form(e.a), 1 << int(e.b.value))  # type: ignore[attr-defined]
    return {(_normal_atom(e),): 1}


def from_polynomial(p: Polynomial, t: object) -> Expr:
    """An expression of the type ``t`` for ``p``: positive terms first, every factor brought to ``t``."""
    assert isinstance(t, Scalar)
    out: Expr | None = None
    for factors, k in sorted(p.items(), key=lambda kv: kv[1] < 0):
        term = _term(factors, abs(k), t)
        out = term if out is None and k > 0 else (sub if k < 0 else add)(out or cast(i32(0), t), term)
    return out if out is not None else cast(i32(0), t)


# ------------------------------------------------------------------------------------------------------ arithmetic


def constant(n: int) -> Polynomial:
    """The polynomial of a number."""
    return {(): n} if n else {}


def plus(p: Polynomial, q: Polynomial) -> Polynomial:
    """``p + q``."""
    return _joined(p, q, 1)


def minus(p: Polynomial, q: Polynomial) -> Polynomial:
    """``p - q``."""
    return _joined(p, q, -1)


def _joined(p: Polynomial, q: Polynomial, n: int) -> Polynomial:
    """``p + n * q``."""
    out = dict(p)
    gone = False
    for k, v in q.items():
        out[k] = total = out.get(k, 0) + n * v
        gone = gone or not total
    return {k: v for k, v in out.items() if v} if gone else out


def scaled(p: Polynomial, n: int) -> Polynomial:
    """``n * p``."""
    return {k: n * v for k, v in p.items() if n}


def times(p: Polynomial, q: Polynomial) -> Polynomial:
    """``p * q``."""
    if len(p) == 1 and () in p:
        return scaled(q, p[()])
    out: Polynomial = {}
    for ka, va in p.items():
        for kb, vb in q.items():
            key = tuple(sorted(ka + kb, key=_shown)) if ka and kb else ka or kb
            out[key] = out.get(key, 0) + va * vb
    return {k: v for k, v in out.items() if v}


@by_identity(4096)
def _shown(factor: Expr) -> str:
    """By which the factors of a product are sorted."""
    return repr(factor)


# ------------------------------------------------------------------------------------------------------- comparisons


def same_value(a: Expr, b: Expr) -> bool:
    """Whether two integer expressions are equal as polynomials (True is a proof; False is only "not shown")."""
    return polynomial(a) == polynomial(b)


def multiple_of(e: Expr, n: int, divisors: Mapping[Expr, int] | None = None) -> bool:
    """Whether ``e`` is shown to be a multiple of ``n``; ``divisors`` gives known divisors of atoms (``d: 8``)."""
    known = divisors or {}

    def term_divisible(factors: tuple[Expr, ...], k: int) -> bool:
        for f in factors:
            k *= known.get(f, 1)
        return k % n == 0

    return all(term_divisible(f, k) for f, k in polynomial(e).items())


def difference(a: Expr, b: Expr) -> Expr:
    """``a - b`` with like terms cancelled; spelled as it stands when nothing cancels."""
    p, q = polynomial(a), polynomial(b)
    if not q:
        return a
    if not set(p) & set(q):
        return sub(a, b)
    return from_polynomial(minus(p, q), a.type)


def total(a: Expr, b: Expr) -> Expr:
    """``a + b`` with like terms joined."""
    return from_polynomial(plus(polynomial(a), polynomial(b)), a.type)


ARITHMETIC = {"+": plus, "-": minus, "*": times}
"""Operators on integers that are operators on polynomials."""


def _term(factors: Iterable[Expr], k: int, t: Scalar) -> Expr:
    out: Expr | None = None
    for f in factors:
        out = cast(f, t) if out is None else mul(out, cast(f, t))
    number = cast(i32(k), t)
    return number if out is None else (out if k == 1 else mul(out, number))


def _normal_atom(e: Expr) -> Expr:
    """An atom with index casts dropped inside, so that ``(i64)d / 8`` and ``d / 8`` are one atom."""
    if isinstance(e, Binary) and e.op in ("/", "%"):
        return Binary(e.op, *_bare((e.a, e.b)))
    if isinstance(e, Call):
        return Call(e.fn, _bare(e.args), e.ty, e.effects)
    return e


def _bare(operands: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return of_one_type(tuple(without_index_casts(x) for x in operands)) or operands


__all__ = [
    "ARITHMETIC",
    "Polynomial",
    "constant",
    "difference",
    "from_polynomial",
    "minus",
    "multiple_of",
    "plus",
    "polynomial",
    "same_value",
    "scaled",
    "times",
    "total",
]
