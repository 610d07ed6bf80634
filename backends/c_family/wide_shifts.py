"""Shifts by the width or more, where a language does not shift everything out as the IR (and NVIDIA's devices) do.

PTX: ``shl`` and ``shr`` clamp amounts to the width (PTX ISA 9.7.8), which programs rely on where a word is split at a
bit: ``w << 32 - bit``. OpenCL takes the amount modulo the width (OpenCL C 6.3), AMD's devices use its low bits.
"""

from __future__ import annotations

from ktc.ir.arith import ANY_LAUNCH, Facts, Interval
from ktc.ir.fold import cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Select
from ktc.ir.types import U32, U64, Scalar
from ktc.ir.walk import keep, map_body


def guard_shifts(kernel: Kernel) -> Kernel:
    """``a << b`` -> ``b < 32 ? a << b : 0`` where ``b`` may be 32 or more; ``a >> b`` of signed: by at most 31."""
    facts = Facts(kernel, ANY_LAUNCH)

    def guarded(e: Expr) -> Expr:
        t = e.type
        if not isinstance(e, Binary) or e.op not in ("<<", ">>") or not isinstance(t, Scalar) or t.bits < 32:
            return e
        if facts.interval(e.b).within(Interval(0, t.bits - 1)):
            return e
        by = e.b.x if isinstance(e.b, Cast) and e.b.style == "implicit" else e.b
        if not isinstance(by.type, Scalar) or by.type.bits < 32:
            by = e.b
        assert isinstance(by.type, Scalar)
        unsigned = U64 if by.type.bits == 64 else U32
        amount, width = cast(by, unsigned), Const(t.bits, unsigned)
        if e.op == ">>" and t.is_signed:
            least = Call("min", (amount, Const(t.bits - 1, unsigned)), unsigned)
            return Binary(">>", e.a, cast(least, t))
        return Select(Binary("<", amount, width), e, Const(0, t))

    return kernel.with_(body=map_body(kernel.body, keep, guarded))
