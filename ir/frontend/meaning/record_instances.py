"""Which instance of a class template its arguments mean: the template itself or a specialisation that matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.lowering.memory.objects_in_memory import Memory
from ktc.ir.frontend.syntax.cxx_ast import PackExpansion, TemplateParam, own_qualifiers
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.nodes import Const
from ktc.ir.types import Type

from .cxx_types import RecordType
from .name_meanings import TOP_QUALIFIERS, PackVal, TemplateVal, TypeVal
from .templates import deduce, plain_name
from .values import RVal, Value


class RecordInstances(Memory):
    """Instances of class templates and variable templates."""

    def instantiate_record(
        self, entities: Sequence[Entity], args: list | None, node: Any, member: TemplateVal | None = None
    ) -> Type:
        """An instance of a class; ``member`` says of which class it is a member."""
        outer = member.bound if member is not None else {}
        primary = next((e for e in entities if e.spec_args is None), entities[0])
        owner = member.owner if member is not None else self._class_around(primary)
        if primary.params is None and primary.spec_args is None:
            return RecordType(primary.name, (), (primary, outer), owner)
        unread = self.program.bad_record(primary.name)
        if unread is not None:
            raise unread  # a specialisation that did not parse may be the one that is meant
        values = self.template_args(args or [], node)
        bound: dict[str, Value] = {}
        generic = primary.spec_args is None
        declared = self.program.declared.get((primary.namespace, primary.name))
        params = with_defaults(primary.params, declared) if generic else declared
        if params is not None:  # arguments have the types of their parameters, and defaults, before all else
            with self.scoped(namespace=primary.namespace) as scope:
                scope.names.update(outer)
                values = self.bind_params(params, values, node)
                bound = {p.name: self.scope.names[p.name] for p in params}
        key = tuple(map(template_key, values))
        found = self._specialisation_for(entities, values, node, params or ())
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
        self, entities: Sequence[Entity], values: list[Value], node: Any, primary: Sequence[TemplateParam] = ()
    ) -> tuple[Entity, dict[str, Value]] | None:
        """The specialisation that says most of those that match ``values``, with its parameters; ``primary``: those of
        the template."""
        special = [e for e in entities if e.spec_args is not None]
        matched = [(e, own) for e in special if (own := self._match_spec(e, values, node, primary)) is not None]
        return max(matched, key=lambda m: specialised(m[0])) if matched else None

    def _match_spec(
        self, e: Entity, values: list[Value], node: Any, primary: Sequence[TemplateParam]
    ) -> dict[str, Value] | None:
        """Bindings of a (partial) specialisation for ``values``, None if it does not match; what it does not say is the
        default of the template's parameter."""
        params = {p.name: p for p in e.params or ()}
        found: dict[str, Value] = {}
        values = [x for v in values for x in (v.items if isinstance(v, PackVal) else (v,))]
        patterns = list(e.spec_args or [])
        patterns += [p.default for p in primary[len(patterns) :] if p.default is not None and not p.pack]
        if patterns and isinstance(patterns[-1], PackExpansion):
            name = plain_name(patterns.pop().expr)
            if name is None or name not in params or len(values) < len(patterns):
                return None
            found[name] = PackVal(tuple(values[len(patterns) :]))
        elif len(patterns) != len(values):
            return None
        for a, v in zip(patterns, values):
            if isinstance(v, TemplateVal):
                name = plain_name(a) or ""
                if (found.setdefault(name, v) if name in params else self.template_named(a)) != v:
                    return None
            elif isinstance(a, c_ast.ID) and a.name in params:
                if found.setdefault(a.name, v) != v:
                    return None
            elif isinstance(v, TypeVal) and isinstance(a, c_ast.Typename):
                asked = own_qualifiers(a)
                if not all(getattr(v, q) for q in TOP_QUALIFIERS if q in asked):
                    return None
                if (
                    name := plain_name(a) or ""
                ) in params and name not in found:  # it stands for what the pattern does not say
                    found[name] = TypeVal(v.type, *(getattr(v, q) and q not in asked for q in TOP_QUALIFIERS))
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

    def _class_around(self, entity: Entity) -> RecordType | None:
        """The class that ``entity`` is declared in, where that is no template and so needs no more to be known."""
        if not entity.namespace or entity.namespace[-1] not in self.program.records:
            return None
        *namespace, name = entity.namespace
        found = [e for e in self.program.records[name] if e.namespace == tuple(namespace)]
        if len(found) != 1 or found[0].params is not None or found[0].spec_args is not None:
            return None
        return RecordType(name, (), (found[0], {}), self._class_around(found[0]))


def with_defaults(
    params: tuple[TemplateParam, ...] | None, declared: tuple[TemplateParam, ...] | None
) -> tuple[TemplateParam, ...] | None:
    """``params`` of a class template with the defaults that a declaration before has given them ([temp.param])."""
    if params is None or declared is None or len(params) != len(declared):
        return params
    return tuple(
        TemplateParam(p.name, p.kind, p.type, d.default, p.pack, coord=p.coord)
        if p.default is None and d.default is not None
        else p
        for p, d in zip(params, declared)
    )


def specialised(e: Entity) -> tuple[int, int, int, bool]:
    """How much a partial specialisation fixes: of several that match, the one that says most is meant."""
    names = {p.name for p in e.params or ()}
    patterns = e.spec_args or []
    open_ = sum(plain_name(a) in names for a in patterns)
    said = sum(len(descendants(a)) + (len(own_qualifiers(a)) if isinstance(a, c_ast.Typename) else 0) for a in patterns)
    return len(patterns) - open_, -len(names), said, bool(constraints_of(e))


def constraints_of(e: Entity) -> tuple[Any, ...]:
    """What a template asks of its arguments (C++20); of variables nothing is kept."""
    return getattr(e.node, "constraints", ())


def template_key(v: Value) -> object:
    return v


def same_argument(a: Value, b: Value | None) -> bool:
    """Whether two template arguments are the same: constants by value, whatever their types."""
    if isinstance(a, RVal) and isinstance(b, RVal) and isinstance(a.expr, Const) and isinstance(b.expr, Const):
        return a.expr.value == b.expr.value
    return a == b
