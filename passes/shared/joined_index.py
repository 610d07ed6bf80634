"""Two loops' indices that only occur as the place of both together: ``fast + extent * slow``, times or plus something.

before                                   after over_both(.., fast=t, slow=b, extent=32, w)
    let i: i32 = (b * 32 + t) * 4            let i: i32 = w * 4
    x[b * 16 + t / 2] >> t % 2 * 4           x[w / 2] >> w % 2 * 4

Digits of the fast index are digits of both, where the extent is a multiple of what they are divided by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktc.ir.arith.affine import LinearForm, linear_form, mentions
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import add, binary, cast, evaluate, i32, is_const, mul
from ktc.ir.nodes import Binary, Body, Const, Expr, Sym, Var, fresh
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import all_exprs, keep, map_body, substitute, used_in

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


def digits_over_both(body: Body, fast: Sym, slow: Sym, extent: Expr, w: Sym) -> Body:
    """``body`` with quotients and remainders of ``fast`` by numbers that divide ``extent`` as those of ``w``."""
    whole = evaluate(extent, {})
    found = {(op, by) for e in all_exprs(body) for op, by in digit_of(e, fast)}
    for by in {by for _, by in found if whole is not None and by > 1 and whole % by == 0}:
        quotient, joined = fresh(fast.name, fast.type), fresh(w.name, w.type)

        def named(e: Expr, by: int = by, quotient: Sym = quotient) -> Expr:
            t = scalar_of(e.type)
            for op, number in digit_of(e, fast):
                if number == by:
                    return cast(Var(quotient), t) if op == "/" else binary("%", cast(Var(w), t), Const(by, t))
            return e

        digit = over_both(quotient, slow, i32(int(whole or 0) // by), joined)
        there = map_body(map_body(body, keep, named), keep, digit)
        if quotient not in used_in(there):
            body = substitute(there, {joined: binary("/", Var(w), Const(by, scalar_of(w.type)))})
    return body


def digit_of(e: Expr, v: Sym) -> Iterator[tuple[str, int]]:
    """How ``e`` is a digit of ``v``: ("/" or "%", by which number)."""
    if not isinstance(e, Binary) or not isinstance(e.b, Const) or without_index_casts(e.a) != Var(v):
        return
    n = int(e.b.value)
    if e.op in ("/", "%"):
        yield e.op, n
    elif e.op == ">>" and 0 <= n < 31:
        yield "/", 1 << n
    elif e.op == "&" and n > 0 and n & (n + 1) == 0:
        yield "%", n + 1


__all__ = ["digit_of", "digits_over_both", "over_both", "together"]
