"""Which answers of a kernel on special values no order of its operations changes: its NaNs, the signs of its zeros.

A maximum that meets a NaN is that NaN, or what comes after it; zeros of a sum have the sign that its last term gives
them. Where floats are only added and multiplied, NaN is NaN in whatever order, and where nothing is collected in a
loop, between threads or in memory, there is one order.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Assign, Atomic, For, Load, Reduce, Scan, Store, WarpOp, While
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, walk

from .larger_floats import decides


class Answers(Enum):
    """What of two programs' special values has to be the same beyond numbers and infinities."""

    OPEN = "nothing"
    NUMBERS = "no number stands for a NaN"
    ALL = "NaNs and the signs of zeros"


def answers_of(original: Kernel, candidate: Kernel) -> Answers:
    """What a candidate for ``original`` has to keep."""
    if in_one_order(original) and in_one_order(candidate):
        return Answers.ALL
    return Answers.OPEN if decides(original) else Answers.NUMBERS


@by_identity(32)
def in_one_order(k: Kernel) -> bool:
    """Whether each float is computed from what is read by one expression after the other: none is collected."""
    if any(isinstance(e, WarpOp) and _float(e.value.type) for e in all_exprs(k.body)):
        return False
    written = {p.sym for p in k.params if isinstance(p.sym.type, Ptr) and _float(scalar_of(p.sym.type))}
    for s in walk(k.body):
        if isinstance(s, Reduce | Scan) or (isinstance(s, Atomic | Alloc) and _float(_elements(s))):
            return False
        if isinstance(s, For | While):
            inside = list(walk(s.body))
            if any(isinstance(x, Assign) and _float(x.sym.type) for x in inside):
                return False
            read = {e.buffer for e in all_exprs(s.body) if isinstance(e, Load)}
            if any(isinstance(x, Store) and x.buffer in written & read for x in inside):
                return False
    return True


def lost(original: np.ndarray, got: np.ndarray, exact: np.ndarray, answers: Answers) -> np.ndarray:
    """Which elements of ``got`` have lost a NaN, or a zero's sign, that ``original`` has in real arithmetic (``exact``)
    too: arrays of doubles of one shape."""
    if answers is Answers.OPEN:
        return np.zeros(original.shape, bool)
    kept = np.isnan(got) if answers is Answers.ALL else ~np.isfinite(got)
    nan = np.isnan(original) & np.isnan(exact) & ~kept
    if answers is Answers.NUMBERS:
        return nan
    zeros = (original == 0) & (got == 0) & (exact == 0)
    sign = np.signbit(original)
    return nan | (zeros & (sign != np.signbit(got)) & (sign == np.signbit(exact)))


def _elements(s: Atomic | Alloc) -> object:
    return scalar_of(s.buffer.type if isinstance(s, Atomic) else s.sym.type)


def _float(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_float


__all__ = ["Answers", "answers_of", "in_one_order", "lost"]
