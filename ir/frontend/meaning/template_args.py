"""Template arguments: from syntax to values, and bound to parameters."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.context import Context
from ktc.ir.frontend.syntax.cxx_ast import NamedType, PackExpansion, QualName, own_qualifiers
from ktc.ir.frontend.syntax.program import name_parts, pick
from ktc.ir.nodes import Const
from ktc.ir.types import BOOL, Scalar, Type

from .cxx_types import RecordType, show
from .name_meanings import TOP_QUALIFIERS, FunctionVal, PackVal, TemplateVal, TypeVal
from .templates import plain_name
from .values import NullVal, RVal, Value


class TemplateArguments(Context):
    """Arguments of templates in the current scope."""

    # provided by the type resolver and the expressions above it
    resolve: Any
    try_type: Any
    const_value: Any
    function_value: Any
    function_named: Any
    enum_named: Any

    def arg_type(self, node: Any) -> Type:
        """A template argument that must be a type."""
        if isinstance(node, c_ast.ID | QualName):
            t = self.try_type(node)
            if t is None:
                self.fail("E-SEMA-TYPE", f"'{getattr(node, 'name', None) or node.text}' is not a type", node)
            return t
        return self.resolve(node)

    def template_args(self, args: list, node: Any) -> list[Value]:
        """Template arguments as values: ``TypeVal`` or constant ``RVal``."""
        out: list[Value] = []
        for a in args:
            if isinstance(a, Value):  # evaluated before
                out.append(a)
                continue
            if isinstance(a, PackExpansion):
                inner = a.expr
                name = inner.name if isinstance(inner, c_ast.ID) else None
                if isinstance(inner, c_ast.Typename) and isinstance(inner.type.type, NamedType):
                    name = inner.type.type.name.text
                pack = self.scope.find(name or "")
                if not isinstance(pack, PackVal):
                    self.fail("E-UNSUPPORTED-PACK", "only a plain parameter pack can be expanded here", a)
                out.extend(pack.items)
                continue
            if (template := self.template_named(a)) is not None:
                out.append(template)
                continue
            if isinstance(a, c_ast.ID | QualName):
                t = self.try_type(a)
                if t is None and isinstance(a, c_ast.ID) and (f := self.function_value(a.name)) is not None:
                    out.append(f)
                    continue
                if t is None and isinstance(a, QualName) and (f := self._function(a)) is not None:
                    out.append(f)
                    continue
                out.append(TypeVal(t) if t is not None else self.const_value(a, "a template argument"))
            elif isinstance(a, c_ast.UnaryOp) and a.op == "&" and isinstance(a.expr, c_ast.ID | QualName):
                out += self.template_args([a.expr], node)
            elif isinstance(a, c_ast.Typename):
                out.append(TypeVal(self.resolve(a), *(self._qualified(a, q) for q in TOP_QUALIFIERS)))
            elif isinstance(a, c_ast.Constant) and a.type == "nullptr_t":
                out.append(NullVal())
            else:
                out.append(self.const_value(a, "a template argument"))
        return out

    def _function(self, name: QualName) -> Value | None:
        """The function ``a::f`` or ``f<T>``, if there is one of that name."""
        qualifier, last, args = name_parts(name)
        return self.function_named(qualifier, last, args, name)

    def _qualified(self, a: c_ast.Typename, qualifier: str) -> bool:
        """Whether a type is written with a qualifier, or is a template parameter that stands for such a one."""
        known = self.scope.find(plain_name(a) or "")
        return qualifier in own_qualifiers(a) or (isinstance(known, TypeVal) and getattr(known, qualifier))

    def template_named(self, node: Any) -> TemplateVal | None:
        """The class or alias template that a template argument names (without arguments of its own), or None."""
        if isinstance(node, c_ast.Typename) and isinstance(node.type, c_ast.TypeDecl):
            node = node.type.type
        name = node.name if isinstance(node, NamedType) else node
        if isinstance(name, c_ast.ID):
            qualifier, last = (), name.name
        elif isinstance(name, QualName) and all(p.args is None for p in name.parts):
            qualifier, last = tuple(p.name for p in name.parts[:-1]), name.parts[-1].name
        else:
            return None
        local = self.scope.find(last) if not qualifier else None
        if local is not None:
            return local if isinstance(local, TemplateVal) and local.entities[0].params else None
        found = pick(self.program.types_named(last), qualifier, self.scope.namespace)
        return TemplateVal(last, tuple(found)) if any(e.params for e in found) else None

    def bind_params(self, params, values: list[Value], node: Any, known: dict[str, Value] | None = None) -> list[Value]:
        """Bind template parameters in the current scope; missing ones take their defaults. What each is, unnamed ones
        too."""
        bound: list[Value] = []
        for i, p in enumerate(params):
            if p.pack:
                bound.append((known or {}).get(p.name) or PackVal(tuple(values[i:])))
                self.scope.names[p.name] = bound[-1]
                values = values[:i]  # parameters behind a pack are deduced
                continue
            if i < len(values):
                v: Value | None = values[i]
            else:
                v = (known or {}).get(p.name)
                if v is None and p.default is not None:
                    v = self.template_args([p.default], node)[0]
            if v is None:
                self.fail("E-SEMA-TEMPLATE", f"template parameter '{p.name}' is not given and cannot be deduced", node,
                          hint=f"for example --template {p.name}={'float' if p.kind == 'type' else '256'}")  # fmt: skip
            if (p.kind == "type") != isinstance(v, TypeVal) or (p.kind == "template") != isinstance(v, TemplateVal):
                self.fail("E-SEMA-TEMPLATE", f"template parameter '{p.name}' must be a {p.kind}", node)
            if isinstance(v, RVal | NullVal) and p.type is not None:
                t = self.resolve(p.type)  # std::enable_if may have none
                if isinstance(v, RVal) and v.scoped is not None and not self._may_hold(p, v.scoped):
                    self.fail("E-SEMA-TEMPLATE", f"template parameter '{p.name}' takes no '{v.scoped.name}'", node)
                if isinstance(v, RVal) and isinstance(t, Scalar) and isinstance(v.expr, Const) and not t.is_float:
                    raw = bool(v.expr.value) if t == BOOL else int(v.expr.value)
                    v = RVal(Const(raw, t), v.scoped)
            self.scope.names[p.name] = v
            bound.append(v)
        return bound

    def _may_hold(self, p: Any, scoped: Any) -> bool:
        """Whether a template parameter may be an enumerator of ``scoped``: no number is, nor another enumeration."""
        named = getattr(p.type, "type", p.type)
        named = getattr(named, "type", named)
        if not isinstance(named, NamedType):
            return not isinstance(named, c_ast.IdentifierType)
        enum = self.enum_named(named.name.parts, named)
        if enum is None:  # a number by another name, if it is no argument that may stand for an enumeration
            return len(named.name.parts) > 1 or self.scope.find(named.name.parts[0].name) is not None
        return enum.enum is scoped


def spell(v: Value) -> str:
    """A template argument as C++ writes it; those of a pack between the brackets of an argument list."""
    if isinstance(v, TypeVal) and any(getattr(v, q) for q in TOP_QUALIFIERS):
        return " ".join((spell(TypeVal(v.type)), *(q for q in TOP_QUALIFIERS if getattr(v, q))))
    if isinstance(v, TypeVal) and isinstance(v.type, RecordType):
        owner = v.type.owner
        around = v.type.decl[0].namespace if owner is None else (spell(TypeVal(owner)),)
        return "::".join((*around, show(v.type)))
    if isinstance(v, TypeVal):
        return show(v.type)
    if isinstance(v, FunctionVal):
        return v.name
    if isinstance(v, NullVal):
        return "nullptr"
    if isinstance(v, PackVal):
        return f"<{', '.join(map(spell, v.items))}>"
    if isinstance(v, TemplateVal):
        return "::".join((*v.entities[0].namespace, v.name))
    if isinstance(v, RVal) and isinstance(v.expr, Const):
        return str(v.expr.value).lower() if isinstance(v.expr.value, bool) else str(v.expr.value)
    return "..."


def same_argument(a: Value, b: Value) -> bool:
    """Whether two template arguments are one for the same parameter, which converts numbers to its own type."""
    if isinstance(a, RVal) and isinstance(b, RVal) and isinstance(a.expr, Const) and isinstance(b.expr, Const):
        return a.expr.value == b.expr.value
    if isinstance(a, FunctionVal) and isinstance(b, FunctionVal) and a.entities and b.entities:
        return a.entities == b.entities and (a.given or None) == (b.given or None)
    if isinstance(a, PackVal) and isinstance(b, PackVal):
        return len(a.items) == len(b.items) and all(map(same_argument, a.items, b.items))
    return a == b
