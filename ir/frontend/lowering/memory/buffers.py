"""Buffers as pointers see them: elements, flatness, volatility, what an expression over them costs."""

from __future__ import annotations

import dataclasses

from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    ChoicePtr,
    ElemPlace,
    FlatArray,
    PtrVal,
    Value,
)  # fmt: skip
from ktc.ir.nodes import (
    Cast,
    Const,
    Expr,
    HwIndex,
    Load,
    Select,
    Sym,
    Var,
    WarpOp,
)
from ktc.ir.types import U8, U16, U32, U64, Array, Ptr, Type, Vec

UNSIGNED = {1: U8, 2: U16, 4: U32, 8: U64}


def access_kind(p: PtrVal) -> str:
    """``volatile`` for accesses through ``p`` that are, to memory that others see whose type does not say so."""
    if not p.volatile:
        return ""
    t = p.buffer.type
    seen = (isinstance(t, Array) and t.space != "local") or (isinstance(t, Ptr) and not t.volatile)
    return "volatile" if seen else ""


def as_volatile(v: Value, volatile: bool) -> Value:
    """``v``, a pointer or a place, for accesses that are volatile if ``volatile`` says so (and as before if not)."""
    if not volatile:
        return v
    if isinstance(v, PtrVal):
        return dataclasses.replace(v, volatile=True)
    if isinstance(v, ChoicePtr):
        return ChoicePtr(v.which, tuple(dataclasses.replace(c, volatile=True) for c in v.choices))
    if isinstance(v, ElemPlace):
        return dataclasses.replace(v, cache=access_kind(PtrVal(v.buffer, (), None, v.type, volatile=True)))
    if isinstance(v, ArrayVal):
        return dataclasses.replace(v, volatile=True)
    if isinstance(v, FlatArray):
        return dataclasses.replace(v, start=dataclasses.replace(v.start, volatile=True))
    return v


def is_flat(buffer: Sym) -> bool:
    """Whether one index reaches every element of the buffer."""
    t = buffer.type
    return isinstance(t, Ptr) or (isinstance(t, Array) and len(t.shape) == 1)


def element(buffer: Sym) -> Type:
    """What one full index of the buffer yields."""
    t = buffer.type
    return t.elem if isinstance(t, Ptr | Array | Vec) else t


def cost(e: Expr) -> int:
    """Size of an expression; memory accesses count as large."""
    from ktc.ir.fields import children

    if isinstance(e, Const | Var | HwIndex):
        return 1
    own = 100 if isinstance(e, WarpOp) or (isinstance(e, Load) and isinstance(e.buffer.type, Ptr | Array)) else 1
    if isinstance(e, Cast) and e.style == "implicit":
        own = 0
    return own + sum(cost(c) for c in children(e)) + (5 if isinstance(e, Select) else 0)
