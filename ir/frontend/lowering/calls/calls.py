"""Calls: overload resolution over the file's functions, inlining, then built-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from ktc.ir.builtins import lookup
from ktc.ir.frontend.context import Scope
from ktc.ir.frontend.dialects.dialect import OPENCL
from ktc.ir.frontend.dialects.opencl_lanes import lanewise
from ktc.ir.frontend.dialects.opencl_lowering import opencl_call
from ktc.ir.frontend.input_limits import MAX_ARGUMENTS
from ktc.ir.frontend.library.prelude import prelude_function
from ktc.ir.frontend.meaning.conversions import USER
from ktc.ir.frontend.meaning.cxx_types import RecordType
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.name_meanings import FunctionVal
from ktc.ir.frontend.meaning.overloads import Overloads
from ktc.ir.frontend.meaning.template_args import spell
from ktc.ir.frontend.meaning.values import ListVal, RecordVal, RVal, Value, describe  # fmt: skip
from ktc.ir.frontend.ptx.ptx_functions import FILE as PTX_FILE
from ktc.ir.frontend.ptx.ptx_types import NAMESPACE as PTX
from ktc.ir.frontend.syntax.cxx_ast import Construct, NamedType, NamePart, PackExpansion, QualName
from ktc.ir.frontend.syntax.program import Entity, name_parts, pick
from ktc.ir.nodes import Const
from ktc.ir.types import U64, Scalar, Type


class Calls(Overloads):
    """Function calls; every device function is inlined."""

    argument: Callable[[Any], Value]

    def _is_type(self, callee: c_ast.ID | QualName, qualifier: tuple[str, ...], name: str) -> bool:
        """Whether what is called is a type of the class around, and no function: ``col(a, b)`` makes an object."""
        if qualifier or name in self.program.functions or lookup(name) or self._enclosing_record() is None:
            return False
        return self.scope.find(name) is not None and self.try_type(callee) is not None

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
        if self._is_type(callee, qualifier, name):  # of a class whose members the parser did not see here
            named = QualName([NamePart(name, targs, coord=node.coord)], False, coord=node.coord)
            return self.eval(Construct(NamedType(named, coord=node.coord), raw, False, coord=node.coord))
        args = self.arguments(raw)  # once: they may have effects
        if qualifier:
            owner = self.try_type(QualName(callee.parts[:-1], False, coord=callee.coord))
            if isinstance(owner, RecordType):
                found = self.static_method(owner, name, args, node, targs)
                if found is not None:
                    return found
                if isinstance(kept := self.static_member(owner, name, callee), FunctionVal | RecordVal):
                    return self._call_value(kept, args, node)
        elif not absolute:
            found = self._own_method(name, args, node, targs)
            if found is not None:
                return found
        entities = pick(self.program.functions.get(name, []), qualifier, () if absolute else self.scope.namespace)
        entities = [e for e in entities if e.node.kind == "function"]
        rows = lookup("::".join((*qualifier, name))) or (
            lookup(name) if qualifier in (("std",), ("cuda", "std"), ("cuda",)) else ()
        )
        if rows and absolute and not qualifier:  # ``::max`` is the language's own, whatever namespaces have
            entities = [e for e in entities if not e.namespace]
        elif rows and not qualifier and not any(isinstance(a, RecordVal) for a in args):
            entities = [e for e in entities if self._is_visible(e)]
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
        extra = self.source.why_unknown(qualifier)
        self.fail("E-SEMA-CALL", f"unknown function '{'::'.join((*qualifier, name))}'{extra}", node,
                  hint="define it in the file, add the folder of its header, or rewrite the call")  # fmt: skip

    def _is_visible(self, e: Entity) -> bool:
        """Whether a name that stands alone here can mean ``e``: one of a namespace around, or one that is used."""
        around = e.namespace == self.scope.namespace[: len(e.namespace)]
        return around or "::".join(e.namespace) in self.program.using or e.namespace[-1] in self.program.using

    def _own_method(self, name: str, args: list[Value], node: Any, targs: list | None) -> Value | None:
        """``name(...)`` in a method: another one of the object, or a static one of a class around its class."""
        here = self._enclosing_record()
        if here is None:
            return None
        found = self.method(here, name, args, node, targs)
        owner = here.type.owner if isinstance(here.type, RecordType) else None
        while found is None and owner is not None:
            found = self.method(RecordVal(owner), name, args, node, targs)
            owner = owner.owner
        return found

    def _whole(self, name: str) -> None:
        """Refuse to choose among the functions ``name`` where one did not parse: it may be the one that is meant."""
        unread = self.program.bad_device_function(name)
        if unread is not None:
            raise unread

    def _enclosing_record(self) -> RecordVal | None:
        scope: Scope | None = self.scope
        while scope is not None:
            if scope.record is not None:
                return scope.record
            scope = scope.parent
        return None

    def arguments(self, raw: list) -> list[Value]:
        out: list[Value] = []
        self.count_work(1 + len(raw))
        for a in raw:
            if isinstance(a, PackExpansion):
                out.extend(more := self.expand_pack(a, a))
                self.count_work(len(more))
                if len(out) > MAX_ARGUMENTS:
                    self.fail("E-SEMA-SIZE", f"a call has more than {MAX_ARGUMENTS} arguments", a,
                              hint="a template may recurse without end")  # fmt: skip
            else:
                at = len(self.out)
                v = self.argument(a)
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
        to = self._conversion(name)
        if not raw and to is not None and isinstance(self.type_of(base), Scalar):
            return self.convert(self.rvalue(base, node), to, "implicit", node)
        self.fail("E-SEMA-CALL", f"{describe(base)} has no method '{name}'", node)

    def _conversion(self, method: str) -> Type | None:
        """The type that ``x.operator T()`` converts to; ``x`` may be of a class that is a number here."""
        name = method.removeprefix("operator").strip()
        named = method.startswith("operator") and name.isidentifier()
        return self.try_type(QualName([NamePart(name, None)], False)) if named else None

    def operator_call(self, op: str, args: list[Value], node: Any) -> Value | None:
        """A user's ``operator op`` for these operands, or None."""
        name = f"operator{op}"
        if isinstance(args[0], RecordVal) and self._takes(args[0], name, len(args) - 1):
            found = self.method(args[0], name, args[1:], node)
            if found is not None:
                return found
        entities = [e for e in self.program.functions.get(name, []) if len(params_of(e.node)) == len(args)]
        costs = [(e, v[0]) for e in entities if (v := self._viable(e, None, args, node)) is not None]
        records = [a for a in args if isinstance(a, RecordVal)]
        numbers = bool(records) and all(map(self.is_number, records))  # the built-in operator takes them too
        viable = [
            e
            for e, cost in costs
            if cost < USER or (self._is_found(e, records) and not (numbers and cost > USER * len(records)))
        ]
        return self.call_entities(viable, None, args, node, self.file_scope()) if viable else None

    def _is_found(self, operator: Entity, records: list[RecordVal]) -> bool:
        """Whether an operator is looked up here: in the namespaces around, in those that are used, and in those of the
        operands' classes ([basic.lookup.argdep])."""
        of, here = operator.namespace, self.scope.namespace
        classes = [t for r in records for t in self.lineage(r.type)]  # type: ignore[arg-type]
        theirs = [ns for t in classes for ns in (t.decl[0].namespace, (*t.decl[0].namespace, t.name))]
        return of == here[: len(of)] or of in theirs or "::".join(of) in self.program.using

    def _takes(self, record: RecordVal, name: str, count: int) -> bool:
        """Whether the nearest class with a method ``name`` has one of ``count`` arguments: ``-v`` is not ``v - w``."""
        for level in self.lineage(record.type):  # type: ignore[arg-type]
            found = [len(params_of(e.node)) for e in self._named(level, name)]
            if found:
                return count in found or name == "operator()"
        return True
