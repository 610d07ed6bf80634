"""The upper bound that a loop's condition sets to its variable.

It is read off the form of the condition and says nothing of what the bound may be: that is for
:class:`ktc.ir.arith.Facts` to say. Forms are those of :mod:`ktc.ir.arith`, which assume that index arithmetic does not
wrap; where something is moved to the other side, signed arithmetic.
"""

from __future__ import annotations

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import from_polynomial, minus, polynomial
from ktc.ir.fold import cast, cdiv, evaluate, fold_node, i32, is_const
from ktc.ir.nodes import Binary, Const, Expr, Sym
from ktc.ir.types import Scalar
from ktc.ir.walk import used


def upper_bound(cond: Expr, var: Sym) -> Expr | None:
    """``hi`` such that ``cond`` is ``var < hi``, in the type of ``var``: of ``2 * var + 1 < n``,
    ``cdiv(n - 1, 2)``."""
    if not isinstance(cond, Binary):
        return None
    sides = {"<": (cond.a, cond.b, 0), ">": (cond.b, cond.a, 0), "<=": (cond.a, cond.b, 1), ">=": (cond.b, cond.a, 1)}
    if cond.op not in sides:
        return None
    small, large, plus = sides[cond.op]
    form = linear_form(small, {var})
    each = None if form is None else evaluate(form.coeff(var), {})
    if form is None or not each or each < 1 or var in used(large):
        return None
    t = var.type
    assert isinstance(t, Scalar)
    if each > 1 or polynomial(form.rest):
        moved = [e.type for e in (small, large)]
        if not is_const(form.rest) or any(not isinstance(x, Scalar) or not x.is_signed for x in moved):
            return None
        large = from_polynomial(minus(polynomial(large), polynomial(form.rest)), large.type)
    if each > 1:
        end = fold_node(Binary("+", large, Const(1, large.type))) if plus else large  # type: ignore[arg-type]
        return cast(cdiv(end, i32(int(each))), t)
    bound = cast(large, t)
    return fold_node(Binary("+", bound, Const(1, t))) if plus else bound
