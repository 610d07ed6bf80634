"""Reductions in several partial results, written out: LLVM keeps those in vector registers.

A reduction has no order (:class:`ktc.ir.nodes.Reduce`), but its text has one, and LLVM keeps to it: a licence to
reassociate holds for a whole function, of which LLVM makes several versions, and the addresses of a call decide which
one runs. So the text says which element goes to which partial result, and the bits are the same in every call::

    for i in range(n):                       whole = whole_lanes(n)
        total += x[i]                        if whole > 0:
                                                 part = part_array()
                                                 part[:] = -0.0
                                                 for start in range(0, whole, LANES):
                                                     for lane in range(rolled(LANES)):
                                                         i = start + lane
                                                         part[lane] += x[i]
                                                 total += sum_of_lanes(part)
                                             for i in range(whole, n):
                                                 total += x[i]

What takes a polynomial to compute is left in an array of its own first, and added up in a second loop over the lanes:
a loop is as wide as its widest type lets it be, and partial results are doubles. An extreme that begins with a number
is never NaN, so one comparison decides.
"""

from __future__ import annotations

from ktc.ir.analysis.accumulators import together
from ktc.ir.nodes import (
    LOOPS_AND_EXITS,
    Acc,
    Body,
    Call,
    Cast,
    Const,
    Expr,
    Reduce,
    Unary,
    Var,
)  # fmt: skip
from ktc.ir.types import F32, U64, Scalar
from ktc.ir.walk import all_exprs, initial_values, walk, walk_expr

from .lane_helpers import LANES, TREES
from .numba_calls import is_polynomial
from .numba_expressions import ExprPrinter

NEUTRAL = {"+": "-0.0", "*": "1.0"}
"""What partial results begin with: a zero that leaves the sign of another as it is. An extreme begins with its own
first value."""


def pays(s: Reduce, x: ExprPrinter) -> bool:
    """Whether ``s`` gets partial results: an innermost loop over floats, not known to be short."""
    alone = all(len(group) == 1 for group in together(s.accs))
    if not alone or s.var.type == U64 or not any(has_lanes(a) for a in s.accs):
        return False
    high, low = x.facts.interval(s.hi).high, x.facts.interval(s.lo).low
    short = high is not None and low is not None and high - low < 2 * LANES
    return not short and not any(isinstance(inner, LOOPS_AND_EXITS) for inner in walk(s.body))


def has_lanes(a: Acc) -> bool:
    """Whether the accumulator does: of floats. Any order of integers is LLVM's own choice already."""
    t = a.sym.type
    return isinstance(t, Scalar) and t.is_float and a.op in TREES


def is_costly(s: Reduce, a: Acc) -> bool:
    """Whether what ``a`` adds up is a float in single precision that takes a polynomial to compute."""
    inside = (*all_exprs(s.body), *(e for acc in s.accs for e in walk_expr(acc.value)))
    return a.sym.type == F32 and any(isinstance(e, Call) and is_polynomial(e) for e in inside)


def begins_with_a_number(a: Acc, kernel: Body) -> bool:
    """Whether the first value of ``a`` is known not to be NaN, from the constants in ``kernel``, its whole body."""
    e: Expr | None = a.init
    if isinstance(e, Var):
        e = initial_values(kernel).get(e.sym)
    while isinstance(e, Cast | Unary):
        e = e.x
    return isinstance(e, Const) and e.value == e.value


__all__ = ["NEUTRAL", "begins_with_a_number", "has_lanes", "is_costly", "pays"]
