"""Members that are pointers: values of the object that an assignment replaces, or variables where it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.context import Retry, Scope
from ktc.ir.frontend.meaning.cxx_types import CArray, RecordType
from ktc.ir.frontend.meaning.record_traits import RecordTraits
from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    ChoicePtr,
    FlatArray,
    LaneArray,
    NullVal,
    PtrSlot,
    PtrToPlace,
    PtrVal,
    PtrVar,
    RecordVal,
    Value,
)
from ktc.ir.types import U64


class PointerMembers(RecordTraits):
    """Assignments to members of objects, pointers among them."""

    pinned_offset: Callable[[str, PtrVal], PtrVal]
    pinned_choice: Callable[[str, Any, ChoicePtr], ChoicePtr]

    def assign_field(self, record: RecordVal, name: str, v: Value, node: Any) -> None:
        field = record.fields[name]
        if isinstance(field, ArrayVal | FlatArray | LaneArray):
            self.copy_array(field, v, node)
            return
        if isinstance(field, ChoicePtr) and isinstance(record.type, RecordType):
            # a member of one of several objects: a pointer, or where its array begins
            declared = next((t for n, t, _, _ in self.fields_of(record.type, node) if n == name), None)
            if isinstance(declared, CArray):
                self.copy_array(field, v, node, declared)
                return
        if not isinstance(field, PtrSlot) and (
            isinstance(v, PtrVal | ChoicePtr | NullVal) or isinstance(field, PtrVal | ChoicePtr | NullVal)
        ):
            if isinstance(field, PtrVar):
                self.store(field, v, node)
                return
            if not self.frame.straight_to(record.owner):
                key = (record.moves, name)
                if record.moves is not None and key not in self.hints:
                    raise Retry(key, U64)  # the member becomes a variable
                self.fail("E-UNSUPPORTED-POINTER", "a pointer member is assigned under control flow", node)
            record.fields[name] = self.kept_pointer(name, v)
            return
        self.store(record.fields[name], v, node)

    def kept_pointer(self, name: str, v: Value) -> Value:
        """A pointer as it is now: what its offset is made of may change."""
        if isinstance(v, PtrVal):
            return self.pinned_offset(name, v)
        if isinstance(v, ChoicePtr):
            return self.pinned_choice(name, self.pinned_which(v.which, f"{name}_in"), v)
        return v

    def rebind_pointer(self, lvalue: Any, v: Value, node: Any) -> bool:
        """``lvalue = v`` where that is a member whose pointer is a value so far. False if it is none."""
        if not isinstance(v, PtrVal | ChoicePtr | NullVal):
            return False
        if isinstance(lvalue, c_ast.StructRef):
            return self.assign_pointer_field(lvalue, v)
        return isinstance(lvalue, c_ast.ID) and self.assign_own_pointer(lvalue.name, v, node)

    def assign_pointer_field(self, lvalue: c_ast.StructRef, v: PtrVal | ChoicePtr | NullVal) -> bool:
        """``object.pointer = p``: pointers are values here, so the field is rebound. False if it is no such field."""
        base = self.eval(lvalue.name)
        if isinstance(base, PtrToPlace) and isinstance(base.place, RecordVal):
            base = base.place
        name = getattr(lvalue.field, "name", "")
        if isinstance(base, RecordVal) and isinstance(base.fields.get(name), PtrVal | ChoicePtr | NullVal | PtrVar):
            self.assign_field(base, name, v, lvalue)
            return True
        return False

    def assign_own_pointer(self, name: str, v: Value, node: Any) -> bool:
        """``pointer = p`` in a method, of a member that is a value so far. False if the name is no such member."""
        scope: Scope | None = self.scope
        while scope is not None and name not in scope.names:
            if scope.record is not None and name in scope.record.fields:
                if isinstance(scope.record.fields[name], PtrVal | ChoicePtr | NullVal):
                    self.assign_field(scope.record, name, v, node)
                    return True
                return False
            scope = scope.parent
        return False

    # provided by the other mixins
    def eval(self, node: Any) -> Value:
        raise NotImplementedError

    def copy_array(self, dst: Value, src: Value, node: Any, declared: CArray | None = None) -> None:
        raise NotImplementedError
