"""What the expression printer passes around: text, how tightly it binds, and the C type the text has.

The type of the *text* may differ from the IR type of the expression it prints (a dropped conversion, a promotion),
but the value never does. Whoever needs the exact type asks for a conversion; whoever only needs the value does not,
which is how redundant casts disappear without changing meaning.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

from ktc.ir.nodes import Const
from ktc.ir.types import BOOL, F64, I32, I64, Scalar, Type

# C operator precedence, higher binds tighter (ISO C 6.5).
POSTFIX, UNARY, TERNARY, ASSIGN = 16, 15, 3, 2
LIMIT = (1 << 31) - 1
HW_UPPER = {"thread": 65535, "block_dim": 65535, "block": LIMIT, "grid_dim": LIMIT}
"""No device has larger blocks: 1024 work-items on GPUs, 8192 on OpenCL CPUs."""
BINARY_PREC = {
    "*": 13, "/": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11, "<": 10, "<=": 10, ">": 10, ">=": 10,
    "==": 9, "!=": 9, "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4,
}  # fmt: skip

CLARIFY = {
    "<<": {"+", "-", "*", "/", "%"}, ">>": {"+", "-", "*", "/", "%"},
    "&": {"+", "-", "*", "/", "%", "<<", ">>", "==", "!=", "<", ">", "<=", ">="},
    "|": {"+", "-", "*", "/", "%", "<<", ">>", "&", "^"}, "^": {"+", "-", "*", "/", "%", "<<", ">>", "&"},
    "||": {"&&"},
}  # fmt: skip
"""Operands that get parentheses although the grammar needs none: mixtures every compiler warns about."""


@dataclass(frozen=True)
class Piece:
    """Printed expression. ``upper``: the integer is known to be in [0, upper] with upper < 2^31, so that its signedness
    and width do not matter.

    ``op`` is the outermost operator; ``divides``: a product with a quotient in it, which does not regroup.
    """

    text: str
    prec: int
    ctype: Type
    upper: int | None = None
    literal: Const | None = None
    op: str = ""
    divides: bool = False

    @property
    def nonneg(self) -> bool:
        return self.upper is not None

    def at(self, prec: int) -> str:
        """The text, in parentheses if it binds looser than ``prec``."""
        return self.text if self.prec >= prec else f"({self.text})"


def integer_literal(value: int, ty: Scalar, suffixes: dict[str, str], spelling: str = "") -> str:
    """``value`` as a literal of type ``ty``; hexadecimal stays hexadecimal, and masks become so."""
    base = re.fullmatch(r"(0[xX][0-9a-fA-F]+|0[bB][01]+)[uUlL]*", spelling)
    if base and int(base[1], 0) == value:
        digits = base[1]
    elif value >= 0xFFFF and value & (value + 1) == 0 and not ty.is_signed:
        digits = hex(value)
    else:
        digits = str(value)
    if ty == I32 and value == -(1 << 31):
        return "(-2147483647 - 1)"
    if ty == I64 and value == -(1 << 63):
        return f"(-9223372036854775807{suffixes['i64']} - 1)"
    return digits + suffixes.get(ty.name, "")


def literal_type(c: Const) -> Scalar:
    """The type C gives the unsuffixed decimal literal of ``c`` if that holds its value, else ``c``'s own type."""
    if c.ty.is_float or c.ty == BOOL:
        return c.ty
    return I32 if -(1 << 31) <= c.value < (1 << 31) else c.ty


def _shortest_f32(value: float) -> str:
    """The shortest decimal that reads back as ``value`` rounded to binary32 (numpy's str, without importing numpy)."""

    def f32(x: float) -> bytes:
        try:
            return struct.pack("<f", x)
        except OverflowError:
            return b"inf"

    tries = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return repr(next((x for x in tries if f32(x) == f32(value)), value))


def float_literal(value: float, ty: Scalar, spelling: str = "") -> str:
    """Shortest decimal that reads back to ``value``: ``1.0f``, ``1e-06f``, ``0.5``. Infinities and NaN are named."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    suffix = "" if ty == F64 else "f"
    source = re.fullmatch(r"((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)([fF]?)", spelling)
    if source and (source[2] != "") == (suffix != "") and re.search(r"[.eE]", source[1]):
        return source[1] + suffix
    digits = repr(float(value)) if ty == F64 else _shortest_f32(float(value))
    mantissa, exponent, power = digits.partition("e")
    if exponent:
        sign = "-" if power.startswith("-") else ""
        digits = f"{mantissa}e{sign}{power.lstrip('+-').lstrip('0')}"
    elif "." not in digits:
        digits += ".0"
    return digits + suffix


def promoted(t: Scalar) -> Scalar:
    """C's integer promotion."""
    return I32 if not t.is_float and (t.bits < 32 or t == BOOL) else t
