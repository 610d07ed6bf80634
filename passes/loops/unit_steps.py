"""Serial loops that count by another number, down, or up to an end that they meet, as loops that count up by one.

before                                    after
    for j in 0..n step 4                      for j in 0..cdiv(n, 4)
      s += x[j]                                 s += x[j * 4]
    for j = n - 1; j >= 0; j - 1              for j in 0..n
      s += x[j]                                 s += x[n - 1 - j]
    for j = 0; j != n; j + 1                  for j in 0..n
      s += x[j]                                 s += x[j]

Quotients and remainders of the old counter, ``j / 8``, are those of the new one, ``j / 2``. The iterations are the
same, in the same order. As everywhere, index arithmetic is taken not to wrap: a loop whose signed counter passes the
largest number has no meaning, and one whose unsigned counter may do so is left alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.arith import Facts
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.polynomial import difference
from ktc.ir.fold import add, cast, cdiv, evaluate, i32, is_const, lt, mul, simplify, sub
from ktc.ir.nodes import MIRRORED, Binary, Const, Expr, For, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, keep, map_body, substitute, used


def by_ones(loop: For, facts: Callable[[], Facts] | None = None) -> For | None:
    """``loop`` counting up by one from zero, under the same name; None where it does so up to a limit already, or where
    how often it runs is not known when it begins. ``facts`` says what holds where it stands, and is asked where that
    matters; without it, the loop may count by numbers only."""
    v, t = loop.var, loop.var.type
    step, limit = loop_step(loop), _limit(loop)
    if step is None or limit is None or not isinstance(t, Scalar):
        return None
    moving = assigned(loop.body) | {v}
    op, end = limit
    if moving & (used(loop.init) | used(end) | used(step)) or v in assigned(loop.body):
        return None
    down = _downwards(step, facts)
    if down is None or (op == "<" and is_const(step, 1)):
        return None
    each = simplify(sub(i32(0), step)) if down else step
    if op == "!=":
        if not is_const(each, 1):
            return None
        op = ">" if down else "<"
    if (op == ">") != down or not (t.is_signed or (is_const(loop.init, 0) and not down)):
        return None
    count = cast(simplify(cdiv(_span(loop.init, end) if not down else _span(end, loop.init), each)), t)
    moved = mul(Var(v), cast(each, t))
    value = simplify(sub(loop.init, moved) if down else add(loop.init, moved))
    body = substitute(loop.body, {v: cast(value, t)})
    if is_const(loop.init, 0) and not down:
        body = map_body(body, keep, lambda e: _of_counter(e, v))
    return dataclasses.replace(
        loop, init=cast(i32(0), t), cond=lt(Var(v), count), step=add(Var(v), cast(i32(1), t)), body=body
    )


def _span(lo: Expr, hi: Expr) -> Expr:
    """``hi - lo``, a number where one begins at the counter of another loop: 16 of ``t * 16..t * 16 + 16``."""
    known = evaluate(difference(hi, lo), {})
    return i32(int(known)) if known is not None else simplify(sub(hi, lo))


def _of_counter(e: Expr, v: Sym) -> Expr:
    """``e``; of a quotient or remainder ``(v * m + r) / n`` of a counter ``v`` from 0, where one of m and n divides the
    other, what it is without the product."""
    n = _divisor(e)
    form = linear_form(e.a, (v,)) if n is not None and isinstance(e, Binary) else None
    if n is None or form is None or not isinstance(e, Binary):
        return e
    m, r, t = evaluate(form.coeff(v), {}), evaluate(form.rest, {}), v.type
    if not isinstance(m, int) or not isinstance(r, int) or m < 2 or r < 0 or not isinstance(t, Scalar):
        return e

    def number(k: int) -> Expr:
        return cast(i32(k), t)

    found: Expr | None = None
    turns = add(Var(v), number(r // m))
    if m % n == 0:
        found = add(mul(Var(v), number(m // n)), number(r // n)) if e.op in ("/", ">>") else number(r % n)
    elif n % m == 0 and e.op in ("/", ">>"):
        found = Binary("/", turns, number(n // m))
    elif n % m == 0:
        found = add(mul(Binary("%", turns, number(n // m)), number(m)), number(r % m))
    assert isinstance(e.type, Scalar)
    return e if found is None else cast(found, e.type)


def _divisor(e: Expr) -> int | None:
    """What ``e`` is a quotient or remainder by, of a number that is not negative; None where it is neither."""
    if not isinstance(e, Binary) or not isinstance(e.b, Const) or not isinstance(e.b.value, int):
        return None
    value = e.b.value
    if e.op == "&":
        return value + 1 if value > 0 and value & (value + 1) == 0 else None
    if e.op == ">>":
        return 1 << value if 0 <= value < 31 else None
    return value if e.op in ("/", "%") and 0 < value < 1 << 31 else None


def _downwards(step: Expr, facts: Callable[[], Facts] | None) -> bool | None:
    """Whether a counter goes down by ``step``; None where its sign is not known."""
    number = evaluate(step, {})
    if number is not None:
        return None if number == 0 else number < 0
    return False if facts is not None and facts().below(i32(0), step) else None


def _limit(loop: For) -> tuple[str, Expr] | None:
    """``(op, end)`` such that ``loop`` goes on while ``var op end``, with ``<``, ``>`` or ``!=``."""
    c, v = loop.cond, loop.var
    if not isinstance(c, Binary):
        return None
    op, a, b = (c.op, c.a, c.b) if _is(c.a, v) else (MIRRORED.get(c.op, c.op), c.b, c.a)
    if not _is(a, v) or v in used(b):
        return None
    t = v.type
    assert isinstance(t, Scalar)
    end, one = cast(b, t), cast(i32(1), t)
    ends = {"<": ("<", end), "<=": ("<", add(end, one)), ">": (">", end), ">=": (">", sub(end, one)), "!=": ("!=", end)}
    return ends.get(op)


def _is(e: Expr, v: Sym) -> bool:
    """Whether ``e`` is ``v``, in whatever type it is compared."""
    form = linear_form(e, (v,))
    return form is not None and is_const(form.coeff(v), 1) and is_const(form.rest, 0)


__all__ = ["by_ones"]
