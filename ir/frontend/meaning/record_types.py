"""Record types: their members, fields and scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.context import Replaced, Scope
from ktc.ir.frontend.syntax.cxx_ast import Alias, Record, ScopedEnum
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.types import Type

from .cxx_types import RecordType
from .name_meanings import EnumVal, LazyVal, TemplateVal, TypeVal
from .record_instances import RecordInstances
from .values import PtrToPlace, RecordVal, Value


class RecordTypes(RecordInstances):
    """Record types. ``RecordType.decl`` is (entity, template bindings)."""

    static_member: Callable[..., Value | None]
    lineage: Callable[[RecordType], Iterator[RecordType]]
    bases_of: Callable[[RecordType], list[RecordType]]

    def _level(self, t: RecordType, entity: Entity, bound: dict[str, Value]) -> RecordType:
        """The class ``entity``, which is ``t`` or one of its bases."""
        if t.decl[0] is entity:
            return t
        return next((level for level in self.lineage(t) if level.decl == (entity, bound)), t)

    def _scope_around(self, t: RecordType) -> Scope:
        """The scope of the class that ``t`` is a member of, or of the file."""
        root = self.global_scope()
        return root if t.owner is None else self.record_scope(t.owner, *t.owner.decl).value

    @contextmanager
    def base_scope(self, t: RecordType) -> Iterator[None]:
        """Where the names of ``t``'s base classes mean what they do: in the class around it, if there is one."""
        entity, bound = t.decl
        outside = nullcontext() if t.owner is None else self.record_scope(t.owner, *t.owner.decl)
        root = self.global_scope()
        with outside as around:
            at = around if around is not None else root
            with self.scoped(namespace=(*entity.namespace, t.name), root=at) as scope:
                scope.names.update(bound)
                yield

    def _members(self, t: RecordType):
        """(item, scope bindings) of the record and its bases, bases first."""
        entity, bound = t.decl
        with self.base_scope(t):
            for base in entity.node.bases:
                bt = self.resolve(base)
                if isinstance(bt, RecordType):
                    yield from self._members(bt)
        for item in entity.node.items:
            yield item, entity, bound

    def fields_of(self, t: RecordType, node: Any) -> list[tuple[str, Type, Any, Any]]:
        """(name, type, default initialiser, declaration) of the non-static fields; ``@0``... are anonymous ones."""
        if t not in self._fields:
            self._fields[t] = self._find_fields(t)
        return self._fields[t]

    _fields: dict[RecordType, list[tuple[str, Type, Any, Any]]]

    def _find_fields(self, t: RecordType) -> list[tuple[str, Type, Any, Any]]:
        out: list[tuple[str, Type, Any, Any]] = []
        members = list(self._members(t))
        named = {id(_innermost(item.type)) for item, _, _ in members if isinstance(item, c_ast.Decl)}
        for item, entity, bound in members:
            if isinstance(item, c_ast.Decl) and "static" not in (item.storage or []):
                with self.record_scope(t, entity, bound):
                    out.append((item.name or "", self.resolve(item.type), item.init, item))
            elif isinstance(item, Record) and not item.name and item.items is not None and id(item) not in named:
                name = f"@{len(out)}"
                member = c_ast.Decl(name, [], [], [], [], None, None, None)
                around = self._level(t, entity, bound)
                inner = RecordType(
                    f"{t.name}{name}", t.args, (Entity(name, item, entity.namespace), dict(bound)), around
                )
                out.append((name, inner, None, member))
        seen: set[str] = set()
        for name, _, _, member in out:
            if name and name in seen:
                self.fail("E-UNSUPPORTED-MEMBER", f"'{t.name}' has several members '{name}', its own and its bases'",
                          member, hint="rename one")  # fmt: skip
            seen.add(name)
        return out

    def record_scope(
        self,
        t: RecordType,
        entity: Entity,
        bound: dict[str, Value],
        record: RecordVal | None = None,
        of_host: bool = False,
    ) -> Replaced[Scope]:
        """The scope of the class ``entity``, a ``t`` or one of its bases, with the template bindings ``bound``;
        ``of_host``: for host code, for which base classes may be unknown."""
        level = self._level(t, entity, bound)
        inside = self.scoped(namespace=(*entity.namespace, t.name), root=self._scope_around(level), record=record)
        names = inside.value.names
        if entity.node.bases:
            hidden = self.program.members(entity).variables
            inherited = self.inherited_names(level, of_host)
            names.update({name: v for name, v in inherited.items() if name not in hidden})
        names.update(bound)
        names.setdefault(t.name, TypeVal(t))
        names.update(self.member_names(t, entity, bound))
        if level is not t:
            names.update(self._classes_in(level))
        if record is not None:
            names["this"] = PtrToPlace(record, record.type)
        return inside

    def member_names(self, t: RecordType, entity: Entity, bound: dict[str, Value]) -> dict[str, Value]:
        """The types, enumerators and static constants that the class ``entity`` declares, by name."""
        members = self.program.members(entity)
        names: dict[str, Value] = dict(self._classes_in(t)) if t.decl[0] is entity else {}
        for item in members.aliases:
            names[item.name] = LazyVal(partial(self.member_alias, t, entity, bound, item))
        for enum in members.enums:
            if enum.name:
                names[enum.name] = LazyVal(partial(self._enum_of, t, entity, bound, enum))
            for position, e in enumerate((not isinstance(enum, ScopedEnum) and enum.values) or []):
                names[e.name] = LazyVal(partial(self.member_enumerator, t, entity, bound, enum, position))
        for using in members.used_enums:
            with self.base_scope(t):
                names.update(self.enumerators_of(using))
        for item in members.statics:
            names[item.name] = LazyVal(partial(self.static_member, t, item.name, None))
        return names

    def _classes_in(self, t: RecordType) -> dict[str, TemplateVal]:
        """The classes and templates that ``t`` itself declares, by name."""
        entity, bound = t.decl
        return {
            name: TemplateVal(name, tuple(es), bound, t) for name, es in self.program.members(entity).classes.items()
        }

    def template_around(self, t: Type, name: str) -> TemplateVal | None:
        """The template ``name``, of which ``t`` is an instance, as the class that declares it has it."""
        if not isinstance(t, RecordType) or t.name != name or t.owner is None:
            return None
        return self._classes_in(t.owner).get(name)

    def inherited_names(self, t: RecordType, of_host: bool = False) -> dict[str, Value]:
        """:meth:`member_names` of the base classes of ``t``, those of the nearest first; ``of_host``: of those that are
        known."""
        names: dict[str, Value] = {}
        for base in self.known_bases_of(t) if of_host else self.bases_of(t):
            names.update({**self.inherited_names(base, of_host), **self.member_names(base, *base.decl)})
        return names

    def record_size(self, t: RecordType, node: Any) -> int:
        return self.layout(t, node)[0]

    def _member_type(self, owner: Type, name: str, node: Any, args: list | None = None) -> Type | None:
        if not isinstance(owner, RecordType):
            return None
        for level in self.lineage(owner):
            member = self._classes_in(level).get(name)
            if member is not None:
                return self.class_named(member, args, node)
        for item, entity, bound in list(self._members(owner)):
            if isinstance(item, Alias | c_ast.Typedef) and item.name == name:
                with self.record_scope(owner, entity, bound):
                    return self.resolve(item.type)
        enum = self.member_enum(owner, name)
        return None if enum is None else enum.type

    def class_named(self, template: TemplateVal, args: list | None, node: Any) -> Type:
        """The instance of a member or parameter template for ``args``."""
        first = template.entities[0]
        if not isinstance(first.node, Record):
            with self.scoped(namespace=first.namespace, root=self.global_scope()) as scope:
                scope.names.update(template.bound)
                values = self.outer(lambda: self.template_args(args or [], node))
                self.bind_params(first.params or (), values, node)
                return self.resolve(first.node.type)
        return self.instantiate_record(template.entities, args, node, template)

    def member_alias(self, t: RecordType, entity: Entity, bound: dict[str, Value], item: Any) -> Value:
        """A type that the record names."""
        with self.record_scope(t, entity, bound) as scope:
            scope.names.pop(item.name, None)
            return TypeVal(self.resolve(item.type))

    def member_enum(self, t: RecordType, name: str) -> EnumVal | None:
        """The enumeration ``name`` that the class or one of its bases declares."""
        for level, bound, _ in self._levels(t):
            for enum in self.program.members(level).enums:
                if enum.name == name:
                    return self._enum_of(t, level, bound, enum)
        return None

    def _enum_of(self, t: RecordType, entity: Entity, bound: dict[str, Value], enum: c_ast.Enum) -> EnumVal:
        with self.record_scope(t, entity, bound):
            return EnumVal(
                self.enum_type(enum), enum=enum, value=partial(self.member_enumerator, t, entity, bound, enum)
            )

    def member_enumerator(self, t: RecordType, entity: Entity, bound: dict[str, Value], enum: c_ast.Enum, i: int):
        """Enumerator ``i`` of the record's ``enum``."""
        with self.record_scope(t, entity, bound):
            return self.enumerator_value(enum, i)


def _innermost(node: Any) -> Any:
    """What a declarator is made of: ``struct { .. }`` in ``struct { .. } *x[2]``."""
    while not isinstance(node, Record) and getattr(node, "type", None) is not None:
        node = node.type
    return node
