"""Products of matrix fragments that lanes hold in registers: the ``mma`` statement as an intrinsic of the libraries."""

from __future__ import annotations

from typing import Any

from ktc.ir.builtins import Builtin
from ktc.ir.fragments import INSTRUCTIONS
from ktc.ir.frontend.meaning.values import ElemPlace, PtrVal, Value
from ktc.ir.nodes import Load, Mma, i32
from ktc.ir.types import scalar_of

from .async_calls import AsyncCalls
from .special import NO_VALUE


class TensorCalls(AsyncCalls):
    """``__ktc_mma_SHAPE(accumulators, a, b)`` on private arrays: the instruction of that shape and type."""

    def _b_mma(self, row: Builtin, args: list[Value], node: Any) -> Value:
        acc, a, b = (self._held(x, node) for x in args)
        operand = scalar_of(a.buffer.type)
        fits = [f for f in INSTRUCTIONS.values() if f.name.startswith(row.arg + "_") and f.operand == operand]
        if not fits:
            self.fail("E-UNSUPPORTED-MMA", f"no {row.arg} product of {operand} operands", node)
        f = fits[0]
        assert f.a is not None and f.b is not None
        places = tuple(self.deref(acc, i32(i), node) for i in range(f.c.slots))
        held = tuple(Load(p.buffer, p.index) for p in places if isinstance(p, ElemPlace))
        left, right = (
            Load(p.buffer, (*p.prefix, p.offset if p.offset is not None else i32(0)), width=layout.slots)
            for p, layout in zip((a, b), (f.a, f.b))
        )
        self.emit(Mma(f.name, held, left, right, loc=self.loc))
        return NO_VALUE

    def _held(self, v: Value, node: Any) -> PtrVal:
        p = self.load(v, node)
        if not isinstance(p, PtrVal) or getattr(p.buffer.type, "space", "local") != "local":
            self.fail("E-UNSUPPORTED-MMA", "a fragment must be an array of the thread", node)
        return p
