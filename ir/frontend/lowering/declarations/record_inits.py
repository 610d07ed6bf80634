"""How objects begin: braces that fill the members of an aggregate, and constructors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.memory.records import Records
from ktc.ir.frontend.meaning.cxx_types import CArray, RecordType, Reference
from ktc.ir.frontend.meaning.values import ListVal, RecordVal, RVal, Value
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.types import Scalar, Type, Vec

from .brace_elision import regrouped


class RecordInits(Records):
    """Initialisation of objects."""

    construct_own: Callable[..., None]
    _any_viable: Callable[..., bool]

    def brace_record(self, t: RecordType, args: list, node: Any, name: str = "", zero: bool = True) -> Value:
        """Aggregate initialisation, or a constructor when the record has one."""
        if args and not self.is_aggregate(t):
            return self._listed(t, [self.eval(a) for a in args], node, name)
        if len(args) == 1 and not isinstance(args[0], c_ast.InitList | c_ast.NamedInitializer | Value):
            place = self.eval(args[0])
            v = self.load(place, node)
            if isinstance(v, RecordVal) and v.type == t:
                return v if v.temporary else self.copied(v, name or t.name.lower(), node)
            args = [self.listed_alone(t, place, v, node)]
        if args and not self.bases_of(t):
            args = regrouped(self, t, args, node)
        fields = [f for f in self.fields_of(t, node) if f[0]]
        if t.decl[0].node.kind == "union" and not any(isinstance(a, c_ast.NamedInitializer) for a in args):
            fields = fields[:1]
        values = self._given_members(fields, args, node)
        if zero:
            self._zero_members(fields, values, node)
        record = self.new_record(t, name or t.name.lower(), node, values)
        return record if args or self.is_aggregate(t) else self.construct_record(t, [], node, name)

    def _listed(self, t: RecordType, given: list[Value], node: Any, name: str) -> Value:
        """``T{given}`` of a class with constructors; those that take the whole list come first ([over.match.list])."""
        listed = self.list_constructors(t)
        if not listed or (len(given) == 1 and isinstance(given[0], RecordVal) and given[0].type == t):
            return self.construct_record(t, given, node, name)
        made = self.new_record(t, name or t.name.lower(), node)
        self.run_constructor(t, made, [ListVal(tuple(given))], node, listed)
        return made if name else replace(made, temporary=True)

    def _given_members(self, fields: list, args: list, node: Any) -> dict[str, Value]:
        """The values of the members for which the list has an item, by their position or their name."""
        by_name = {f[0]: f for f in fields}
        values: dict[str, Value] = {}
        for position, a in zip(fields, args):
            field, ft = position[:2]
            if isinstance(a, c_ast.NamedInitializer):
                field, ft = by_name.get(a.name[0].name, position)[:2]
                a = a.expr
            values[field] = self._given_member(ft, a, node)
        return values

    def _given_member(self, t: Type, item: Any, node: Any) -> Value:
        """``item`` of a braced list as what a member of type ``t`` begins as."""
        if isinstance(item, c_ast.InitList | ListVal):
            items = list(item.items) if isinstance(item, ListVal) else item.exprs
            return ListVal(tuple(items)) if isinstance(t, CArray) else self.initial_value(t, items, True, node)
        if isinstance(item, Value):
            return item
        v = self.eval(item)
        return v if isinstance(t, Reference) else self.load(v, node)

    def _zero_members(self, fields: list, values: dict[str, Value], node: Any) -> None:
        """Members without an item and without an initialiser of their own begin as zeros."""
        for field, ft, default, _ in fields:
            if field in values or default is not None:
                continue
            if isinstance(ft, Scalar | Vec):
                values[field] = self.zero(ft, node)
            elif isinstance(ft, CArray):
                values[field] = ListVal(())
            elif isinstance(ft, RecordType):
                values[field] = self.brace_record(ft, [], node)

    def listed_alone(self, t: RecordType, place: Value, v: Value, node: Any) -> Value:
        """The only item of a braced list, ``place`` with the value ``v``, as what the first member of ``t`` takes."""
        first = next((ft for name, ft, _, _ in self.fields_of(t, node) if name), None)
        return place if isinstance(first, Reference) else v

    def construct_record(self, t: RecordType, args: list[Value], node: Any, name: str = "") -> Value:
        """Run the constructor that fits ``args``."""
        if len(args) == 1 and isinstance(args[0], RecordVal):
            whole = self.upcast(args[0], t)
            if whole.type == t:
                return self.copied(whole, name or t.name.lower(), node)
            made = self.converted(args[0], t, node)
            if isinstance(made, RecordVal):
                return self.copied(made, name, node) if name else made
        if len(args) == 1 and isinstance(args[0], ListVal) and not self._takes_list(t, args, node):
            items = [x if isinstance(x, Value) else self.eval(x) for x in args[0].items]
            return self.construct_record(t, items, node, name)  # ``T({a, b})`` copies a ``T{a, b}``
        if not name:
            self.refuse_end(t, node)
        record = self.new_record(t, name or t.name.lower(), node)
        self.run_constructor(t, record, args, node)
        return record if name else replace(record, temporary=True)

    def _takes_list(self, t: RecordType, args: list[Value], node: Any) -> bool:
        """Whether a constructor of ``t`` takes the braced list that is its one argument."""
        return self.is_aggregate(t) or self._any_viable(self.own_functions(t, "ctor"), None, args, node)

    def run_constructor(
        self, t: RecordType, record: RecordVal, args: list[Value], node: Any, found: list[Entity] | None = None
    ) -> None:
        """The constructor of ``t`` (one of ``found`` where given) that fits ``args``, on an object of ``t`` or of a
        class derived from it."""
        found = found or self.own_functions(t, "ctor")
        if not found:
            given = args[0] if len(args) == 1 else None
            whole = self.upcast(given, t) if isinstance(given, RecordVal) else None
            if whole is not None and whole.type == t:  # a base, copied from an object of its class
                for field, *_ in self.fields_of(t, node):
                    if field in whole.fields:
                        self.assign_field(record, field, self.load(whole.fields[field], node), node)
            elif args:
                self.fail("E-SEMA-INIT", f"'{t.name}' has no constructor", node, hint="initialise it with { ... }")
            else:
                for base in self.bases_of(t):
                    self.run_constructor(base, record, [], node)
                self.construct_own(t, record, {}, node)
            return
        for e in found:
            self.constructed[id(e.node)] = t
        self.call_own(t, found, record, args, node)

    constructed: dict[int, RecordType]
    """The class whose object the constructor being entered makes, by the constructor's syntax."""

    # provided by the other mixins
    def refuse_end(self, t: Any, node: Any) -> None:
        raise NotImplementedError

    def zero(self, t: Type, node: Any = None) -> RVal:
        raise NotImplementedError
