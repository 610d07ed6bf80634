"""Rewrites before printing: 16-bit float arithmetic that a language lacks goes through f32.

``half`` and ``bfloat16`` sums, products, quotients and square roots computed in f32 and rounded once are the correctly
rounded results: 24 bits are at least 2 * 11 + 2 (Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.fold import cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Expr, Unary, WarpOp
from ktc.ir.types import BF16, E4M3, E5M2, F16, F32, Scalar
from ktc.ir.walk import keep, map_body

SMALL = (F16, BF16, E4M3, E5M2)


def widen_small_floats(
    kernel: Kernel, has_operators: Callable[[Scalar], bool], has_function: Callable[[str, Scalar], bool]
) -> Kernel:
    """``a * b`` on f16 -> ``f16(f32(a) * f32(b))`` where ``has_operators(f16)`` is false; calls and shuffles too."""

    def widen(e: Expr) -> Expr:
        t = e.a.type if isinstance(e, Binary) else e.type
        if isinstance(e, Binary) and t in SMALL and not has_operators(t):
            wide = Binary(e.op, cast(e.a, F32), cast(e.b, F32))
            return cast(wide, t) if e.type == t else wide
        if isinstance(e, Unary) and t in SMALL and not has_operators(t):
            return cast(Unary(e.op, cast(e.x, F32)), t)
        if isinstance(e, Call) and any(a.type in SMALL for a in e.args) and e.fn != "cdiv":
            small = next(a.type for a in e.args if a.type in SMALL)
            assert isinstance(small, Scalar)
            if has_function(e.fn, small):
                return e
            args = tuple(cast(a, F32) if a.type in SMALL else a for a in e.args)
            return cast(Call(e.fn, args, F32, e.effects), t) if t in SMALL else dataclasses.replace(e, args=args)
        if isinstance(e, WarpOp) and t in SMALL and not has_function("shfl", t):
            return cast(dataclasses.replace(e, value=cast(e.value, F32)), t)
        return e

    return kernel.with_(body=map_body(kernel.body, keep, widen))
