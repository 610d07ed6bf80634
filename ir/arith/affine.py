"""Affine forms of integer index expressions, with symbolic coefficients.

``out[token * 2 * d + idx]`` is affine in ``token`` (coefficient ``2*d``) and in ``idx`` (coefficient ``1``). Symbols
and hardware indices asked about (``over``) may not be multiplied with each other; everything else may stand in a
coefficient.

Integer casts of 32 bits and more are looked through: C makes signed overflow undefined, and the verifier bounds
unsigned index arithmetic, so a widened sum is the sum of the widened terms. Coefficients are *signed*
(``x - threadIdx.x`` has coefficient -1), the rest keeps the type of the expression.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ktc.ir.fold import add, cast, fold_node, is_const, mul, simplify, sub
from ktc.ir.nodes import Binary, Cast, Const, Expr, HwIndex, Sym, Unary, Var
from ktc.ir.types import I32, I64, Scalar
from ktc.ir.walk import map_expr, used, walk_expr

from .integer_casts import is_index_cast, without_index_casts

Index: TypeAlias = Sym | HwIndex
"""What an index expression can be affine in: a variable, or a hardware index."""


@dataclass(frozen=True)
class LinearForm:
    """``sum(coeffs[s] * s) + rest``; neither the coefficients nor ``rest`` mention any key that was asked for."""

    coeffs: Mapping[Index, Expr] = field(default_factory=dict)
    rest: Expr = field(default_factory=lambda: Const(0, I32))

    def coeff(self, s: Index) -> Expr:
        """Coefficient of ``s``; the constant 0 when it does not occur."""
        return self.coeffs.get(s, Const(0, I32))

    def expr(self) -> Expr:
        """The form as an expression again."""
        out = self.rest
        for s, c in self.coeffs.items():
            out = add(out, mul(c, Var(s) if isinstance(s, Sym) else s))
        return out


def linear_form(e: Expr, over: Collection[Index]) -> LinearForm | None:
    """``e`` as an affine form over the symbols and hardware indices in ``over``; None when it is not one."""
    if not mentions(e, over):
        return LinearForm({}, fold_deep(e))
    if isinstance(e, Var):
        return LinearForm({e.sym: Const(1, _signed(e.type))}, _zero(e))
    if isinstance(e, HwIndex):
        return LinearForm({e: Const(1, I32)}, _zero(e))
    if isinstance(e, Cast):
        return _through_cast(e, over)
    if isinstance(e, Unary) and e.op == "-":
        x = linear_form(e.x, over)
        return x and LinearForm({s: _negate(c) for s, c in x.coeffs.items()}, sub(_zero(e), x.rest))
    if isinstance(e, Binary):
        return _of_binary(e, over)
    return None


def coefficient(e: Expr, s: Index) -> Expr | None:
    """Coefficient of ``s`` in ``e`` (the constant 0 if absent); None when ``e`` is not affine in ``s``."""
    form = linear_form(e, (s,))
    return None if form is None else form.coeff(s)


def remainder(e: Expr, s: Index) -> Expr | None:
    """``e`` at ``s == 0``; None when ``e`` is not affine in ``s``."""
    form = linear_form(e, (s,))
    return None if form is None else form.rest


def is_unit_stride(e: Expr, s: Index) -> bool:
    """Whether ``e`` grows by exactly one per ``s``: what a vector access along ``s`` needs."""
    c = coefficient(e, s)
    return c is not None and is_const(without_index_casts(c), 1)


def mentions(e: Expr, over: Collection[Index]) -> bool:
    """Whether a symbol (as a variable or as a buffer) or hardware index of ``over`` occurs in ``e``."""
    for x in walk_expr(e):
        if isinstance(x, HwIndex):
            if x in over:
                return True
        elif isinstance(x, Var):
            if x.sym in over:
                return True
        elif getattr(x, "buffer", None) in over and hasattr(x, "buffer"):
            return True
    return False


def fold_deep(e: Expr) -> Expr:
    """Constants folded everywhere below ``e``."""
    return simplify(e)


# -------------------------------------------------------------------------------------------------------- the cases


def _of_binary(e: Binary, over: Collection[Index]) -> LinearForm | None:
    if e.op not in ("+", "-", "*", "<<"):
        return None
    a, b = linear_form(e.a, over), linear_form(e.b, over)
    if a is None or b is None:
        return None
    if e.op == "<<":
        if b.coeffs or not isinstance(b.rest, Const):
            return None
        return _scale(a, Const(1 << int(b.rest.value), _signed(e.a.type)), e)
    if e.op == "*":
        if a.coeffs and b.coeffs:
            return None
        return _scale(a, b.rest, e) if a.coeffs else _scale(b, a.rest, e, left=True)
    combine = add if e.op == "+" else sub
    coeffs = dict(a.coeffs)
    for s, c in b.coeffs.items():
        coeffs[s] = combine(coeffs[s], c) if s in coeffs else (c if e.op == "+" else _negate(c))
    return LinearForm({s: c for s, c in coeffs.items() if not is_const(c, 0)}, combine(a.rest, b.rest))


def _scale(form: LinearForm, by: Expr, e: Expr, *, left: bool = False) -> LinearForm:
    """``form * by`` (``by * form`` when ``left``, which keeps the reading order of the source)."""

    def times(c: Expr, factor: Expr) -> Expr:
        return mul(factor, c) if left else mul(c, factor)

    signed = cast(by, _signed(by.type))
    coeffs = {s: times(c, signed) for s, c in form.coeffs.items()}
    rest = times(form.rest, by if form.rest.type == by.type else cast(by, e.type))  # type: ignore[arg-type]
    return LinearForm({s: c for s, c in coeffs.items() if not is_const(c, 0)}, rest)


def _through_cast(e: Cast, over: Collection[Index]) -> LinearForm | None:
    if not is_index_cast(e):
        return None
    x = linear_form(e.x, over)
    if x is None:
        return None
    to = e.to
    assert isinstance(to, Scalar)
    return LinearForm({s: cast(c, _signed(to)) for s, c in x.coeffs.items()}, cast(x.rest, to))


def _negate(c: Expr) -> Expr:
    return sub(Const(0, c.type), c) if is_const(c) else fold_node(Unary("-", c))  # type: ignore[arg-type]


def _zero(e: Expr) -> Const:
    t = e.type
    return Const(0, t if isinstance(t, Scalar) else I32)


def _signed(t: object) -> Scalar:
    """The signed integer type of the same width (at least 32 bits)."""
    if isinstance(t, Scalar) and t.is_int and t.bits > 32:
        return I64
    return I32


__all__ = ["Index", "LinearForm", "coefficient", "fold_deep", "is_unit_stride", "linear_form", "mentions", "remainder"]


def cancelled(e: Expr) -> Expr:
    """``e`` simplified, without variables whose terms cancel: ``k_tile + x - k_tile`` is ``x``."""

    def on(x: Expr) -> Expr:
        if isinstance(x, Binary) and x.op == "-":
            for v in used(x.b):
                form = linear_form(x, (v,))
                x = form.rest if form is not None and not form.coeffs else x
        return x

    return simplify(map_expr(e, on))
