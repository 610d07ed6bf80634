"""Two loops' indices that only occur as the place of both together: ``fast + extent * slow``, times or plus something.

before                                   after over_both(.., fast=t, slow=b, extent=32, w)
    let i: i32 = (b * 32 + t) * 4            let i: i32 = w * 4
"""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.arith.affine import LinearForm, linear_form, mentions
from ktc.ir.fold import add, cast, is_const, mul
from ktc.ir.nodes import Expr, Sym, Var
from ktc.ir.types import Scalar

from .equal_integers import same


def together(e: Expr, fast: Sym, slow: Sym, extent: Expr) -> LinearForm | None:
    """``e`` as a linear form in which the two occur as a multiple of ``fast + extent * slow``."""
    t = e.type
    if not isinstance(t, Scalar) or not t.is_int or not mentions(e, {fast, slow}):
        return None
    form = linear_form(e, {fast, slow})
    if form is None or fast not in form.coeffs or slow not in form.coeffs:
        return None
    a, b = form.coeff(fast), form.coeff(slow)
    return form if same(mul(a, cast(extent, a.type)), b) else None  # type: ignore[arg-type]


def over_both(fast: Sym, slow: Sym, extent: Expr, w: Sym) -> Callable[[Expr], Expr]:
    """What to map expressions with, so that ``w`` stands for ``fast + extent * slow``."""

    def on(e: Expr) -> Expr:
        form = together(e, fast, slow, extent)
        if form is None:
            return e
        t = e.type
        assert isinstance(t, Scalar)
        both = mul(cast(Var(w), t), cast(form.coeff(fast), t))
        return both if is_const(form.rest, 0) else add(both, form.rest)

    return on


__all__ = ["over_both", "together"]
