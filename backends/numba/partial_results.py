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
"""

from __future__ import annotations

from ktc.ir.analysis.accumulators import together
from ktc.ir.nodes import Acc, Break, Continue, For, Par, Reduce, Return, Scan, While
from ktc.ir.types import U64, Scalar
from ktc.ir.walk import walk

from .lane_helpers import LANES, TREES
from .numba_expressions import ExprPrinter

_LOOPS_AND_EXITS = (For, While, Par, Reduce, Scan, Break, Continue, Return)

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
    return not short and not any(isinstance(inner, _LOOPS_AND_EXITS) for inner in walk(s.body))


def has_lanes(a: Acc) -> bool:
    """Whether the accumulator does: of floats. Any order of integers is LLVM's own choice already."""
    t = a.sym.type
    return isinstance(t, Scalar) and t.is_float and a.op in TREES


__all__ = ["NEUTRAL", "has_lanes", "pays"]
