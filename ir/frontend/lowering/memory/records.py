"""Structs and classes: kept as one variable per field; methods and constructors are inlined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning.cxx_types import CArray, FunctionType, Pointer, RecordType, Reference, innermost
from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    BitPlace,
    ChoicePtr,
    FlatArray,
    LaneArray,
    ListVal,
    NullVal,
    PtrVal,
    RecordVal,
    RVal,
    UnboundRef,
    Value,
    VarPlace,
)
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.nodes import Const, Decl, Sym, Var, fresh
from ktc.ir.types import Scalar, Type

from .buffers import UNSIGNED
from .pointer_members import PointerMembers

MAX_NESTED = 64
"""Records within records."""


class Records(PointerMembers):
    """Objects and their copies. ``RecordType.decl`` is (entity, template bindings)."""

    late_defaults: Callable[[RecordType], set[str]]
    bind_argument: Callable[..., Value]

    def new_record(self, t: RecordType, name: str, node: Any, values: dict[str, Value] | None = None,
                   default: bool = True) -> RecordVal:  # fmt: skip
        """Variables for every field, named ``name_field``, initialised from ``values`` where given."""
        if t.decl[0].node.kind == "union":
            union = self.local_object(name, t, node)
            assert isinstance(union, RecordVal)
            for field, given in (values or {}).items():
                self.store(union.fields[field], given, node)
            return union
        key = self.variable_key(name, node)
        late = self.late_defaults(t)
        laid_out = self.variable_in_memory(name, t, None, node)
        record = (
            laid_out if isinstance(laid_out, RecordVal) else RecordVal(t, owner=self.frame.here, moves=("moves", *key))
        )
        for field, ft, init, member in self.fields_of(t, node):
            v: Value | None = (values or {}).get(field)
            if not field:
                continue  # unnamed padding bits
            if v is None and default and init is not None and field not in late:
                entity, bound = t.decl
                with self.record_scope(t, entity, bound, record):  # it may name the members before it
                    v = self._member_default(ft, init_args(init), node)
            if record is laid_out:
                self._set_member(record.fields[field], ft, v, default, node)
                continue
            inner = f"{name}_{field.replace('@', 'part')}"
            if isinstance(ft, Pointer) and (record.moves, field) in self.hints:
                begin = NullVal(ft.elem) if v is None else self.as_pointer(self.load(v, node), node, ft)
                record.fields[field] = self.pointer_variable(inner, ft, begin, node)
                continue
            vector = self.vector_of(t, node)
            place = self.new_field(inner, ft, v, node) if vector is None else self.lanes(name, ft, vector, v, node)
            if member.bitsize is not None and isinstance(place, VarPlace):
                place = self._bit_field(place, ft, v, member, node)
            record.fields[field] = place
        if record is not laid_out:
            self.lift_anonymous(record)
            self.declared(record, key)
        return record

    def _member_default(self, t: Type, args: list, node: Any) -> Value:
        """What a member's own initialiser gives it."""
        if isinstance(t, CArray):
            return ListVal(tuple(x if isinstance(x, c_ast.InitList) else self.eval(x) for x in args))
        return self.initial_value(t, args, True, node)

    def _set_member(self, place: Value, ft: Type, v: Value | None, default: bool, node: Any) -> None:
        """The initial value of a member of an object in memory; ``default``: of one that is constructed."""
        if isinstance(v, ListVal) and isinstance(ft, CArray):
            self.fill_array(place, ft, list(v.items), node)
        elif isinstance(place, LaneArray) and isinstance(v, RVal):
            self.store(place.base, v, node)
        elif isinstance(place, FlatArray | LaneArray) and v is not None:
            self.copy_array(place, v, node)
        elif isinstance(place, RecordVal) and v is None and default and self.default_constructed(place.type):  # type: ignore[arg-type]
            self.run_constructor(place.type, place, [], node)  # type: ignore[arg-type]
        elif v is None and default and self.has_start(ft):
            if isinstance(ft, CArray):
                self.fill_array(place, ft, [], node)
            else:
                self.store(place, self.new_record(ft, "member", node), node)  # type: ignore[arg-type]
        elif v is not None:
            self.store(place, self.load(v, node), node)

    def _bit_field(self, place: VarPlace, ft: Type, v: Value | None, member: c_ast.Decl, node: Any) -> Value:
        """A bit-field of a variable: a variable of its own, cut to its width whenever it is stored to."""
        assert isinstance(ft, Scalar)
        whole = fresh(place.sym.name, UNSIGNED[ft.bytes])
        self.emit(Decl(whole, Const(0, whole.type), loc=self.loc))  # type: ignore[arg-type]
        bits = BitPlace(VarPlace(whole), 0, self.const_int(member.bitsize, "the width of a bit-field"), ft)
        if v is not None:
            self.store(bits, RVal(Var(place.sym)), node)
        return bits

    def new_field(self, name: str, ft: Type, v: Value | None, node: Any) -> Value:
        if isinstance(ft, RecordType):
            if isinstance(v, RecordVal) and not v.temporary and (self.copies_by_code(ft) or self.copies_inside(ft)):
                return self.copied(v, name, node)
            given = self._values_of(v, node) if isinstance(v, RecordVal) else None
            with self._deeper(node):
                if v is None and self.default_constructed(ft):
                    return self.construct_record(ft, [], node, name)
                return self.new_record(ft, name, node, given or None)
        if isinstance(ft, Reference):
            return UnboundRef(ft.elem) if v is None else self.bind_argument(name, ft, v, True, node, [])
        if isinstance(ft, FunctionType):
            return UnboundRef(ft) if v is None else self.copied_closure(self.load(v, node), node)
        if isinstance(ft, Pointer):
            return self.kept_pointer(name, self.load(v, node)) if v is not None else NullVal()
        if isinstance(ft, CArray):
            array = self.declare_array(name, ft, node)
            if v is None and self.has_start(ft):
                self.fill_array(array, ft, [], node)
            elif isinstance(v, ListVal):
                self.fill_array(array, ft, list(v.items), node)
            elif isinstance(v, ArrayVal | FlatArray | PtrVal | ChoicePtr):
                self.copy_array(array, v, node)
            elif v is not None:
                self.fail("E-UNSUPPORTED-INIT", f"the array '{name}' is initialised without braces of its own", node,
                          hint="give the array its own { ... }")  # fmt: skip
            return array
        sym = fresh(name, ft)
        self.changing.add(sym)
        init = None if v is None else self.convert(self.rvalue(v, node, ft), ft, "implicit", node).expr
        self.emit(Decl(sym, init, loc=self.loc))
        return VarPlace(sym)

    _nested = 0
    """How many records the field that is being made is in."""

    @contextmanager
    def _deeper(self, node: Any) -> Iterator[None]:
        """One record further inside; a template may name ever larger instances of itself."""
        if self._nested >= MAX_NESTED:
            self.fail("E-PARSE-DEPTH", f"records are nested deeper than {MAX_NESTED}, or one contains itself", node)
        self._nested += 1
        try:
            yield
        finally:
            self._nested -= 1

    def copied(self, v: RecordVal, name: str, node: Any) -> RecordVal:
        """A new object with the value of ``v``."""
        assert isinstance(v.type, RecordType)
        if not v.temporary and (self.copies_by_code(v.type) or (v.moved and self.moves_by_code(v.type))):
            out = self.new_record(v.type, name, node)
            self.run_constructor(v.type, out, [v], node)
            return out
        if not v.temporary and self.copies_inside(v.type):
            self._check_copy(v, node)
        if v.type.decl[0].node.kind == "union" or any(k.startswith("@") for k in v.fields):
            out = self.new_record(v.type, name, node, default=False)
            self.store(out, v, node)
            return out
        out = self.new_record(v.type, name, node, self._values_of(v, node))
        self.copied_members |= _variables(out)
        return out

    def _values_of(self, v: RecordVal, node: Any) -> dict[str, Value]:
        """What the members of an object hold; a reference still refers to what it did."""
        vector = self.vector_value(v, node)
        if vector is not None:
            return dict.fromkeys(v.fields, vector)
        refers = {name for name, ft, _, _ in self.fields_of(v.type, node) if isinstance(ft, Reference)}  # type: ignore[arg-type]
        return {k: x if k in refers else self.load(x, node) for k, x in v.fields.items()}

    def _check_copy(self, v: RecordVal, node: Any) -> None:
        """Members are copied as their classes copy; base classes and elements of arrays that need code are refused."""
        arrays = [innermost(self.type_of(x)) for x in v.fields.values() if isinstance(x, ArrayVal | FlatArray)]
        inner = [*self.bases_of(v.type), *(t for t in arrays if isinstance(t, RecordType))]  # type: ignore[arg-type]
        if v.at is not None or any(self.copies_by_code(t) or self.copies_inside(t) for t in inner):
            self.fail("E-UNSUPPORTED-COPY", f"a copy of '{v.type}', parts of which are copied by code", node,
                      hint="give the class a copy constructor of its own")  # fmt: skip

    # provided by the other mixins
    def construct_record(self, t: RecordType, args: list[Value], node: Any, name: str = "") -> Value:
        raise NotImplementedError

    def run_constructor(self, t: RecordType, record: RecordVal, args: list[Value], node: Any) -> None:
        raise NotImplementedError

    def initial_value(self, t: Type, args: list, brace: bool, node: Any) -> Value:
        raise NotImplementedError

    def declare_array(self, name: str, t: CArray, node: Any) -> Value:
        raise NotImplementedError

    def fill_array(self, v: Value, t: CArray, values: list, node: Any) -> None:
        raise NotImplementedError


def _variables(v: RecordVal) -> set[Sym]:
    """The variables that the members of a local object are."""
    out: set[Sym] = set()
    for x in v.fields.values():
        if isinstance(x, VarPlace):
            out.add(x.sym)
        elif isinstance(x, RecordVal):
            out |= _variables(x)
    return out
