"""Reading and writing places; pointers and arrays as (buffer, index)."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..nodes import (
    Assign,
    Binary,
    Cast,
    Const,
    Decl,
    Expr,
    HwIndex,
    Load,
    Select,
    Store,
    Sym,
    Var,
    VecGet,
    VecMake,
    WarpOp,
    fresh,
    i32,
)
from ..types import I64, U8, Array, Ptr, Scalar, Type, Vec, scalar_of
from ..walk import walk_expr
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
    Value,
    VarPlace,
    ViewPlace,
)  # fmt: skip

LANES = {"x": 0, "y": 1, "z": 2, "w": 3}


class Places(Converter):
    """Places and pointers."""

    # ------------------------------------------------------------------ reading
    def load(self, v: Value, node: Any = None) -> Value:
        """Lvalue to rvalue: an ``RVal``, or an aggregate or pointer value."""
        if isinstance(v, VarPlace):
            return RVal(Var(v.sym))
        if isinstance(v, ElemPlace):
            return RVal(self._load_elem(v))
        if isinstance(v, LanePlace):
            return RVal(self._load_lane(v))
        if isinstance(v, SubVec):
            return RVal(
                VecMake(v.type, tuple(Load(v.sym, (self._lane_index(v.lane, i),)) for i in range(int(v.type.n))))
            )  # type: ignore[arg-type]
        if isinstance(v, ViewPlace):
            return RVal(bitcast(Var(v.sym), v.type))
        if isinstance(v, ArrayVal):
            return self.decay(v)
        if isinstance(v, PtrVar):
            return dataclasses.replace(v.start, offset=Var(v.offset))
        return v

    def rvalue(self, v: Value, node: Any = None) -> RVal:
        """``v`` as a scalar or vector value."""
        v = self.load(v, node)
        if isinstance(v, RVal):
            return v
        if isinstance(v, RecordVal):
            converted = self.convert_record(v, node)
            if converted is not None:
                return converted
        self.fail("E-SEMA-VALUE", f"expected a number here, not {describe(v)}", node)

    def _natural(self, buffer: Sym, width: int) -> Type:
        elem = scalar_of(buffer.type) if width > 1 else _elem(buffer)
        return Vec(elem, width) if width > 1 else elem  # type: ignore[arg-type]

    def _load_elem(self, p: ElemPlace) -> Expr:
        return bitcast(Load(p.buffer, p.index, p.width, p.cache), p.type)

    def _load_lane(self, p: LanePlace) -> Expr:
        base = p.base
        if isinstance(base, VarPlace):
            return Load(base.sym, (p.lane,))
        if isinstance(base, SubVec):
            return Load(base.sym, (self.add_offset(base.lane, p.lane),))
        if isinstance(base, ElemPlace):
            direct = self._lane_element(base, p.lane)
            if direct is not None:
                return Load(direct.buffer, direct.index, cache=base.cache)
        if isinstance(base, RVal) and isinstance(base.expr, VecMake) and isinstance(p.lane, Const):
            return base.expr.args[int(p.lane.value)]
        return VecGet(self.rvalue(base).expr, p.lane)

    def _lane_element(self, base: ElemPlace, lane: Expr) -> ElemPlace | None:
        """One lane of a vector in memory, as an element of its own when the buffer's scalars are those lanes."""
        elem = scalar_of(base.buffer.type)
        if not isinstance(base.type, Vec) or base.type.elem != elem:
            return None
        if base.width == 1 and _elem(base.buffer) == base.type:
            return ElemPlace(base.buffer, (*base.index, lane), elem)
        return ElemPlace(base.buffer, (*base.index[:-1], self.add_offset(base.index[-1], lane)), elem)

    def _lane_index(self, lane: Expr, i: int) -> Expr:
        return i32(int(lane.value) + i) if isinstance(lane, Const) else self.add_offset(lane, i32(i))

    # ------------------------------------------------------------------ writing
    def store(self, place: Value, v: Value, node: Any) -> None:
        """``place = v``, with ``v`` converted to the place's type."""
        if isinstance(place, RecordVal):
            if not isinstance(v, RecordVal) or v.type != place.type:
                self.fail("E-SEMA-ASSIGN", f"cannot assign {describe(v)} to {describe(place)}", node)
            for name in list(place.fields):
                self.assign_field(place, name, self.load(v.fields[name], node), node)
            return
        if isinstance(place, PtrVar):
            self._store_pointer(place, v, node)
            return
        if isinstance(place, RVal | PtrVal | ArrayVal | NullVal | Dim3Val):
            self.fail("E-SEMA-ASSIGN", "this cannot be assigned to", node)
        if isinstance(place, VarPlace) and place.const:
            self.fail("E-SEMA-ASSIGN", f"'{place.sym.name}' is const", node)
        e = self.convert(self.rvalue(v, node), place.type, "implicit", node).expr  # type: ignore[attr-defined]
        if isinstance(place, VarPlace):
            self.emit(Assign(place.sym, e, loc=self.loc))
        elif isinstance(place, ViewPlace):
            self.emit(Assign(place.sym, bitcast(e, place.sym.type), loc=self.loc))
        elif isinstance(place, ElemPlace):
            value = bitcast(e, self._natural(place.buffer, place.width))
            self.emit(Store(place.buffer, place.index, value, place.width, place.cache, loc=self.loc))
        elif isinstance(place, SubVec):
            x = self.vector(RVal(e))
            for i in range(int(place.type.n)):  # type: ignore[arg-type]
                lane = self.load(LanePlace(VarPlace(x.sym) if isinstance(x, Var) else RVal(x), i32(i), place.type.elem))
                self.emit(Store(place.sym, (self._lane_index(place.lane, i),), lane.expr, loc=self.loc))  # type: ignore[attr-defined]
        elif isinstance(place, LanePlace):
            self._store_lane(place, e, node)
        else:
            self.fail("E-SEMA-ASSIGN", f"cannot assign to {describe(place)}", node)

    def _store_lane(self, p: LanePlace, e: Expr, node: Any) -> None:
        base = p.base
        if isinstance(base, VarPlace):
            self.emit(Store(base.sym, (p.lane,), e, loc=self.loc))
        elif isinstance(base, SubVec):
            self.emit(Store(base.sym, (self.add_offset(base.lane, p.lane),), e, loc=self.loc))
        elif isinstance(base, ElemPlace) and (direct := self._lane_element(base, p.lane)) is not None:
            self.emit(Store(direct.buffer, direct.index, e, loc=self.loc))
        else:
            self.fail("E-UNSUPPORTED-LANE", "a component of a reinterpreted vector cannot be assigned", node,
                      hint="load the whole vector into a variable, change it, store it back")  # fmt: skip

    def _store_pointer(self, place: PtrVar, v: Value, node: Any) -> None:
        v = self.load(v, node)
        moves = isinstance(v, PtrVal) and (v.buffer != place.start.buffer or v.prefix != place.start.prefix)
        if moves and place.owner is self.frame and not self.frame.control:
            place.start, moves = v, False  # type: ignore[assignment]
        if not isinstance(v, PtrVal) or moves:
            self.fail("E-UNSUPPORTED-POINTER", "this pointer would point into another buffer than before", node,
                      hint="use an index into each buffer, or two variables")  # fmt: skip
        offset = v.offset if v.offset is not None else Const(0, I64)
        self.emit(Assign(place.offset, self.convert(RVal(offset), I64).expr, loc=self.loc))

    # ------------------------------------------------------------------ pointers
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
        a, b = size_of(p.elem), size_of(_elem(p.buffer))
        if a is None or b is None:
            self.fail("E-SEMA-POINTER", f"cannot access memory as '{show(p.elem)}'", node)
        if a % b == 0:
            return a // b, 1
        if b % a == 0:
            return 1, b // a
        self.fail("E-SEMA-POINTER", f"'{show(p.elem)}' does not fit the buffer's '{show(_elem(p.buffer))}'", node)

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
            if not (isinstance(_elem(p.buffer), Vec) and scalar_of(p.buffer.type) == p.elem):
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
        elem = _elem(p.buffer)
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

    # ------------------------------------------------------------------ types of values
    def type_of(self, v: Value) -> Type:
        if isinstance(v, RVal | VarPlace | ElemPlace | LanePlace | ArrayVal | RecordVal | SubVec | ViewPlace):
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

    def stable(self, v: Value) -> Value:
        """``v`` with index expressions evaluated once, for a place that is used several times."""
        if isinstance(v, ElemPlace):
            return dataclasses.replace(v, index=tuple(self.once(i) for i in v.index))
        if isinstance(v, LanePlace):
            return dataclasses.replace(v, base=self.stable(v.base), lane=self.once(v.lane))
        return v

    def once(self, e: Expr) -> Expr:
        """Indices are pure, so repeating a short one is harmless; long ones or ones that read memory get a name."""
        return e if cost(e) <= 8 else self.temp(e, "idx")

    def pin(self, v: Value) -> Value:
        """A place whose index expressions are evaluated now, for a reference that outlives this statement."""
        if isinstance(v, ElemPlace):
            return dataclasses.replace(v, index=tuple(self._pinned(i) for i in v.index))
        if isinstance(v, LanePlace):
            return dataclasses.replace(v, base=self.pin(v.base), lane=self._pinned(v.lane))
        return v

    def _pinned(self, e: Expr) -> Expr:
        return e if cost(e) <= 8 and self.is_constant_expr(e) else self.temp(e, "idx")

    def is_constant_expr(self, e: Expr) -> bool:
        """Whether ``e`` has the same value wherever it is evaluated in this function."""
        names = self.frame.facts.mutated
        return all(not (isinstance(x, Var) and x.sym.name in names) and not isinstance(x, Load) for x in walk_expr(e))

    def assign_field(self, record: RecordVal, name: str, v: Value, node: Any) -> None:
        raise NotImplementedError

    def convert_record(self, v: RecordVal, node: Any) -> RVal | None:
        raise NotImplementedError


def _elem(buffer: Sym) -> Type:
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
        "RVal": "a value", "PtrVal": "a pointer", "PtrVar": "a pointer", "ArrayVal": "an array", "RecordVal": "a struct",
        "NullVal": "nullptr", "TypeVal": "a type", "FunctionVal": "a function", "Dim3Val": "a dim3", "ListVal": "a list",
        "OpaqueVal": "a host object", "PtrToPlace": "a pointer",
    }  # fmt: skip
    if isinstance(v, RecordVal):
        return f"'{v.type}'"
    return names.get(type(v).__name__, "this")


__all__ = ["LANES", "U8", "Decl", "Places", "bitcast", "cost", "describe", "fresh"]
