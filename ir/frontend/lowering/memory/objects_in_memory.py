"""Objects in memory: structs by field, bit-fields, pointers kept in memory, places chosen at run time."""

from __future__ import annotations

from typing import Any

from ktc.ir.frontend.meaning.cxx_types import CArray, FunctionType, Pointer, RecordType, innermost
from ktc.ir.frontend.meaning.values import (
    BitPlace,
    ChoicePtr,
    FlatArray,
    LaneArray,
    NullVal,
    PtrSlot,
    PtrToPlace,
    PtrVal,
    RecordVal,
    RVal,
    Value,
    VarPlace,
)
from ktc.ir.nodes import AddrOf, Alloc, Binary, Cast, Const, Decl, Expr, Select, Sym, fresh, i32
from ktc.ir.types import I32, U32, U64, Array, Ptr, Scalar, Type, Vec, scalar_of

from .buffers import UNSIGNED, element
from .pointer_choices import Choices

MAX_COPY = 256
"""Elements of an object without structure (a union) that are copied one by one."""


class Memory(Choices):
    """Reads and writes of what is in memory. ``object_arrays`` are those in which objects of the kernel's own lie."""

    object_arrays: set[Sym]

    # ------------------------------------------------------------------ records
    def memory_record(self, p: PtrVal, node: Any) -> RecordVal:
        """The struct that ``p`` points to, as one place per field."""
        t = p.elem
        assert isinstance(t, RecordType)
        self.pointer_ratio(p, node)
        record = RecordVal(t, at=p, const=p.const)
        vector = self.vector_of(t, node)
        for f in self.field_layout(t, node):
            if vector is not None:
                record.fields[f.name] = LaneArray(self.deref(p.at(p.offset, vector), None, node), f.type)
                continue
            place = self.place_at(p, f.type, f.offset, node)
            if f.bits is not None:
                place = BitPlace(self._whole_unit(p, f.type, f.offset, node), *f.bits, f.type)
            record.fields[f.name] = place
        self.lift_anonymous(record)
        return record

    def lift_anonymous(self, record: RecordVal) -> None:
        """Members of anonymous structs and unions are members of the enclosing one."""
        for name in [n for n in record.fields if n.startswith("@")]:
            inner = record.fields[name]
            if isinstance(inner, RecordVal):
                for k, v in inner.fields.items():
                    record.fields.setdefault(k, v)

    def place_at(self, p: PtrVal, t: Type, offset: int, node: Any) -> Value:
        """The object of type ``t`` that lies ``offset`` bytes behind ``p``."""
        unit = element(p.buffer)
        if not isinstance(unit, Scalar) or offset % unit.bytes:
            self.need_unit(p.buffer, UNSIGNED[max(1, offset & -offset)] if offset else scalar_of(unit), node)
        assert isinstance(unit, Scalar)
        q = p.at(self.add_offset(p.offset, Const(offset // unit.bytes, I32)), t)
        return FlatArray(q, t) if isinstance(t, CArray) else self.deref(q, None, node)

    def _whole_unit(self, p: PtrVal, t: Type, offset: int, node: Any) -> Value:
        assert isinstance(t, Scalar)
        return self.place_at(p, UNSIGNED[t.bytes], offset, node)

    def local_object(self, name: str, t: Type, node: Any) -> Value:
        """A private variable that must have a layout: a union, an array of structs."""
        return self.in_array(name, t, "local", node)

    def in_array(self, name: str, t: Type, space: str, node: Any, align: int = 0, key: Any = None) -> Value:
        """A new array in ``space`` that holds a ``t``, seen as that."""

        unit = self.hinted(key, self.unit(t, node))
        size, natural = self.layout(t, node)
        sym = fresh(name, Array(unit, (i32(size // unit.bytes),), space))
        self.origin[sym] = key
        if space == "local" and isinstance(innermost(t), RecordType):
            self.object_arrays.add(sym)
        widest = max(align, natural)
        alloc = Alloc(sym, align=widest if widest > unit.bytes else 0, loc=self.loc)
        if space == "shared":
            self.emit_alloc(alloc)
        else:
            self.emit(alloc)
        return self.at_start_of(PtrVal(sym, (), None, t), t, node)

    def at_start_of(self, p: PtrVal, t: Type, node: Any) -> Value:
        return FlatArray(p.at(p.offset, t), t) if isinstance(t, CArray) else self.deref(p, None, node)

    def copy_units(self, dst: RecordVal, src: RecordVal, node: Any) -> bool:
        """Copy an object in memory bit by bit; False if one of the two is not in memory or the units differ."""
        if dst.at is None or src.at is None or element(dst.at.buffer) != element(src.at.buffer):
            return False
        num, _ = self.pointer_ratio(dst.at, node)
        if num > MAX_COPY:
            self.fail("E-UNSUPPORTED-STRUCT", f"copying '{dst.type}' ({num} elements) as a whole", node,
                      hint="copy the members that are needed")  # fmt: skip
        unit = element(dst.at.buffer)
        for k in range(num):
            to, source = (p.at(self.add_offset(p.offset, i32(k)), unit) for p in (dst.at, src.at))
            self.store(self.deref(to, None, node), self.load(self.deref(source, None, node)), node)
        return True

    # ------------------------------------------------------------------ bit-fields
    def load_bits(self, p: BitPlace) -> RVal:
        whole = self.rvalue(p.base)
        t = whole.type
        assert isinstance(t, Scalar) and isinstance(p.type, Scalar)
        e = whole.expr
        if p.type.is_signed:  # to the top, and back with the sign
            signed = Scalar("int", t.bits)
            top = Binary("<<", e, Const(t.bits - p.first - p.count, t))
            e = Binary(">>", Cast(signed, top, "c"), Const(t.bits - p.count, signed))
        else:
            e = Binary(">>", e, Const(p.first, t)) if p.first else e
            e = Binary("&", e, Const((1 << p.count) - 1, t))
        return self.convert(RVal(e), p.type)

    def promoted_bits(self, p: BitPlace, v: RVal) -> RVal:
        """``v`` of the bit-field ``p`` as an operand: an int where that holds all its values ([conv.prom])."""
        return self.convert(v, I32) if p.type == U32 and p.count < 32 else v

    def store_bits(self, p: BitPlace, v: RVal, node: Any) -> None:
        base = self.stable(p.base)
        t = self.type_of(base)
        assert isinstance(t, Scalar)
        mask = (1 << p.count) - 1
        new = self.convert(self.convert(v, p.type, "implicit", node), t).expr
        kept = Binary("&", self.rvalue(base).expr, Const(~(mask << p.first) & ((1 << t.bits) - 1), t))
        part: Expr = Binary("&", new, Const(mask, t))
        if p.first:
            part = Binary("<<", part, Const(p.first, t))
        self.store(base, RVal(Binary("|", kept, part)), node)

    # ------------------------------------------------------------------ pointers in memory
    def load_pointer(self, p: PtrSlot, node: Any = None) -> Value:
        return self.pointer_from(self.rvalue(p.place, node).expr, p.type, node)

    def pointer_from(self, bits: Expr, to: Pointer, node: Any) -> PtrVal:
        """A pointer variable of its own, initialised from an address."""
        if isinstance(to.elem, FunctionType):
            self.fail("E-UNSUPPORTED-POINTER", "a function pointer in memory", node, hint="use a template parameter")
        elem = to.elem if isinstance(to.elem, Scalar | Vec) else self.unit(to.elem, node)
        sym = fresh("pointer", Ptr(elem, "global", to.const, volatile=to.volatile))
        self.emit(Decl(sym, Cast(sym.type, bits, "c"), loc=self.loc))
        return PtrVal(sym, (), None, to.elem, to.const, volatile=to.volatile)

    def store_slot(self, p: PtrSlot, v: Value, node: Any) -> None:
        v = self.load(v, node)
        parts = v.choices if isinstance(v, ChoicePtr) else (v,)
        private = any(isinstance(q, PtrVal) and isinstance(q.buffer.type, Array) for q in parts)
        if isinstance(p.place, VarPlace) and private:
            what = "a pointer that is also set from memory is set to an array of the kernel"
            self.fail("E-UNSUPPORTED-POINTER", what, node, hint="use two variables")
        self.store(p.place, self.address_bits(v, node), node)

    def address_bits(self, v: Value, node: Any) -> RVal:
        """A pointer as a 64-bit integer."""
        if isinstance(v, NullVal):
            return RVal(Const(0, U64))
        if isinstance(v, PtrVal):
            return RVal(Cast(U64, self.address_expr(v, node), "c"))
        if isinstance(v, RVal):
            return v
        if isinstance(v, ChoicePtr):
            out = Const(0, U64)
            for k, c in reversed(list(enumerate(v.choices))):
                out = Select(Binary("==", v.which, i32(k)), self.address_bits(c, node).expr, out)  # type: ignore[assignment]
            return RVal(out)
        if isinstance(v, PtrToPlace):
            self.need_memory(v, node)
        self.fail("E-UNSUPPORTED-POINTER", "the address of a variable is used as a value", node,
                  hint="put it into an array")  # fmt: skip

    def address_expr(self, p: PtrVal, node: Any) -> AddrOf:
        index = p.offset if p.offset is not None else i32(0)
        t = p.buffer.type
        full = (*p.prefix, index)
        if p.flat and isinstance(t, Array):
            full = self._unflatten(t, index)
        elif isinstance(t, Array) and len(full) < len(t.shape):
            full = (*full, *([i32(0)] * (len(t.shape) - len(full))))
        return AddrOf(p.buffer, full)


__all__ = ["Memory"]
