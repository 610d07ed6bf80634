"""Reading and writing places; pointers and arrays as (buffer, index)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ktc.ir.frontend.lowering.expressions.convert import bitcast
from ktc.ir.frontend.meaning.cxx_types import UINT3
from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    BitPlace,
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
    SwizzlePlace,
    UnboundRef,
    Value,
    VarPlace,
    ViewPlace,
    describe,
)  # fmt: skip
from ktc.ir.nodes import (
    Assign,
    Const,
    Decl,
    Expr,
    Load,
    Store,
    Sym,
    Var,
    VecGet,
    VecMake,
    accessed_type,
    fresh,
    i32,
)
from ktc.ir.types import U8, Type, Vec, scalar_of
from ktc.ir.walk import walk_expr

from .buffers import cost, element
from .pointers import Pointers

LANES = {"x": 0, "y": 1, "z": 2, "w": 3}


class Places(Pointers):
    """Places and pointers."""

    # ------------------------------------------------------------------ reading
    def load(self, v: Value, node: Any = None) -> Value:
        """Lvalue to rvalue: an ``RVal``, or an aggregate or pointer value."""
        read = _READERS.get(type(v))
        return v if read is None else read(self, v, node)

    def _load_swizzle(self, v: SwizzlePlace) -> RVal:
        lanes = [self.rvalue(LanePlace(v.base, i32(i), v.type.elem)).expr for i in v.lanes]
        return RVal(VecMake(v.type, tuple(lanes)))

    def _load_lanes(self, v: SubVec) -> RVal:
        lanes = (Load(v.sym, (self._lane_index(v.lane, i),)) for i in range(int(v.type.n)))
        return RVal(VecMake(v.type, tuple(lanes)))

    def _load_pointer_var(self, v: PtrVar) -> Value:
        at = Var(v.offset)
        if v.which is not None:
            return ChoicePtr(Var(v.which), tuple(dataclasses.replace(c, offset=at) for c in v.choices))
        return v.start if isinstance(v.start, NullVal) else v.start.at(at, v.start.elem)

    def rvalue(self, v: Value, node: Any = None, to: Type | None = None) -> RVal:
        """``v`` as a scalar or vector value; an object converts to ``to`` where it can."""
        if type(v) is RVal:
            return v
        v = self.load(v, node)
        if isinstance(v, RVal):
            return v
        if isinstance(v, Dim3Val):
            return RVal(VecMake(UINT3, (v.x, v.y, v.z)))
        if isinstance(v, RecordVal):
            converted = self.convert_record(v, node, to)
            if converted is not None:
                return converted
        self.fail("E-SEMA-VALUE", f"expected a number here, not {describe(v)}", node)

    def _natural(self, buffer: Sym, width: int, indices: int) -> Type:
        """What an access of that many indices and that width is of: an element, a lane of it, or several."""
        return Vec(scalar_of(buffer.type), width) if width > 1 else accessed_type(buffer, indices)

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
                return Load(direct.buffer, direct.index, cache=direct.cache)
        if isinstance(base, RVal) and isinstance(base.expr, VecMake) and isinstance(p.lane, Const):
            return base.expr.args[int(p.lane.value)]
        return VecGet(self.rvalue(base).expr, p.lane)

    def _lane_element(self, base: ElemPlace, lane: Expr) -> ElemPlace | None:
        """One lane of a vector in memory, as an element of its own when the buffer's scalars are those lanes."""
        elem = scalar_of(base.buffer.type)
        if not isinstance(base.type, Vec) or base.type.elem != elem:
            return None
        if base.width == 1 and element(base.buffer) == base.type:
            return ElemPlace(base.buffer, (*base.index, lane), elem, cache=base.cache)
        index = (*base.index[:-1], self.add_offset(base.index[-1], lane))
        return ElemPlace(base.buffer, index, elem, cache=base.cache)

    def _lane_index(self, lane: Expr, i: int) -> Expr:
        return i32(int(lane.value) + i) if isinstance(lane, Const) else self.add_offset(lane, i32(i))

    # ------------------------------------------------------------------ writing
    def store(self, place: Value, v: Value, node: Any) -> None:
        """``place = v``, with ``v`` converted to the place's type."""
        if type(place) is VarPlace and type(v) is RVal and not place.const:  # most are
            self.emit(Assign(place.sym, self.convert(v, place.sym.type, "implicit", node).expr, loc=self.loc))
            return
        if isinstance(place, RecordVal):
            if not isinstance(v, RecordVal) or v.type != place.type:
                self.fail("E-SEMA-ASSIGN", f"cannot assign {describe(v)} to {describe(place)}", node)
            if self.copy_vector(place, v, node) or self.copy_units(place, v, node):
                return
            if place.type.decl[0].node.kind == "union":  # type: ignore[attr-defined]
                self.fail("E-UNSUPPORTED-UNION", "this union cannot be copied as a whole", node, hint="copy a member")
            names = list(place.fields)
            if place.whole is not None or v.whole is not None:  # the part of a derived object that is this class's
                names = [f for f, _, _, _ in self.fields_of(place.type, node) if f in place.fields]
            for name in names:
                if isinstance(place.fields[name], UnboundRef):  # a member that begins as ``v``: nothing else has one
                    place.fields[name] = v.fields[name]
                else:
                    self.assign_field(place, name, self.load(v.fields[name], node), node)
            return
        if isinstance(place, PtrSlot):
            self.store_slot(place, v, node)
            return
        if isinstance(place, PtrVar):
            self.store_pointer(place, v, node)
            return
        if isinstance(place, RVal | PtrVal | ArrayVal | FlatArray | LaneArray | NullVal | Dim3Val):
            self.fail("E-SEMA-ASSIGN", "this cannot be assigned to", node)
        if isinstance(place, VarPlace) and place.const:
            self.fail("E-SEMA-ASSIGN", f"'{place.sym.name}' is const", node)
        if not hasattr(place, "type"):
            self.fail("E-SEMA-ASSIGN", f"cannot assign to {describe(place)}", node)
        e = self.convert(self.rvalue(v, node, place.type), place.type, "implicit", node).expr  # type: ignore[attr-defined]
        if isinstance(place, VarPlace):
            self.emit(Assign(place.sym, e, loc=self.loc))
        elif isinstance(place, ViewPlace):
            self.emit(Assign(place.sym, bitcast(e, place.sym.type), loc=self.loc))
        elif isinstance(place, ElemPlace):
            value = bitcast(e, self._natural(place.buffer, place.width, len(place.index)))
            self.emit(Store(place.buffer, place.index, value, place.width, place.cache, loc=self.loc))
        elif isinstance(place, SubVec):
            x = self.vector(RVal(e))
            for i in range(int(place.type.n)):  # type: ignore[arg-type]
                lane = self.load(LanePlace(VarPlace(x.sym) if isinstance(x, Var) else RVal(x), i32(i), place.type.elem))
                self.emit(Store(place.sym, (self._lane_index(place.lane, i),), lane.expr, loc=self.loc))  # type: ignore[attr-defined]
        elif isinstance(place, SwizzlePlace):
            x = self.temp(e, "v")
            for i, k in enumerate(place.lanes):
                self._store_lane(LanePlace(place.base, i32(k), place.type.elem), Load(x.sym, (i32(i),)), node)
        elif isinstance(place, LanePlace):
            self._store_lane(place, e, node)
        elif isinstance(place, BitPlace):
            self.store_bits(place, RVal(e), node)
        elif isinstance(place, ChoicePlace):
            self.store_choice(place, RVal(e), node)
        else:
            self.fail("E-SEMA-ASSIGN", f"cannot assign to {describe(place)}", node)

    def _store_lane(self, p: LanePlace, e: Expr, node: Any) -> None:
        base = p.base
        if isinstance(base, VarPlace):
            self.emit(Store(base.sym, (p.lane,), e, loc=self.loc))
        elif isinstance(base, SubVec):
            self.emit(Store(base.sym, (self.add_offset(base.lane, p.lane),), e, loc=self.loc))
        elif isinstance(base, ElemPlace) and (direct := self._lane_element(base, p.lane)) is not None:
            self.emit(Store(direct.buffer, direct.index, e, cache=direct.cache, loc=self.loc))
        elif isinstance(base, ElemPlace):  # a vector over other elements: the place of the component itself
            start = self.address(base, node)
            assert isinstance(start, PtrVal)  # elements lie in one buffer
            self.store(self.deref(dataclasses.replace(start, elem=p.type), p.lane, node), RVal(e), node)
        else:
            if isinstance(base, ViewPlace):
                self.need_memory(PtrToPlace(base, base.type), node)
            self.fail("E-UNSUPPORTED-LANE", "a component of a reinterpreted vector cannot be assigned", node,
                      hint="load the whole vector into a variable, change it, store it back")  # fmt: skip

    # ------------------------------------------------------------------ pointers

    # ------------------------------------------------------------------ types of values

    def stable(self, v: Value) -> Value:
        """``v`` with index expressions evaluated once, for a place that is used several times."""
        if type(v) is VarPlace:
            return v
        if isinstance(v, ElemPlace):
            index = tuple(self.once(i) for i in v.index)
            return v if index == v.index else dataclasses.replace(v, index=index)
        if isinstance(v, LanePlace):
            return dataclasses.replace(v, base=self.stable(v.base), lane=self.once(v.lane))
        if isinstance(v, BitPlace):
            return dataclasses.replace(v, base=self.stable(v.base))
        if isinstance(v, ChoicePlace):
            return dataclasses.replace(v, choices=tuple(self.stable(c) for c in v.choices))
        if isinstance(v, RecordVal) and v.at is not None and v.at.offset is not None:
            return self.memory_record(dataclasses.replace(v.at, offset=self.once(v.at.offset)), None)
        return v

    def once(self, e: Expr) -> Expr:
        """Indices are pure, so repeating a short one is harmless; long ones or ones that read memory get a name."""
        return e if cost(e) <= 8 else self.temp(e, "idx")

    def pin(self, v: Value) -> Value:
        """A place whose index expressions are evaluated now, for a reference that outlives this statement."""
        if isinstance(v, ElemPlace):
            return dataclasses.replace(v, index=tuple(self.pinned_index(i) for i in v.index))
        if isinstance(v, LanePlace):
            return dataclasses.replace(v, base=self.pin(v.base), lane=self.pinned_index(v.lane))
        if isinstance(v, BitPlace | LaneArray):
            return dataclasses.replace(v, base=self.pin(v.base))
        if isinstance(v, ChoicePlace):
            return dataclasses.replace(
                v, which=self.pinned_index(v.which), choices=tuple(self.pin(c) for c in v.choices)
            )
        if isinstance(v, RecordVal) and v.at is not None and v.at.offset is not None:
            return self.memory_record(dataclasses.replace(v.at, offset=self.pinned_index(v.at.offset)), None)
        if isinstance(v, RecordVal) and any(isinstance(x, ChoicePlace | RecordVal) for x in v.fields.values()):
            return dataclasses.replace(v, fields={k: self.pin(x) for k, x in v.fields.items()})
        if isinstance(v, FlatArray) and v.start.offset is not None:
            return dataclasses.replace(v, start=dataclasses.replace(v.start, offset=self.pinned_index(v.start.offset)))
        if isinstance(v, ArrayVal) and v.prefix:
            return dataclasses.replace(v, prefix=tuple(self.pinned_index(i) for i in v.prefix))
        return v

    def pinned_index(self, e: Expr, name: str = "idx") -> Expr:
        """``e`` as it is now: itself, where it is short and nothing that it is made of changes."""
        return e if cost(e) <= 8 and self.is_constant_expr(e) else self.temp(e, name)

    def pinned_dim3(self, v: Dim3Val, name: str) -> Dim3Val:
        """``v`` with its numbers as they are now."""
        x, y, z = (self.pinned_index(e, f"{name}_{axis}") for e, axis in zip((v.x, v.y, v.z), "xyz"))
        return Dim3Val(x, y, z)

    def is_constant_expr(self, e: Expr) -> bool:
        """Whether ``e`` has the same value wherever it is evaluated in this function."""
        names, changing = self.frame.facts.mutated, self.changing
        return not any(
            isinstance(x, Load) or (isinstance(x, Var) and (x.sym in changing or x.sym.name in names))
            for x in walk_expr(e)
        )

    def assign_field(self, record: RecordVal, name: str, v: Value, node: Any) -> None:
        raise NotImplementedError

    def convert_record(self, v: RecordVal, node: Any, to: Type | None = None) -> RVal | None:
        raise NotImplementedError


_READERS: dict[type[Value], Callable[[Any, Any, Any], Value]] = {
    VarPlace: lambda self, v, node: RVal(Var(v.sym)),
    ElemPlace: lambda self, v, node: RVal(self._load_elem(v)),
    LanePlace: lambda self, v, node: RVal(self._load_lane(v)),
    SubVec: lambda self, v, node: self._load_lanes(v),
    SwizzlePlace: lambda self, v, node: self._load_swizzle(v),
    ViewPlace: lambda self, v, node: RVal(bitcast(Var(v.sym), v.type)),
    ArrayVal: lambda self, v, node: self.decay(v),
    FlatArray: lambda self, v, node: self.decay(v),
    LaneArray: lambda self, v, node: self.first_lane(v, node),
    PtrVar: lambda self, v, node: self._load_pointer_var(v),
    BitPlace: lambda self, v, node: self.load_bits(v),
    PtrSlot: lambda self, v, node: self.load_pointer(v, node),
    ChoicePlace: lambda self, v, node: self.load_choice(v, node),
    PointerArray: lambda self, v, node: self.in_memory(v),
}
"""How a place is read; everything else is a value already."""

__all__ = ["LANES", "U8", "Decl", "Places", "bitcast", "cost", "describe", "fresh"]
