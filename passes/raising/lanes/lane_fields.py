"""Fields of bits of words, and the lanes that take them: which lane takes which bits, as an expression of its number.

before (4 lanes of a byte each)                 after
    w & 255, w >> 8 & 255,                          w >> lane * 8 & 255
    w >> 16 & 255, w >> 24

Weights in few bits lie several in a word; hand-written code takes them apart by shifts and masks, each in its own way:
the last has no mask, the first no shift, signed ones are shifted up and down again, or converted to a short type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ktc.ir.arith.integer_casts import holds_every_value
from ktc.ir.fold import add, binary, cast, i32, mul
from ktc.ir.nodes import Binary, Cast, Const, Expr, Var
from ktc.ir.types import I8, I32, U32, U64, Scalar

from .digit_tables import digits

Meaning = Callable[[Expr], Expr | None]
"""What a variable was given, if it never changes."""


@dataclass(frozen=True)
class Field:
    """The ``bits`` of ``word`` from bit ``at`` on, as a number: of two's complement where ``is_signed``."""

    word: Expr
    at: int
    bits: int
    is_signed: bool

    @property
    def high(self) -> int:
        """The bit behind its last."""
        return self.at + self.bits


def field_of(e: Expr, given: Meaning) -> Field | None:
    """The field that the integer ``e`` is, or None where it is no part of a word."""
    found = _field(e, given)
    t = e.type
    if found is None or not isinstance(t, Scalar) or found.bits >= _bits(found.word):
        return None
    return found if found.bits < t.bits or found.is_signed == t.is_signed else None


def _field(e: Expr, given: Meaning) -> Field | None:
    """As :func:`field_of`, or all of a word."""
    t = e.type
    if not isinstance(t, Scalar) or not t.is_int:
        return None
    if isinstance(e, Cast) and e.style != "bit":
        return _converted(e, t, given)
    if isinstance(e, Binary) and isinstance(e.b, Const) and not isinstance(e.b.value, float):
        return _cut(e, t, int(e.b.value), given)
    meaning = given(e)
    inner = _field(meaning, given) if isinstance(meaning, Binary | Cast) else None
    return inner if inner is not None and inner.bits < _bits(inner.word) else Field(e, 0, t.bits, t.is_signed)


def _converted(e: Cast, t: Scalar, given: Meaning) -> Field | None:
    source = e.x.type
    found = _field(e.x, given) if isinstance(source, Scalar) and source.is_int else None
    if found is None:
        return None
    if t.bits < found.bits or (t.bits == found.bits and t.is_signed != found.is_signed):
        return Field(found.word, found.at, t.bits, t.is_signed)  # its low bits
    return found if holds_every_value(t, source) or not found.is_signed or t.is_signed else None


def _cut(e: Binary, t: Scalar, n: int, given: Meaning) -> Field | None:
    """What ``e``, an operation with the number ``n``, cuts out of a word."""
    if e.op == "&" and n > 0 and n & (n + 1) == 0:
        return _masked(e.a, n.bit_length(), given)
    if e.op == ">>" and 0 <= n < t.bits:
        return _shifted(e.a, t, n, given)
    whole = _field(e.a, given) if n > 0 and n & (n - 1) == 0 and e.op in ("/", "%") else None
    if whole is None or whole.is_signed:
        return None
    return _shifted(e.a, t, n.bit_length() - 1, given) if e.op == "/" else _masked(e.a, n.bit_length() - 1, given)


def _masked(e: Expr, bits: int, given: Meaning) -> Field | None:
    """The lowest ``bits`` of ``e``."""
    x = _field(e, given)
    if x is None or not bits or (x.is_signed and bits > x.bits):
        return None
    return Field(x.word, x.at, min(bits, x.bits), False)


def _shifted(e: Expr, t: Scalar, n: int, given: Meaning) -> Field | None:
    """What is left of ``e``, of the type ``t``, after ``n`` of its bits."""
    while isinstance(e, Cast) and e.style != "bit" and isinstance(e.x.type, Scalar) and e.x.type.bits == t.bits:
        e = e.x  # its bits as a number with a sign
    if isinstance(e, Binary) and isinstance(e.b, Const) and not isinstance(e.b.value, float):
        m, inner = int(e.b.value), None
        if e.op == "<<" and 0 <= m <= n:  # up and down again
            inner = _field(e.a, given)
            wide = inner is not None and inner.bits >= t.bits - m
            return Field(inner.word, inner.at + n - m, t.bits - n, t.is_signed) if inner is not None and wide else None
        if e.op == "&" and m > 0 and (mask := m >> n) & (mask + 1) == 0 and mask:
            inner = _field(e.a, given)
            if inner is None or n + mask.bit_length() > inner.bits:
                return None
            return Field(inner.word, inner.at + n, mask.bit_length(), False)
    x = _field(e, given)
    return Field(x.word, x.at + n, x.bits - n, x.is_signed) if x is not None and n < x.bits else None


def _bits(word: Expr) -> int:
    assert isinstance(word.type, Scalar)
    return word.type.bits


def taken(field: Field, word: Expr, at: Expr, t: Scalar) -> Expr:
    """As ``field``, of ``word`` from bit ``at`` on, an integer of the type ``t``."""
    wide = U64 if _bits(word) > U32.bits else U32
    shifted = Binary(">>", cast(word, wide), at)
    if field.is_signed and field.bits == I8.bits:
        return cast(Cast(I8, shifted, "c"), t)
    kept = Binary("&", shifted, Const((1 << field.bits) - 1, wide))
    if not field.is_signed:
        return kept if kept.type == t else Cast(t, kept, "c")  # C has it unsigned else, and less a number it wraps
    sign = 1 << (field.bits - 1)
    return cast(binary("-", binary("^", Cast(I32, kept, "c"), i32(sign)), i32(sign)), t)


def numbers(lane: Var, values: Sequence[int]) -> Expr | None:
    """The expression of ``lane`` that is each of ``values`` in its turn: a number of its own times a digit of the
    lane's, or a table in a constant's bits; None where there is none."""
    first = values[0]
    for run in (n for n in range(len(values), 0, -1) if len(values) % n == 0):
        inner = values[1] - first if run > 1 else 0
        outer = values[run] - first if run < len(values) else 0
        if all(v == first + k % run * inner + k // run * outer for k, v in enumerate(values)):
            within, turns = (_digit(lane, op, run, len(values)) for op in ("%", "/"))
            return add(i32(first), add(mul(within, i32(inner)), mul(turns, i32(outer))))
    return digits(values, lane, I32)


def _digit(lane: Var, op: str, run: int, count: int) -> Expr:
    """The digit of ``lane``, below ``count``, in runs of ``run``."""
    if run == 1 or run == count:
        return lane if (op == "%") == (run == count) else i32(0)
    return Binary(op, lane, i32(run))


__all__ = ["Field", "field_of", "numbers", "taken"]
