"""Pointers and arrays as (buffer, index): arithmetic, subscripts, views."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

from ktc.ir.frontend.context import Retry
from ktc.ir.frontend.meaning.cxx_types import DIM3, NULLPTR_T, CArray, FunctionType, Pointer, RecordType, show, size_of
from ktc.ir.frontend.meaning.name_meanings import FunctionVal, OpaqueVal, TypeVal
from ktc.ir.frontend.meaning.values import (  # fmt: skip
    ArrayVal,
    ChoicePlace,
    ChoicePtr,
    Dim3Val,
    ElemPlace,
    FlatArray,
    LaneArray,
    LanePlace,
    NullVal,
    PointerArray,
    PtrSlot,
    PtrToPlace,
    PtrVal,
    PtrVar,
    RecordVal,
    RVal,
    SubVec,
    Value,
    VarPlace,
    ViewPlace,
    describe,
)
from ktc.ir.nodes import (
    Binary,
    Const,
    Decl,
    Expr,
    Sym,
    fresh,
    i32,
)
from ktc.ir.types import I64, U8, U64, VOID, Array, Ptr, Scalar, Type, Vec, scalar_of

from .addressed import Addressed
from .buffers import access_kind, element, is_flat
from .null_uses import NULL_ACCESS


class Pointers(Addressed):
    """Pointers. Places themselves are read and written in ``lvalues``."""

    def decay(self, a: ArrayVal | FlatArray) -> PtrVal:
        """An array as a pointer to its first element."""
        assert isinstance(a.type, CArray)
        if isinstance(a, FlatArray):
            return a.start.at(a.start.offset, a.type.elem)
        t = a.buffer.type
        dims = len(t.shape) if isinstance(t, Array) else 1
        elem = a.type.elem
        if isinstance(elem, CArray):
            return PtrVal(a.buffer, a.prefix, None, elem, volatile=a.volatile)
        prefix = a.prefix + (i32(0),) * (dims - 1 - len(a.prefix))
        return PtrVal(a.buffer, prefix, None, elem, volatile=a.volatile)

    def pointer_add(self, p: PtrVal, e: Expr, node: Any) -> PtrVal:
        """``p + e``."""
        if isinstance(p.elem, CArray) and not is_flat(p.buffer):
            self.need_flat(p.buffer, node)
        num, den = self.pointer_ratio(p, node)
        if den > 1:
            self.need_unit(p.buffer, self.unit(p.elem, node), node)
        return p.at(self.add_offset(p.offset, self.scale_offset(e, num)), p.elem)

    def pointer_ratio(self, p: PtrVal, node: Any) -> tuple[int, int]:
        """How many buffer elements make one pointee: (n, 1), or (1, n) when the pointee is smaller."""
        own = element(p.buffer)
        a, b = self.layout(p.elem, node)[0], size_of(own)
        if b is None:
            self.fail("E-SEMA-POINTER", f"cannot access memory as '{show(p.elem)}'", node)
        plain = not isinstance(own, Vec) or isinstance(p.elem, Scalar | Vec) or self.vector_of(p.elem, node) == own
        if a % b == 0 and plain:
            return a // b, 1
        if b % a == 0 and isinstance(p.elem, Scalar | Vec):
            return 1, b // a
        self.need_unit(p.buffer, self.unit(p.elem, node), node)

    def need_unit(self, buffer: Sym, unit: Scalar, node: Any) -> NoReturn:
        """Lower again with ``buffer`` declared as an array of smaller scalars.

        Raises:
            Retry: that; or KtcError E-UNSUPPORTED-POINTER if the buffer's type cannot be chosen.
        """
        key, now = self.origin.get(buffer), scalar_of(buffer.type)
        old = self.hints.get(key)
        new = unit if unit.bytes < now.bytes else now
        if key is None or (old is not None and new.bytes >= old.bytes):
            self.fail("E-UNSUPPORTED-POINTER", f"memory of '{buffer.name}' is used as parts of its elements", node,
                      hint="declare it with the smallest type it is used as")  # fmt: skip
        raise Retry(key, new)

    def need_type(self, buffer: Sym, t: Type, node: Any) -> None:
        """Lower again with ``buffer`` made of ``t``, of the elements' size, if that was not tried before."""
        key = self.origin.get(buffer)
        fits = isinstance(t, Scalar) and t.bytes == size_of(element(buffer))
        if fits and key is not None and key not in self.hints:
            assert isinstance(t, Scalar)
            raise Retry(key, t)

    def need_flat(self, buffer: Sym, node: Any) -> NoReturn:
        """Lower again with the array ``buffer`` declared in one dimension."""
        key = self.origin.get(buffer)
        if key is None or key in self.hints:
            self.fail("E-UNSUPPORTED-POINTER", "arithmetic on a pointer to an array is not supported", node,
                      hint="index the array instead")  # fmt: skip
        raise Retry(key, scalar_of(buffer.type))

    def deref(self, p: PtrVal, e: Expr | None, node: Any) -> Value:
        """``p[e]`` (``*p`` when ``e`` is None)."""
        t = p.buffer.type
        if type(t) is Ptr and t.elem is p.elem and type(p.elem) is Scalar:  # most are
            at = p.offset if e is None else self.add_offset(p.offset, e)
            return ElemPlace(p.buffer, (*p.prefix, i32(0) if at is None else at), p.elem, 1, access_kind(p))
        if p.elem == VOID:
            self.fail("E-SEMA-POINTER", "cannot dereference a pointer to void", node)
        vectors = isinstance(p.elem, RecordType) and self.vector_of(p.elem, node) == element(p.buffer)
        if (is_flat(p.buffer) or vectors) and isinstance(p.elem, CArray | RecordType | Pointer):
            q = p if e is None else self.pointer_add(p, e, node)
            if isinstance(p.elem, CArray):
                return FlatArray(q, p.elem)
            if isinstance(p.elem, RecordType):
                return self.memory_record(q, node)
            return PtrSlot(self.deref(q.at(q.offset, U64), None, node), p.elem)
        if isinstance(p.elem, RecordType | Pointer):
            self.need_flat(p.buffer, node)
        if isinstance(p.elem, CArray):
            return self.subscript_array(
                ArrayVal(p.buffer, p.prefix, CArray(p.elem, None), p.volatile), e if e is not None else i32(0), node
            )
        num, den = self.pointer_ratio(p, node)
        if den > 1:
            lane = e if e is not None else i32(0)
            if not (isinstance(element(p.buffer), Vec) and scalar_of(p.buffer.type) == p.elem):
                self.need_unit(p.buffer, self.unit(p.elem, node), node)
            whole = Binary("/", lane, Const(den, lane.type))  # type: ignore[arg-type]
            at = self.add_offset(p.offset, self.simple(whole))
            lanes = (*p.prefix, at, self.simple(Binary("%", lane, Const(den, lane.type))))  # type: ignore[arg-type]
            return ElemPlace(p.buffer, lanes, p.elem, cache=access_kind(p))
        index = p.offset if e is None else self.add_offset(p.offset, self.scale_offset(e, num))
        if index is None:
            index = i32(0)
        full = (*p.prefix, index)
        if p.flat and isinstance(t, Array):
            full = self._unflatten(t, index)
        elem = element(p.buffer)
        width = num if not isinstance(elem, Vec) else 1
        if num > 1 and isinstance(elem, Vec):
            self.need_unit(p.buffer, elem.elem, node)
        return ElemPlace(p.buffer, full, p.elem, width, access_kind(p))

    def simple(self, e: Expr) -> Expr:
        from ktc.ir.frontend.lowering.expressions.convert import fold_const

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
            return ArrayVal(a.buffer, (*a.prefix, e), elem, a.volatile)
        return self.deref(PtrVal(a.buffer, a.prefix, None, elem, volatile=a.volatile), e, node)

    def subscript(self, base: Value, e: Expr, node: Any) -> Value:
        """``base[e]``."""
        if type(base) is PtrVal:
            return self.deref(base, e, node)
        if type(base) is ArrayVal:
            return self.subscript_array(base, e, node)
        if type(base) is LaneArray:
            return LanePlace(base.base, e, base.type.elem)
        if type(base) is PointerArray:
            return self.pointer_of(base, e)
        base = base if isinstance(base, FlatArray | PtrToPlace) else self.load(base, node)
        if isinstance(base, OpaqueVal) and base.name.startswith('"'):
            return self.subscript(self.string_table(base.name, node), e, node)
        if isinstance(base, FlatArray):
            return self.deref(self.decay(base), e, node)
        if isinstance(base, ChoicePtr):
            return self.deref_choice(base, e, node)
        if isinstance(base, PtrVal):
            return self.deref(base, e, node)
        if isinstance(base, PtrToPlace):
            return self.view(base, e, node)
        if isinstance(base, NullVal) and base.elem is not None:
            return self.nowhere(base, node)
        self.fail("E-SEMA-SUBSCRIPT", f"{describe(base)} cannot be subscripted", node)

    def nowhere(self, p: NullVal, node: Any) -> Value:
        """What ``nullptr`` points to: the thread that gets here traps, and nothing it does after that counts."""
        if not isinstance(p.elem, Scalar | Vec | Pointer):
            self.fail("E-SEMA-POINTER", f"a null pointer to '{show(p.elem)}' is used", node)
        self.emit(dataclasses.replace(NULL_ACCESS, loc=self.loc))
        if isinstance(p.elem, Pointer):
            return NullVal(p.elem.elem)
        sym = fresh("nowhere", p.elem)
        self.emit(Decl(sym, loc=self.loc))
        return VarPlace(sym)

    def view(self, p: PtrToPlace, e: Expr | None, node: Any) -> Value:
        """Element ``e`` of a variable seen through a pointer of another type."""
        place = p.place
        index = e if e is not None else i32(0)
        zero = isinstance(index, Const) and index.value == 0
        if isinstance(place, RecordVal):
            if zero and (p.elem == place.type or self.derives(place.type, p.elem)):
                return self.upcast(place, p.elem)
            if zero and place.whole is not None and (place.whole == p.elem or self.derives(place.whole, p.elem)):
                return self.upcast(RecordVal(place.whole, place.fields, place.at), p.elem)
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
        self.need_memory(p, node)
        whole = self.type_of(p.place)
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
                return PtrVal(v.buffer, (), None, v.type, flat=True, volatile=v.cache == "volatile")
            if len(v.index) > (len(t.shape) if isinstance(t, Array) else 1):
                self.need_unit(v.buffer, scalar_of(t), node)
            return PtrVal(v.buffer, v.index[:-1], v.index[-1], v.type, volatile=v.cache == "volatile")
        if isinstance(v, FunctionVal):
            return v  # a function is a pointer to itself
        if isinstance(v, RecordVal) and v.at is not None:
            return v.at
        if isinstance(v, LanePlace) and isinstance(v.base, ElemPlace):
            return self.address(self._lane_element(v.base, v.lane) or v.base, node)
        if isinstance(v, VarPlace | LanePlace | RecordVal | SubVec | ViewPlace | PtrVar | PtrVal):
            return PtrToPlace(v, self.type_of(v))
        if isinstance(v, ArrayVal):
            return dataclasses.replace(self.decay(v), elem=v.type) if is_flat(v.buffer) else self.decay(v)
        if isinstance(v, FlatArray):
            return v.start.at(v.start.offset, v.type)
        if isinstance(v, LaneArray):
            return dataclasses.replace(self.address(v.base, node), elem=v.type)  # type: ignore[type-var]
        if isinstance(v, PtrSlot):
            inner = self.address(v.place, node)
            return dataclasses.replace(inner, elem=v.type) if isinstance(inner, PtrVal) else PtrToPlace(v, v.type)
        if isinstance(v, ChoicePlace):
            return ChoicePtr(v.which, tuple(self.address(c, node) for c in v.choices))  # type: ignore[misc]
        if isinstance(v, RVal) and isinstance(v.expr, Const):  # a named constant: any object of its value will do
            return PtrToPlace(VarPlace(self.temp(v.expr, "constant").sym), v.type)
        self.fail("E-SEMA-ADDRESS", f"cannot take the address of {describe(v)}", node)

    def recast_pointer(self, v: Value, to: Pointer, node: Any) -> Value:
        """``reinterpret_cast<to>(v)``."""
        v = self.load(v, node)
        if isinstance(v, OpaqueVal) and v.name.startswith('"'):
            v = self.load(self.string_table(v.name, node))
        if isinstance(v, ChoicePtr):
            return ChoicePtr(v.which, tuple(self.recast_pointer(c, to, node) for c in v.choices))  # type: ignore[misc]
        if isinstance(v, NullVal):
            return NullVal(to.elem)
        if isinstance(v, RVal) and v.type in (U64, I64):
            return self.pointer_from(v.expr, to, node)
        if isinstance(v, PtrVal):
            elem = to.elem
            if self.origin.get(v.buffer) in self.untyped:
                raise Retry(self.origin[v.buffer], self.unit(elem, node) if elem != VOID else U8)
            self.retype_dynamic(v.buffer, elem)
            if isinstance(elem, Scalar | Vec) and isinstance(v.elem, CArray):
                v = dataclasses.replace(v, flat=True)
            if size_of(elem) is None and str(elem) == "void":
                return v
            return self.qualified(dataclasses.replace(v, elem=elem), to)
        if isinstance(v, PtrToPlace):
            return PtrToPlace(v.place, to.elem)
        if isinstance(v, NullVal):
            return v
        self.fail("E-UNSUPPORTED-POINTER", f"cannot turn {describe(v)} into a pointer", node)

    def qualified(self, p: PtrVal, to: Pointer) -> PtrVal:
        """``p`` with the qualifiers of ``to``."""
        if p.const and not to.const:
            self.const_cast_away.add(p.buffer)
        return dataclasses.replace(p, const=to.const, volatile=to.volatile)

    def retype_dynamic(self, buffer: Sym, elem: Type) -> None:
        """Overridden where dynamic shared memory is declared."""

    def type_of(self, v: Value) -> Type:
        if type(v) is RVal:
            return v.expr.type
        if hasattr(v, "type") and not isinstance(v, TypeVal):
            return v.type  # type: ignore[return-value]
        if isinstance(v, ChoicePtr):
            return Pointer(v.choices[0].elem, v.choices[0].const, volatile=v.choices[0].volatile)
        if isinstance(v, PtrVal | PtrToPlace):
            return Pointer(v.elem, getattr(v, "const", False), volatile=getattr(v, "volatile", False))
        if isinstance(v, PtrVar):
            return self.type_of(v.start) if isinstance(v.start, PtrVal) else Pointer(v.start.elem)
        if isinstance(v, TypeVal):
            return v.type
        if isinstance(v, Dim3Val):
            return DIM3
        if isinstance(v, FunctionVal):
            return FunctionType(v.name)
        return NULLPTR_T
