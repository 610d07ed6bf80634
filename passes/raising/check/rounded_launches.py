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
        if not isinstance(s, Par) or not is_const(s.lo, 0) or not _is_guarded(s.body, s):
            return s
        n = _rounded(s.hi)
        return s if n is None else dataclasses.replace(s, hi=cast(n, s.hi.type))  # type: ignore[arg-type]

    return map_body(body, on)


def _rounded(hi: Expr) -> Expr | None:
    """``n`` where ``hi`` is the next multiple of a number, ``k * ((n + k - 1) / k)``, or of rows of ``c`` threads each,
    ``k * ((c * n + c * k - 1) / (c * k))``."""
    e = without_index_casts(hi)
    for k, blocks in ((e.a, e.b), (e.b, e.a)) if isinstance(e, Binary) and e.op == "*" else ():
        up, rows = without_index_casts(blocks), evaluate(k, {})
        if rows is None or rows < 2:
            continue
        if isinstance(up, Call) and up.fn == "cdiv":
            elements, threads = polynomial(up.args[0]), evaluate(up.args[1], {})
        elif isinstance(up, Binary) and up.op == "/" and (threads := evaluate(up.b, {})) is not None:
            elements = minus(polynomial(up.a), {(): int(threads) - 1})
        else:
            continue
        if threads == rows and isinstance(up, Binary) and isinstance(up.a, Binary) and is_const(up.a.b, rows - 1):
            return up.a.a if up.a.op == "+" else None  # as it is written
        if threads is not None and threads % rows == 0 and all(c % (threads // rows) == 0 for c in elements.values()):
            return from_polynomial({f: c // int(threads // rows) for f, c in elements.items()}, blocks.type)
    return None


def _is_guarded(body: Body, loop: Par) -> bool:
    """Whether all that ``body``, of ``loop``, leaves in memory stands under conditions, of which there are some."""
    own = set(declared(loop.body))
    seen = [s for s in body if not isinstance(s, If) and assigned((s,)) - own]
    return all(isinstance(s, For) and _is_guarded(s.body, loop) for s in seen) and any(
        isinstance(s, If) for s in walk(body)
    )


__all__ = ["without_rounding"]
