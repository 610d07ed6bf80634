"""Calls: overload resolution over the file's functions, inlining, then built-ins."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ..builtins import lookup
from ..diagnostics import KtcError
from ..nodes import Const, Decl, Expr, Stmt, Sym, Var, fresh
from ..types import I64, VOID, Scalar, Type, Vec
from ..walk import all_exprs, assigned, substitute, substitute_expr, walk_expr
from .context import Frame, Scope
from .cxx_ast import Function, Lambda, PackExpansion, QualName
from .cxx_types import Auto, CArray, Pointer, RecordType, Reference, show
from .facts import Facts, facts_of
from .intrinsics import Intrinsics
from .limits import MAX_INLINE_DEPTH
from .places import cost, describe
from .program import Entity, name_parts, pick
from .templates import deduce, rank
from .values import (
    ArrayVal,
    FunctionVal,
    ListVal,
    NullVal,
    PackVal,
    PtrVal,
    PtrVar,
    RecordVal,
    RVal,
    TypeVal,
    Value,
    VarPlace,
)  # fmt: skip


class Calls(Intrinsics):
    """Function calls; every device function is inlined."""

    _facts: dict[int, Facts]

    def call(self, node: c_ast.FuncCall) -> Value:
        callee = node.name
        raw = node.args.exprs if node.args else []
        if isinstance(callee, c_ast.StructRef):
            return self._method_call(callee, raw, node)
        if not isinstance(callee, c_ast.ID | QualName):
            f = self.eval(callee)
            return self._call_value(f, self.arguments(raw), node)
        qualifier, name, targs = name_parts(callee)
        if (
            not qualifier
            and (local := self.scope.find(name)) is not None
            and isinstance(local, FunctionVal | RecordVal)
        ):
            return self._call_value(local, self.arguments(raw), node)
        special = self.special_call(qualifier, name, targs, callee, raw, node)
        if special is not None:
            return special
        if qualifier:
            owner = self.try_type(QualName(callee.parts[:-1], False, coord=callee.coord))
            if isinstance(owner, RecordType):
                found = self.static_method(owner, name, self.arguments(raw), node, targs)
                if found is not None:
                    return found
        elif self._enclosing_record() is not None:
            found = self.method(self._enclosing_record(), name, self.arguments(raw), node, targs)  # type: ignore[arg-type]
            if found is not None:
                return found
        entities = pick(self.program.functions.get(name, []), qualifier, self.scope.namespace)
        entities = [e for e in entities if e.node.kind == "function"]
        if entities:
            return self.call_entities(entities, targs, self.arguments(raw), node, self.file_scope())
        rows = lookup("::".join((*qualifier, name))) or (
            lookup(name) if qualifier in (("std",), ("cuda", "std"), ("cuda",)) else ()
        )
        if rows:
            return self.builtin(rows, self.arguments(raw), node)
        bad = self.program.bad_function(name)
        if bad is not None:
            raise bad
        extra = f"; {', '.join(self.source.missing[:3])} was not found" if self.source.missing else ""
        self.fail("E-SEMA-CALL", f"unknown function '{'::'.join((*qualifier, name))}'{extra}", node,
                  hint="define it in the file, add the folder of its header, or rewrite the call")  # fmt: skip

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
        for a in raw:
            if isinstance(a, PackExpansion):
                out.extend(self.expand_pack(a, a))
            else:
                at = len(self.out)
                v = self.eval(a)
                out = [self._keep_before(x, at) for x in out]
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
        return FunctionVal(lambda args, node: self.call_entities(found, None, args, node, self.file_scope()), name)

    def _call_value(self, f: Value, args: list[Value], node: Any) -> Value:
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
            base = self.view(base, None, node) if not isinstance(base, RecordVal) and hasattr(base, "place") else base
        if isinstance(base, RecordVal):
            args = self.arguments(raw)
            found = self.method(base, name, args, node, targs)
            if found is not None:
                return found
            if name in base.fields:
                return self._call_value(base.fields[name], args, node)
            self.fail("E-SEMA-MEMBER", f"'{base.type}' has no method '{name}'", node)
        self.fail("E-SEMA-CALL", f"{describe(base)} has no method '{name}'", node)

    def operator_call(self, op: str, args: list[Value], node: Any) -> Value | None:
        """A user's ``operator op`` for these operands, or None."""
        name = f"operator{op}"
        if isinstance(args[0], RecordVal):
            found = self.method(args[0], name, args[1:], node)
            if found is not None:
                return found
        entities = [e for e in self.program.functions.get(name, []) if len(_params(e.node)) == len(args)]
        viable = [e for e in entities if self._viable(e, None, args, node) is not None]
        return self.call_entities(viable, None, args, node, self.file_scope()) if viable else None

    # ------------------------------------------------------------------ overloads
    def call_entities(self, found: list[Entity], targs: list | None, args: list[Value], node: Any, scope: Scope,
                      record: RecordVal | None = None) -> Value:  # fmt: skip
        """Choose among overloads and inline the winner."""
        explicit = self.template_args(targs, node) if targs else []
        saved, self.scope = self.scope, self.scope
        ranked = []
        for e in found:
            if e.spec_args is not None or (explicit and e.params is None):
                continue
            viable = self._viable(e, explicit, args, node, scope)
            if viable is not None:
                ranked.append(
                    (
                        viable[0],
                        e.params is not None,
                        len(e.params or ()),
                        e.node.body is None,
                        len(ranked),
                        e,
                        viable[1],
                    )
                )
        self.scope = saved
        if not ranked:
            name = found[0].name
            types = ", ".join(show(self.type_of(a)) for a in args)
            self.fail("E-SEMA-OVERLOAD", f"no '{name}' accepts ({types})", node,
                      hint=f"{len(found)} candidate{'s' if len(found) > 1 else ''}; convert the arguments explicitly")  # fmt: skip
        best = min(ranked, key=lambda r: r[:5])
        entity, bindings = best[5], best[6]
        special = self._specialisation(entity, found, bindings, node)
        if special is not None:
            entity = special
        elif entity.node.body is None:
            entity = self._definition(entity, found, node)
        return self.inline(entity, bindings, args, node, scope, record)

    def _specialisation(
        self, entity: Entity, found: list[Entity], bindings: dict[str, Value], node: Any
    ) -> Entity | None:
        if entity.params is None:
            return None
        for e in found:
            if e.spec_args is not None and e.node.body is not None:
                values = self.template_args(e.spec_args, node)
                names = [p.name for p in entity.params]
                if all(bindings.get(n) == v for n, v in zip(names, values)):
                    return e
        return None

    def _definition(self, entity: Entity, found: list[Entity], node: Any) -> Entity:
        """The body of a function that was declared first."""
        for e in found:
            if e.node.body is not None and e.spec_args is None and len(_params(e.node)) == len(_params(entity.node)):
                return e
        self.fail("E-SEMA-BODY", f"'{entity.name}' is declared but has no definition for these arguments", node)

    def _viable(
        self, e: Entity, explicit: list[Value] | None, args: list[Value], node: Any, scope: Scope | None = None
    ):
        """(cost, template bindings) of calling ``e``, or None."""
        params = _params(e.node)
        packed = bool(params) and "pack" in (getattr(params[-1], "storage", None) or [])
        required = sum(1 for p in params if getattr(p, "init", None) is None) - packed
        if len(args) < required or (len(args) > len(params) and not packed):
            return None
        with self.scoped(namespace=e.namespace, root=scope or self.file_scope()) as inner:
            try:
                known: dict[str, Value] = {}
                if e.params is not None:
                    names = {p.name: p for p in e.params}
                    if packed:
                        pack_type = [p for p in e.params if p.pack]
                        rest = tuple(TypeVal(self.type_of(a)) for a in args[len(params) - 1 :])
                        if pack_type:
                            known[pack_type[0].name] = PackVal(rest)
                    plain = params[:-1] if packed else params
                    given = {p.name for p, _ in zip(e.params, explicit or [])}
                    for p, a in zip(plain, args):
                        free = {n: q for n, q in names.items() if n not in given}
                        if not deduce(p, self.type_of(a), free, known):
                            return None
                    self.bind_params(e.params, list(explicit or []), node, known)
                total = 0
                for p, a in zip(params, args):
                    if packed and p is params[-1]:
                        break
                    if isinstance(a, ListVal):
                        continue
                    c = rank(self.type_of(a), self.resolve(p.type))
                    if c is None:
                        return None
                    total += c
                if e.params is not None:
                    self.resolve(e.node.decl.type.type)  # SFINAE on the result type
                return total, dict(inner.names)
            except KtcError as error:
                if error.code.startswith("E-SEMA"):
                    return None
                raise

    # ------------------------------------------------------------------ inlining
    def facts_for(self, body: Any) -> Facts:
        if id(body) not in self._facts:
            self._facts[id(body)] = facts_of(body, self.by_reference)
        return self._facts[id(body)]

    @property
    def by_reference(self) -> dict[str, set[int]]:
        """Argument positions that functions of the file take by non-const reference."""
        if self._by_reference is None:
            table: dict[str, set[int]] = {}
            for name, entities in self.program.functions.items():
                for e in entities:
                    for i, p in enumerate(_params(e.node)):
                        if _is_mutable_reference(p):
                            table.setdefault(name, set()).add(i)
            self._by_reference = table
        return self._by_reference

    _by_reference: dict[str, set[int]] | None = None

    def inline(self, e: Entity, bindings: dict[str, Value], args: list[Value], node: Any, scope: Scope,
               record: RecordVal | None = None) -> Value:  # fmt: skip
        """The body of ``e`` in place of a call; parameters become constants where the body changes them."""
        fn: Function = e.node
        if self.depth >= MAX_INLINE_DEPTH:
            self.fail("E-UNSUPPORTED-RECURSION", f"'{e.name}' calls itself, or calls nest deeper than {MAX_INLINE_DEPTH}", node,
                      hint="rewrite the recursion as a loop")  # fmt: skip
        facts = self.facts_for(fn)
        saved_frame, saved_loc = self.frame, self.loc
        self.depth += 1
        pending: list[tuple[Sym, Expr]] = []
        try:
            with self.capture() as stmts, self.scoped(namespace=e.namespace, root=scope, record=record) as inner:
                inner.names.update(bindings)
                if record is not None:
                    from .values import PtrToPlace

                    inner.names["this"] = PtrToPlace(record, record.type)
                ret = None if fn.kind == "ctor" else self.resolve(fn.decl.type.type)
                self.frame = Frame(e.name, False, ret, facts)
                with self.capture() as setup:
                    self._bind_arguments(fn, facts, args, node, pending)
                for name, init in fn.inits:
                    self._member_init(record, name, init, node)
                value = self.function_body(fn)
            stmts[:0] = setup
        finally:
            self.frame, self.loc = saved_frame, saved_loc
            self.depth -= 1
        return self._finish_inline(pending, stmts, value)

    def _member_init(self, record: RecordVal | None, name: QualName, init: list, node: Any) -> None:
        assert record is not None
        field = name.parts[-1].name
        if field not in record.fields:
            return  # a base class
        values = [self.eval(a) for a in init]
        if len(values) == 1:
            current = record.fields[field]
            v = values[0] if isinstance(current, Const) else self.load(values[0], node)
            self.assign_field(record, field, v, node) if not isinstance(
                current, NullVal
            ) else record.fields.__setitem__(field, v)
        elif values:
            t = record.fields[field].type  # type: ignore[attr-defined]
            self.store(record.fields[field], self.construct_record(t, values, node), node)

    def _bind_arguments(
        self, fn: Function, facts: Facts, args: list[Value], node: Any, pending: list[tuple[Sym, Expr]]
    ) -> None:
        params = _params(fn)
        if sum(_is_mutable_reference(p) for p in params) > 1:
            args = [self.pin(a) if _is_mutable_reference(p) else a for p, a in zip(params, args)] + args[len(params) :]
        for i, p in enumerate(params):
            name = getattr(p, "name", None)
            if "pack" in (getattr(p, "storage", None) or []):
                self.scope.names[name] = PackVal(tuple(args[i:]))
                return
            t = self.resolve(p.type)
            if i < len(args):
                v = args[i]
            else:
                v = self.eval(p.init)
            if name:
                self.scope.names[name] = self.bind_argument(name, t, v, name in facts.mutated, node, pending)

    def bind_argument(
        self, name: str, t: Type, v: Value, mutated: bool, node: Any, pending: list[tuple[Sym, Expr]]
    ) -> Value:
        """What the parameter ``name`` of type ``t`` means when ``v`` is passed."""
        if isinstance(v, ListVal):
            v = self.initial_value(t.elem if isinstance(t, Reference) else t, list(v.items), True, node)
        if isinstance(t, Reference):
            same = t.elem == self.type_of(v) or not isinstance(t.elem, Scalar)
            if isinstance(v, RecordVal | ArrayVal | FunctionVal | PtrVar) or (same and not isinstance(v, RVal)):
                return self.stable(v)
            t = t.elem
        v = self.load(v, node)
        if isinstance(t, Auto):
            t = self.type_of(v)
        if isinstance(t, Pointer):
            if isinstance(v, PtrVal):
                if t.elem != v.elem and t.elem != VOID and not isinstance(v.elem, CArray):
                    self.fail("E-SEMA-CONVERT", f"cannot pass '{show(self.type_of(v))}' as '{show(t)}'", node)
                if mutated:
                    sym = fresh(name, I64)
                    self.emit(Decl(sym, self.convert(RVal(v.offset or Const(0, I64)), I64).expr, loc=self.loc))
                    return PtrVar(sym, v, self.frame)
                if v.offset is not None and cost(v.offset) > 12:
                    import dataclasses

                    return dataclasses.replace(v, offset=self.temp(v.offset, f"{name}_offset"))
            return v
        if isinstance(t, RecordType):
            if isinstance(v, RecordVal) and v.type == t:
                return self.new_record(t, name, node, {k: self.load(x) for k, x in v.fields.items()}) if mutated else v
            return self.construct_record(t, [v], node)
        if isinstance(v, FunctionVal | RecordVal) and not isinstance(t, Scalar):
            return v
        e = self.convert(self.rvalue(v, node), t, "implicit", node).expr
        if mutated:
            sym = fresh(name, t)
            self.emit(Decl(sym, e, loc=self.loc))
            return VarPlace(sym)
        if isinstance(e, Const):
            return RVal(e)
        sym = fresh(name, t)
        pending.append((sym, e))
        return VarPlace(sym, const=True)

    def _finish_inline(self, pending: list[tuple[Sym, Expr]], stmts: list[Stmt], value: Value | None) -> Value:
        """Emit the inlined statements; parameters used once in a pure result are substituted, others are declared."""
        out = value if value is not None else RVal(Const(0, Scalar("int", 32)))
        body = tuple(stmts)
        uses: dict[Sym, int] = {}
        exprs = [x for x in all_exprs(body)] if body else []
        if isinstance(out, RVal):
            exprs += list(walk_expr(out.expr))
        for x in exprs:
            for sym in _mentioned(x):
                uses[sym] = uses.get(sym, 0) + 1
        changed = assigned(body)
        later: dict[Sym, Expr] = {}
        for sym, init in pending:
            init = substitute_expr(init, later)
            n = uses.get(sym, 0)
            trivial = isinstance(init, Var) and not isinstance(init.type, Vec) and init.sym not in changed
            if isinstance(out, RVal) and (
                n == 0 or trivial or (n == 1 and not body and not isinstance(init.type, Vec))
            ):
                later[sym] = init
            else:
                self.emit(Decl(sym, init, const=True, loc=self.loc))
        if later:
            body = substitute(body, later)
            if isinstance(out, RVal):
                out = RVal(substitute_expr(out.expr, later))
        for s in body:
            self.emit(s)
        return out

    def call_lambda(self, node: Lambda, scope: Scope, args: list[Value], at: Any) -> Value:
        """A lambda's body at its call; captures see the variables themselves."""
        fn = Function(
            "lambda",
            c_ast.Decl("lambda", [], [], [], [], None, None, None),
            node.body,
            [],
            {},
            [],
            "function",
            "",
            coord=node.coord,
        )
        fn.decl.type = c_ast.FuncDecl(node.params or c_ast.ParamList([]), c_ast.TypeDecl(None, None, None, _AUTO))
        return self.inline(Entity("lambda", fn, scope.namespace), {}, args, at, scope)

    def function_body(self, fn: Function) -> Value | None:
        raise NotImplementedError


def _mentioned(x: Expr):
    if isinstance(x, Var):
        yield x.sym
    elif hasattr(x, "buffer"):
        yield x.buffer


def _params(fn: Function) -> list:
    return [p for p in fn.decl.type.args.params if not isinstance(p, c_ast.EllipsisParam)] if fn.decl.type.args else []


def _is_mutable_reference(p: Any) -> bool:
    from .cxx_ast import RefDecl
    from .resolve import _const

    return isinstance(p.type, RefDecl) and not _const(p.type.type)


def _auto_type():
    from .cxx_ast import AutoType

    return AutoType(None)


_AUTO = _auto_type()
