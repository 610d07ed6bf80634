"""When C computes what the IR means: the conversion rules behind every dropped cast and parenthesis."""

from __future__ import annotations

from ktc.ir.fold import common_type
from ktc.ir.nodes import COMPARISONS, Binary, Call, Cast, Const, Expr, Knob, Select, Unary
from ktc.ir.types import BOOL, Scalar, Type
from ktc.ir.walk import walk_expr

from .c_family_piece import Piece, promoted

MODULAR = frozenset({"+", "-", "*", "&", "|", "^", "<<"})
"""Operators whose low bits depend only on the low bits of their operands."""
SIGN_FREE = frozenset({"/", "%", ">>", "&", "|", "^"}) | COMPARISONS
"""Operators that give one value in signed and unsigned arithmetic when both operands are small and not negative."""


def is_int32(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_int and t.bits == 32


def promoted_type(t: Type) -> Type:
    return promoted(t) if isinstance(t, Scalar) else t


def c_common(a: Type, b: Type) -> Type:
    if a == b and not (isinstance(a, Scalar) and a.is_int):
        return a
    return common_type(a, b) if isinstance(a, Scalar) and isinstance(b, Scalar) else a


def negatable(c: Const) -> bool:
    return not c.ty.is_float and c.value > -(1 << 31)


def regroups(op: str, b: Piece, ctype: Type, left: Type) -> bool:
    """``a + (b - c)`` may lose its parentheses: integers of one size, where sums and products associate."""
    sizes = {promoted(t).bits if isinstance(t, Scalar) and not t.is_float else 0 for t in (ctype, b.ctype, left)}
    if len(sizes) != 1 or 0 in sizes:
        return False
    return (op == "+" and b.op in ("+", "-")) or (op == "*" and b.op == "*" and not b.divides)


def keeps_value(p: Piece, to: Scalar) -> bool:
    """Whether the conversion changes no value that ``p`` can have, so that the text may keep its narrower type."""
    f = p.ctype
    assert isinstance(f, Scalar)
    if f == BOOL:
        return to.is_int
    if f.is_int and to.is_int:
        if p.nonneg and to.bits >= 32:
            return True
        return to.bits > f.bits and (to.is_signed or not f.is_signed)
    return f.kind == to.kind == "float" and f.bits == 32 and to.bits == 64


def is_constant(e: Expr) -> bool:
    """Known at compile time, and an integral constant expression in C: literals, knobs, operators, ``cdiv``."""
    return all(
        isinstance(x, Const | Knob | Binary | Cast | Unary | Select) or (isinstance(x, Call) and x.fn == "cdiv")
        for x in walk_expr(e)
    )
