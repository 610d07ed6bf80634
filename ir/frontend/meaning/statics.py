"""Static members of classes: constants, tables, enumerators and variable templates."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import OWNED, SPECIALISED, ScopedEnum, Template
from ktc.ir.frontend.syntax.program import Entity, variable_words
from ktc.ir.frontend.syntax.variable_uses import init_args

from .cxx_types import RecordType
from .evaluation import evaluated
from .record_instances import same_argument
from .record_types import RecordTypes
from .values import RVal, Value


class StaticMembers(RecordTypes):
    """Static members."""

    lineage: Any

    def static_member(self, t: RecordType, name: str, node: Any, args: list | None = None) -> Value | None:
        """A static constant or enumerator of the record; ``args`` are those of a member that is a template."""
        if args:
            return self._member_template(t, name, args, node)
        for item, entity, bound in reversed(list(self._members(t))):  # what a class declares hides its bases' names
            if isinstance(item, c_ast.Decl) and item.name == name and "static" in (item.storage or []):
                init = item.init
                own: dict[str, Value] = {}
                if init is None:
                    init, own = self._outside(entity, bound, name)
                if init is None:
                    return None
                with self.record_scope(t, entity, bound) as scope:
                    scope.names.update(own)
                    scope.names.pop(name, None)
                    if isinstance(item.type, c_ast.ArrayDecl):
                        return self.static_table(t, item, init)
                    with self.capture() as before:
                        v = self.initial_value(self.resolve(item.type), init_args(init), True, node)
                    known = evaluated(before, v.expr, self.const_of) if before and isinstance(v, RVal) else None
                    if known is None:
                        self.out.extend(before)
                    return v if known is None else RVal(known)
            if isinstance(item, c_ast.Enum) and not isinstance(item, ScopedEnum):
                for position, e in enumerate(item.values or []):
                    if e.name == name:
                        return self.member_enumerator(t, entity, bound, item, position)
        return None

    def _outside(self, entity: Entity, bound: dict[str, Value], name: str) -> tuple[Any, dict[str, Value]]:
        """The initialiser that a static member is given outside its class, and that definition's parameters."""
        found = [d for d in self.program.variables.get(f"{entity.name}::{name}", []) if d.node.init is not None]
        ours = [bound[p.name] for p in entity.params or ()]
        for d in found:
            given = variable_words(d.node).get(OWNED)
            if d.params is None and given and entity.params:  # for one instance of the class
                with self.scoped(namespace=d.namespace, root=self.global_scope()):
                    theirs = self.template_args(given, d.node)
                if len(theirs) == len(ours) and all(map(same_argument, theirs, ours)):
                    return d.node.init, {}
        generic = [d for d in found if d.params is not None or not entity.params]
        if not generic:
            return None, {}
        return generic[0].node.init, {p.name: v for p, v in zip(generic[0].params or (), ours)}

    def _member_template(self, t: RecordType, name: str, args: list, node: Any) -> Value | None:
        """A static constant that is a template, for ``args``; None if there is none of that name."""
        given = self.template_args(args, node)
        for level in self.lineage(t):
            entity, bound = level.decl
            found = [
                Entity(name, d, (*entity.namespace, entity.name), tuple(x.params or ()) or None,
                       variable_words(d).get(SPECIALISED))
                for x in entity.node.items if isinstance(x, Template)
                for d in x.decl if isinstance(d, c_ast.Decl) and d.name == name
            ]  # fmt: skip
            if found:
                with self.record_scope(level, entity, bound) as scope:
                    chosen, own = self.variable_instance(found, given, node)
                    scope.names.update(own)
                    return self.initial_value(self.resolve(chosen.node.type), init_args(chosen.node.init), True, node)
        return None
