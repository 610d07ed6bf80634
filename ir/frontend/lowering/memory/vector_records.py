"""Classes that are vectors: N numbers of one type in an array, aligned so that one access moves them.

    template <typename T, int N> struct alignas(sizeof(T) * N) Vec { T lane[N]; };      Packed128, aligned_vector, vec_t

An object of such a class is a vector of the IR and a copy of one is one wide access, as it is for ``float4``. Its array
is a :class:`LaneArray`: subscripts are the vector's lanes, its address that of the first lane.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ktc.ir.frontend.meaning.cxx_types import CArray, RecordType
from ktc.ir.frontend.meaning.layout import Layouts
from ktc.ir.frontend.meaning.values import LaneArray, ListVal, PtrToPlace, PtrVal, RecordVal, RVal, Value, VarPlace
from ktc.ir.nodes import Decl, Expr, VecMake, fresh
from ktc.ir.types import BOOL, Scalar, Type, Vec

WIDE = 16
"""Bytes of the widest access: what is larger and aligned to them is moved by several."""

MAX_LANES = 64


class VectorRecords(Layouts):
    """Objects of classes that are vectors."""

    _vectors: dict[RecordType, Vec | None]

    def vector_of(self, t: Type, node: Any) -> Vec | None:
        """The vector that an object of class ``t`` is; None for other types."""
        if not isinstance(t, RecordType):
            return None
        if t not in self._vectors:
            self._vectors[t] = self._as_vector(t, node)
        return self._vectors[t]

    def _as_vector(self, t: RecordType, node: Any) -> Vec | None:
        if t.decl[0].node.kind == "union" or any(True for _ in self.bases_of(t)) or self.is_polymorphic(t):
            return None
        fields = self.fields_of(t, node)
        if len(fields) != 1 or not fields[0][0]:
            return None
        array = fields[0][1]
        if not isinstance(array, CArray) or not isinstance(array.elem, Scalar) or array.elem == BOOL:
            return None
        n = array.n or 0
        size, align = self.layout(t, node)
        if not 2 <= n <= MAX_LANES or n & (n - 1) or size != n * array.elem.bytes or align < min(size, WIDE):
            return None
        return None if self.copies_by_code(t) else Vec(array.elem, n)

    def lanes(self, name: str, t: Type, vector: Vec, v: Value | None, node: Any) -> LaneArray:
        """A new variable for the lanes of an object, its array of type ``t`` initialised from ``v``."""
        sym = fresh(name, vector)
        self.changing.add(sym)
        out = LaneArray(VarPlace(sym), t)
        if isinstance(v, ListVal) and all(not isinstance(x, ListVal) for x in v.items):
            v = RVal(VecMake(vector, self._listed_lanes(vector, v, node)))
        whole = v.expr if isinstance(v, RVal) and v.type == vector else None
        self.emit(Decl(sym, whole, loc=self.loc))
        if v is not None and whole is None:
            self.copy_array(out, v, node)
        return out

    def _listed_lanes(self, vector: Vec, given: ListVal, node: Any) -> tuple[Expr, ...]:
        items = [self.initial_value(vector.elem, [x], True, node) for x in given.items]
        lanes = [self.convert(self.rvalue(x, node, vector.elem), vector.elem, "implicit", node).expr for x in items]
        assert isinstance(vector.n, int)
        return (*lanes, *(self.zero(vector.elem, node).expr for _ in range(vector.n - len(lanes))))

    def vector_place(self, v: Value) -> Value | None:
        """Where the vector lies that the object ``v`` is; None if it is none, or kept as an array."""
        if not isinstance(v, RecordVal) or len(v.fields) != 1:
            return None
        (member,) = v.fields.values()
        return member.base if isinstance(member, LaneArray) else None

    def vector_value(self, v: RecordVal, node: Any) -> RVal | None:
        """The vector that the object ``v`` is. A temporary that was made last leaves no variable behind."""
        place = self.vector_place(v)
        if place is None:
            return None
        last = self.out[-1] if self.out else None
        made = v.temporary and isinstance(place, VarPlace) and isinstance(last, Decl) and last.sym == place.sym
        if not made or last.init is None:  # type: ignore[union-attr]
            return self.rvalue(place, node)
        self.out.pop()
        return RVal(last.init)  # type: ignore[union-attr, arg-type]

    def copy_vector(self, dst: RecordVal, src: RecordVal, node: Any) -> bool:
        """Copy an object as the vector that it is; False if one of the two is none."""
        place = self.vector_place(dst)
        value = None if place is None else self.vector_value(src, node)
        if place is None or value is None:
            return False
        self.store(place, value, node)
        return True

    def first_lane(self, a: LaneArray, node: Any) -> PtrVal | PtrToPlace:
        """The array as a pointer to its first element."""
        start = self.address(a.base, node)
        assert isinstance(start, PtrVal | PtrToPlace)
        return dataclasses.replace(start, elem=a.type.elem)

    # provided by the other mixins
    def copies_by_code(self, t: RecordType) -> bool:
        raise NotImplementedError

    def copy_array(self, dst: Value, src: Value, node: Any) -> None:
        raise NotImplementedError

    def zero(self, t: Type, node: Any = None) -> RVal:
        raise NotImplementedError


__all__ = ["VectorRecords"]
