"""Truth values in the lanes of OpenCL's vectors: -1, all bits of the lane, or 0; what is asked is the top bit."""

from __future__ import annotations

from ktc.ir.fold import is_const
from ktc.ir.nodes import Binary, Const, Expr, Select
from ktc.ir.types import Scalar

from .convert import bitcast


def all_bits(truth: Expr, elem: Scalar) -> Expr:
    """-1 where ``truth`` holds, else 0, as wide as ``elem``."""
    whole = Scalar("int", elem.bits)
    return Select(truth, Const(-1, whole), Const(0, whole))


def top_bit(lane: Expr) -> Expr:
    """Whether the top bit of an integer is set: the comparison itself, where the lane is what one gave."""
    if isinstance(lane, Select) and is_const(lane.a, -1) and is_const(lane.b, 0):
        return lane.cond
    t = lane.type
    assert isinstance(t, Scalar)
    signed = Scalar("int", t.bits)
    return Binary("<", bitcast(lane, signed), Const(0, signed))
