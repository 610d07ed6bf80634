"""Structs and classes: kept as one variable per field; methods and constructors are inlined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from ..nodes import Const, Decl, Var, fresh
from ..types import U64, Scalar, Type, Vec
from .brace_elision import regrouped
from .buffers import UNSIGNED
from .context import Retry, Scope
from .conversions import functions_of
from .cxx_ast import Function, RefDecl
from .cxx_types import CArray, FunctionType, ListType, Pointer, RecordType, Reference
from .facts import init_args
from .methods import Methods, params_of
from .program import Entity
from .values import (
    ArrayVal,
    BitPlace,
    ChoicePtr,
    FlatArray,
    ListVal,
    NullVal,
    PtrSlot,
    PtrVal,
    PtrVar,
    RecordVal,
    RVal,
    UnboundRef,
    Value,
    VarPlace,
)

MAX_NESTED = 64
"""Records within records."""


class Records(Methods):
    """Record types and values. ``RecordType.decl`` is (entity, template bindings)."""

    late_defaults: Callable[[RecordType], set[str]]
    construct_own: Callable[..., None]
    bind_argument: Callable[..., Value]
    pinned_offset: Callable[[str, PtrVal], PtrVal]
    pinned_choice: Callable[[str, Any, ChoicePtr], ChoicePtr]

    # ------------------------------------------------------------------ values
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
            place = self.new_field(inner, ft, v, node)
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
        elif isinstance(place, FlatArray) and v is not None:
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

    def is_aggregate(self, t: RecordType) -> bool:
        """Whether braces fill the members, as no constructor is declared."""
        return not any(isinstance(i, Function) and i.kind == "ctor" for i, _, _ in list(self._members(t)))

    def brace_record(self, t: RecordType, args: list, node: Any, name: str = "", zero: bool = True) -> Value:
        """Aggregate initialisation, or a constructor when the record has one."""
        if args and not self.is_aggregate(t):
            given = [self.eval(a) for a in args]
            listed = self._list_constructors(t)
            if listed and not (len(given) == 1 and isinstance(given[0], RecordVal) and given[0].type == t):
                # before all others ([over.match.list])
                made = self.new_record(t, name or t.name.lower(), node)
                self.run_constructor(t, made, [ListVal(tuple(given))], node, listed)
                return made if name else replace(made, temporary=True)
            return self.construct_record(t, given, node, name)
        if len(args) == 1 and not isinstance(args[0], c_ast.InitList | c_ast.NamedInitializer | Value):
            place = self.eval(args[0])
            v = self.load(place, node)
            if isinstance(v, RecordVal) and v.type == t:
                return v if v.temporary else self.copied(v, name or t.name.lower(), node)
            args = [self.listed_alone(t, place, v, node)]
        if args and not self.bases_of(t):
            args = regrouped(self, t, args, node)
        values: dict[str, Value] = {}
        fields = [f for f in self.fields_of(t, node) if f[0]]
        if t.decl[0].node.kind == "union" and not any(isinstance(a, c_ast.NamedInitializer) for a in args):
            fields = fields[:1]
        by_name = {f[0]: f for f in fields}
        named = [by_name.get(a.name[0].name) if isinstance(a, c_ast.NamedInitializer) else None for a in args]
        for position, a in zip(fields, args):
            field, ft, _, _ = named[args.index(a)] or position
            if isinstance(a, c_ast.NamedInitializer):
                a = a.expr
            if isinstance(ft, CArray) and isinstance(a, ListVal | c_ast.InitList):
                values[field] = ListVal(tuple(a.items if isinstance(a, ListVal) else a.exprs))
            elif isinstance(a, ListVal):
                values[field] = self.initial_value(ft, list(a.items), True, node)
            elif isinstance(a, Value):
                values[field] = a
            elif isinstance(a, c_ast.InitList):
                values[field] = self.initial_value(ft, a.exprs, True, node)
            else:
                values[field] = self.load(self.eval(a), node) if not isinstance(ft, Reference) else self.eval(a)
        if zero:
            for field, ft, default, _ in fields:
                if field in values or default is not None:
                    continue
                if isinstance(ft, Scalar | Vec):
                    values[field] = self.zero(ft, node)
                elif isinstance(ft, CArray):
                    values[field] = ListVal(())
                elif isinstance(ft, RecordType):
                    values[field] = self.brace_record(ft, [], node)
        record = self.new_record(t, name or t.name.lower(), node, values)
        if not args:
            ctor = [i for i, _, _ in list(self._members(t)) if isinstance(i, Function) and i.kind == "ctor"]
            if ctor:
                return self.construct_record(t, [], node, name)
        return record

    def listed_alone(self, t: RecordType, place: Value, v: Value, node: Any) -> Value:
        """The only item of a braced list, ``place`` with the value ``v``, as what the first member of ``t`` takes."""
        first = next((ft for name, ft, _, _ in self.fields_of(t, node) if name), None)
        return place if isinstance(first, Reference) else v

    def construct_record(self, t: RecordType, args: list[Value], node: Any, name: str = "") -> Value:
        """Run the constructor that fits ``args``."""
        if len(args) == 1 and isinstance(args[0], RecordVal):
            whole = self.upcast(args[0], t)
            if whole.type == t:
                return self.copied(whole, name or t.name.lower(), node)
        if not name:
            self.refuse_end(t, node)
        record = self.new_record(t, name or t.name.lower(), node)
        self.run_constructor(t, record, args, node)
        return record if name else replace(record, temporary=True)

    def _list_constructors(self, t: RecordType) -> list[Entity]:
        """The constructors of ``t`` that take a ``std::initializer_list``."""
        found = [e for e in self.own_functions(t, "ctor") if e.params is None and len(params_of(e.node)) == 1]
        taken = self.first_parameters(t, [e.node for e in found])
        return [e for e, x in zip(found, taken) if isinstance(x.elem if isinstance(x, Reference) else x, ListType)]

    def run_constructor(
        self, t: RecordType, record: RecordVal, args: list[Value], node: Any, found: list[Entity] | None = None
    ) -> None:
        """The constructor of ``t`` (one of ``found`` where given) that fits ``args``, on an object of ``t`` or of a
        class derived from it."""
        found = found or self.own_functions(t, "ctor")
        if not found:
            given = args[0] if len(args) == 1 else None
            whole = self.upcast(given, t) if isinstance(given, RecordVal) else None
            if whole is not None and whole.type == t:  # a base, copied from an object of its class
                for field, *_ in self.fields_of(t, node):
                    if field in whole.fields:
                        self.assign_field(record, field, self.load(whole.fields[field], node), node)
            elif args:
                self.fail("E-SEMA-INIT", f"'{t.name}' has no constructor", node, hint="initialise it with { ... }")
            else:
                for base in self.bases_of(t):
                    self.run_constructor(base, record, [], node)
                self.construct_own(t, record, {}, node)
            return
        for e in found:
            self.constructed[id(e.node)] = t
        self.call_own(t, found, record, args, node)

    constructed: dict[int, RecordType]
    """The class whose object the constructor being entered makes, by the constructor's syntax."""

    def default_constructed(self, t: RecordType) -> bool:
        """Whether an object of ``t`` without an initialiser gets its value from a constructor."""
        ctors = [f for f, _ in functions_of(t.decl[0].node.items) if f.kind == "ctor"]
        if ctors:
            return any(all(getattr(p, "init", None) is not None for p in params_of(f)) for f in ctors)
        return any(self.default_constructed(b) for b in self.bases_of(t))

    def has_start(self, t: Type) -> bool:
        """Whether objects of ``t`` without an initialiser have values: of a constructor or of their members' own."""
        while isinstance(t, CArray):
            t = t.elem
        if not isinstance(t, RecordType):
            return False
        fields = self.fields_of(t, None)
        return self.default_constructed(t) or any(init is not None or self.has_start(ft) for _, ft, init, _ in fields)

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
        return self.new_record(v.type, name, node, self._values_of(v, node))

    def _values_of(self, v: RecordVal, node: Any) -> dict[str, Value]:
        """What the members of an object hold; a reference still refers to what it did."""
        refers = {name for name, ft, _, _ in self.fields_of(v.type, node) if isinstance(ft, Reference)}  # type: ignore[arg-type]
        return {k: x if k in refers else self.load(x, node) for k, x in v.fields.items()}

    def copies_by_code(self, t: RecordType) -> bool:
        """Whether the class declares the constructor that copies an object of it."""
        found = [f for f, p in functions_of(t.decl[0].node.items) if f.kind == "ctor" and not p and params_of(f)]
        one = [f for f in found if all(getattr(p, "init", None) is not None for p in params_of(f)[1:])]
        one = [f for f in one if isinstance(params_of(f)[0].type, RefDecl)]
        taken = self.first_parameters(t, one)
        return any(isinstance(x, Reference) and x.elem == t and not x.rvalue for x in taken)

    def moves_by_code(self, t: RecordType) -> bool:
        """Whether the class declares the constructor that moves an object of it."""
        taken = self.first_parameters(t, [f for f, p in functions_of(t.decl[0].node.items)
                                          if f.kind == "ctor" and not p and len(params_of(f)) == 1])  # fmt: skip
        return any(isinstance(x, Reference) and x.elem == t and x.rvalue for x in taken)

    def copies_inside(self, t: RecordType) -> bool:
        """Whether a base class or a member of the class is copied by code, though the class itself is not."""
        if t not in self._inside:
            parts: list[Type] = [*self.bases_of(t), *(ft for _, ft, _, _ in self.fields_of(t, None))]
            parts = [_element(p) for p in parts]
            self._inside[t] = any(
                isinstance(p, RecordType) and (self.copies_by_code(p) or self.copies_inside(p)) for p in parts
            )
        return self._inside[t]

    _inside: dict[RecordType, bool]

    def _check_copy(self, v: RecordVal, node: Any) -> None:
        """Members are copied as their classes copy; base classes and elements of arrays that need code are refused."""
        arrays = [_element(self.type_of(x)) for x in v.fields.values() if isinstance(x, ArrayVal | FlatArray)]
        inner = [*self.bases_of(v.type), *(t for t in arrays if isinstance(t, RecordType))]  # type: ignore[arg-type]
        if v.at is not None or any(self.copies_by_code(t) or self.copies_inside(t) for t in inner):
            self.fail("E-UNSUPPORTED-COPY", f"a copy of '{v.type}', parts of which are copied by code", node,
                      hint="give the class a copy constructor of its own")  # fmt: skip

    def refuse_end(self, t: Any, node: Any) -> None:
        raise NotImplementedError

    def assign_field(self, record: RecordVal, name: str, v: Value, node: Any) -> None:
        field = record.fields[name]
        if isinstance(field, ArrayVal | FlatArray):
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
        from .values import PtrToPlace

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
    def zero(self, t: Type, node: Any = None) -> RVal:
        raise NotImplementedError

    def initial_value(self, t: Type, args: list, brace: bool, node: Any) -> Value:
        raise NotImplementedError

    def eval(self, node: Any) -> Value:
        raise NotImplementedError

    def declare_array(self, name: str, t: CArray, node: Any) -> Value:
        raise NotImplementedError

    def copy_array(self, dst: Value, src: Value, node: Any, declared: CArray | None = None) -> None:
        raise NotImplementedError

    def fill_array(self, v: Value, t: CArray, values: list, node: Any) -> None:
        raise NotImplementedError


def _element(t: Type) -> Type:
    """What an array is made of; any other type itself."""
    while isinstance(t, CArray):
        t = t.elem
    return t
