"""Loops that end at the smaller of two numbers, of which sizes say which it is.

before                                                after
    n: i32 range 1..4096                                  n: i32 range 1..4096
    par i in 0..min(n, 4096) @ [thread.x 256, seq 16]     par i in 0..n @ [thread.x 256, seq 16]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Call, Expr, HwIndex, Knob, Load, Par, Reduce, Stmt, Sym
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_body, used, walk, walk_expr


def with_known_ends(raised: Kernel) -> Kernel:
    """``raised`` with the end of each such loop that what is known of sizes decides."""
    if not any(isinstance(s, Par | Reduce) and _is_smaller(s.hi) for s in walk(raised.body)):
        return raised
    facts = facts_of(raised, REWRITES)
    sizes = {p.sym for p in raised.params if isinstance(p.sym.type, Scalar)} - assigned(raised.body)

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Par | Reduce):
            return s
        hi = _decided(s.hi, sizes, facts)
        return s if hi is s.hi else dataclasses.replace(s, hi=hi)

    body = map_body(raised.body, on)
    return raised if body is raised.body else raised.with_(body=body)


def _is_smaller(e: Expr) -> bool:
    return isinstance(e, Call) and e.fn == "min"


def _decided(e: Expr, sizes: Collection[Sym], facts: Facts) -> Expr:
    """``e``, or the one of two numbers that it always is."""
    if not isinstance(e, Call) or e.fn != "min" or not used(e) <= set(sizes):
        return e
    if any(isinstance(x, Load | HwIndex | Knob) for x in walk_expr(e)):
        return e
    a, b = e.args
    return a if facts.at_most(a, b) else b if facts.at_most(b, a) else e


__all__ = ["with_known_ends"]
