"""What the built-in functions take, in words for messages."""

from __future__ import annotations

from ktc.ir.builtins import Builtin, Param
from ktc.ir.types import Type

from .cxx_types import show


def row_signature(row: Builtin) -> str:
    """``fma(float or double, ...)``: what a row takes."""

    def spell(t: Type | str) -> str:
        return (
            {
                "F": "float or double",
                "H": "half",
                "I": "integer",
                "T": "any type",
                "A": "any number",
                "C": "an integer as wide",
            }.get(t, t)
            if isinstance(t, str)
            else show(t)
        )

    def one(p: Param) -> str:
        return spell(p.type) + ("*" if p.pointer else "")

    return f"{row.name}({', '.join(one(p) for p in row.params)})"
