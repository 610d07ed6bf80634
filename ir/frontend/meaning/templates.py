"""Template argument deduction and the ranking of overloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import (
    NamedType,
    NamePart,
    PackExpansion,
    QualName,
    RefDecl,
    TemplateParam,
    is_const,
)
from ktc.ir.types import BOOL, I32, VOID, Scalar, Type, Vec

from .cxx_types import DIM3, UINT3, Auto, CArray, FunctionType, Pointer, RecordType, Reference
from .name_meanings import PackVal, TemplateVal, TypeVal
from .values import ChoicePlace, ElemPlace, RecordVal, RVal, Value, VarPlace

EXACT, QUALIFIED, PROMOTION, CONVERSION, USER = 0, 1, 2, 4, 8
"""Costs of converting one argument; the overload with the smallest sum wins."""


def rank(arg: Type, param: Type) -> int | None:
    """Cost of passing an ``arg`` to a ``param``, None if impossible."""
    if isinstance(param, Reference):
        if param.elem == arg or {param.elem, arg} == {DIM3, UINT3}:
            return EXACT
        inner = rank(arg, param.elem)
        return None if inner is None or not (param.const or param.rvalue) else inner
    if isinstance(arg, Reference):
        arg = arg.elem
    if param == DIM3 and isinstance(arg, Scalar):
        return USER
    arg, param = (UINT3 if t == DIM3 else t for t in (arg, param))
    if arg == param:
        return EXACT
    if isinstance(param, Pointer) and isinstance(param.elem, FunctionType) and isinstance(arg, FunctionType):
        return EXACT
    if isinstance(param, Pointer):
        if isinstance(arg, CArray):
            arg = Pointer(arg.elem)
        if isinstance(arg, Pointer):
            if arg.elem == param.elem:
                return EXACT if arg.const == param.const else QUALIFIED if param.const else None
            return CONVERSION if param.elem == VOID else None
        return CONVERSION if str(arg) == "std::nullptr_t" or getattr(arg, "spelling", "") == "std::nullptr_t" else None
    if isinstance(arg, Scalar) and isinstance(param, Scalar):
        if (arg == BOOL or (arg.is_int and arg.bits < 32)) and param == I32:
            return PROMOTION
        if arg.kind == "float" and arg.bits == 32 and param.kind == "float" and param.bits == 64:
            return PROMOTION
        small = arg.is_float and arg.bits < 32
        return CONVERSION + (1 if small and not (param.kind == "float" and param.bits == 32) else 0)
    if isinstance(param, FunctionType) and isinstance(arg, FunctionType):
        return EXACT
    if isinstance(param, RecordType) or isinstance(arg, RecordType):
        if isinstance(param, RecordType):
            return USER if isinstance(arg, Scalar | RecordType | Pointer | CArray | Vec) else None  # by a constructor
        return USER if isinstance(arg, RecordType) and isinstance(param, Scalar) else None
    if isinstance(param, Vec | Auto):
        return EXACT if isinstance(param, Auto) else None
    return None


FORBIDDEN = 3
"""Cost of a binding that the language does not allow."""

BINDING: dict[str, dict[str, int]] = {
    "lvalue": {"lvalue": 0, "const": 1, "rvalue": FORBIDDEN},
    "const": {"lvalue": FORBIDDEN, "const": 0, "rvalue": FORBIDDEN},
    "rvalue": {"lvalue": FORBIDDEN, "const": 1, "rvalue": 0},
}
"""Cost of binding what is named, constant or temporary to each kind of reference."""


def reference_kind(t: Reference) -> str:
    return "rvalue" if t.rvalue else "const" if t.const else "lvalue"


def value_category(v: Value, node: Any = None) -> str:
    """What an argument is: a ``const`` or other ``lvalue``, or an ``rvalue``; ``node`` is its syntax where known."""
    if isinstance(v, RVal):
        return "const" if isinstance(node, c_ast.ID | c_ast.StructRef | c_ast.ArrayRef) else "rvalue"
    if isinstance(v, RecordVal) and (v.temporary or (v.moved and not v.const)):
        return "rvalue"
    if isinstance(v, VarPlace | ElemPlace) and v.moved and not getattr(v, "const", False):
        return "rvalue"
    if isinstance(v, ChoicePlace):
        return "lvalue" if all(value_category(c) == "lvalue" for c in v.choices) else "const"
    of_const = isinstance(v, ElemPlace) and getattr(v.buffer.type, "const", False)
    return "const" if of_const or getattr(v, "const", False) else "lvalue"


FindAlias: TypeAlias = Callable[[QualName], Any] | None
"""The alias template that a name means, or None."""


def deduce(
    node: Any,
    arg: Type,
    params: dict[str, TemplateParam],
    found: dict[str, Value],
    alias: FindAlias = None,
    decays: bool = True,
) -> bool:
    """Match the syntax of a parameter's type against an argument's type, filling ``found``.

    Returns False on a contradiction; a type that mentions no parameter matches anything here (ranking checks it).
    ``decays``: an array is passed as a pointer, as it is unless something points to it.
    """
    if isinstance(node, c_ast.Decl | c_ast.Typename):
        return deduce(node.type, arg, params, found, alias)
    if isinstance(node, c_ast.TypeDecl):
        return deduce(node.type, arg, params, found, alias, decays)
    if isinstance(node, RefDecl):
        return deduce(node.type, arg.elem if isinstance(arg, Reference) else arg, params, found, alias, decays=False)
    if isinstance(node, c_ast.PtrDecl):
        if isinstance(arg, CArray):
            arg = Pointer(arg.elem)
        if not isinstance(arg, Pointer):
            return not _mentions(node, params)
        name = plain_name(c_ast.Typename(None, [], None, node.type))
        if arg.const and not is_const(node.type) and name in params and name not in found:
            found[name] = TypeVal(arg.elem, const=True)
        return deduce(node.type, arg.elem, params, found, alias, decays=False)
    if isinstance(node, c_ast.ArrayDecl):
        if isinstance(arg, Pointer):
            return deduce(node.type, arg.elem, params, found, alias)
        if not isinstance(arg, CArray):
            return not _mentions(node, params)
        if isinstance(node.dim, c_ast.ID) and node.dim.name in params and arg.n is not None:
            from ktc.ir.nodes import i32

            found.setdefault(node.dim.name, RVal(i32(arg.n)))
        return deduce(node.type, arg.elem, params, found, alias)
    if isinstance(node, NamedType):
        last = node.name.parts[-1]
        if len(node.name.parts) == 1 and last.args is None and last.name in params:
            if isinstance(arg, CArray) and decays:
                arg = Pointer(arg.elem)
            old = found.setdefault(last.name, TypeVal(arg))
            return isinstance(old, TypeVal) and (old.type == arg or _same_pointer(old.type, arg))
        if last.args is not None and isinstance(arg, RecordType) and arg.name == last.name:
            return _deduce_args(last.args, arg.args, params, found, alias)
        meaning = alias(node.name) if alias is not None and last.args is not None else None
        if meaning is not None:
            own: dict[str, Value] = {}
            theirs = {p.name: p for p in meaning.params}
            if not deduce(meaning.node.type, arg, theirs, own, alias):
                return False
            given = [(a, own[p.name]) for p, a in zip(meaning.params, last.args) if p.name in own]
            return _deduce_args([a for a, _ in given], [v for _, v in given], params, found, alias)
        if last.args is not None and last.name in params and isinstance(arg, RecordType):
            found.setdefault(last.name, TemplateVal(arg.name, (arg.decl[0],), arg.decl[1], arg.owner))
            return _deduce_args(last.args, arg.args, params, found, alias)
        if alias is not None and last.args is not None and isinstance(arg, Scalar | RecordType):
            # ``C<T>`` takes no other class and no number: what would be converted to it says nothing of T.
            trait = last.name.endswith("_t") or any(p.args is not None for p in node.name.parts[:-1])
            return trait or not any(_within(a, params) for a in last.args)
    return True


def _within(node: Any, params: dict[str, TemplateParam]) -> bool:
    """Whether a template argument names a parameter."""
    if isinstance(node, c_ast.ID):
        return node.name in params
    if isinstance(node, NamePart) and node.name in params:
        return True
    return isinstance(node, c_ast.Node) and any(_within(child, params) for _, child in node.children())


def _deduce_args(
    patterns: list, actual: Sequence[Any], params: dict[str, TemplateParam], found: dict[str, Value], alias: FindAlias
) -> bool:
    """Match template arguments one by one."""
    actual = [x for v in actual for x in (v.items if isinstance(v, PackVal) else (v,))]
    for i, (a, v) in enumerate(zip(patterns, actual)):
        if isinstance(a, PackExpansion):
            name = plain_name(a.expr)
            if name is None or name not in params:
                return False
            return found.setdefault(name, PackVal(tuple(actual[i:]))) == PackVal(tuple(actual[i:]))
        name = plain_name(a)
        if name is not None and name in params:
            if found.setdefault(name, v) != v:
                return False
        elif isinstance(a, c_ast.Typename) and isinstance(v, TypeVal) and not deduce(a, v.type, params, found, alias):
            return False
    return True


def plain_name(a: Any) -> str | None:
    """The name that a template argument is, if it is nothing but one."""
    if isinstance(a, c_ast.Typename) and isinstance(a.type, c_ast.TypeDecl):
        a = a.type.type
    if isinstance(a, NamedType) and len(a.name.parts) == 1 and a.name.parts[0].args is None:
        return a.name.parts[0].name
    return a.name if isinstance(a, c_ast.ID) else None


def pointee_name(parameter: Any) -> str | None:
    """The T of a parameter that is declared ``T*``; None of another one."""
    node = parameter.type
    if not isinstance(node, c_ast.PtrDecl) or isinstance(node, RefDecl):
        return None
    return plain_name(c_ast.Typename(None, [], None, node.type))


def unconstrained(parameters: Sequence[Any], params: Sequence[TemplateParam]) -> tuple[int, int, int]:
    """How little a function template asks of its arguments: the smaller of two is meant ([temp.func.order]).

    The number of parameters that take any type at all; less the pointers, and less the constants pointed to, that
    the others are made of.
    """
    names = {p.name for p in params if p.kind == "type"}
    count = pointers = constants = 0
    for p in parameters:
        node = p.type
        while isinstance(node, RefDecl):
            node = node.type
        count += plain_name(c_ast.Typename(None, [], None, node)) in names
        while isinstance(node, c_ast.PtrDecl):
            pointers, node = pointers + 1, node.type
            constants += is_const(node)
    return count, -pointers, -constants


def _same_pointer(a: Type, b: Type) -> bool:
    return isinstance(a, Pointer) and isinstance(b, Pointer) and a.elem == b.elem


def _mentions(node: Any, params: dict[str, TemplateParam]) -> bool:
    while not isinstance(node, c_ast.TypeDecl):
        node = node.type
    t = node.type
    return isinstance(t, NamedType) and any(p.name in params for p in t.name.parts)
