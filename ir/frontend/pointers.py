"""Pointers and arrays as (buffer, index): arithmetic, subscripts, views."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..nodes import (
    Binary,
    Cast,
    Const,
    Expr,
    HwIndex,
    Load,
    Select,
    Sym,
    Var,
    WarpOp,
    i32,
)
from ..types import Array, Ptr, Scalar, Type, Vec, scalar_of
from .convert import Converter
from .cxx_types import CArray, Pointer, RecordType, show, size_of
from .values import (
    ArrayVal,
    Dim3Val,
    ElemPlace,
    LanePlace,
    NullVal,
    PtrToPlace,
    PtrVal,
    PtrVar,
    RecordVal,
    RVal,
    SubVec,
    SwizzlePlace,
    Value,
    VarPlace,
    ViewPlace,
)  # fmt: skip


class Pointers(Converter):
    """Pointers. Places themselves are read and written in ``places``."""

    def decay(self, a: ArrayVal) -> PtrVal:
        """An array as a pointer to its first element."""
        assert isinstance(a.type, CArray)
        t = a.buffer.type
        dims = len(t.shape) if isinstance(t, Array) else 1
        elem = a.type.elem
        if isinstance(elem, CArray):
            inner: Type = elem
            while isinstance(inner, CArray):
                inner = inner.elem
            return PtrVal(a.buffer, a.prefix, None, elem)
        prefix = a.prefix + (i32(0),) * (dims - 1 - len(a.prefix))
        return PtrVal(a.buffer, prefix, None, elem)

    def pointer_add(self, p: PtrVal, e: Expr, node: Any) -> PtrVal:
        """``p + e``."""
        if isinstance(p.elem, CArray):
            self.fail("E-UNSUPPORTED-POINTER", "arithmetic on a pointer to an array is not supported", node,
                      hint="index the array instead")  # fmt: skip
        num, den = self._ratio(p, node)
        if den > 1:
            self.fail("E-UNSUPPORTED-POINTER", "arithmetic on a pointer to a part of the buffer's element", node,
                      hint="declare the parameter with the smaller type")  # fmt: skip
        return dataclasses.replace(p, offset=self.add_offset(p.offset, self.scale_offset(e, num)))

    def _ratio(self, p: PtrVal, node: Any) -> tuple[int, int]:
        """How many buffer elements make one pointee: (n, 1), or (1, n) when the pointee is smaller."""
        if isinstance(p.elem, RecordType):
            self.fail("E-UNSUPPORTED-STRUCT", f"memory of '{p.elem}' objects is not supported", node,
                      hint="use one array per field")  # fmt: skip
        a, b = size_of(p.elem), size_of(element(p.buffer))
        if a is None or b is None:
            self.fail("E-SEMA-POINTER", f"cannot access memory as '{show(p.elem)}'", node)
        if a % b == 0:
            return a // b, 1
        if b % a == 0:
            return 1, b // a
        self.fail("E-SEMA-POINTER", f"'{show(p.elem)}' does not fit the buffer's '{show(element(p.buffer))}'", node)

    def deref(self, p: PtrVal, e: Expr | None, node: Any) -> Value:
        """``p[e]`` (``*p`` when ``e`` is None)."""
        t = p.buffer.type
        if isinstance(p.elem, CArray):
            return self.subscript_array(
                ArrayVal(p.buffer, p.prefix, CArray(p.elem, None)), e if e is not None else i32(0), node
            )
        num, den = self._ratio(p, node)
        if den > 1:
            lane = e if e is not None else i32(0)
            if not (isinstance(element(p.buffer), Vec) and scalar_of(p.buffer.type) == p.elem):
                self.fail("E-UNSUPPORTED-POINTER", f"'{show(p.elem)}' is a part of the buffer's element", node,
                          hint="declare the buffer with the smaller type")  # fmt: skip
            whole = Binary("/", lane, Const(den, lane.type))  # type: ignore[arg-type]
            at = self.add_offset(p.offset, self.simple(whole))
            return ElemPlace(p.buffer, (*p.prefix, at, self.simple(Binary("%", lane, Const(den, lane.type)))), p.elem)  # type: ignore[arg-type]
        index = p.offset if e is None else self.add_offset(p.offset, self.scale_offset(e, num))
        if index is None:
            index = i32(0)
        full = (*p.prefix, index)
        if p.flat and isinstance(t, Array):
            full = self._unflatten(t, index)
        elem = element(p.buffer)
        width = num if not isinstance(elem, Vec) else 1
        if num > 1 and isinstance(elem, Vec):
            self.fail("E-UNSUPPORTED-POINTER", f"reading '{show(p.elem)}' from a buffer of '{show(elem)}'", node)
        return ElemPlace(p.buffer, full, p.elem, width)

    def simple(self, e: Expr) -> Expr:
        from .convert import fold_const

        return fold_const(e)

    def _unflatten(self, t: Array, index: Expr) -> tuple[Expr, ...]:
        out: list[Expr] = []
        for n in reversed(t.shape[1:]):
            bound = self.convert(RVal(n), index.type).expr
            out.insert(0, self.simple(Binary("%", index, bound)))
            index = self.simple(Binary("/", index, bound))
        return (index, *out)

    def subscript_array(self, a: ArrayVal, e: Expr, node: Any) -> Value:
        assert isinstance(a.type, CArray)
        elem = a.type.elem
        if isinstance(elem, CArray):
            return ArrayVal(a.buffer, (*a.prefix, e), elem)
        return self.deref(PtrVal(a.buffer, a.prefix, None, elem), e, node)

    def subscript(self, base: Value, e: Expr, node: Any) -> Value:
        """``base[e]``."""
        base = base if isinstance(base, ArrayVal | PtrToPlace) else self.load(base, node)
        if isinstance(base, ArrayVal):
            return self.subscript_array(base, e, node)
        if isinstance(base, PtrVal):
            return self.deref(base, e, node)
        if isinstance(base, PtrToPlace):
            return self.view(base, e, node)
        self.fail("E-SEMA-SUBSCRIPT", f"{describe(base)} cannot be subscripted", node)

    def view(self, p: PtrToPlace, e: Expr | None, node: Any) -> Value:
        """Element ``e`` of a variable seen through a pointer of another type."""
        place = p.place
        index = e if e is not None else i32(0)
        zero = isinstance(index, Const) and index.value == 0
        if isinstance(place, RecordVal):
            if zero and p.elem == place.type:
                return place
        elif zero and self.type_of(place) == p.elem:
            return place
        if isinstance(place, ViewPlace):
            place = VarPlace(place.sym)
        whole = self.type_of(place) if not isinstance(place, RecordVal) else None
        if isinstance(place, VarPlace) and isinstance(whole, Vec):
            if p.elem == whole.elem:
                return LanePlace(place, index, whole.elem)
            if isinstance(p.elem, Vec) and p.elem.elem == whole.elem:
                return SubVec(place.sym, self.scale_lane(index, int(p.elem.n)), p.elem)  # type: ignore[arg-type]
        if zero and isinstance(place, VarPlace) and whole is not None and size_of(whole) == size_of(p.elem):
            return ViewPlace(place.sym, p.elem)
        self.fail("E-UNSUPPORTED-VIEW", f"a variable of type '{show(whole)}' cannot be seen as '{show(p.elem)}'", node,
                  hint="use a conversion intrinsic such as __float_as_int")  # fmt: skip

    def scale_lane(self, e: Expr, n: int) -> Expr:
        return i32(int(e.value) * n) if isinstance(e, Const) else Binary("*", e, Const(n, e.type))  # type: ignore[arg-type]

    def address(self, v: Value, node: Any) -> Value:
        """``&v``."""
        if isinstance(v, ElemPlace):
            t = v.buffer.type
            several = isinstance(t, Array) and len(t.shape) > 1
            if several and all(isinstance(i, Const) and i.value == 0 for i in v.index):
                return PtrVal(v.buffer, (), None, v.type, flat=True)
            if len(v.index) > (len(t.shape) if isinstance(t, Array) else 1):
                self.fail("E-UNSUPPORTED-POINTER", "the address of one component of a vector in memory", node,
                          hint="use the address of the whole vector")  # fmt: skip
            return PtrVal(v.buffer, v.index[:-1], v.index[-1], v.type)
        if isinstance(v, VarPlace | LanePlace | RecordVal | SubVec | ViewPlace):
            return PtrToPlace(v, self.type_of(v))
        if isinstance(v, ArrayVal):
            return self.decay(v)
        self.fail("E-SEMA-ADDRESS", f"cannot take the address of {describe(v)}", node)

    def recast_pointer(self, v: Value, to: Pointer, node: Any) -> Value:
        """``reinterpret_cast<to>(v)``."""
        v = self.load(v, node)
        if isinstance(v, PtrVal):
            elem = to.elem
            if isinstance(elem, Scalar | Vec):
                self.retype_dynamic(v.buffer, elem)
                if isinstance(v.elem, CArray):
                    v = dataclasses.replace(v, flat=True)
            if size_of(elem) is None and str(elem) == "void":
                return v
            return dataclasses.replace(v, elem=elem, const=to.const)
        if isinstance(v, PtrToPlace):
            return PtrToPlace(v.place, to.elem)
        if isinstance(v, NullVal):
            return v
        self.fail("E-UNSUPPORTED-POINTER", f"cannot turn {describe(v)} into a pointer", node)

    def retype_dynamic(self, buffer: Sym, elem: Type) -> None:
        """Overridden where dynamic shared memory is declared."""

    def type_of(self, v: Value) -> Type:
        if isinstance(
            v, RVal | VarPlace | ElemPlace | LanePlace | ArrayVal | RecordVal | SubVec | SwizzlePlace | ViewPlace
        ):
            return v.type  # type: ignore[return-value]
        if isinstance(v, PtrVal | PtrToPlace):
            return Pointer(v.elem, getattr(v, "const", False))
        if isinstance(v, PtrVar):
            return Pointer(v.start.elem, v.start.const)
        from .cxx_types import DIM3, NULLPTR_T, FunctionType
        from .values import FunctionVal, TypeVal

        if isinstance(v, TypeVal):
            return v.type
        if isinstance(v, Dim3Val):
            return DIM3
        if isinstance(v, FunctionVal):
            return FunctionType(v.name)
        return NULLPTR_T


def element(buffer: Sym) -> Type:
    """What one full index of the buffer yields."""
    t = buffer.type
    return t.elem if isinstance(t, Ptr | Array | Vec) else t


def bitcast(e: Expr, to: Type) -> Expr:
    """The bits of ``e`` as a ``to``; a cast of a cast collapses."""
    if e.type == to:
        return e
    if isinstance(e, Cast) and e.style == "bit":
        return bitcast(e.x, to)
    return Cast(to, e, "bit")


def cost(e: Expr) -> int:
    """Size of an expression; memory accesses count as large."""
    from ..walk import children

    if isinstance(e, Const | Var | HwIndex):
        return 1
    own = 100 if isinstance(e, WarpOp) or (isinstance(e, Load) and isinstance(e.buffer.type, Ptr | Array)) else 1
    if isinstance(e, Cast) and e.style == "implicit":
        own = 0
    return own + sum(cost(c) for c in children(e)) + (5 if isinstance(e, Select) else 0)


def describe(v: Value) -> str:
    """A value's kind, for messages."""
    names = {
        "RVal": "a value", "PtrVal": "a pointer", "PtrVar": "a pointer", "ArrayVal": "an array",
        "RecordVal": "a struct",
        "NullVal": "nullptr", "TypeVal": "a type", "FunctionVal": "a function", "Dim3Val": "a dim3",
        "ListVal": "a list",
        "OpaqueVal": "a host object", "PtrToPlace": "a pointer",
    }  # fmt: skip
    if isinstance(v, RecordVal):
        return f"'{v.type}'"
    return names.get(type(v).__name__, "this")
