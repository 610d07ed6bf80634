"""How far apart the bounds of loops are, where one begins at the counter of another."""

from __future__ import annotations

from ktc.ir.fold import cast, sub
from ktc.ir.nodes import Expr
from ktc.ir.types import Scalar
from ktc.ir.walk import used

from .kernel_facts import Facts
from .polynomial import from_polynomial, minus


def length(lo: Expr, hi: Expr, facts: Facts) -> Expr:
    """``hi - lo``, by what is left of both: 16 of ``t * 16..t * 16 + 16``."""
    t = hi.type
    assert isinstance(t, Scalar)
    if not used(lo) or not facts.whole(lo) or not facts.whole(hi):
        return sub(hi, cast(lo, t))
    return from_polynomial(minus(facts.polynomial(hi), facts.polynomial(lo)), t)


__all__ = ["length"]
