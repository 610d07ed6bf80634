"""Casts, construction and initialisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.builtins import lookup
from ktc.ir.frontend.dialects.dialect import OPENCL
from ktc.ir.frontend.dialects.opencl_lowering import vector_literal
from ktc.ir.frontend.lowering.calls.calls import Calls
from ktc.ir.frontend.lowering.memory.buffers import as_volatile
from ktc.ir.frontend.meaning.cxx_types import (
    COMPONENTS,
    DIM3,
    UINT3,
    CArray,
    FunctionType,
    Pointer,
    RecordType,
    Reference,
    show,
)
from ktc.ir.frontend.meaning.name_meanings import FunctionVal
from ktc.ir.frontend.meaning.values import (  # fmt: skip
    ChoicePtr,
    Dim3Val,
    FlatArray,
    ListVal,
    NullVal,
    PtrToPlace,
    PtrVal,
    RecordVal,
    RVal,
    Value,
    moved,
)
from ktc.ir.frontend.syntax.cxx_ast import Construct, CxxCast, NamedType
from ktc.ir.frontend.syntax.program import name_parts
from ktc.ir.nodes import Const, Expr, VecMake, i32
from ktc.ir.types import BOOL, I64, U32, U64, VOID, Scalar, Type, Vec

from .convert import lane_of


def braced(v: Any) -> list:
    """The items of a braced list, evaluated or not."""
    return list(v.items) if isinstance(v, ListVal) else list(v.exprs)


class Construction(Calls):
    """Casts and initial values."""

    def _c_cast(self, node: c_ast.Cast) -> Value:
        if self.program.dialect is OPENCL and isinstance(node.expr, c_ast.ExprList):
            to = self.resolve(node.to_type)
            if isinstance(to, Vec):
                return vector_literal(self, to, node.expr.exprs, node)
        return self.cast(self.resolve(node.to_type), node.expr, "c", node)

    def _cxx_cast(self, node: CxxCast) -> Value:
        to = self.resolve(node.to_type)
        if node.kind == "const_cast":
            v = self.eval(node.expr)
            if isinstance(to, Pointer) and isinstance(p := self.load(v, node), PtrVal):
                return self.qualified(p, to)
            return as_volatile(v, isinstance(to, Pointer | Reference) and to.volatile)
        if node.kind == "reinterpret_cast":
            v = self.eval(node.expr)
            if isinstance(to, Pointer):
                return self.recast_pointer(v, to, node)
            if isinstance(to, Reference):
                return self.view_reference(v, to.elem, node)
        return self.cast(to, node.expr, "static", node)

    def view_reference(self, v: Value, elem: Type, node: Any) -> Value:
        """``reinterpret_cast<elem&>(v)``."""
        if isinstance(elem, CArray) and isinstance(elem.elem, Scalar | Vec):
            start = self.load(v, node)
            if isinstance(start, PtrVal):
                return FlatArray(self.recast_pointer(start, Pointer(elem.elem), node), elem)  # type: ignore[arg-type]
        p = self.address(v, node)
        if isinstance(p, PtrVal):
            return self.deref(self.recast_pointer(p, Pointer(elem), node), None, node)  # type: ignore[arg-type]
        assert isinstance(p, PtrToPlace)
        return self.view(PtrToPlace(p.place, elem), None, node)

    def cast(self, to: Type, operand: Any, style: str, node: Any) -> Value:
        if to == VOID:
            self.eval(operand)
            return RVal(i32(0))
        v = self.eval(operand)
        if isinstance(to, Reference):
            if to.rvalue and to.elem == self.type_of(v):
                return moved(v)
            return v if to.elem == self.type_of(v) else self.view_reference(v, to.elem, node)
        if isinstance(to, Pointer):
            if isinstance(to.elem, FunctionType) and isinstance(v, FunctionVal):
                return v  # a function is a pointer to itself
            return self.recast_pointer(self.as_pointer(v, node, to), to, node)
        place, v = v, self.load(v, node)
        if isinstance(v, RecordVal) and v.type == to:
            return v
        if isinstance(v, PtrVal | ChoicePtr | NullVal) and isinstance(to, Scalar):
            if to == BOOL:
                return RVal(self.truth_of(v, node))
            if to in (U64, I64):
                return self.convert(self.address_bits(v, node), to)
        if isinstance(to, RecordType):
            return self.construct_record(to, [place], node)
        x = self.rvalue(v, node, to)
        return RVal(x.expr) if x.type == to else self.convert(x, to, style, node)

    def _function_called(self, node: Construct) -> c_ast.FuncCall | None:
        """``f(x)`` as a call, where the parser took ``f`` for a class of another namespace, whose name alone does not
        mean it here, and there is a function of the name."""
        written = node.to_type
        while isinstance(written, c_ast.Typename | c_ast.TypeDecl):
            written = written.type
        if not isinstance(written, NamedType) or node.brace:
            return None
        qualifier, name, args = name_parts(written.name)
        if qualifier or args is not None or written.name.absolute:
            return None
        types = self.program.types_named(name)
        if not types or self.scope.find(name) is not None or any(map(self._is_visible, types)):
            return None
        seen = lookup(name) or any(map(self._is_visible, self.program.functions.get(name, ())))
        named = c_ast.ID(name, coord=node.coord)
        return c_ast.FuncCall(named, c_ast.ExprList(list(node.args)), coord=node.coord) if seen else None

    def _construct(self, node: Construct) -> Value:
        if (called := self._function_called(node)) is not None:
            return self.call(called)
        t = self.resolve(node.to_type)
        made = self.initial_value(t, self.unpacked(node.args), node.brace, node)
        if isinstance(made, RecordVal):
            self.refuse_end(made.type, node)
            return dataclasses.replace(made, temporary=True)
        return made

    def initial_value(self, t: Type, args: list, brace: bool, node: Any) -> Value:
        """A value of type ``t`` from constructor arguments or a braced list."""
        if t == DIM3:
            return self._dim3(args, node)
        if isinstance(t, RecordType):
            if brace or not args:
                return self.brace_record(t, args, node)
            return self.construct_record(t, [self.eval(a) for a in args], node)
        if isinstance(t, Vec):
            n = int(t.n)  # type: ignore[arg-type]
            if len(args) == 1 and isinstance(args[0], c_ast.InitList | ListVal):
                args = braced(args[0])
            if len(args) == 1 and not isinstance(args[0], c_ast.InitList | c_ast.NamedInitializer | ListVal):
                v = self.rval(args[0])
                if v.type == t:
                    return v
                if not (brace and isinstance(v.type, Scalar)) or self.program.dialect is OPENCL:
                    return self.convert(v, t, "c", node)
                args = [v]
            given = dict(zip(self._lanes_of(t, args[:n], node), args))
            zero = self.zero(t.elem).expr
            return RVal(VecMake(t, tuple(self._lane(t, given[i], node) if i in given else zero for i in range(n))))
        if not args:
            return self.zero(t, node)
        if len(args) > 1:
            self.fail("E-SEMA-INIT", f"too many values for a '{show(t)}'", node)
        if isinstance(args[0], c_ast.InitList | ListVal):
            return self.initial_value(t, braced(args[0]), True, node)
        return self.cast(t, args[0], "implicit" if brace else "c", node)

    def _lanes_of(self, t: Vec, items: list, node: Any) -> Iterator[int]:
        """Which component each of ``items`` of a braced list is for: the next, or the one that it names (``.y``)."""
        at = -1
        for item in items:
            at += 1
            if isinstance(item, c_ast.NamedInitializer):
                at = COMPONENTS.find(item.name[0].name)
            if not 0 <= at < int(t.n):  # type: ignore[arg-type]
                self.fail("E-SEMA-INIT", f"a '{show(t)}' has no such component", node)
            yield at

    def _lane(self, t: Vec, item: Any, node: Any) -> Expr:
        value = item.expr if isinstance(item, c_ast.NamedInitializer) else item
        return self.convert(self.rval(value), t.elem, "implicit", node).expr

    def _dim3(self, args: list, node: Any) -> Dim3Val:
        """``dim3(x, y)``, of which a number that is missing is 1; a copy of one, or of a ``uint3``."""
        if len(args) == 1 and isinstance(args[0], c_ast.InitList | ListVal):
            args = braced(args[0])
        given = [self.rval(a) for a in args]
        if len(given) == 1 and given[0].type == UINT3:
            made = isinstance(given[0].expr, VecMake)
            whole = given[0].expr if made else self.reuse(given[0].expr)
            given = [RVal(lane_of(whole, i)) for i in range(3)]
        numbers = [self.convert(v, U32, "implicit", node).expr for v in given]
        x, y, z = (numbers + [Const(1, U32)] * 3)[:3]
        return Dim3Val(x, y, z)

    def zero(self, t: Type, node: Any = None) -> RVal:
        """``T()``."""
        if isinstance(t, Scalar):
            return RVal(Const(False if t == BOOL else (0.0 if t.is_float else 0), t))
        if isinstance(t, Vec):
            return RVal(VecMake(t, (self.zero(t.elem).expr,) * int(t.n)))  # type: ignore[arg-type]
        self.fail("E-SEMA-INIT", f"'{show(t)}' has no zero value", node)

    def _init_list(self, node: c_ast.InitList) -> Value:
        """A braced list as an argument: its items mean what they mean here, whatever they will initialise."""
        return ListVal(
            tuple(e if isinstance(e, c_ast.NamedInitializer) else self.eval(e) for e in self.unpacked(node.exprs))
        )
