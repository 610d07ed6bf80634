"""Facts that lowering asks about integer expressions: known values, divisibility, equality.

Bound knobs decide structure (a vector of one lane is a scalar); open knobs leave it to the printed constants.
"""

from __future__ import annotations

import functools

from ktc.ir.arith import LOWERING, Facts, facts_of
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, For


class Decider:
    """Answers questions under a kernel's bound knobs and assumptions, and about its sizes under all its facts."""

    def __init__(self, kernel: Kernel) -> None:
        self.bound = kernel.bound_knobs
        self.kernel = kernel

    @functools.cached_property
    def facts(self) -> Facts:
        return facts_of(self.kernel, LOWERING)

    def value(self, e: Expr) -> int | None:
        """The value of ``e`` if constants and bound knobs determine it."""
        v = evaluate(e, self.bound)
        return None if v is None else int(v)

    def rounds(self, loop: For) -> int | None:
        """How often ``loop``, counting from zero by one, runs; None if it counts otherwise or to an unknown end."""
        form = counting(loop)
        return self.value(form.hi) if form is not None and form.from_zero_by_one else None

    def divisible(self, e: Expr, by: Expr) -> bool:
        """Whether ``by`` provably divides ``e``."""
        n, v = self.value(by), self.value(e)
        if n == 1 or v == 0 or (v is not None and n):
            return n == 1 or v == 0 or (v is not None and n is not None and v % n == 0)
        return self.facts.divides(by, e)

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions are provably equal: the same tree, the same known value, or the same polynomial."""
        va, vb = self.value(a), self.value(b)
        return (
            without_index_casts(a) == without_index_casts(b) or (va is not None and va == vb) or self.facts.equal(a, b)
        )


__all__ = ["Decider"]
