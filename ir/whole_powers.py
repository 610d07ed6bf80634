"""Powers whose exponent is a small whole number: what products can take the place of.

A product of up to four factors is off by at most 1.5 units in the last place, which no library's ``pow`` promises to
beat by much (CUDA: 4 in 32 bits, 2 in 64; OpenCL: 16), and treats zeros, infinities, NaNs and signs as ``pow`` does.
Negative exponents are left: where ``x * x`` overflows, ``1 / (x * x)`` is zero and ``pow(x, -2)`` may be a subnormal.
"""

from __future__ import annotations

from ktc.ir.nodes import Call, Cast, Const, Expr
from ktc.ir.types import F32, F64

EXPONENTS = (2, 3, 4)


def whole_power(e: Expr) -> tuple[Expr, int] | None:
    """Base and exponent of a power of a 32- or 64-bit float that products may replace; None for anything else."""
    if not isinstance(e, Call) or e.fn != "pow" or e.type not in (F32, F64):
        return None
    base, exponent = e.args
    if isinstance(exponent, Cast) and exponent.to in (F32, F64):
        exponent = exponent.x
    if not isinstance(exponent, Const) or exponent.value not in EXPONENTS or base.type != e.type:
        return None
    return base, int(exponent.value)


__all__ = ["EXPONENTS", "whole_power"]
