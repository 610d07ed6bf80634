"""What references are bound to: the categories of arguments, forwarding references, ``std::move``, ``std::forward``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.memory.block_copy import BlockCopies
from ktc.ir.frontend.meaning.cxx_types import Auto, RecordType, Reference, Type
from ktc.ir.frontend.meaning.name_meanings import TypeVal
from ktc.ir.frontend.meaning.templates import plain_name, value_category
from ktc.ir.frontend.meaning.values import RecordVal, RVal, Value, VarPlace, moved, named
from ktc.ir.frontend.syntax.cxx_ast import AutoType, PackExpansion, RefDecl, is_const

DECLARED = "decltype "
"""Before the name of a parameter: its declared type, where that is a reference."""


def forwarded_type(t: Type, category: str) -> TypeVal:
    """What T of a parameter ``T&&`` is for an argument: a reference, if that has a name ([temp.deduct.call])."""
    return TypeVal(t if category == "rvalue" else Reference(t, category == "const"))


def is_forwarding(parameter: Any, free: Sequence[str] | dict[str, Any]) -> str | None:
    """The T of a parameter that is declared ``T&&`` with T one of the function's own template parameters ``free``."""
    node = parameter.type
    if not (isinstance(node, RefDecl) and node.rvalue) or is_const(node.type):
        return None
    name = plain_name(c_ast.Typename(None, [], None, node.type))
    return name if name in free else None


def categories(args: Sequence[Value], node: Any) -> list[str]:
    """The category of each argument of the call ``node``; its syntax says which constants have a name."""
    raw = getattr(getattr(node, "args", None), "exprs", None) or []
    known = len(raw) == len(args) and not any(isinstance(a, PackExpansion) for a in raw)
    return [value_category(a, n) for a, n in zip(args, raw if known else [None] * len(args))]


class Forwarding(BlockCopies):
    """Forwarding."""

    def note_reference(self, name: str, t: Reference, category: str) -> None:
        """Remember what ``decltype(name)`` is for the parameter ``name``, to which an argument is bound."""
        if isinstance(t.elem, Auto) and t.rvalue:
            t = Reference(t.elem, category == "const", category == "rvalue")
        self.scope.names[DECLARED + name] = TypeVal(t)

    def forward(self, given: Any, v: Value, node: Any) -> Value:
        """``std::forward<given>(v)``."""
        category = self._declared_category(given)
        if category is None:
            if isinstance(v, RecordVal) and isinstance(v.type, RecordType) and self.moves_by_code(v.type):
                self.fail("E-UNSUPPORTED-MOVE", f"whether '{v.type}' is moved or copied here is not followed", node)
            return v
        if category == "rvalue":
            return moved(self.load(v, node) if isinstance(v, VarPlace) and v.const else v)  # bound to a value
        if isinstance(v, RVal):  # a constant, by its name
            e = self.temp(v.expr, "forwarded")
            return VarPlace(e.sym, const=True)  # type: ignore[attr-defined]
        return named(v, const=category == "const")

    def _declared_category(self, given: Any) -> str | None:
        """What ``std::forward<given>`` makes of its argument; None of ``decltype`` of what is no parameter."""
        of = getattr(getattr(given, "type", None), "type", None)
        if isinstance(of, AutoType) and of.expr is not None:
            declared = self.scope.find(DECLARED + str(getattr(of.expr, "name", "")))
            t = declared.type if isinstance(declared, TypeVal) else None
        else:
            t = self.arg_type(given)
        if t is None:
            return None
        return "rvalue" if not isinstance(t, Reference) or t.rvalue else "const" if t.const else "lvalue"
