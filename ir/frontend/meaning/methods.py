"""Member functions: looked up through base classes, found where they are defined, called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.syntax.cxx_ast import (
    CONST_METHOD,
    Function,
    NamedType,
    QualName,
    RefDecl,
    TemplateParam,
    Using,
    params_of,
)
from ktc.ir.frontend.syntax.program import Entity

from .conversions import Conversions, functions_of
from .cxx_types import RecordType, Reference, Type
from .record_instances import same_argument
from .resolve import names_in
from .templates import plain_name
from .values import (
    RecordVal,
    Value,
)


class Methods(Conversions):
    """Classes and what is called on their objects."""

    def bases_of(self, t: RecordType) -> list[RecordType]:
        """The direct base classes."""
        with self.base_scope(t):
            found = [self.resolve(base) for base in t.decl[0].node.bases]
        return [b for b in found if isinstance(b, RecordType)]

    def known_bases_of(self, t: RecordType) -> list[RecordType]:
        """The direct base classes but for those that are not declared: of host code, which is read as far as it goes,
        and whose objects are in no kernel."""
        found: list[RecordType] = []
        with self.base_scope(t):
            for base in t.decl[0].node.bases:
                try:
                    b = self.resolve(base)
                except KtcError:
                    continue
                found += [b] if isinstance(b, RecordType) else []
        return found

    def defined(self, e: Entity, owner: Entity, bound: dict[str, Value]) -> Entity:
        """A member function declared in its class, with the body that it is given outside; ``bound`` are the class's
        template arguments, for which there may be a body of its own, whatever the class gives the others."""
        if e.node.body is not None and not bound:
            return e
        count = len(params_of(e.node))
        found = [
            d for d in self.program.functions.get(e.node.name, [])
            if d.node.body is not None and d.node.owner.split("::")[-1] == owner.name
            and len(params_of(d.node)) == count and d.node.kind == e.node.kind
            and (CONST_METHOD in d.node.specs) == (CONST_METHOD in e.node.specs)
        ]  # fmt: skip
        special = [d for d in found if _of_one_class(d)]
        found = [d for d in found if d not in special and _is_of_pattern(d, owner)]
        mine = self._arguments_of(owner, bound) if special else []
        for d in special:
            with self.scoped(namespace=d.namespace, root=self.global_scope()):
                given = self.template_args(d.node.owner_args or [], d.node)
            if (
                len(given) == len(mine)
                and all(map(same_argument, given, mine))
                and self._is_body_of(d, e, owner, bound)
            ):
                _keep_defaults(e, d)
                return Entity(e.name, d.node, e.namespace, d.params)
        if e.node.body is not None:
            return e
        if len(found) > 1:
            ours = (*(owner.params or ()), *(e.params or ()))
            found = [
                d for d in found
                if len(d.params or ()) == len(ours) and signature(d.node, _renamed(d, ours)) == signature(e.node, {})
            ]  # fmt: skip
        if len(found) > 1:
            what = f"'{owner.name}::{e.node.name}' has several definitions outside its class"
            self.fail("E-UNSUPPORTED-MEMBER", what, e.node, hint="define it inside the class")
        if not found:
            return e
        own = len(owner.params or ())
        _keep_defaults(e, found[0])
        return Entity(e.name, found[0].node, e.namespace, (found[0].params or ())[own:] or None)

    def _is_body_of(self, d: Entity, e: Entity, owner: Entity, bound: dict[str, Value]) -> bool:
        """Whether ``d``, a definition for this instance of the class, is that of ``e`` among functions of its name."""
        count = len(params_of(e.node))
        alike = [
            f for f, _ in functions_of(owner.node.items)
            if (f.name, f.kind) == (e.node.name, e.node.kind) and len(params_of(f)) == count
        ]  # fmt: skip
        if len(alike) < 2:
            return True
        with self.scoped(namespace=d.namespace, root=self.global_scope()):
            theirs = [self.parameter_type(p) for p in params_of(d.node)]
        with self.scoped(namespace=e.namespace, root=self.global_scope()) as scope:
            scope.names.update(bound)
            return theirs == [self.parameter_type(p) for p in params_of(e.node)]

    def _arguments_of(self, owner: Entity, bound: dict[str, Value]) -> list[Value]:
        """The template arguments of the instance of a class, or of its specialisation, that ``bound`` makes."""
        if owner.spec_args is None:
            return [bound[p.name] for p in owner.params or ()]
        with self.scoped(namespace=owner.namespace, root=self.global_scope()) as scope:
            scope.names.update(bound)
            return self.template_args(owner.spec_args, owner.node)

    def _bind_owner(self, found: list[Entity], owner: Entity, bound: dict[str, Value], scope: Any) -> None:
        """A definition outside the class has names of its own for the class's template parameters."""
        for e in found:
            for d in self.program.functions.get(e.node.name, []):
                if d.node is e.node and not _of_one_class(d):
                    for theirs, ours in zip(d.params or (), owner.params or ()):
                        scope.names[theirs.name] = bound[ours.name]

    def method(
        self, record: RecordVal, name: str, args: list[Value], node: Any, targs: list | None = None
    ) -> Value | None:
        """Call a method; None if there is none of that name."""
        targs = self.template_args(targs, node) if targs else targs  # they mean what they do here, not in the class
        t = record.type
        assert isinstance(t, RecordType)
        if record.whole is not None and self._is_virtual(t, name):
            record, t = replace(record, type=record.whole, whole=None, key=None), record.whole  # type: ignore[assignment]
        for level in self.lineage(t):
            owner, bound = level.decl
            found = self._named(level, name)
            brought = list(self._brought_in(level, name))
            if found or brought:
                part = self.upcast(record, level)
                with self.record_scope(level, owner, bound, part) as scope:
                    self._bind_owner(found, owner, bound, scope)
                    for base in brought:
                        found += self._named(base, name)
                        scope.names.update({k: v for k, v in base.decl[1].items() if k not in scope.names})
                    return self.call_entities(found, targs, args, node, scope, part)
        return None

    def own_functions(self, t: RecordType, kind: str, name: str | None = None) -> list[Entity]:
        """The functions of a kind (function, ctor, dtor) that the class itself declares, with their bodies."""
        owner, bound = t.decl
        return [
            self.defined(Entity(name or kind, f, (*owner.namespace, t.name), p), owner, bound)
            for f, p in functions_of(owner.node.items)
            if f.kind == kind and name in (None, f.name)
        ]

    def _named(self, t: RecordType, name: str) -> list[Entity]:
        return self.own_functions(t, "function", name)

    def call_own(self, t: RecordType, found: list[Entity], record: RecordVal, args: list[Value], node: Any) -> Value:
        """Call the one of the class's own functions ``found`` that fits ``args``, on ``record``."""
        owner, bound = t.decl
        with self.record_scope(t, owner, bound, record) as scope:
            self._bind_owner(found, owner, bound, scope)
            return self.call_entities(found, None, args, node, scope, record)

    def first_parameters(self, t: RecordType, found: list[Function]) -> list[Type]:
        """The types of the first parameters of functions that the class declares."""
        if not found:
            return []
        with self.record_scope(t, *t.decl):
            return [self.parameter_type(params_of(f)[0]) for f in found]

    def _brought_in(self, t: RecordType, name: str) -> Iterator[RecordType]:
        """The base classes whose functions of that name ``using Base::name`` puts beside the class's own."""
        for item in t.decl[0].node.items:
            if isinstance(item, Using) and isinstance(item.name, QualName) and item.name.parts[-1].name == name:
                wanted = item.name.parts[-2].name if len(item.name.parts) > 1 else ""
                yield from (base for base in self.lineage(t) if base != t and base.name == wanted)

    def assigns_copies(self, t: RecordType) -> bool:
        """Whether the class itself declares the assignment from another object of it."""
        found = [
            f for f, params in functions_of(t.decl[0].node.items)
            if (f.name, f.kind) == ("operator=", "function") and not params and params_of(f)
        ]  # fmt: skip
        return any((x.elem if isinstance(x, Reference) else x) == t for x in self.first_parameters(t, found))

    def _is_virtual(self, t: RecordType, name: str) -> bool:
        return any(
            f.name == name and "virtual" in f.specs for _, _, items in self._levels(t) for f, _ in functions_of(items)
        )

    def lineage(self, t: RecordType) -> Iterator[RecordType]:
        """The class and its base classes, the nearest first."""
        yield t
        for base in self.bases_of(t):
            yield from self.lineage(base)

    def _levels(self, t: RecordType):
        """(entity, bindings, items) of the record, then of its bases."""
        for level in self.lineage(t):
            entity, bound = level.decl
            yield entity, bound, entity.node.items

    def static_method(self, t: RecordType, name: str, args: list[Value], node: Any, targs: list | None) -> Value | None:
        """``T::name(...)``: of the object at hand where ``T`` is its class or a base, whatever others override."""
        here = self._enclosing_record()
        if here is not None and (here.type == t or self.derives(here.type, t)):
            return self.method(replace(self.upcast(here, t), whole=None), name, args, node, targs)
        return self.method(RecordVal(t), name, args, node, targs)

    def call_entities(self, found, targs, args, node, scope, record=None) -> Value:
        raise NotImplementedError


def _keep_defaults(declared: Entity, defined: Entity) -> None:
    """Arguments that a member function's declaration gives by default are its definition's too ([dcl.fct.default]);
    not where they name template parameters that are called otherwise there."""
    ours = {p.name for p in declared.params or ()} - {p.name for p in defined.params or ()}
    for p, q in zip(params_of(declared.node), params_of(defined.node)):
        given = getattr(p, "init", None)
        if given is not None and getattr(q, "init", None) is None and not ours & names_in(given):
            q.init = given


def _of_one_class(d: Entity) -> bool:
    """Whether a definition outside its class is for one instance of it: ``template <> int A<int>::f()``."""
    names = {p.name for p in d.params or ()}
    return bool(d.node.owner_args) and not any(plain_name(a) in names for a in d.node.owner_args)


def _is_of_pattern(d: Entity, owner: Entity) -> bool:
    """Whether a definition outside its class is written for ``owner``: the class template or one partial specialisation
    of it, ``vec<2, T>::f``, among others of that name."""
    if not d.node.owner_args or owner.params is None:
        return True
    written = [_argument(a, _renamed(d, owner.params)) for a in d.node.owner_args]
    if owner.spec_args is None:
        return written == [(p.name,) for p in owner.params]
    return written == [_argument(a, {}) for a in owner.spec_args]


def _renamed(d: Entity, ours: Sequence[TemplateParam]) -> dict[str, str]:
    """The names that ``ours`` have for the template parameters of ``d``."""
    return {theirs.name: p.name for theirs, p in zip(d.params or (), ours)}


def _argument(a: Any, names: dict[str, str]) -> tuple:
    """A template argument as it is written: a name is one, whether it was read as a type or as a value."""
    name = plain_name(a)
    return _written(a, names) if name is None else (names.get(name, name),)


def signature(fn: Function, names: dict[str, str]) -> tuple:
    """The types of a function's parameters as they are written, with template parameters renamed by ``names``; of a
    conversion, what it converts to."""
    of = (_written(fn.decl.type.type, names, top=True),) if fn.kind == "conversion" else ()
    return (*of, *(_written(p.type, names, top=True) for p in params_of(fn)))


def _written(node: Any, names: dict[str, str], top: bool = False) -> tuple:
    if isinstance(node, c_ast.TypeDecl):
        return (() if top else tuple(sorted(node.quals or []))), _written(node.type, names)
    if isinstance(node, c_ast.Typename | c_ast.Decl):
        return _written(node.type, names)
    if isinstance(node, c_ast.PtrDecl | c_ast.ArrayDecl):
        kind = "array" if isinstance(node, c_ast.ArrayDecl) and not top else "pointer"
        if isinstance(node, RefDecl):
            kind = "rvalue reference" if node.rvalue else "reference"
        return kind, _written(node.type, names)
    if isinstance(node, c_ast.IdentifierType):
        return tuple(sorted(node.names))
    if isinstance(node, NamedType):
        last = node.name.parts[-1]
        args = tuple(_written(a, names) for a in last.args or ())
        return (names.get(last.name, last.name), *args)
    if isinstance(node, c_ast.ID):
        return (names.get(node.name, node.name),)
    return (str(getattr(node, "value", type(node).__name__)),)
