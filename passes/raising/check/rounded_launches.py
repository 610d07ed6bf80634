"""Launches rounded up to whole blocks, whose last threads do nothing though no guard asks for their number itself.

    par i in 0..64 * ((rows * width + 63) / 64)           par i in 0..rows * width
      if i / width < rows                                   if i / width < rows
        y[i] = ..                                             y[i] = ..

A loop over ``rows * width`` is one over rows and columns (``delinearise``).
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import from_polynomial, minus, polynomial
from ktc.ir.fold import cast, evaluate, is_const
from ktc.ir.nodes import Binary, Body, Call, Expr, For, If, Par, Stmt
from ktc.ir.walk import assigned, declared, map_body, walk


def without_rounding(body: Body) -> Body:
    """``body`` with loops that go on to the end of the last block, ``64 * ((n + 63) / 64)``, over ``n`` alone, where a
    condition stands around all that others see of them: what it asks may be about the digits of the counter, as in
    ``i / width < height``. Whether it leaves nothing beyond ``n`` is for the check to say."""

    def on(s: Stmt) -> Stmt:
        n = _rounded(s.hi) if isinstance(s, Par) and is_const(s.lo, 0) and _is_guarded(s.body, s) else None
        return s if n is None else dataclasses.replace(s, hi=cast(n, s.hi.type))  # type: ignore[attr-defined, arg-type]

    return map_body(body, on)


def _rounded(hi: Expr) -> Expr | None:
    """``n`` where ``hi`` is the next multiple of a number, ``k * ((n + k - 1) / k)``."""
    e = without_index_casts(hi)
    for k, blocks in ((e.a, e.b), (e.b, e.a)) if isinstance(e, Binary) and e.op == "*" else ():
        up, size = without_index_casts(blocks), evaluate(k, {})
        if size is None or size < 2:
            continue
        if isinstance(up, Call) and up.fn == "cdiv" and evaluate(up.args[1], {}) == size:
            return up.args[0]
        if isinstance(up, Binary) and up.op == "/" and evaluate(up.b, {}) == size:
            if isinstance(up.a, Binary) and up.a.op == "+" and is_const(up.a.b, size - 1):
                return up.a.a
            return from_polynomial(minus(polynomial(up.a), {(): int(size) - 1}), hi.type)
    return None


def _is_guarded(body: Body, loop: Par) -> bool:
    """Whether all that ``body``, of ``loop``, leaves in memory stands under conditions, of which there are some."""
    own = set(declared(loop.body))
    seen = [s for s in body if not isinstance(s, If) and assigned((s,)) - own]
    return all(isinstance(s, For) and _is_guarded(s.body, loop) for s in seen) and any(
        isinstance(s, If) for s in walk(body)
    )


__all__ = ["without_rounding"]
