"""Enumerations: which one a name means, its type, and the values of its enumerators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import NamedType, NamePart, QualName, ScopedEnum, UsingEnum
from ktc.ir.frontend.syntax.program import Entity, pick
from ktc.ir.nodes import Const
from ktc.ir.types import I32, I64, U32, U64, Scalar

from .cxx_types import RecordType
from .name_meanings import EnumVal, LazyVal
from .resolve import TypeResolver
from .values import RVal, Value

UNDERLYING: tuple[Scalar, ...] = (I32, U32, I64, U64)
"""What an enumeration without a type of its own is: the first of these that holds all its values ([conv.prom])."""


class Enumerations(TypeResolver):
    """What names of enumerations and enumerators mean. Values are numbers of the enumeration's type."""

    def file_enumerator(self, qualifier: tuple[str, ...], name: str, node: Any) -> RVal | None:
        """The file's enumerator ``qualifier::name``; None if there is none.

        Raises:
            KtcError: ``E-SEMA-AMBIGUOUS`` where the name can mean enumerators of different values.
        """
        everywhere = self.program.enumerators.get(name)
        if not everywhere:
            return None
        parts = node.parts[:-1] if isinstance(node, QualName) else []
        enum = self.enum_named(parts, node) if parts else None
        if enum is not None:
            return self._of(enum, name)
        found = pick(everywhere, qualifier, self.scope.namespace)
        if qualifier and not found and self.try_type(QualName(parts, False, coord=node.coord)) is None:
            return None  # neither a namespace nor a type
        found = found or everywhere  # through a template parameter that stands for an enumeration
        near = [e for e in found if e.namespace and "::".join(e.namespace) in self.program.using]
        return self._only(near or found, name, node)

    def _only(self, found: list[Entity], name: str, node: Any) -> RVal:
        """The value that all of ``found`` have."""
        values = list({e.node: self._file_value(*e.node) for e in found}.values())  # once for each enumeration
        if any(v != values[0] for v in values):
            self.fail("E-SEMA-AMBIGUOUS", f"'{name}' is an enumerator of several enumerations", node,
                      hint="name the enumeration: Kind::value")  # fmt: skip
        return values[0]

    def enum_named(self, parts: list[NamePart], node: Any) -> EnumVal | None:
        """The enumeration that ``parts`` name: the function's own, a class member, the file's, or an alias of one."""
        *owner, last = parts
        local = self.scope.find(last.name) if not owner else None
        if local is not None:
            return local if isinstance(local, EnumVal) else None
        of = self.try_type(QualName(owner, False, coord=node.coord)) if owner else None
        if isinstance(of, RecordType):
            return self.member_enum(of, last.name)
        qualifier = tuple(p.name for p in owner)
        for entity in pick(self.program.aliases.get(last.name, []), qualifier, self.scope.namespace):
            to = entity.node.type
            while isinstance(to, c_ast.Typename | c_ast.TypeDecl):
                to = to.type
            if entity.params is None and isinstance(to, NamedType):
                return self.enum_named(to.name.parts, node)
        for entity in pick(self.program.enums.get(last.name, []), qualifier, self.scope.namespace):
            t = self._in_file(entity.namespace, partial(self.enum_type, entity.node))
            return EnumVal(t, enum=entity.node, value=partial(self._file_value, entity.node, entity.namespace))
        return None

    def enumerators_of(self, using: UsingEnum) -> dict[str, Value]:
        """What ``using enum`` makes names of its scope.

        Raises:
            KtcError: ``E-SEMA-TYPE`` where it names no enumeration.
        """
        enum = self.enum_named(using.name.parts, using.name)
        if enum is None:
            self.fail("E-SEMA-TYPE", f"'{using.name.text}' is no enumeration", using.name,
                      hint="define it, or add the folder of its header")  # fmt: skip
        return {e.name: LazyVal(partial(enum.value, i)) for i, e in enumerate(enum.enum.values or [])}

    def _of(self, enum: EnumVal, name: str) -> RVal | None:
        at = next((i for i, e in enumerate(enum.enum.values or []) if e.name == name), None)
        return None if at is None else enum.value(at)

    def qualified_enumerator(self, node: QualName) -> Value | None:
        """``Kind::name`` where a class or the function declares ``Kind``, or None."""
        enum = self.enum_named(node.parts[:-1], node)
        return None if enum is None else self._of(enum, node.parts[-1].name)

    def _file_value(self, enum: c_ast.Enum, namespace: tuple[str, ...], position: int) -> RVal:
        """An enumerator of the file's: what is around its use means nothing to it."""
        return self._in_file(namespace, lambda: self.enumerator_value(enum, position))

    def _in_file(self, namespace: tuple[str, ...], f: Callable[[], Any]) -> Any:
        root = self.scope
        while root.parent is not None:
            root = root.parent
        with self.scoped(namespace=namespace, root=root):
            return f()

    def enumerator_value(self, enum: c_ast.Enum, position: int) -> RVal:
        """An enumerator, of its enumeration's type."""
        scoped = enum if isinstance(enum, ScopedEnum) else None
        return RVal(Const(self._number(enum, position), self.enum_type(enum)), scoped)

    def _number(self, enum: c_ast.Enum, position: int) -> int:
        """Its own value, or that of the last one before it that has one, counted on."""
        for i in range(position, -1, -1):
            value = enum.values[i].value
            if isinstance(value, c_ast.Constant):
                return self.const_int(value, "an enumerator") + position - i
            if value is not None:
                with self.scoped() as scope:  # those before it are known to it
                    for k, e in enumerate(enum.values[:i]):
                        scope.names[e.name] = LazyVal(partial(self._before, enum, k))
                    return self.const_int(value, "an enumerator") + position - i
        return position

    def _before(self, enum: c_ast.Enum, position: int) -> RVal:
        """An enumerator in the values of later ones, where the type of them all is not known yet."""
        n = self._number(enum, position)
        own = None if enum.underlying_type is None else self.enum_type(enum)
        return RVal(Const(n, own or next(t for t in UNDERLYING if holds(t, n, n))))

    def enum_type(self, enum: c_ast.Enum) -> Scalar:
        """The type of its values in arithmetic: what it declares, or the first that holds them all."""
        if enum.underlying_type is not None:
            t = self.resolve(enum.underlying_type)
            assert isinstance(t, Scalar)
            return t
        if isinstance(enum, ScopedEnum) or all(_small(e.value) for e in enum.values or []):
            return I32
        values = [self._number(enum, i) for i in range(len(enum.values))]
        for t in UNDERLYING:
            if holds(t, min(values), max(values)):
                return t
        self.fail("E-SEMA-CONSTANT", f"no type holds all values of '{enum.name}'", enum)

    def tell_apart(self, chosen: Entity, equal: list[Entity], node: Any) -> None:
        """Refuse to choose among functions that only the enumerations they take tell apart: here those are numbers."""
        if len(equal) > 1 and any(self._enums_taken(e) != self._enums_taken(chosen) for e in equal):
            self.fail("E-UNSUPPORTED-OVERLOAD", f"'{chosen.name}' is overloaded on enumerations", node,
                      hint="give the functions different names")  # fmt: skip

    def _enums_taken(self, e: Entity) -> list[int | None]:
        """For each parameter of a function, the enumeration it is, or None."""
        taken: list[int | None] = []
        parameters = e.node.decl.type.args
        with self.scoped(namespace=e.namespace):
            for p in parameters.params if parameters else ():
                t = getattr(getattr(p, "type", None), "type", None)
                enum = self.enum_named(t.name.parts, t) if isinstance(t, NamedType) else None
                taken.append(None if enum is None else id(enum.enum))
        return taken

    member_enum: Any


def holds(t: Scalar, least: int, most: int) -> bool:
    """Whether the integer type ``t`` has both values."""
    low, high = t.extremes
    return low <= least and most <= high


def _small(value: Any) -> bool:
    """Whether an enumerator is one of the common cases: counted on, or a short decimal literal."""
    return value is None or (isinstance(value, c_ast.Constant) and value.value.isdigit() and len(value.value) < 9)
