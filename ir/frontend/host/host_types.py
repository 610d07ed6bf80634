"""The types of host expressions, as far as their syntax says them: what a call lets a template deduce."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.cxx_types import NULLPTR_T, Auto, Pointer, Reference
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.name_meanings import PackVal, TypeVal
from ktc.ir.frontend.meaning.templates import deduce
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.cxx_ast import (
    AutoType,
    Construct,
    CxxCast,
    NamedType,
    PackExpansion,
    QualName,
    TemplateParam,
)
from ktc.ir.frontend.syntax.program import Entity, name_parts, pick
from ktc.ir.types import BOOL, F32, F64, I32, Type


class HostTypes:
    """Types at a place in host code; ``declared`` has the declarations of the names in scope. To be asked in the scope
    of that place."""

    def __init__(self, lowering: KernelLowering, declared: dict[str, Any]) -> None:
        self.lowering, self.declared = lowering, declared

    def named(self, node: Any) -> Any:
        """The type that ``node`` denotes, without a reference; None when it is not known."""
        try:
            t = self.lowering.resolve(node)
        except KtcError:
            return None
        t = t.elem if isinstance(t, Reference) else t
        return None if isinstance(t, Auto) else t

    def of(self, a: Any) -> Any:
        """The type of an expression; None when its syntax does not say it."""
        if isinstance(a, c_ast.Cast | CxxCast | Construct):
            return self.named(a.to_type)
        if isinstance(a, c_ast.ID):
            return self._variable(a.name)
        if isinstance(a, c_ast.UnaryOp) and a.op == "&":
            t = self.of(a.expr)
            return Pointer(t) if t is not None else None
        if isinstance(a, c_ast.FuncCall) and isinstance(a.name, c_ast.StructRef):
            return self._data(a.name.field)
        if isinstance(a, c_ast.FuncCall) and isinstance(a.name, c_ast.ID | QualName):
            return self._returned(a)
        if isinstance(a, c_ast.Constant):
            return LITERALS.get(a.type)
        if isinstance(a, c_ast.BinaryOp) and a.op in "+-":
            sides = [t for x in (a.left, a.right) if isinstance(t := self.of(x), Pointer)]
            return sides[0] if len(sides) == 1 else None
        if isinstance(a, c_ast.BinaryOp) and a.op in TRUTHS:
            return BOOL
        if isinstance(a, c_ast.TernaryOp):
            sides = [t for x in (a.iftrue, a.iffalse) if (t := self.of(x)) != NULLPTR_T]
            return sides[0] if sides and all(t == sides[0] for t in sides) else None
        return None

    def of_all(self, args: Sequence[Any]) -> list[Any]:
        """The types of a call's arguments; of ``args...`` those of the function's parameter pack."""
        out: list[Any] = []
        for a in args:
            name = a.expr.name if isinstance(a, PackExpansion) and isinstance(a.expr, c_ast.ID) else None
            if name is None:
                out.append(self.of(a))
                continue
            node = getattr(getattr(self.declared.get(name), "type", None), "type", None)
            node = getattr(node, "type", node) if not isinstance(node, NamedType) else node
            pack = self.lowering.scope.find(node.name.text) if isinstance(node, NamedType) else None
            out += [v.type for v in pack.items if isinstance(v, TypeVal)] if isinstance(pack, PackVal) else [None]
        return out

    def _variable(self, name: str) -> Any:
        decl = self.declared.get(name)
        if not isinstance(decl, c_ast.Decl):
            return None
        return self.of(decl.init) if is_auto(decl) else self.named(decl.type)

    def _data(self, method: Any) -> Any:
        """``x.data_ptr<T>()``: tensors of every library give pointers to what is asked for."""
        args = name_parts(method)[2] if isinstance(method, c_ast.ID | QualName) else None
        if not args or len(args) != 1:
            return None
        try:
            values = self.lowering.template_args(args, method)
        except KtcError:
            return None
        return Pointer(values[0].type) if len(values) == 1 and isinstance(values[0], TypeVal) else None

    def _returned(self, call: c_ast.FuncCall) -> Any:
        """What a function of the file returns: of several that take so many arguments, what all of them do but for
        constness, which of overloads on ``const T*`` and ``T*`` the arguments seldom say here."""
        qualifier, name, given = name_parts(call.name)
        args = list(call.args.exprs) if call.args is not None else []
        found = pick(self.lowering.program.functions.get(name, []), qualifier, self.lowering.scope.namespace)
        passed = self.of_all(args)
        types = [t for e in found if (t := self._result(e, given, passed)) is not None]
        plain = [dataclasses.replace(t, const=False) if isinstance(t, Pointer) else t for t in types]
        return plain[0] if plain and all(t == plain[0] for t in plain) else None

    def _result(self, e: Entity, given: list | None, types: list[Any]) -> Any:
        """What ``e`` returns for the template arguments ``given`` and arguments of these ``types``; None where it does
        not take them, or where that is not known."""
        own, params = params_of(e.node), e.params or ()
        required = sum(1 for p in own if getattr(p, "init", None) is None)
        if not required <= len(types) <= len(own) or len(given or ()) > len(params):
            return None
        try:
            bound = {p.name: v for p, v in zip(params, self.lowering.template_args(given or [], e.node))}
            deduced(self.lowering, e.node, types, params, bound)
            with self.lowering.scoped(namespace=e.namespace):
                self.lowering.bind_params(params, [], e.node, bound)
                return self.named(e.node.decl.type.type)
        except KtcError:
            return None


def deduced(
    lowering: KernelLowering, function: Any, types: Sequence[Any], params: Sequence[TemplateParam],
    bound: dict[str, Value],
) -> None:  # fmt: skip
    """Add to ``bound`` what arguments of these ``types`` for ``function`` say of those of ``params`` that are open."""
    own = params_of(function)
    rest = [p for p in params if p.pack and p.kind == "type" and p.name not in bound]
    packed = bool(rest and own) and "pack" in (getattr(own[-1], "storage", None) or [])
    for p, t in zip(own[:-1] if packed else own, types):
        free = {q.name: q for q in params if q.name not in bound and not q.pack}
        found: dict[str, Value] = {}
        if t is not None and free and deduce(p, t, free, found, lowering.alias_named):
            bound |= found
    if packed and None not in types[len(own) - 1 :]:
        bound[rest[0].name] = PackVal(tuple(TypeVal(t) for t in types[len(own) - 1 :]))


LITERALS: dict[str, Type] = {"int": I32, "float": F32, "double": F64, "bool": BOOL, "nullptr_t": NULLPTR_T}
"""Types of literals without a suffix that says more, as the parser calls them."""

TRUTHS = frozenset({"==", "!=", "<", ">", "<=", ">=", "&&", "||"})
"""Operators whose result is a bool, of whatever."""


def is_auto(decl: c_ast.Decl) -> bool:
    """Whether a declaration leaves its type to what it begins with."""
    node = decl.type
    while isinstance(node, c_ast.PtrDecl):
        node = node.type
    return isinstance(getattr(node, "type", None), AutoType)
