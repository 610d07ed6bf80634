"""Calls: overload resolution over the file's functions, inlining, then built-ins."""

from __future__ import annotations

import dataclasses
from typing import Any

from pycparser import c_ast

from ..builtins import ANY_ARGUMENTS, Builtin, lookup
from ..diagnostics import KtcError
from ..nodes import Const
from ..types import F32, F64, I32, I64, U32, U64, Scalar, Type
from .bodies import Bodies
from .context import Scope
from .cxx_ast import CONST_METHOD, AutoType, PackExpansion, QualName, TemplateParam
from .cxx_types import Pointer, RecordType, Reference, show
from .dialects import OPENCL
from .forwarding import categories, forwarded_type, is_forwarding
from .methods import params_of
from .opencl import lanewise, opencl_call
from .prelude import prelude_function
from .program import Entity, name_parts, pick
from .ptx import FILE as PTX_FILE
from .ptx_types import NAMESPACE as PTX
from .template_args import spell
from .templates import (
    BINDING,
    CONVERSION,
    EXACT,
    FORBIDDEN,
    deduce,
    pointee_name,
    reference_kind,
    unconstrained,
)
from .values import (
    FunctionVal,
    ListVal,
    PackVal,
    RecordVal,
    RVal,
    TypeVal,
    Value,
    describe,
)  # fmt: skip

OVERLOADED = frozenset({I32, U32, I64, U64, F32, F64})
"""Types for which C's functions have overloads of their own."""


def _is_zero(v: Value) -> bool:
    """Whether an argument is a literal 0, which is a null pointer too."""
    return isinstance(v, RVal) and isinstance(v.expr, Const) and v.type == I32 and v.expr.value == 0


class Calls(Bodies):
    """Function calls; every device function is inlined."""

    def call(self, node: c_ast.FuncCall) -> Value:
        callee = node.name
        raw = node.args.exprs if node.args else []
        if isinstance(callee, c_ast.StructRef):
            return self._method_call(callee, raw, node)
        if not isinstance(callee, c_ast.ID | QualName):
            f = self.eval(callee)
            return self._call_value(f, self.arguments(raw), node)
        qualifier, name, targs = name_parts(callee)
        absolute = isinstance(callee, QualName) and bool(callee.absolute)
        if (
            not qualifier
            and not absolute
            and (local := self.scope.find(name)) is not None
            and isinstance(local, FunctionVal | RecordVal)
        ):
            return self._call_value(local, self.arguments(raw), node)
        if qualifier == (PTX,):
            entity = prelude_function(name, PTX_FILE)
            return self.call_entities([entity], None, self.arguments(raw), node, self.file_scope())
        special = self.special_call(qualifier, name, targs, callee, raw, node)
        if special is not None:
            return special
        if self.program.dialect is OPENCL and name not in self.program.functions:
            found = opencl_call(self, name, raw, node)
            if found is not None:
                return found
        args = self.arguments(raw)  # once: they may have effects
        if qualifier:
            owner = self.try_type(QualName(callee.parts[:-1], False, coord=callee.coord))
            if isinstance(owner, RecordType):
                found = self.static_method(owner, name, args, node, targs)
                if found is not None:
                    return found
                if isinstance(kept := self.static_member(owner, name, callee), FunctionVal | RecordVal):
                    return self._call_value(kept, args, node)
        elif not absolute and self._enclosing_record() is not None:
            found = self.method(self._enclosing_record(), name, args, node, targs)  # type: ignore[arg-type]
            if found is not None:
                return found
        entities = pick(self.program.functions.get(name, []), qualifier, () if absolute else self.scope.namespace)
        entities = [e for e in entities if e.node.kind == "function"]
        rows = lookup("::".join((*qualifier, name))) or (
            lookup(name) if qualifier in (("std",), ("cuda", "std"), ("cuda",)) else ()
        )
        if rows and absolute and not qualifier:  # ``::max`` is the language's own, whatever namespaces have
            entities = [e for e in entities if not e.namespace]
        if entities or rows:
            self._whole(name)
        if entities and not (rows and not self._any_viable(entities, targs, args, node)):
            return self.call_entities(entities, targs, args, node, self.file_scope())
        if rows:
            return (
                lanewise(self, rows, args, node) if self.program.dialect is OPENCL else self.builtin(rows, args, node)
            )
        if name in self.program.variables:  # a constant that is a pointer to a function
            return self._call_value(self.eval(callee), args, node)
        bad = self.program.bad_function(name)
        if bad is not None:
            raise bad
        extra = f"; {', '.join(self.source.missing[:3])} was not found" if self.source.missing else ""
        self.fail("E-SEMA-CALL", f"unknown function '{'::'.join((*qualifier, name))}'{extra}", node,
                  hint="define it in the file, add the folder of its header, or rewrite the call")  # fmt: skip

    def _whole(self, name: str) -> None:
        """Refuse to choose among the functions ``name`` where one did not parse: it may be the one that is meant."""
        unread = self.program.bad_device_function(name)
        if unread is not None:
            raise unread

    def _any_viable(self, entities: list[Entity], targs: list | None, args: list[Value], node: Any) -> bool:
        """Whether a function of the file accepts ``args``: if none does, a built-in overload of its name may."""
        explicit = self.template_args(targs, node) if targs else []
        return any(self._viable(e, explicit, args, node) is not None for e in entities)

    def _enclosing_record(self) -> RecordVal | None:
        scope: Scope | None = self.scope
        while scope is not None:
            if scope.record is not None:
                return scope.record
            scope = scope.parent
        return None

    def file_scope(self) -> Scope:
        scope = self.scope
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def arguments(self, raw: list) -> list[Value]:
        out: list[Value] = []
        self.count_work(1 + len(raw))
        for a in raw:
            if isinstance(a, PackExpansion):
                out.extend(more := self.expand_pack(a, a))
                self.count_work(len(more))
            else:
                at = len(self.out)
                v = self.eval(a)
                out = [self.keep_before(x, at) for x in out]
                out.append(v)
        return out

    def function_value(self, name: str) -> Value | None:
        """A function of the file by name, as a value (template argument or callable parameter)."""
        local = self.scope.find(name)
        if isinstance(local, FunctionVal):
            return local
        found = self.program.functions.get(name) if local is None else None
        if not found:
            return None
        return self._function_of(found, None, name)

    def function_named(self, qualifier: tuple[str, ...], name: str, targs: list | None, node: Any) -> Value | None:
        """The function ``a::f`` or ``f<T>`` as a value; its template arguments are those of here."""
        found = pick(self.program.functions.get(name, []), qualifier, self.scope.namespace)
        found = [e for e in found if e.node.kind == "function"]
        if not found:
            return None
        given = None if targs is None else self.template_args(targs, node)
        full = "::".join((*qualifier, name)) + ("" if given is None else f"<{', '.join(map(spell, given))}>")
        return self._function_of(found, given, full)

    def _function_of(self, found: list[Entity], given: list[Value] | None, name: str) -> FunctionVal:
        def call(args: list[Value], node: Any) -> Value:
            return self.call_entities(found, given, args, node, self.file_scope())

        return FunctionVal(call, name, tuple(found), given)

    def _call_value(self, f: Value, args: list[Value], node: Any) -> Value:
        if isinstance(f, FunctionVal) and f.entities:
            return self.call_entities(list(f.entities), f.given, args, node, self.file_scope())
        if isinstance(f, FunctionVal):
            return f.call(args, node)
        if isinstance(f, RecordVal):
            found = self.method(f, "operator()", args, node)
            if found is not None:
                return found
        self.fail("E-SEMA-CALL", f"{describe(f)} cannot be called", node)

    def _method_call(self, callee: c_ast.StructRef, raw: list, node: Any) -> Value:
        field = callee.field
        name, targs = (
            (field.name, None) if isinstance(field, c_ast.ID) else (field.parts[-1].name, field.parts[-1].args)
        )
        base = self.eval(callee.name)
        if callee.type == "->":
            base = base if isinstance(base, RecordVal | FunctionVal) else self.pointee(base, node)
        base = self.part_named(base, field)
        if isinstance(base, RecordVal):
            args = self.arguments(raw)
            found = self.method(base, name, args, node, targs)
            if found is not None:
                return found
            if name in base.fields:
                return self._call_value(base.fields[name], args, node)
            self.fail("E-SEMA-MEMBER", f"'{base.type}' has no method '{name}'", node)
        if isinstance(base, ListVal) and name == "size":
            return RVal(Const(len(base.items), U64))
        if isinstance(base, FunctionVal) and name == "operator()":
            args = self.arguments(raw)
            return base.call(args, node, targs) if targs else self._call_value(base, args, node)
        self.fail("E-SEMA-CALL", f"{describe(base)} has no method '{name}'", node)

    def operator_call(self, op: str, args: list[Value], node: Any) -> Value | None:
        """A user's ``operator op`` for these operands, or None."""
        name = f"operator{op}"
        if isinstance(args[0], RecordVal) and self._takes(args[0], name, len(args) - 1):
            found = self.method(args[0], name, args[1:], node)
            if found is not None:
                return found
        entities = [e for e in self.program.functions.get(name, []) if len(params_of(e.node)) == len(args)]
        viable = [e for e in entities if self._viable(e, None, args, node) is not None]
        return self.call_entities(viable, None, args, node, self.file_scope()) if viable else None

    def _takes(self, record: RecordVal, name: str, count: int) -> bool:
        """Whether the nearest class with a method ``name`` has one of ``count`` arguments: ``-v`` is not ``v - w``."""
        for level in self.lineage(record.type):  # type: ignore[arg-type]
            found = [len(params_of(e.node)) for e in self._named(level, name)]
            if found:
                return count in found or name == "operator()"
        return True

    # ------------------------------------------------------------------ overloads
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
        rows = () if targs or any(e.namespace for e in found) else lookup(name)
        least = min(ranked, key=lambda r: r[:3], default=None)
        cost, template = (None, False) if least is None else (least[0], least[2])
        if rows and self._builtin_wins(rows, args, cost, template):
            return self.builtin(rows, args, node)
        if not ranked:
            types = ", ".join(show(self.type_of(a)) for a in args)
            self.fail("E-SEMA-OVERLOAD", f"no '{name}' accepts ({types})", node,
                      hint=f"candidates: {len(found)}; convert the arguments explicitly")  # fmt: skip
        best = min(ranked, key=lambda r: r[:6])
        entity, bindings = best[6], best[7]
        self.tell_apart(entity, [r[6] for r in ranked if r[:4] == best[:4]], node)
        entity, bindings = self.body_of(entity, found, bindings, node)
        return self.inline(entity, bindings, args, node, scope, record)

    def _builtin_wins(self, rows: tuple[Builtin, ...], args: list[Value], cost: int | None, template: bool) -> bool:
        """Whether the built-ins of that name, which the file's functions overload, have a better match.

        Without a function that accepts the arguments they have; else only by numbers of one type, where a built-in
        takes them as they are and each function (the best costs ``cost``) would convert, or where it is a ``template``
        and the built-in is none.
        """
        if any(isinstance(a, ListVal) for a in args):
            return False
        if cost is None:
            return self.best_row(rows, args)[0] is not None
        types = {self.type_of(a) for a in args}
        t = types.pop() if len(types) == 1 else None
        exact = isinstance(t, Scalar) and (cost > EXACT or (template and t in OVERLOADED))
        row, least = self.best_row(rows, args) if exact else (None, 0)
        return row is not None and least == EXACT and row.kind not in ANY_ARGUMENTS

    def _viable(
        self, e: Entity, explicit: list[Value] | None, args: list[Value], node: Any, scope: Scope | None = None
    ):
        """(cost, template bindings, arguments with their parameters' types) of calling ``e``, or None."""
        params = params_of(e.node)
        packed = bool(params) and "pack" in (getattr(params[-1], "storage", None) or [])
        required = sum(1 for p in params if getattr(p, "init", None) is None) - packed
        if len(args) < required or (len(args) > len(params) and not packed):
            return None
        with self.scoped(namespace=e.namespace, root=scope or self.file_scope()) as inner:
            try:
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
            except KtcError as error:
                if error.code.startswith("E-SEMA"):
                    return None
                raise

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
        found = pick(self.program.aliases.get(last, []), qualifier, self.scope.namespace)
        return found[0] if found and found[0].params else None

    # ------------------------------------------------------------------ inlining
