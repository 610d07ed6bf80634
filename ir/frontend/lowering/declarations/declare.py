"""Lowering declarations: variables, pointers, arrays in registers and in shared memory, file-scope constants."""

from __future__ import annotations

import dataclasses
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.memory.buffers import as_volatile
from ktc.ir.frontend.meaning.constants import folded_float
from ktc.ir.frontend.meaning.cxx_types import DIM3, UINT3, Auto, CArray, Pointer, RecordType, Reference, show, size_of
from ktc.ir.frontend.meaning.evaluation import evaluated, values_after
from ktc.ir.frontend.meaning.name_meanings import FunctionVal, OpaqueVal
from ktc.ir.frontend.meaning.values import (  # fmt: skip
    ChoicePtr,
    Dim3Val,
    ListVal,
    NullVal,
    PtrToPlace,
    PtrVal,
    RecordVal,
    RVal,
    Value,
    VarPlace,
    ViewPlace,
    describe,
    named,
    pointing_to_const,
)
from ktc.ir.frontend.syntax.cxx_ast import CtorInit, CxxCast, qualifiers
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.nodes import Const, Decl, Sym, fresh
from ktc.ir.types import VOID, Scalar, Type, Vec

from .arrays import Arrays


class Declarations(Arrays):
    """Declarations."""

    def declare(self, node: c_ast.Decl, pragma: Any = None) -> None:
        """One local declaration."""
        storage = [*(node.storage or []), *(s for s in (node.funcspec or []) if isinstance(s, str))]
        if isinstance(node.type, c_ast.FuncDecl):
            return  # a local prototype
        t = self.resolve(node.type)
        const = "const" in qualifiers(node.type) and not isinstance(node.type, c_ast.PtrDecl)
        if "__shared__" in storage:
            volatile = "volatile" in qualifiers(node.type)
            self.scope.names[node.name] = as_volatile(self.declare_shared(node, t, storage), volatile)
            return
        if node.name in self.frame.facts.loop_only and node.init is None and isinstance(t, Scalar):
            self.scope.names[node.name] = VarPlace(fresh(node.name, t))  # every loop declares it
            return
        value = self.declare_local(node, t, const, "constexpr" in storage)
        self.scope.names[node.name] = named(value, const)
        if not isinstance(t, Reference):
            self.will_end(value, t, node)

    def declare_local(self, node: c_ast.Decl, t: Type, const: bool, constexpr: bool) -> Value:
        name, init = node.name, node.init
        mutated = name in self.frame.facts.mutated
        name = name.strip()
        if isinstance(t, CArray):
            return self._local_array(node, t)
        if isinstance(t, Auto | Reference | Pointer) or init is not None:
            args = self.unpacked(init_args(init))
            if t == DIM3:
                return self._dim3_variable(node, args, mutated)
            if isinstance(t, RecordType):
                brace = not isinstance(init, CtorInit) or init.brace
                at = len(self.out)
                made = self._record_variable(name, t, args, brace, init, mutated)
                if constexpr:
                    self._note_constants(made, self.out[at:])
                return made
            if isinstance(t, Reference):
                return self._reference(node, t, args)
            braces = isinstance(t, Vec) and (isinstance(init, c_ast.InitList) or getattr(init, "brace", False))
            one = len(args) == 1 and not isinstance(args[0], c_ast.InitList) and not braces
            v = None
            if one and constexpr:
                v = self._constant_value(args[0], node)
            elif one:
                v = self.eval(args[0])
            if isinstance(t, Auto):
                if v is None:
                    self.fail("E-SEMA-AUTO", "auto needs one initialiser", node)
                v = self.load(v, node)
                if isinstance(v, RecordVal) and (mutated or not v.temporary):
                    return self.copied(v, name, node)
                if isinstance(v, FunctionVal) and is_lvalue(args[0]):
                    return self.copied_closure(v, node)
                if isinstance(v, Dim3Val):
                    return self._dim3_variable(node, [v], mutated)
                if isinstance(v, FunctionVal | RecordVal | PtrToPlace | NullVal):
                    return v
                t = self.type_of(v)
            if isinstance(t, Pointer):
                if isinstance(t.elem, Auto) and v is not None:
                    v = self.load(v, node)
                    of = self.type_of(v)
                    t = dataclasses.replace(t, elem=of.elem if isinstance(of, Pointer | CArray) else t.elem)
                return self._pointer(node, t, v, mutated)
            value = self.initial_value(t, args, True, node) if v is None else self.load(v, node)
            return self._scalar(node, t, value, const or constexpr, constexpr, mutated)
        if isinstance(t, RecordType):
            return self._record_variable(name, t, [], True, None, mutated)
        if t == DIM3:
            return self._dim3_variable(node, [], mutated)
        return self._scalar(node, t, None, False, False, mutated)

    def _dim3_variable(self, node: c_ast.Decl, args: list, mutated: bool) -> Value:
        """A ``dim3``: its numbers as they are now, and a vector of them where they change later."""
        v = self.initial_value(DIM3, args, False, node)
        if mutated:
            return self._scalar(node, UINT3, v, False, False, mutated)
        return self.pinned_dim3(v, node.name.strip()) if isinstance(v, Dim3Val) else v

    def _note_constants(self, v: Value, before: list) -> None:
        """Remember the values that the statements ``before`` give the members of the constant object ``v``."""
        values = values_after(before, self.const_of) if isinstance(v, RecordVal) else None
        for x in v.fields.values() if values and isinstance(v, RecordVal) else ():
            if isinstance(x, VarPlace) and isinstance(c := (values or {}).get(x.sym), Const):
                self.const_of[x.sym] = c

    def _constant_value(self, init: Any, node: Any) -> Value:
        """What a constant is initialised with; statements that a call in it needs are run here, if they can be."""
        with self.capture() as before:
            v = self.eval(init)
        if before and not isinstance(v, RecordVal):
            x = self.load(v, node)
            known = evaluated(before, x.expr, self.const_of) if isinstance(x, RVal) else None
            if known is not None:
                return RVal(known)
        self.out.extend(before)
        return v

    def _scalar(
        self, node: c_ast.Decl, t: Type, value: Value | None, const: bool, constexpr: bool, mutated: bool
    ) -> Value:
        if not isinstance(t, Scalar | Vec):
            self.fail("E-SEMA-TYPE", f"a variable of type '{show(t)}' is not supported", node)
        e = None if value is None else self.convert(self.rvalue(value, node, t), t, "implicit", node).expr
        known = self.constant(e) if e is not None and not mutated else None
        if constexpr:
            known = known or (folded_float(e) if e is not None else None)
            if known is None:
                self.fail("E-SEMA-CONSTANT", f"'{node.name}' is constexpr but its value is not known here", node)
            return RVal(known)
        name = node.name.strip()
        place = self.variable_in_memory(name, t, None if e is None else RVal(e), node)
        if place is not None:
            return place
        sym = fresh(name, self._viewed_type(node.name, t))
        self.origin[sym] = self.variable_key(name, node)
        if mutated:
            self.changing.add(sym)
        if sym.type != t:
            from ktc.ir.frontend.lowering.expressions.convert import bitcast

            self.emit(Decl(sym, None if e is None else bitcast(e, sym.type), loc=self.loc))
            return ViewPlace(sym, t)
        if known is not None and isinstance(t, Scalar) and (const or not mutated):
            self.const_of[sym] = known
        self.emit(Decl(sym, e, const=const and not mutated, loc=self.loc))  # its address may be cast
        return VarPlace(sym, const)

    def _viewed_type(self, name: str, t: Type) -> Type:
        """The type to declare a vector with, when the function looks at its bits as other elements."""
        size = size_of(t)
        if not isinstance(t, Vec) or size is None:
            return t
        found = set()
        for view in self.frame.facts.views.get(name, []):
            v = self.resolve(view)
            elem = v.elem if isinstance(v, Pointer | Reference) else None
            while isinstance(elem, Vec | CArray):
                elem = elem.elem
            if isinstance(elem, Scalar) and elem != t.elem and size % elem.bytes == 0:
                found.add(elem)
        if len(found) != 1:
            return t
        elem = found.pop()
        return Vec(elem, size // elem.bytes)

    def _pointer(self, node: c_ast.Decl, t: Pointer, v: Value | None, mutated: bool) -> Value:
        if v is None:
            return self.pointer_variable(node.name.strip(), t, None, node)
        if not isinstance(v, PtrToPlace):
            v = as_volatile(self.as_pointer(self.load(v, node), node, t), t.volatile)
        if isinstance(v, NullVal) or (isinstance(v, RVal) and isinstance(v.expr, Const) and v.expr.value == 0):
            v = NullVal(t.elem)
        if isinstance(v, OpaqueVal) and v.name.startswith('"'):
            v = self.load(self.string_table(v.name, node))
        if isinstance(v, NullVal | ChoicePtr) and mutated:
            return self.pointer_variable(node.name.strip(), t, v, node)
        if isinstance(v, ChoicePtr):
            which = v.which if isinstance(v.which, Const) else self.pinned_which(v.which, f"{node.name}_in")
            return self.pinned_choice(node.name, which, v)
        if isinstance(v, FunctionVal):
            return self.function_pointer(v, t, mutated, node.name, node)
        v = pointing_to_const(self.base_pointer(v, t), t.const)
        if isinstance(v, PtrVal):
            if isinstance(t.elem, CArray) or t.elem == v.elem:
                pass
            elif t.elem == VOID:
                t = Pointer(v.elem, volatile=v.volatile)
            else:
                self.fail(
                    "E-SEMA-CONVERT",
                    f"cannot initialise '{show(t)}' with '{show(self.type_of(v))}'",
                    node,
                    hint="use reinterpret_cast",
                )
            if mutated:
                return self.pointer_variable(node.name.strip(), t, v, node)
            return self.pinned_offset(node.name, v)
        if isinstance(v, PtrToPlace | NullVal):
            return v
        self.fail("E-SEMA-CONVERT", f"cannot initialise a pointer with {describe(v)}", node)

    def pinned_offset(self, name: str, v: PtrVal) -> PtrVal:
        """The pointer as it is now: its row of an array and its offset are made of what may change."""
        prefix = tuple(self.pinned_index(i, f"{name}_row") for i in v.prefix)
        offset = None if v.offset is None else self.pinned_index(v.offset, f"{name}_offset")
        same = prefix == v.prefix and offset is v.offset
        return v if same else dataclasses.replace(v, prefix=prefix, offset=offset)

    def pinned_choice(self, name: str, which: Any, v: ChoicePtr) -> ChoicePtr:
        """``v`` with its offsets as they are now."""
        kept: dict[Any, PtrVal] = {}
        out = []
        for c in v.choices:
            key = (c.prefix, c.offset)
            at = kept[key] = kept.get(key) or self.pinned_offset(name, c)
            out.append(dataclasses.replace(c, prefix=at.prefix, offset=at.offset))
        return ChoicePtr(which, tuple(out))

    def _reference(self, node: c_ast.Decl, t: Reference, args: list) -> Value:
        if len(args) != 1:
            self.fail("E-SEMA-INIT", f"the reference '{node.name}' needs one initialiser", node)
        v = self.eval(args[0]) if t.const or t.rvalue else self.lvalue(args[0])
        if isinstance(v, RVal):
            place = self.variable_in_memory(node.name, v.expr.type, v, node)
            if place is not None:
                return place
            sym = fresh(node.name, v.expr.type)
            self.origin[sym] = self.variable_key(node.name, node)
            self.emit(Decl(sym, v.expr, const=True, loc=self.loc))
            return VarPlace(sym, const=True)
        if isinstance(v, RecordVal) and isinstance(t.elem, RecordType):
            v = self.upcast(v, t.elem)
        return named(as_volatile(self.pin(v), t.volatile), t.const)

    def _record_variable(self, name: str, t: Type, args: list, brace: bool, node: Any, mutated: bool) -> Value:
        assert isinstance(t, RecordType)
        self.frame.objects.add(name)
        if len(args) == 1 and not isinstance(args[0], c_ast.InitList | c_ast.NamedInitializer):
            place = self.eval(args[0])  # a constructor may keep its address
            v = self.load(place, node)
            if isinstance(v, RecordVal) and v.type == t:
                return self.copied(v, name, node)
            if brace and isinstance(node, CtorInit | c_ast.InitList):
                return self.brace_record(t, [self.listed_alone(t, place, v, node)], node, name)
            return self.construct_record(t, [place], node, name)
        listed = len(args) == 1 and isinstance(args[0], c_ast.InitList)
        if listed and not (brace and self.is_aggregate(t)):  # T({ ... }), and braces around a constructor's
            args = args[0].exprs
        if not brace and args:
            return self.construct_record(t, [self.eval(a) for a in args], node, name)
        v = self.brace_record(t, args, node, name, zero=node is not None)
        assert isinstance(v, RecordVal)
        return v

    # ------------------------------------------------------------------ arrays

    # ------------------------------------------------------------------ file scope
    def global_variable(self, entity: Entity, bound: dict[str, Value], node: Any) -> Value:
        """A file-scope constant by value, or shared memory; ``bound``: what its template parameters are."""
        decl: c_ast.Decl = entity.node
        texture = self.texture_reference(decl, node)
        if texture is not None:
            return texture
        storage = [*(decl.storage or []), *(s for s in (decl.funcspec or []) if isinstance(s, str))]
        if "__shared__" in storage:
            return as_volatile(self.shared_at_file_scope(decl, storage), "volatile" in qualifiers(decl.type))
        if not ("constexpr" in storage or "const" in qualifiers(decl.type)):
            self.fail("E-SEMA-CONSTANT", f"'{decl.name}' is a host variable", node,
                      hint="declare it __device__ or __constant__, or const")  # fmt: skip
        if decl.init is None:
            self.fail("E-SEMA-CONSTANT", f"'{decl.name}' has no value that is known here", node)
        with self.scoped(namespace=entity.namespace, root=self.global_scope()) as scope:
            scope.names.update(bound)
            t = self.resolve(decl.type)
            if isinstance(t, CArray):
                return self._constant_table(decl, t)
            parts = init_args(decl.init)
            with self.capture() as extra:
                v = (
                    self.initial_value(t, parts, True, node)
                    if not isinstance(t, Auto)
                    else self.load(self.eval(parts[0]))
                )
            if not isinstance(v, RVal):
                for s in extra:
                    self.emit(s)
                self._note_constants(v, extra)
                return v
            c = self.constant(v.expr) or folded_float(v.expr)
            c = c or (evaluated(extra, v.expr, self.const_of) if extra else None)
            if c is None:
                self.fail("E-SEMA-CONSTANT", f"the value of '{decl.name}' is not known while reading the source", node)
            return RVal(c)


def is_lvalue(node: Any) -> bool:
    """Whether the expression names an object that may change later."""
    while isinstance(node, c_ast.Cast | CxxCast):
        node = node.expr
    return isinstance(node, c_ast.ID | c_ast.ArrayRef | c_ast.StructRef | c_ast.UnaryOp | c_ast.TernaryOp | Value)


__all__ = ["Declarations", "ListVal", "Sym"]
