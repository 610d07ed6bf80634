"""Instances of record types: members, layout, specialisations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from pycparser import c_ast

from ..diagnostics import KtcError
from ..nodes import Const
from ..types import Type
from .context import Replaced, Scope
from .cxx_ast import Alias, PackExpansion, Record, ScopedEnum, is_const
from .cxx_types import RecordType
from .memory import Memory
from .program import Entity, Members
from .syntax_walk import descendants
from .templates import deduce, plain_name
from .values import EnumVal, LazyVal, PackVal, PtrToPlace, RecordVal, RVal, TemplateVal, TypeVal, Value


class RecordTypes(Memory):
    """Record types. ``RecordType.decl`` is (entity, template bindings)."""

    static_member: Callable[..., Value | None]

    def instantiate_record(
        self, entities: Sequence[Entity], args: list | None, node: Any, member: TemplateVal | None = None
    ) -> Type:
        """An instance of a class; ``member`` says of which class it is a member."""
        outer = member.bound if member is not None else {}
        owner = member.owner if member is not None else None
        primary = next((e for e in entities if e.spec_args is None), entities[0])
        if primary.params is None and primary.spec_args is None:
            return RecordType(primary.name, (), (primary, outer), owner)
        unread = self.program.bad_record(primary.name)
        if unread is not None:
            raise unread  # a specialisation that did not parse may be the one that is meant
        values = self.template_args(args or [], node)
        bound: dict[str, Value] = {}
        generic = primary.spec_args is None
        params = primary.params if generic else self.program.declared.get((primary.namespace, primary.name))
        if params is not None:  # arguments have the types of their parameters, and defaults, before all else
            with self.scoped(namespace=primary.namespace) as scope:
                scope.names.update(outer)
                values = self.bind_params(params, values, node)
                bound = {p.name: self.scope.names[p.name] for p in params}
        key = tuple(map(template_key, values))
        found = self._specialisation_for(entities, values, node)
        if found is not None:
            e, own = found
            return RecordType(e.name, key, (e, {**outer, **own}), owner)
        if not generic or primary.params is None:
            self.fail("E-SEMA-TEMPLATE", f"no definition of '{primary.name}' for these template arguments", node)
        return RecordType(primary.name, key, (primary, {**outer, **bound}), owner)

    def variable_instance(
        self, entities: Sequence[Entity], args: list | None, node: Any
    ) -> tuple[Entity, dict[str, Value]]:
        """The definition of a variable, or of a variable template for ``args``, and its template parameters."""
        primary = next((e for e in entities if e.spec_args is None), entities[0])
        if primary.params is None:
            return primary, {}
        values = self.template_args(args or [], node)
        with self.scoped(namespace=primary.namespace, root=self.global_scope()) as scope:
            values = self.bind_params(primary.params, values, node)
            bound = {p.name: scope.names[p.name] for p in primary.params}
        special = self._specialisation_for(entities, values, node)
        return special or (primary, bound)

    def _specialisation_for(
        self, entities: Sequence[Entity], values: list[Value], node: Any
    ) -> tuple[Entity, dict[str, Value]] | None:
        """The specialisation that says most of those that match ``values``, with its parameters."""
        special = [e for e in entities if e.spec_args is not None]
        matched = [(e, own) for e in special if (own := self._match_spec(e, values, node)) is not None]
        return max(matched, key=lambda m: specialised(m[0])) if matched else None

    def _match_spec(self, e: Entity, values: list[Value], node: Any) -> dict[str, Value] | None:
        """Bindings of a (partial) specialisation for ``values``, None if it does not match."""
        params = {p.name: p for p in e.params or ()}
        found: dict[str, Value] = {}
        values = [x for v in values for x in (v.items if isinstance(v, PackVal) else (v,))]
        patterns = list(e.spec_args or [])
        if patterns and isinstance(patterns[-1], PackExpansion):
            name = plain_name(patterns.pop().expr)
            if name is None or name not in params or len(values) < len(patterns):
                return None
            found[name] = PackVal(tuple(values[len(patterns) :]))
        elif len(patterns) != len(values):
            return None
        for a, v in zip(patterns, values):
            if isinstance(a, c_ast.ID) and a.name in params:
                if found.setdefault(a.name, v) != v:
                    return None
            elif isinstance(v, TypeVal) and isinstance(a, c_ast.Typename):
                if isinstance(a.type, c_ast.TypeDecl) and is_const(a.type) and not v.const:
                    return None
                if not deduce(a, v.type, params, found):
                    return None
                with self.scoped(namespace=e.namespace) as scope:
                    scope.names.update(found)
                    try:
                        if self.resolve(a) != v.type:
                            return None
                    except KtcError as error:
                        if error.code.startswith("E-SEMA"):
                            return None  # what has no meaning for these arguments does not match
                        raise
            elif isinstance(v, TypeVal):
                if self.try_type(a) != v.type:
                    return None
            elif not same_argument(self.const_value(a, "a template argument"), v):
                return None  # by value: what the pattern writes as an int may be an unsigned parameter
        return found if self._constraints_hold(e, found) else None

    def _constraints_hold(self, e: Entity, bound: dict[str, Value]) -> bool:
        """Whether what a class asks of its template arguments is so (C++20)."""
        with self.scoped(namespace=e.namespace) as scope:
            scope.names.update(bound)
            return all(
                self.const_int(c, "a constraint") for c in getattr(e.node, "constraints", ())
            )  # variables have none

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
                inner = RecordType(f"{t.name}{name}", t.args, (Entity(name, item, entity.namespace), dict(bound)))
                out.append((name, inner, None, member))
        seen: set[str] = set()
        for name, _, _, member in out:
            if name and name in seen:
                self.fail("E-UNSUPPORTED-MEMBER", f"'{t.name}' has several members '{name}', its own and its bases'",
                          member, hint="rename one")  # fmt: skip
            seen.add(name)
        return out

    def record_scope(
        self, t: RecordType, entity: Entity, bound: dict[str, Value], record: RecordVal | None = None
    ) -> Replaced[Scope]:
        """The scope of the class ``entity``, a ``t`` or one of its bases, with the template bindings ``bound``."""
        inside = self.scoped(namespace=(*entity.namespace, t.name), root=self.global_scope(), record=record)
        names = inside.value.names
        if entity.node.bases:
            hidden = self.program.members(entity).variables
            inherited = self.inherited_names(entity, bound)
            names.update({name: v for name, v in inherited.items() if name not in hidden})
        names.update(bound)
        names.setdefault(t.name, TypeVal(t))
        names.update(self.member_names(t, entity, bound))
        if record is not None:
            names["this"] = PtrToPlace(record, record.type)
        return inside

    def member_names(self, t: RecordType, entity: Entity, bound: dict[str, Value]) -> dict[str, Value]:
        """The types, enumerators and static constants that the class ``entity`` declares, by name."""
        members = self.program.members(entity)
        names: dict[str, Value] = dict(instances_of(members, t, bound))
        for item in members.aliases:
            names[item.name] = LazyVal(partial(self.member_alias, t, entity, bound, item))
        for enum in members.enums:
            if enum.name:
                names[enum.name] = LazyVal(partial(self._enum_of, t, entity, bound, enum))
            for position, e in enumerate((not isinstance(enum, ScopedEnum) and enum.values) or []):
                names[e.name] = LazyVal(partial(self.member_enumerator, t, entity, bound, enum, position))
        for item in members.statics:
            names[item.name] = LazyVal(partial(self.static_member, t, item.name, None))
        return names

    def inherited_names(self, entity: Entity, bound: dict[str, Value]) -> dict[str, Value]:
        """:meth:`member_names` of the base classes of ``entity``, those of the nearest first."""
        names: dict[str, Value] = {}
        for base in entity.node.bases:
            with self.scoped(namespace=(*entity.namespace, entity.name), root=self.global_scope()) as scope:
                scope.names.update(bound)
                t = self.resolve(base)
            if isinstance(t, RecordType):
                names.update({**self.inherited_names(*t.decl), **self.member_names(t, *t.decl)})
        return names

    def record_size(self, t: RecordType, node: Any) -> int:
        return self.layout(t, node)[0]

    def _member_type(self, owner: Type, name: str, node: Any, args: list | None = None) -> Type | None:
        if not isinstance(owner, RecordType):
            return None
        for level, bound, _ in self._levels(owner):
            member = instances_of(self.program.members(level), owner, bound).get(name)
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


def specialised(e: Entity) -> tuple[int, int, int, bool]:
    """How much a partial specialisation fixes: of several that match, the one that says most is meant."""
    names = {p.name for p in e.params or ()}
    patterns = e.spec_args or []
    open_ = sum(plain_name(a) in names for a in patterns)
    return len(patterns) - open_, -len(names), sum(len(descendants(a)) for a in patterns), bool(constraints_of(e))


def constraints_of(e: Entity) -> tuple[Any, ...]:
    """What a template asks of its arguments (C++20); of variables nothing is kept."""
    return getattr(e.node, "constraints", ())


def instances_of(members: Members, t: RecordType, bound: dict[str, Value]) -> dict[str, TemplateVal]:
    """The classes and templates that are members of a class with the bindings ``bound``, by name."""
    return {name: TemplateVal(name, tuple(es), bound, t) for name, es in members.classes.items()}


def template_key(v: Value) -> object:
    return v


def same_argument(a: Value, b: Value | None) -> bool:
    """Whether two template arguments are the same: constants by value, whatever their types."""
    if isinstance(a, RVal) and isinstance(b, RVal) and isinstance(a.expr, Const) and isinstance(b.expr, Const):
        return a.expr.value == b.expr.value
    return a == b


def _innermost(node: Any) -> Any:
    """What a declarator is made of: ``struct { .. }`` in ``struct { .. } *x[2]``."""
    while not isinstance(node, Record) and getattr(node, "type", None) is not None:
        node = node.type
    return node
