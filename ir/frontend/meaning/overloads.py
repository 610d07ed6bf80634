"""Overload resolution over the file's functions and the built-ins of the same name."""

from __future__ import annotations

import dataclasses
from typing import Any

from pycparser import c_ast

from ktc.ir.builtins import ANY_ARGUMENTS, Builtin, lookup
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.context import Frame, Scope
from ktc.ir.frontend.library.device_libraries import in_library
from ktc.ir.frontend.lowering.calls.forwarding import categories, forwarded_type, is_forwarding
from ktc.ir.frontend.syntax.cxx_ast import CONST_METHOD, AutoType, NamedType, QualName, Record, TemplateParam
from ktc.ir.frontend.syntax.program import Entity, name_parts, pick
from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.nodes import Const
from ktc.ir.types import F32, F64, I32, I64, U32, U64, Scalar, Type

from .cxx_types import ListType, Pointer, RecordType, Reference, show
from .methods import params_of
from .name_meanings import PackVal, TypeVal
from .overload_bodies import Bodies
from .templates import (
    BINDING,
    CONVERSION,
    EXACT,
    FORBIDDEN,
    USER,
    deduce,
    pointee_name,
    reference_kind,
    unconstrained,
)
from .values import ListVal, RecordVal, RVal, Value  # fmt: skip

OVERLOADED = frozenset({I32, U32, I64, U64, F32, F64})
"""Types for which C's functions have overloads of their own."""


def takes_elements(parameter: Any) -> bool:
    """Whether a parameter takes a braced list element by element: std::initializer_list, or an array by reference."""
    return any(
        isinstance(n, c_ast.ArrayDecl) or (isinstance(n, NamedType) and n.name.parts[-1].name == "initializer_list")
        for n in descendants(parameter.type)
    )


def _is_pack(parameter: Any) -> bool:
    return "pack" in (getattr(parameter, "storage", None) or [])


def _is_zero(v: Value) -> bool:
    """Whether an argument is a literal 0, which is a null pointer too."""
    return isinstance(v, RVal) and isinstance(v.expr, Const) and v.type == I32 and v.expr.value == 0


class Overloads(Bodies):
    """Which of several functions a call means."""

    is_aggregate: Any
    own_functions: Any
    facts_for: Any

    def _any_viable(self, entities: list[Entity], targs: list | None, args: list[Value], node: Any) -> bool:
        """Whether a function of the file accepts ``args``: if none does, a built-in overload of its name may."""
        explicit = self.template_args(targs, node) if targs else []
        return any(self._viable(e, explicit, args, node) is not None for e in entities)

    def file_scope(self) -> Scope:
        scope = self.scope
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def call_entities(self, found: list[Entity], targs: list | None, args: list[Value], node: Any, scope: Scope,
                      record: RecordVal | None = None) -> Value:  # fmt: skip
        """Choose among overloads and inline the winner."""
        explicit = self.template_args(targs, node) if targs else []
        saved, self.scope = self.scope, self.scope
        candidates = [e for e in found if e.spec_args is None and not (explicit and e.params is None)]
        viable = [(e, v) for e in candidates if (v := self._viable(e, explicit, args, node, scope)) is not None]
        self.scope = saved
        least_cost = min((cost for _, (cost, _, _) in viable), default=0)
        rivals = [types for _, (cost, _, types) in viable if cost == least_cost]
        referenced = [all(isinstance(t, Reference) for _, t in at) for at in zip(*rivals)]
        ranked: list[tuple[Any, ...]] = [
            (
                cost,
                self._binding_cost(e, types, referenced, args, node, record),
                e.params is not None,
                (*unconstrained(params_of(e.node), e.params or ()), len(e.params or ()), not e.node.constraints),
                e.node.body is None,
                i,
                e,
                bindings,
            )
            for i, (e, (cost, bindings, types)) in enumerate(viable)
        ]
        name = found[0].name
        own = in_library(getattr(found[0].node.coord, "file", None))  # what defines a built-in does not overload it
        rows = () if targs or own or any(e.namespace for e in found) else lookup(name)
        least = min(ranked, key=lambda r: r[:3], default=None)
        cost, template = (None, False) if least is None else (least[0], least[2])
        if rows and self._builtin_wins(rows, args, cost, template):
            return self.builtin(rows, args, node)
        if not ranked:
            types = ", ".join(show(self.type_of(a)) for a in args)
            why = self._why_refused(found[0], explicit, args, node, scope) if len(found) == 1 else ""
            self.fail("E-SEMA-OVERLOAD", f"no '{name}' accepts ({types})", node,
                      hint=why or f"candidates: {len(found)}; convert the arguments explicitly")  # fmt: skip
        best = min(ranked, key=lambda r: r[:6])
        entity, bindings = best[6], best[7]
        if rows and not template and self._is_entered(entity) and self.best_row(rows, args)[0] is not None:
            return self.builtin(rows, args, node)
        self.tell_apart(entity, [r[6] for r in ranked if r[:4] == best[:4]], node)
        body, inside = self.body_of(entity, found, bindings, node)
        if body is not entity:
            args = [*args, *self._defaults(entity, bindings, len(args), scope)]
        return self.inline(body, inside, args, node, scope, record)

    def _defaults(self, e: Entity, bindings: dict[str, Value], given: int, scope: Scope) -> list[Value]:
        """What the declaration that was chosen gives for the arguments after the ``given`` ones: the body, of a
        specialisation or further down in the file, does not say it again ([dcl.fct.default], [temp.expl.spec])."""
        left = [p for p in params_of(e.node)[given:] if getattr(p, "init", None) is not None]
        with self.scoped(namespace=e.namespace, root=scope) as inner:
            inner.names.update(bindings)
            return [self.eval(p.init) for p in left]

    def _builtin_wins(self, rows: tuple[Builtin, ...], args: list[Value], cost: int | None, template: bool) -> bool:
        """Whether the built-ins of that name, which the file's functions overload, have a better match.

        Without a function that accepts the arguments they have; else only by numbers. Those of one type a built-in
        takes as they are and each function (the best costs ``cost``) would convert, or it is a ``template`` and the
        built-in is none; of others it takes each as any type (``__shfl_sync`` a float beside a lane) and converts less.
        """
        if any(isinstance(a, ListVal) for a in args):
            return False
        if cost is None:
            return self.best_row(rows, args)[0] is not None
        types = {self.type_of(a) for a in args}
        if len(types) > 1 and all(isinstance(t, Scalar) for t in types):
            row, least = self.best_row(rows, args)
            kinds = [] if row is None else [p.type for p in row.params if isinstance(p.type, str)]
            return row is not None and row.kind == "warp" and len({*kinds}) == len(kinds) == 1 and least < cost
        t = types.pop() if len(types) == 1 else None
        exact = isinstance(t, Scalar) and (cost > EXACT or (template and t in OVERLOADED))
        row, least = self.best_row(rows, args) if exact else (None, 0)
        return row is not None and least == EXACT and row.kind not in ANY_ARGUMENTS

    def _is_entered(self, e: Entity) -> bool:
        """Whether the call is in ``e`` itself: its arguments are of a class that is a type of the language here
        (PyTorch's ``Half``), and what it calls with them is the built-in that it adds an overload to."""
        frame: Frame | None = self.frame
        while frame is not None and frame.facts is not self.facts_for(e.node):
            frame = frame.caller
        return frame is not None

    def _viable(
        self, e: Entity, explicit: list[Value] | None, args: list[Value], node: Any, scope: Scope | None = None
    ):
        """(cost, template bindings, arguments with their parameters' types) of calling ``e``, or None."""
        try:
            return self._match(e, explicit, args, node, scope)
        except KtcError as error:
            if error.code.startswith("E-SEMA"):
                return None
            raise

    def _why_refused(self, e: Entity, explicit: list[Value], args: list[Value], node: Any, scope: Scope) -> str:
        """What is wrong in the declaration of ``e`` for a call that it is not viable for; '' if only the arguments."""
        try:
            self._match(e, explicit, args, node, scope)
        except KtcError as error:
            return error.message
        return ""

    def _match(self, e: Entity, explicit: list[Value] | None, args: list[Value], node: Any, scope: Scope | None):
        """Like :meth:`_viable`, with the error of a declaration that these template arguments make ill-formed."""
        params = params_of(e.node)
        packed = bool(params) and "pack" in (getattr(params[-1], "storage", None) or [])
        required = sum(1 for p in params if getattr(p, "init", None) is None) - packed
        if len(args) < required or (len(args) > len(params) and not packed):
            return None
        if e.params is not None and len(explicit or ()) > len(e.params) and not any(p.pack for p in e.params):
            return None
        with self.scoped(namespace=e.namespace, root=scope or self.file_scope()) as inner:
            known: dict[str, Value] = {}
            free: dict[str, TemplateParam] = {}
            bound = categories(args, node)
            if e.params is not None:
                names = {p.name: p for p in e.params}
                if packed:
                    pack_type = [p for p in e.params if p.pack]
                    forwards = is_forwarding(params[-1], names) is not None
                    rest = tuple(
                        forwarded_type(self.type_of(a), c if forwards else "rvalue")
                        for a, c in zip(args[len(params) - 1 :], bound[len(params) - 1 :])
                    )
                    if pack_type:
                        known[pack_type[0].name] = PackVal(rest)
                plain = params[:-1] if packed else params
                given = {p.name for p, _ in zip(e.params, explicit or [])}
                free = {n: q for n, q in names.items() if n not in given}
                for p, a, c in zip(plain, args, bound):
                    if (of_any := is_forwarding(p, free)) is not None and not isinstance(a, ListVal):
                        own = forwarded_type(self.type_of(a), c)
                        if known.setdefault(of_any, own) != own:
                            return None
                    elif isinstance(a, ListVal) and not takes_elements(p):
                        continue  # of braces nothing is deduced ([temp.deduct.call])
                    elif not deduce(p, self.as_base(p, self.type_of(a)), free, known, self.alias_named):
                        return None
                self.bind_params(e.params, list(explicit or []), node, known)
            if not all(self.const_int(c, "a constraint") for c in e.node.constraints):
                return None
            total, types = 0, []
            for p, a in zip(params, args):
                if packed and p is params[-1]:
                    break
                if isinstance(a, ListVal):
                    least = self._list_cost(a, self.parameter_type(p), node)
                    if least is None:
                        return None
                    total += least
                    continue
                t, of = self.type_of(a), self.parameter_type(p)
                types.append((a, of))
                if isinstance(of, Pointer) and isinstance(t, Pointer) and t.const and self._of_any_type(p, free):
                    of = dataclasses.replace(of, const=True)  # ``T*`` with T a const type
                cost = CONVERSION if isinstance(of, Pointer) and _is_zero(a) else self.rank_user(t, of, node)
                if cost is None:
                    return None
                total += cost
            result = e.node.decl.type.type
            late = getattr(result, "type", None)  # auto, or decltype of what may name the parameters
            bindings = dict(inner.names)
            if e.params is not None and not (isinstance(late, AutoType) and (late.expr is None or packed)):
                if isinstance(late, AutoType):
                    inner.names.update({p.name: a for p, a in zip(params, args) if getattr(p, "name", None)})
                self.resolve(result)  # SFINAE on the result type
            return total, bindings, types

    def _list_cost(self, v: ListVal, to: Type, node: Any) -> int | None:
        """What it costs to initialise a parameter from braces; None where it takes fewer values than there are."""
        to = to.elem if isinstance(to, Reference) else to
        if isinstance(to, ListType):
            return EXACT
        if not isinstance(to, Scalar | Pointer):
            return USER if not isinstance(to, RecordType) or self._has_room(to, len(v.items), node) else None
        if len(v.items) > 1 or (v.items and not isinstance(v.items[0], Value)):
            return None
        return self.rank_user(self.type_of(v.items[0]), to, node) if v.items else EXACT

    def _has_room(self, t: RecordType, count: int, node: Any) -> bool:
        """Whether ``count`` values can initialise a ``t``, as far as their number says."""
        if self.is_aggregate(t):
            fields = [f[1] for f in self.fields_of(t, node)]
            return count <= len(fields) or not all(isinstance(f, Scalar | Pointer) for f in fields)
        takes = [params_of(e.node) for e in self.own_functions(t, "ctor")]
        required = [sum(1 for p in params if getattr(p, "init", None) is None) for params in takes]
        return count < 2 or any(
            n <= count <= len(params) or any(takes_elements(p) or _is_pack(p) for p in params)
            for n, params in zip(required, takes)
        )

    def _of_any_type(self, parameter: Any, free: dict[str, TemplateParam]) -> bool:
        """Whether a parameter is a ``T*`` whose T is a template argument, of the function or of its class."""
        name = pointee_name(parameter)
        return name is not None and (name in free or isinstance(self.scope.find(name), TypeVal))

    def _binding_cost(
        self,
        e: Entity,
        types: list[tuple[Value, Type]],
        referenced: list[bool],
        args: list[Value],
        node: Any,
        record: RecordVal | None,
    ) -> int:
        """How well references bind, between overloads whose conversions cost the same: the object's own among them.

        An argument decides only where it is ``referenced`` by all of them: none is better than by value.
        """
        category = {id(a): c for a, c in zip(args, categories(args, node))}
        costs = [
            (BINDING[category[id(a)]][reference_kind(t)], everywhere)
            for (a, t), everywhere in zip(types, [*referenced, *[False] * len(types)])
            if isinstance(t, Reference)
        ]
        cost = sum(c for c, everywhere in costs if everywhere or c == FORBIDDEN)
        if record is not None and e.node.kind == "function" and "static" not in e.node.specs:
            cost += BINDING["const" if record.const else "lvalue"][
                "const" if CONST_METHOD in e.node.specs else "lvalue"
            ]
        return cost

    def alias_named(self, name: QualName) -> Entity | None:
        """The alias template of that name."""
        qualifier, last, _ = name_parts(name)
        found = pick(self.program.types_named(last), qualifier, self.scope.namespace)
        return found[0] if found and found[0].params and not isinstance(found[0].node, Record) else None
