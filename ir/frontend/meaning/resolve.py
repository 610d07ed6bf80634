"""Types from syntax: names, templates of types, and constant expressions."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.library.device_libraries import why_not_built
from ktc.ir.frontend.syntax.cxx_ast import (
    AutoType,
    NamedType,
    NamePart,
    QualName,
    Record,
    RefDecl,
    TypeOf,
    is_const,
    qualifiers,
)
from ktc.ir.frontend.syntax.program import Entity, innermost, pick
from ktc.ir.nodes import Const, Expr
from ktc.ir.types import U64, Scalar, Type

from .constants import folded_float
from .cxx_types import (
    BASIC,
    TYPE_NAMES,
    Auto,
    CArray,
    FunctionType,
    Pointer,
    RecordType,
    Reference,
    decayed,
    show,
    size_of,
)  # fmt: skip
from .evaluation import evaluated
from .name_meanings import LazyVal, PackVal, TemplateVal, TypeVal
from .templates import value_category
from .traits import Traits
from .type_traits import UNWRAP
from .values import RVal, Value

DENOTES = (c_ast.ArrayRef, c_ast.UnaryOp, c_ast.Assignment, c_ast.ExprList)
"""Expressions, beyond names, of which ``decltype`` is a reference where they denote a place."""


class TypeResolver(Traits):
    """Resolution of type syntax in the current scope."""

    def resolve(self, node: Any) -> Type:
        """The type that a declaration, type name or declarator denotes (top-level const dropped)."""
        if isinstance(node, c_ast.Typename | c_ast.Decl | c_ast.Typedef):
            return self.resolve(node.type)
        if isinstance(node, c_ast.TypeDecl):
            return self.resolve(node.type)
        if isinstance(node, RefDecl):
            inner = self.resolve(node.type)
            if isinstance(inner, Reference):  # an rvalue reference only if both are
                return replace(inner, rvalue=inner.rvalue and node.rvalue)
            return Reference(inner, is_const(node.type), node.rvalue, "volatile" in qualifiers(node.type))
        if isinstance(node, c_ast.PtrDecl):
            inner = self.resolve(node.type)
            quals = node.quals or []
            volatile = "volatile" in qualifiers(node.type)
            return Pointer(inner, is_const(node.type), "restrict" in quals, volatile)
        if isinstance(node, c_ast.ArrayDecl):
            return CArray(
                self.resolve(node.type), None if node.dim is None else self.const_int(node.dim, "an array bound")
            )
        if isinstance(node, c_ast.FuncDecl):
            return FunctionType("function")
        if isinstance(node, c_ast.IdentifierType):
            found = BASIC.get(tuple(sorted(node.names)))
            if found is None:
                self.fail("E-SEMA-TYPE", f"unknown type '{' '.join(node.names)}'", node)
            return found
        if isinstance(node, NamedType):
            return self.named_type(node.name)
        if isinstance(node, AutoType):
            return Auto() if node.expr is None else self.type_of_expression(node)
        if isinstance(node, c_ast.Enum):
            return self.enum_type(node)
        if isinstance(node, Record) and node.items is None:  # ``struct S<N>``: declared elsewhere
            part = NamePart(node.name, node.spec_args, coord=node.coord)
            return self.named_type(QualName([part], False, coord=node.coord))
        if isinstance(node, Record):
            return self.local_record(node)
        self.fail("E-SEMA-TYPE", f"this type is not supported ({type(node).__name__})", node)

    def type_of_expression(self, node: AutoType) -> Type:
        """``decltype``: a reference to what an expression that is more than a name denotes ([dcl.type.decltype])."""
        v = self.unevaluated(node.expr)
        t = self.type_of(v)
        if isinstance(node, TypeOf) or isinstance(t, Reference) or not isinstance(node.expr, DENOTES):
            return t
        if isinstance(node.expr, c_ast.UnaryOp) and node.expr.op not in ("*", "++", "--"):
            return t
        category = value_category(v, node.expr)
        return t if category == "rvalue" else Reference(t, category == "const")

    def local_record(self, node: Record) -> RecordType:
        """The class that ``node`` defines here: another one for every instance of a template that it is in."""
        names = self.scope.types_and_constants(self.const_of)
        mentioned = names_in(node)
        within = tuple((n, v) for n, v in names.items() if n in mentioned and not isinstance(v, LazyVal))
        return RecordType(
            node.name or unnamed(node), (), (Entity(node.name, node, self.scope.namespace), names), within=within
        )

    def parameter_type(self, node: Any) -> Type:
        """The type of the parameter that ``node`` declares: arrays are pointers."""
        return decayed(self.resolve(node.type), is_const(node.type))

    def named_type(self, name: QualName) -> Type:
        """The type a qualified name denotes.

        Raises:
            KtcError: E-SEMA-TYPE if it is unknown, saying what may be missing.
        """
        found = self.try_type(name)
        if found is not None:
            return found
        qualifier = [part.name for part in name.parts[:-1]]
        self.fail("E-SEMA-TYPE", f"unknown type '{name.text}'{self.source.why_unknown(qualifier)}", name,
                  hint=why_not_built(name.text)
                  or f"define it, add its header's folder (-I DIR), or use -D {name.parts[-1].name}=float")  # fmt: skip

    def try_type(self, name: QualName | c_ast.ID) -> Type | None:
        """Like :meth:`named_type`, but None when the name is no type."""
        if isinstance(name, c_ast.ID):
            parts: list = []
            qualifier: tuple[str, ...] = ()
            last, args = name.name, None
        else:
            name = self.in_std(name)
            parts, last, args = name.parts, name.parts[-1].name, name.parts[-1].args
            qualifier = tuple(p.name for p in parts[:-1])
        if not qualifier and last == "decltype" and args:
            of = self.resolve(args[0])
            return of.elem if isinstance(of, Reference) else of
        if not qualifier:
            local = self.scope.find(last)
            if isinstance(local, TypeVal) and args is None:
                return local.type
            if isinstance(local, TypeVal) and (template := self.template_around(local.type, last)) is not None:
                return self.class_named(template, args, name)  # the name of a class that a class declares, inside it
            if isinstance(local, TemplateVal):
                return self.class_named(local, args, name)
            if local is not None and not isinstance(local, PackVal | TypeVal):
                return None
        named = pick(self.program.types_named(last), qualifier, self.scope.namespace)
        if qualifier == ("std",) or (not qualifier and last in UNWRAP and not named):  # not a project's own
            found = self.std_type(last, args, name)
            if found is not None:
                return found
        if len(parts) > 1:
            if qualifier[0] == "std" and len(parts) == 3 and last == "type":
                found = self.std_type(parts[-2].name, parts[-2].args, name)
                if found is not None:
                    return found
            owner = self.try_type(QualName(parts[:-1], False, coord=name.coord))
            if owner is not None:
                return self._member_type(owner, last, name, args)
        if named and isinstance(named[0].node, Record):
            return self.instantiate_record([e for e in named if isinstance(e.node, Record)], args, name)
        if named:
            of = named[0].node
            return self.resolve(of) if isinstance(of, c_ast.Enum) else self._expand_alias(named[0], args, name)
        return self.program.dialect.types.get(last) or TYPE_NAMES.get(last)

    def in_std(self, name: QualName) -> QualName:
        """``name`` with ``std`` for the namespace that a using-declaration made a name of the standard library a member
        of, where we have no declaration of that."""
        here = self.scope.namespace
        for i, part in enumerate(name.parts if self.program.std_names else ()):
            if part.name in self.program.std_names:
                of = tuple(p.name for p in name.parts[:i])
                own = innermost(self.program.types_named(part.name), of, here)
                if not own and innermost(self.program.std_names[part.name], of, here):
                    return QualName([NamePart("std", None), *name.parts[i:]], False, coord=name.coord)
        return name

    def _expand_alias(self, entity: Entity, args: list | None, node: Any) -> Type:
        with self.scoped(namespace=entity.namespace, root=self.global_scope()):
            if entity.params is not None:
                values = self.outer(lambda: self.template_args(args or [], node))
                self.bind_params(entity.params, values, node)
            return self.resolve(entity.node.type)

    def outer(self, f):
        """Run ``f`` in the scope around the current one (the place of use)."""
        saved = self.scope
        self.scope = self._use_scope
        try:
            return f()
        finally:
            self.scope = saved

    def global_scope(self):
        """The file's scope; remembers the present one for :meth:`outer`."""
        self._use_scope = self.scope
        scope = self.scope
        while scope.parent is not None:
            scope = scope.parent
        return scope

    # ------------------------------------------------------------------ constants
    def const_value(self, node: Any, what: str) -> RVal:
        """A constant expression's value."""
        with self.capture() as before:
            v = self.rval(node)
        c = self.constant(v.expr) or folded_float(v.expr)
        c = c or (evaluated(before, v.expr, self.const_of) if before else self.table_element(node))
        if c is None:
            self.fail("E-SEMA-CONSTANT", f"{what} must be a constant known while reading the source", node,
                      hint="give the value with -D NAME=VALUE or --template NAME=VALUE")  # fmt: skip
        return RVal(c, v.scoped if c == v.expr else None)

    def const_int(self, node: Any, what: str) -> int:
        c = self.const_value(node, what).expr
        assert isinstance(c, Const)
        if isinstance(c.value, float) and not math.isfinite(c.value):
            self.fail("E-SEMA-CONSTANT", f"{what} must be an integer, not {c.value}", node)
        return int(c.value)

    def sizeof(self, t: Type, node: Any) -> Expr:
        """``sizeof(t)`` as a u64 constant."""
        if isinstance(t, CArray) and isinstance(t.n, int):
            one = self.sizeof(t.elem, node)
            assert isinstance(one, Const)
            return Const(int(one.value) * t.n, U64)
        n = (
            self.record_size(t, node)
            if isinstance(t, RecordType)
            else size_of(t.elem if isinstance(t, Reference) else t)
        )
        if n is None:
            self.fail("E-SEMA-SIZEOF", f"the size of '{show(t)}' is not known", node)
        return Const(n, U64)

    # provided by the other mixins
    def rval(self, node: Any) -> RVal:
        raise NotImplementedError

    def enum_type(self, enum: c_ast.Enum) -> Scalar:
        raise NotImplementedError

    def type_of(self, v: Value) -> Type:
        raise NotImplementedError

    def unevaluated(self, node: Any) -> Value:
        raise NotImplementedError

    def instantiate_record(self, entities: list[Entity], args: list | None, node: Any) -> Type:
        raise NotImplementedError

    def table_element(self, node: Any) -> Const | None:
        raise NotImplementedError

    def record_size(self, t: RecordType, node: Any) -> int:
        raise NotImplementedError

    def class_named(self, template: TemplateVal, args: list | None, node: Any) -> Type:
        raise NotImplementedError

    def template_around(self, t: Type, name: str) -> TemplateVal | None:
        raise NotImplementedError

    def _member_type(self, owner: Type, name: str, node: Any, args: list | None = None) -> Type | None:
        raise NotImplementedError


def unnamed(record: Record) -> str:
    """What an unnamed struct is called: two of them are different types."""
    at = record.coord
    return f"unnamed {record.kind} of line {at.line}:{at.column}" if at is not None else "unnamed"


@lru_cache(maxsize=256)
def names_in(node: Any) -> frozenset[str | None]:
    """Every name that the syntax below ``node`` mentions; the first part of qualified ones."""
    found: set[str | None] = set()
    todo = [node]
    while todo:
        n = todo.pop()
        found.add(getattr(n, "name", None) if not isinstance(n, QualName) else n.parts[0].name)
        todo += [child for _, child in n.children()]
    return frozenset(found)
