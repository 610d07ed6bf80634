"""When C computes what the IR means: the conversion rules behind every dropped cast and parenthesis."""

from __future__ import annotations

import math
import struct

from ktc.ir.arith import ANY, Interval
from ktc.ir.arith.interval_operators import BINARY
from ktc.ir.fold import common_type
from ktc.ir.nodes import COMPARISONS, Binary, Call, Cast, Const, Expr, Knob, Select, Unary
from ktc.ir.types import BOOL, F32, U32, Scalar, Type
from ktc.ir.walk import walk_expr

from .piece import LIMIT, Piece, promoted

MODULAR = frozenset({"+", "-", "*", "&", "|", "^", "<<"})
"""Operators whose low bits depend only on the low bits of their operands."""
SIGN_FREE = frozenset({"/", "%", ">>", "&", "|", "^"}) | COMPARISONS
"""Operators that give one value in signed and unsigned arithmetic when both operands are small and not negative."""


def is_int32(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_int and t.bits == 32


def promoted_type(t: Type) -> Type:
    """The type of ``t`` after C's integer promotion."""
    return promoted(t) if isinstance(t, Scalar) else t


def c_common(a: Type, b: Type) -> Type:
    """The type in which C computes ``a op b``."""
    if a == b and not (isinstance(a, Scalar) and (a.is_int or a == BOOL)):
        return a
    return common_type(a, b) if isinstance(a, Scalar) and isinstance(b, Scalar) else a


def negatable(c: Const) -> bool:
    """Whether ``-c`` is an ``int`` too."""
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


def upper_bound(op: str, a: int | None, b: int | None, t: Scalar) -> int | None:
    """Largest value of ``a op b`` for operands in [0, a] and [0, b]; None: not known to be in [0, 2^31).

    A signed 32-bit sum or product that leaves the range is undefined, so such a result may be taken to stay in it.
    """
    if (a is None or b is None) and op not in ("&", ">>"):
        return None
    x, y = (ANY if most is None else Interval(0, most) for most in (a, b))
    found = BINARY[op](x, y.meet(Interval(None, 31)) if op == "<<" else y) if op in BINARY else ANY
    if not found.never_negative or found.high is None:
        return None
    if found.high > LIMIT:
        return LIMIT if t.is_signed and t.bits <= 32 else None
    return found.high


def computes(op: str, x: Piece, y: Piece, t: Scalar, wrap: bool) -> bool:
    """Whether C's usual conversions of ``x`` and ``y`` give ``op`` the value that it has in the integer type ``t``."""
    want = promoted(t)
    assert isinstance(x.ctype, Scalar) and isinstance(y.ctype, Scalar)
    c = common_type(x.ctype, y.ctype)
    if c == want:
        return True
    if c.is_float:
        return False
    if wrap and c.bits >= want.bits and (not c.is_signed or want.is_signed or cannot_overflow(op, x, y, c)):
        return True
    if op in COMPARISONS and all(widens(s.ctype, c) and widens(s.ctype, want) for s in (x, y)):
        return True
    if not (x.nonneg and y.nonneg):
        return False
    return op in SIGN_FREE or (op in "+*" and upper_bound(op, x.upper, y.upper, t) is not None)


def unsigned(t: Type) -> bool:
    """Whether arithmetic in ``t`` wraps."""
    return isinstance(t, Scalar) and t.is_int and not t.is_signed and t.bits >= 32


def cannot_overflow(op: str, x: Piece, y: Piece, c: Scalar) -> bool:
    """Whether ``op`` has a value in the signed type ``c`` whatever the operands are: an overflow has none in C."""
    if op in ("&", "|", "^", "?"):
        return True
    if op == "-":
        return x.nonneg and y.nonneg
    return op in ("+", "*", "<<") and upper_bound(op, x.upper, y.upper, U32) is not None


def widens(source: Type, to: Scalar) -> bool:
    """Whether ``to`` holds every value of the integer type ``source``."""
    if not isinstance(source, Scalar) or source.is_float:
        return False
    return source in (to, BOOL) or (to.bits > source.bits and (to.is_signed or not source.is_signed))


def infinity_or_nan(e: Cast) -> Const | None:
    """The float that ``__int_as_float(0x7f800000)`` and its like spell, if it is an infinity or NaN."""
    if e.to != F32 or not isinstance(e.x, Const) or e.x.ty.is_float or e.x.ty.bits != 32:
        return None
    value = struct.unpack("<f", struct.pack("<I", int(e.x.value) & 0xFFFFFFFF))[0]
    return Const(value, F32) if math.isinf(value) or math.isnan(value) else None


def is_constant(e: Expr) -> bool:
    """Known at compile time, and an integral constant expression in C: literals, knobs, operators, ``cdiv``."""
    return all(
        isinstance(x, Const | Knob | Binary | Cast | Unary | Select) or (isinstance(x, Call) and x.fn == "cdiv")
        for x in walk_expr(e)
    )
