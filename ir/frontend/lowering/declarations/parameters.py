"""A kernel's parameters: numbers, buffers, and structs, which are passed as one parameter per member."""

from __future__ import annotations

import dataclasses
from typing import Any

from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.lowering.control.range_for import RangeLoops
from ktc.ir.frontend.meaning.cxx_types import (
    UINT3,
    CArray,
    FunctionType,
    Pointer,
    RecordType,
    Reference,
    components,
    show,
    size_of,
)
from ktc.ir.frontend.meaning.layout import Field
from ktc.ir.frontend.meaning.name_meanings import PackVal
from ktc.ir.frontend.meaning.values import ArrayVal, PointerArray, PtrVal, RecordVal, RVal, Value, VarPlace
from ktc.ir.frontend.syntax.cxx_ast import PackExpansion
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.kernel import Param
from ktc.ir.nodes import Alloc, Decl, Expr, Sym, Var, VecMake, fresh, i32
from ktc.ir.types import I32, VOID, Array, Ptr, Scalar, Type, Vec

MAX_MEMBERS = 64
"""Elements of an array member of a struct that become a parameter each; more become a buffer that is only read."""

MOST_POINTERS = 16
"""Pointers in an array member that are chosen from; more are kept in memory."""


class Parameters(RangeLoops):
    """Parameters of the kernel being lowered. ``member_elements`` are those that are elements of array members."""

    member_elements: set[Sym]
    pointees: dict[Sym, Scalar]
    """What the source declares parameters to point to that are seen as smaller elements here."""

    lists: dict[str, int]
    """Of parameters that are arrays of arrays of pointers, how many each of the inner ones has."""
    by_value: set[str]
    """Parameters that are arrays in structs, which the kernel is passed by value."""

    def parameters(self, entity: Entity, bindings: dict[str, Value]) -> tuple[Param, ...]:
        """The kernel's own parameters, a struct's members as ``name_member``."""
        out: list[Param] = []
        local = [p for p in params_of(entity.node) if is_local(p)]
        with self.scoped(namespace=entity.namespace) as scope:
            scope.names.update(bindings)
            for i, node in enumerate(params_of(entity.node)):
                name = getattr(node, "name", None) or f"unnamed{i}"
                if node in local:
                    out.append(Param(fresh(f"{name}_elems", I32), host=len(local) == 1))
                elif is_pack(node):
                    for k, t in enumerate(self._pack_types(node)):
                        self._add(out, f"{name}_{k}", t, node)
                else:
                    self._add(out, name, self.parameter_type(node), node)
        return tuple(out)

    def parameter(self, node: Any, given: dict[str, Param], mutated: bool) -> Value:
        """What the parameter declared by ``node`` means in the body."""
        if is_pack(node):
            types = enumerate(self._pack_types(node))
            return PackVal(tuple(self.parameter_value(f"{node.name}_{k}", t, given, mutated, node) for k, t in types))
        t = self.parameter_type(node)
        if is_local(node):
            return self._local_memory(node, t, given)
        return self.parameter_value(node.name, t, given, mutated, node)

    def _pack_types(self, node: Any) -> list[Type]:
        """The types of ``Args... args``, as each element of the packs that the declaration names gives them."""
        pattern = PackExpansion(node.type, coord=node.coord)
        packs = self.packs_in(pattern)
        types = []
        for i in range(len(next(iter(packs.values())).items) if packs else 0):
            with self.scoped() as scope:
                scope.names.update({n: p.items[i] for n, p in packs.items()})
                types.append(self.parameter_type(node))
        return types

    def _local_memory(self, node: Any, t: Type, given: dict[str, Param]) -> Value:
        """OpenCL's ``__local T *p`` argument: dynamic shared memory of ``p_elems`` elements.

        Of several, the kernel must know the sizes to find where each starts, so they become parameters of its own.
        """
        if not isinstance(t, Pointer) or not isinstance(t.elem, Scalar | Vec):
            self.fail("E-UNSUPPORTED-PARAM", f"parameter '{node.name}' of type '{show(t)}' is not supported", node)
        sym = fresh(node.name, Array(t.elem, (Var(given[f"{node.name}_elems"].sym),), "shared"))
        self.emit(Alloc(sym, dynamic=True, loc=self.place(node)))
        return ArrayVal(sym, (), CArray(t.elem, None))

    def _add(self, out: list[Param], name: str, t: Type, node: Any, most: int = MAX_MEMBERS) -> None:
        """The parameters that ``name`` of type ``t`` is passed as: of an array of more than ``most`` elements, one."""
        t = as_passed(t)
        if isinstance(t, Pointer) and not isinstance(t.elem, FunctionType | Reference):
            elem = t.elem if isinstance(t.elem, Scalar | Vec) else self.unit(t.elem, node)
            align = size_of(elem) or 1 if isinstance(elem, Vec) else 0
            if not isinstance(t.elem, Scalar | Vec) and t.elem != VOID:
                natural = self.layout(t.elem, node)[1]
                align = natural if natural > elem.bytes else 0  # type: ignore[union-attr]
            ptr = Ptr(elem, "global", t.const, t.restrict, t.volatile)
            out.append(Param(fresh(name, ptr), align=align, noalias=t.restrict, readonly=t.const))
        elif (parts := components(name, t)) is not None:
            out += [Param(fresh(part, of)) for part, of in parts]
        elif isinstance(t, Scalar | Vec):
            out.append(Param(fresh(name, t)))
        elif isinstance(t, RecordType) and (fields := self._passed_fields(t, node)) is not None:
            for f in fields:
                most = MOST_POINTERS if self._has_table(fields) else MAX_MEMBERS
                self._add(out, _member(name, f), f.type, node, most)
        elif isinstance(t, CArray) and t.n is not None and self._elements(t) > most:
            self._add(out, name, Pointer(t, const=True, restrict=True), node)
            self.by_value.add(name)
            if isinstance(t.elem, CArray) and isinstance(t.elem.elem, Pointer) and t.elem.n:
                self.lists[name] = t.elem.n
        elif isinstance(t, CArray) and t.n is not None:
            for k in range(t.n):
                self._add(out, f"{name}_{k}", t.elem, node)
        else:
            self.fail("E-UNSUPPORTED-PARAM", f"parameter '{name}' of type '{show(t)}' is not supported", node,
                      hint="pass its members as separate parameters")  # fmt: skip

    def _passed_fields(self, t: RecordType, node: Any) -> list[Field] | None:
        """The members that say all of an object: of a union the first that has all its bytes and is no array; None
        where no member does."""
        fields = self.field_layout(t, node)
        if t.decl[0].node.kind != "union":
            return fields
        size, _ = self.layout(t, node)
        whole = (f for f in fields if not isinstance(f.type, CArray) and self.layout(f.type, node)[0] == size)
        return next(([f] for f in whole), None)

    def _has_table(self, fields: list[Field]) -> bool:
        """Whether there is an array of pointers among ``fields`` that is kept in memory: a list of tensors, of which
        the other arrays say something by an index as well."""
        return any(isinstance(f.type, CArray) and self._is_table(f.type) for f in fields)

    def _is_table(self, t: CArray) -> bool:
        inner: Any = t
        while isinstance(inner, CArray):
            inner = inner.elem
        return isinstance(inner, Pointer) and self._elements(t) > MOST_POINTERS

    def _elements(self, t: Type) -> int:
        return (t.n or 0) * self._elements(t.elem) if isinstance(t, CArray) else 1

    def _hinted_param(self, p: Param) -> Param:
        """``p`` as an earlier attempt found that it must be declared."""
        t, key = p.sym.type, ("param", p.sym.name)
        if isinstance(t, Ptr):
            if key in self.hints:
                size = size_of(t.elem) or 1
                sym = fresh(p.sym.name, dataclasses.replace(t, elem=self.hints[key]))
                if isinstance(t.elem, Scalar) and not p.align:
                    self.pointees[sym] = t.elem
                p = dataclasses.replace(p, sym=sym, align=p.align or (size if size > self.hints[key].bytes else 0))
            self.origin[p.sym] = key
        return p

    def parameter_value(self, name: str, t: Type, given: dict[str, Param], mutated: bool, node: Any) -> Value:
        """What the parameter's name means in the body."""
        if isinstance(t, Reference):
            return self.subscript(self.parameter_value(name, as_passed(t), given, False, node), i32(0), node)
        if isinstance(t, RecordType) and t.decl[0].node.kind == "union":
            fields = self._passed_fields(t, node)
            assert fields is not None
            f = fields[0]
            whole = self.parameter_value(_member(name, f), f.type, given, False, node)
            return self.new_record(t, name, node, {f.name: whole})
        if isinstance(t, RecordType):
            record = RecordVal(t)
            for f in self.field_layout(t, node):
                record.fields[f.name] = self.parameter_value(_member(name, f), f.type, given, False, node)
            self.lift_anonymous(record)
            record.key = self.variable_key(name, node)
            return self.copied(record, name, node) if mutated or record.key in self.hints else record
        if isinstance(t, CArray) and name in given:
            return self.at_start_of(PtrVal(given[name].sym, (), None, t, const=True), t, node)
        if isinstance(t, CArray):
            return self._array_member(name, t, given, node)
        if (parts := components(name, t)) is not None:
            return self._vector(name, t, [Var(given[part].sym) for part, _ in parts], mutated, node)
        sym = given[name].sym
        if isinstance(t, Pointer):
            start = PtrVal(sym, (), None, t.elem, t.const, volatile=t.volatile)
            if t.elem == VOID and ("param", name) not in self.hints:
                self.untyped.add(("param", name))
            return self.pointer_variable(name, t, start, node) if mutated else start
        in_memory = self.variable_in_memory(name, t, RVal(Var(sym)), node)
        if in_memory is not None:
            return in_memory
        self.origin[sym] = self.variable_key(name, node)
        if not mutated:
            return VarPlace(sym)
        copy = fresh(name, sym.type)
        self.origin[copy] = self.origin[sym]
        self.changing.add(copy)
        self.emit(Decl(copy, Var(sym), loc=self.loc))
        return VarPlace(copy)

    def _vector(self, name: str, t: Type, parts: list[Expr], mutated: bool, node: Any) -> Value:
        """What a vector means whose components are parameters: they, or a variable where it is more than read."""
        vector = t if isinstance(t, Vec) else UINT3
        v = RVal(VecMake(vector, tuple(parts)))
        in_memory = self.variable_in_memory(name, vector, v, node)
        if in_memory is not None:
            return in_memory
        key = self.variable_key(name, node)
        if not mutated:
            return v
        copy = fresh(name, vector)
        self.origin[copy] = key
        self.changing.add(copy)
        self.emit(Decl(copy, v.expr, loc=self.loc))
        return VarPlace(copy)

    def _array_member(self, name: str, t: CArray, given: dict[str, Param], node: Any) -> Value:
        """An array member: its elements are parameters, copied into a private array that can be indexed; pointers are
        chosen from."""
        key = ("pointers", name)
        if isinstance(t.elem, Pointer) and (t.n or 0) <= MOST_POINTERS and key not in self.hints:
            each = [self.parameter_value(f"{name}_{k}", t.elem, given, False, node) for k in range(t.n or 0)]
            if all(isinstance(p, PtrVal) for p in each) and not isinstance(t.elem.elem, Pointer | Reference):
                return PointerArray(tuple(each), t, key)  # type: ignore[arg-type]
        array = self.declare_array(name, t, node)
        self._fill(array, name, t, given, node)
        return array

    def _fill(self, place: Value, name: str, t: Type, given: dict[str, Param], node: Any) -> None:
        if isinstance(t, CArray):
            for k in range(t.n or 0):
                self._fill(self.subscript(place, i32(k), node), f"{name}_{k}", t.elem, given, node)
            return
        self.store(place, self.load(self.parameter_value(name, t, given, False, node), node), node)
        self.member_elements |= {p.sym for p in (given.get(name),) if p is not None}


def as_passed(t: Type) -> Type:
    """What a kernel is passed for a parameter: of a reference an address, of what lies in device memory."""
    return Pointer(t.elem, t.const, volatile=t.volatile) if isinstance(t, Reference) else t


def is_local(node: Any) -> bool:
    """Whether the parameter is an OpenCL pointer to local memory."""
    return "local pointer" in (getattr(node, "funcspec", None) or [])


def is_pack(node: Any) -> bool:
    """Whether the parameter stands for as many as its template's parameter pack has types."""
    return "pack" in (getattr(node, "storage", None) or [])


def _member(name: str, f: Field) -> str:
    """How the parameter is called that is a member of the object ``name``: those of an unnamed one are its own."""
    return name if f.name.startswith("@") else f"{name}_{f.name}"


__all__ = ["Parameters"]
