"""What the label of a ``case`` asks: ``case 3:`` for a value, ``case 1 ... 16:`` (of GNU C) for one of a range."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from .cxx_ast import CxxNode


class CaseRange(CxxNode):
    """``low ... high``, both of which are meant as well."""

    _fields = ("low", "high")


def asked(selector: Any, label: Any, coord: Any) -> Any:
    """The condition that ``selector`` is what ``label`` says."""
    if not isinstance(label, CaseRange):
        return c_ast.BinaryOp("==", selector, label, coord)
    low = c_ast.BinaryOp(">=", selector, label.low, coord)
    return c_ast.BinaryOp("&&", low, c_ast.BinaryOp("<=", selector, label.high, coord), coord)


__all__ = ["CaseRange", "asked"]
