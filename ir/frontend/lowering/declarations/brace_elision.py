"""Braces that are left out: which of a list's values belong to which member of an aggregate ([dcl.init.aggr])."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.meaning.cxx_types import CArray, RecordType, show
from ktc.ir.frontend.meaning.values import ListVal, Value
from ktc.ir.types import Type, Vec

_PLAIN_BITS = 32
"""Vectors of smaller floats are classes with constructors."""


def regrouped(low: Any, t: Type, items: list, node: Any) -> list:
    """The values of a braced list for an aggregate ``t``, one for each of its members: inner lists where braces are
    left out.

    Raises:
        KtcError: E-SEMA-INIT for more values than there are members.
    """
    if any(isinstance(i, c_ast.NamedInitializer) for i in items):
        return items
    taken, rest = _members(low, t, list(items), node)
    if rest:
        low.fail("E-SEMA-INIT", f"too many values for '{show(t)}'", node)
    return taken


def _members(low: Any, t: Type, items: list, node: Any) -> tuple[list, list]:
    out: list[Any] = []
    for of in _types(low, t, node):
        if not items:
            break
        if _whole(low, of, items[0]):
            out.append(items.pop(0))
        else:
            inner, items = _members(low, of, items, node)
            out.append(c_ast.InitList(inner, getattr(node, "coord", None)))
    return out, items


def _types(low: Any, t: Type, node: Any) -> list[Type]:
    """The types of an aggregate's members."""
    if isinstance(t, CArray):
        return [t.elem] * int(t.n or 0)
    if isinstance(t, Vec):
        return [t.elem] * int(t.n)  # type: ignore[arg-type]
    fields = [ft for name, ft, _, _ in low.fields_of(t, node) if name]
    return fields[:1] if t.syntax.kind == "union" else fields  # type: ignore[attr-defined]


def _whole(low: Any, of: Type, item: Any) -> bool:
    """Whether ``item`` stands for a whole ``of``, with braces of its own or by its type."""
    if isinstance(item, c_ast.InitList | ListVal) or not _is_aggregate(low, of):
        return True
    if isinstance(item, c_ast.Constant) and item.type == "string":
        return True
    try:
        given = low.type_of(item if isinstance(item, Value) else low.unevaluated(item))
    except KtcError:
        return True  # it is refused where it is evaluated
    if isinstance(of, RecordType):
        return given == of or low.derives(given, of)
    return isinstance(given, type(of))


def _is_aggregate(low: Any, t: Type) -> bool:
    if isinstance(t, CArray):
        return bool(t.n)
    if isinstance(t, Vec):
        return isinstance(t.n, int) and not (t.elem.is_float and t.elem.bits < _PLAIN_BITS)
    return isinstance(t, RecordType) and low.is_aggregate(t) and not low.bases_of(t)
