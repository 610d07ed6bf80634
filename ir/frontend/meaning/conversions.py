"""What a class converts to: conversion operators, and a derived object as one of its base class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import Function, NamedType, QualName, RefDecl, params_of
from ktc.ir.frontend.syntax.program import Entity, functions_of
from ktc.ir.types import VOID, Scalar, Type

from .cxx_types import DIM3, Pointer, RecordType, Reference
from .statics import StaticMembers
from .templates import rank
from .values import PtrToPlace, PtrVal, RecordVal, RVal, Value


class Conversions(StaticMembers):
    """Conversions of objects. ``to`` is the type that is wanted, None where a number or a pointer will do."""

    call_entities: Any
    file_scope: Any
    own_functions: Any
    first_parameters: Any

    def converted(self, v: RecordVal, to: Type | None, node: Any) -> Value | None:
        """The result of the conversion operator of ``v`` that fits ``to`` best, or None."""
        t = v.type
        assert isinstance(t, RecordType)
        best: tuple[int, Any, Any, Any] | None = None
        for owner, bound, items in list(self._levels(t)):
            for f, params in functions_of(items):
                if f.kind != "conversion" or params:
                    continue
                with self.record_scope(t, owner, bound):
                    result = self.resolve(f.decl.type.type)
                cost = _fit(result, to)
                if cost is not None and (best is None or cost < best[0]):
                    best = (cost, f, owner, bound)
            if best is not None:
                break
        if best is None:
            return None
        _, f, owner, bound = best
        entity = self.defined(Entity("operator type", f, (*owner.namespace, owner.name)), owner, bound)
        with self.record_scope(t, owner, bound, v) as scope:
            self._bind_owner([entity], owner, bound, scope)
            return self.call_entities([entity], None, [], node, scope, v)

    def convert_record(self, v: RecordVal, node: Any, to: Type | None = None) -> RVal | None:
        """``v`` as a number or vector by its conversion operator."""
        out = self.converted(v, to, node)
        return None if out is None else self.rvalue(out, node)

    def as_number(self, v: Value, node: Any) -> Value:
        """``v``; an object as the number that it is implicitly, where its class has one such conversion."""
        if not isinstance(v, RecordVal):
            return v
        numbers = self._numbers(v)
        return (self.convert_record(v, node, numbers[0]) or v) if len(numbers) == 1 else v

    def is_number(self, v: RecordVal) -> bool:
        """Whether an object is a number implicitly."""
        return len(self._numbers(v)) == 1

    def _numbers(self, v: RecordVal) -> list[Scalar]:
        assert isinstance(v.type, RecordType)
        return [t for t in self._conversions(v.type, explicit=False) if isinstance(t, Scalar)]

    def as_pointer(self, v: Value, node: Any, to: Pointer | None = None) -> Value:
        """``v``, or the pointer that it converts to."""
        if not isinstance(v, RecordVal):
            return v
        out = self.converted(v, to or Pointer(Scalar("int", 32)), node)
        return v if out is None else self.load(out, node)

    def upcast(self, v: RecordVal, base: RecordType) -> RecordVal:
        """The part of ``v`` that is its base class ``base``: the same members, seen as that class."""
        if v.type == base or not self.derives(v.type, base):
            return v
        return replace(v, type=base, whole=v.whole or v.type, key=None)

    def part_named(self, v: Value, field: Any) -> Value:
        """The part of ``v`` that ``v.Base::member`` names; functions of it are called whatever others override."""
        if not isinstance(field, QualName) or len(field.parts) < 2 or not isinstance(v, RecordVal):
            return v
        t = self.try_type(QualName(field.parts[:-1], False, coord=field.coord))
        if not isinstance(t, RecordType) or not (t == v.type or self.derives(v.type, t)):
            self.fail("E-SEMA-MEMBER", f"'{field.text}' is no member of '{v.type}'", field)
        return replace(self.upcast(v, t), whole=None)

    def base_pointer(self, v: Value, t: Pointer) -> Value:
        """A pointer to an object as a ``t``, where that points to the base class at the object's start."""
        if isinstance(v, PtrToPlace) and isinstance(v.place, RecordVal) and self.derives(v.place.type, t.elem):
            return PtrToPlace(self.upcast(v.place, t.elem), t.elem)  # type: ignore[arg-type]
        if not isinstance(v, PtrVal) or v.elem == t.elem or not self.derives(v.elem, t.elem):
            return v
        first: Type = v.elem
        while isinstance(first, RecordType) and first != t.elem:
            first = next(iter(self.bases_of(first)), VOID)
        return replace(v, elem=t.elem) if first == t.elem else v

    def is_polymorphic(self, t: RecordType) -> bool:
        """Whether ``t`` has virtual functions, and so a hidden pointer in each object."""
        return any(True for _ in self._virtual_functions(t))

    def only_destructor_virtual(self, t: RecordType) -> bool:
        """Whether no function that a kernel calls depends on what class an object in memory really is of."""
        return all(f.kind == "dtor" for f in self._virtual_functions(t))

    def _virtual_functions(self, t: RecordType) -> Iterator[Function]:
        return (f for _, _, items in self._levels(t) for f, _ in functions_of(items) if "virtual" in f.specs)

    def derives(self, t: Type, base: Type) -> bool:
        """Whether ``base`` is a base class of ``t``."""
        if not (isinstance(t, RecordType) and isinstance(base, RecordType)) or t.decl is None:
            return False
        return any(b == base or self.derives(b, base) for b in self.bases_of(t))

    def as_base(self, parameter: Any, t: Type) -> Type:
        """The base class of ``t`` that a parameter ``Base<T>`` or a reference to one deduces ``T`` from, else ``t``."""
        node = parameter.type
        while isinstance(node, c_ast.TypeDecl | RefDecl):
            node = node.type
        given = t.elem if isinstance(t, Reference) else t
        if not isinstance(node, NamedType) or node.name.parts[-1].args is None or not isinstance(given, RecordType):
            return t
        wanted = node.name.parts[-1].name
        return next((b for b in self.lineage(given) if b.name == wanted), t)  # type: ignore[attr-defined]

    def rank_user(self, arg: Type, param: Type, node: Any) -> int | None:
        """``rank``, with the conversions that classes define."""
        wanted = param.elem if isinstance(param, Reference) else param
        given = arg.elem if isinstance(arg, Reference) else arg
        if isinstance(wanted, Pointer) and isinstance(given, Pointer) and self.derives(given.elem, wanted.elem):
            return BASE
        if isinstance(given, RecordType) and wanted != given:
            if isinstance(wanted, RecordType):
                if self.derives(given, wanted):
                    return BASE
            elif isinstance(wanted, Pointer):
                return USER if any(_fit(t, wanted) is not None for t in self._conversions(given)) else None
        cost = rank(arg, param)
        return cost if cost != USER or wanted == DIM3 or self._converts(given, wanted) else None

    def _conversions(self, t: RecordType, explicit: bool = True) -> Iterator[Type]:
        """What the conversion operators of ``t`` give; those that are not ``explicit`` alone, where that is said."""
        for owner, bound, items in list(self._levels(t)):
            for f, params in functions_of(items):
                if f.kind == "conversion" and not params and (explicit or "explicit" not in f.specs):
                    with self.record_scope(t, owner, bound):
                        yield self.resolve(f.decl.type.type)

    def _converts(self, given: Type, wanted: Type) -> bool:
        """Whether one function makes a ``wanted`` of a ``given`` implicitly: a second conversion by a class is none
        ([over.best.ics])."""
        if isinstance(given, RecordType) and given.decl is not None:
            for t in self._conversions(given, explicit=False):
                t = t.elem if isinstance(t, Reference) else t
                standard = isinstance(t, Scalar) and isinstance(wanted, Scalar)
                if standard or t == wanted or self.derives(t, wanted):
                    return True
        if not isinstance(wanted, RecordType) or wanted.decl is None:
            return isinstance(wanted, RecordType)
        takers = [e for e in self.own_functions(wanted, "ctor") if "explicit" not in e.node.specs and _takes_one(e)]
        if any(e.params is not None for e in takers):
            return True
        return any(
            rank(given, t) not in (None, USER) or self.derives(given, t.elem if isinstance(t, Reference) else t)
            for t in self.first_parameters(wanted, [e.node for e in takers])
        )


BASE, USER = 3, 8
"""Costs of a derived-to-base and of a user-defined conversion; see ``templates``."""


def _takes_one(e: Entity) -> bool:
    """Whether a function can be called with one argument."""
    params = params_of(e.node)
    return bool(params) and all(getattr(p, "init", None) is not None for p in params[1:])


def _fit(result: Type, to: Type | None) -> int | None:
    """Cost of using a conversion to ``result`` where ``to`` is wanted."""
    if isinstance(result, Reference):
        result = result.elem
    if to is None:
        return 0
    if isinstance(to, Pointer):
        if not isinstance(result, Pointer):
            return None
        return 0 if result == to else 1 + (result.elem != to.elem) * 2 + result.const
    if isinstance(result, Pointer):
        return None
    if isinstance(to, RecordType) or isinstance(result, RecordType):
        return 0 if result == to else None
    return rank(result, to)


__all__ = ["Conversions", "functions_of"]
