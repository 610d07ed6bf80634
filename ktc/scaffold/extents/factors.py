"""The factors of a product, whatever conversions are around them."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.nodes import Binary, Expr


def factors_of(e: Expr) -> Iterator[Expr]:
    """The factors of a product, in order, without the conversions around them."""
    e = without_casts(e)
    if isinstance(e, Binary) and e.op == "*":
        yield from factors_of(e.a)
        yield from factors_of(e.b)
    else:
        yield e


__all__ = ["factors_of"]
