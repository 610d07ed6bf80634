"""Places that a source rounds down to whole vectors, and that are at whole vectors anyway.

before, n a multiple of 2                              after
    for i in 2 * tx..n step 512                            for i in 2 * tx..n step 512
      var v: f16x2 = x[(row * n + i >> 1) * 2 +: 2]          var v: f16x2 = x[row * n + i +: 2]

``((half2*)x)[i / 2]`` is such a place. What is promised of sizes is taken to hold. Vectors are powers of two: a number
that wraps is a multiple of one where it would have been.
Places alone are written anew: how far a loop goes on is compared with what the launch says of its threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import multiple_of
from ktc.ir.fold import cast, is_const, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Const, Expr, Load, Stmt, Store, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import map_body, map_expr


def at_whole_places(body: Body, kernel: Kernel) -> Body:
    """``body``, of ``kernel``, without this rounding."""
    named = definitions(body)
    divisors: dict[Expr, int] = {Var(p.sym): p.divisible_by for p in kernel.params if p.divisible_by > 1}

    def place(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map_expr(i, lambda e: _unrounded(e, named, divisors)) for i in index)

    def expr(e: Expr) -> Expr:
        return dataclasses.replace(e, index=place(e.index)) if isinstance(e, Load) else e

    def stmt(s: Stmt) -> Stmt:
        return dataclasses.replace(s, index=place(s.index)) if isinstance(s, Store) else s

    return map_body(body, stmt, expr)


def _unrounded(e: Expr, named: Mapping[Sym, Expr], divisors: Mapping[Expr, int]) -> Expr:
    if not isinstance(e, Binary) or e.op != "*" or not isinstance(e.type, Scalar):
        return e
    for part, by in ((e.a, e.b), (e.b, e.a)):
        found = _quotient(without_index_casts(part))
        if found is None or not is_const(by):
            continue
        whole, of = found
        assert isinstance(by, Const)
        if of > 1 and not of & (of - 1) and int(by.value) % of == 0 and multiple_of(expand(whole, named), of, divisors):
            return mul(cast(whole, e.type), Const(int(by.value) // of, e.type))
    return e


def _quotient(e: Expr) -> tuple[Expr, int] | None:
    """What ``e`` divides, and by which number."""
    if not isinstance(e, Binary) or e.op not in ("/", ">>") or not is_const(e.b):
        return None
    assert isinstance(e.b, Const)
    n = int(e.b.value)
    if e.op == "/":
        return (e.a, n) if n > 0 else None
    return (e.a, 1 << n) if 0 <= n < 32 else None


__all__ = ["at_whole_places"]
