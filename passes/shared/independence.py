"""Whether the iterations of a loop touch disjoint elements, as far as indices that are affine in it say."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.arith import Facts
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import minus, polynomial, same_value
from ktc.ir.fold import add, cast, evaluate, i32, mul
from ktc.ir.nodes import Binary, Body, Const, Expr, Sym
from ktc.ir.text import print_expr
from ktc.ir.types import I32, Scalar
from ktc.passes.shared.disjoint_rows import rows_of, touched
from ktc.passes.shared.equal_integers import same


def independent(
    var: Sym,
    body: Body,
    extent: Expr | None = None,
    start: Expr | None = None,
    facts: Callable[[], Facts] | None = None,
) -> str:
    """'' if iterations over ``var`` touch disjoint elements of every buffer written; else the reason.

    Every access of a written buffer must use one index expression, injective in ``var`` (affine, non-zero coefficient),
    or several of coefficient 1 that lie whole multiples of ``extent``, the loop's trip count, apart (halves of a row),
    or the elements of one pack an iteration. Atomics may collide. Distinct pointer parameters are taken not to overlap.
    ``start``, where the loop begins: rows that it shares out (:mod:`.disjoint_rows`) are taken not to overlap either;
    the caller sees to that. ``facts``, of the place of the loop: a coefficient that is not shown to differ from 0 is
    refused. Without them one is that is 0 wherever it was tried: threads that race over one element, of which a source
    is made of, have no order to keep.
    """
    for buffer, t in touched(body).items():
        if start is not None and rows_of(var, start, t) is not None:
            continue
        indices = list(t.indices)
        several = any(i != indices[0] for i in indices)
        if several and not (_apart(var, indices, extent) or _of_one_pack(var, indices, t.widest)):
            return f"'{buffer.name}' is written and also touched at another index"
        form = linear_form(indices[0][-1], {var})
        if form is None or same(form.coeff(var), i32(0)):
            return f"the index of '{buffer.name}' is not affine in '{var.name}'"
        if facts is not None and not _never_zero(form.coeff(var), facts):
            apart = print_expr(form.coeff(var))
            return (
                f"'{buffer.name}' may be written at one index again and again: '{apart}' is not known to differ from 0"
            )
    return ""


def _never_zero(e: Expr, facts: Callable[[], Facts]) -> bool:
    n, t = evaluate(e, {}), e.type
    assert isinstance(t, Scalar)
    return bool(n) if n is not None else facts().truth(Binary("!=", e, Const(0, t))) is True


def _of_one_pack(var: Sym, indices: list[tuple[Expr, ...]], widest: int | None) -> bool:
    """Whether each iteration has a run of elements to itself: ``c * var + k`` with all ``k`` less than ``c`` apart."""
    if widest is None or any(len(i) != 1 for i in indices):
        return False
    forms = [linear_form(i, {var}) for (i,) in dict.fromkeys(indices)]
    steps = {None if f is None else evaluate(f.coeff(var), {}) for f in forms}
    (step, *others) = steps
    if others or step is None:
        return False
    first, *rest = (polynomial(f.rest) for f in forms if f is not None)
    gaps = [minus(r, first) for r in rest]
    if any(set(g) - {()} for g in gaps):
        return False
    offsets = [0, *(g.get((), 0) for g in gaps)]
    return max(offsets) - min(offsets) + widest <= abs(step)


def _apart(var: Sym, indices: list[tuple[Expr, ...]], extent: Expr | None) -> bool:
    """Whether any two different indices lie a whole number of ``extent`` apart, with unit stride along ``var``."""
    if extent is None or any(len(i) != 1 for i in indices):
        return False
    forms = [linear_form(i, {var}) for (i,) in dict.fromkeys(indices)]
    if any(f is None or not same_value(f.coeff(var), i32(1)) for f in forms):
        return False
    rests = [f.rest for f in forms if f is not None]
    multiples = [mul(i32(k), cast(extent, I32)) for k in (1, 2, 3)]

    def apart(a: Expr, b: Expr) -> bool:
        return any(same_value(a, add(b, m)) or same_value(b, add(a, m)) for m in multiples)

    return all(apart(a, b) for k, a in enumerate(rests) for b in rests[k + 1 :])


__all__ = ["independent"]
