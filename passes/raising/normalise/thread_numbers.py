"""A thread's number put together from its digits, as the number.

before                                             after
    let warp: i32 = threadIdx.x / 32                   for k in 0..3
    let lane: i32 = threadIdx.x % 32                     let i: i32 = threadIdx.x + 256 * k
    for k in 0..3
      let i: i32 = warp * 32 + lane + 256 * k
"""

from __future__ import annotations

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith import REWRITES, Facts, Interval
from ktc.ir.arith.simplification import simplified
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Binary, Body, Expr
from ktc.ir.types import Scalar
from ktc.ir.walk import keep, map_body, map_expr, used, walk_expr

from .block_shapes import DIGITS, X, by_division


def with_whole_numbers(body: Body, launch: Launch) -> Body:
    """``body`` with sums of all digits of ``threadIdx.x`` as that."""
    threads = evaluate(launch.block[0], {})
    named = {s: e for s, e in definitions(body).items() if X in walk_expr(e)}
    if threads is None:
        return body
    facts = Facts(Kernel("", (), None, ()), REWRITES)
    facts.narrow(X, Interval(0, int(threads) - 1))

    def on(e: Expr) -> Expr:
        if not isinstance(e, Binary) or e.op != "+" or not isinstance(e.type, Scalar) or not e.type.is_int:
            return e
        if not used(e) & named.keys() and not _takes_digits(e):
            return e
        digits = map_expr(expand(e, named), by_division)
        whole = simplified(digits, facts) if _takes_digits(digits) else digits
        return e if _takes_digits(whole) or whole == digits else whole

    return map_body(body, keep, on)


def _takes_digits(e: Expr) -> bool:
    """Whether ``e`` divides a thread's number."""
    return any(isinstance(x, Binary) and x.op in DIGITS and X in walk_expr(x.a) for x in walk_expr(e))


__all__ = ["with_whole_numbers"]
