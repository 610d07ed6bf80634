"""Named constants of CUDA's and C's headers, the members of ``std::numeric_limits``, values of constant expressions."""

from __future__ import annotations

import dataclasses
import math
import operator
import struct
from collections.abc import Callable

from ktc.ir.fold import BIT_FUNCS, INT_OPS, fold_node
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Select, Unary
from ktc.ir.types import BF16, BOOL, F16, F32, F64, I32, I64, U32, U64, Scalar

_F32_MAX = 3.4028234663852886e38
_F64_MAX = 1.7976931348623157e308

NAMED: dict[str, Const] = {
    "INFINITY": Const(math.inf, F32, "INFINITY"), "HUGE_VALF": Const(math.inf, F32), "HUGE_VAL": Const(math.inf, F64),
    "CUDART_INF_F": Const(math.inf, F32), "CUDART_INF": Const(math.inf, F64), "CUDART_MAX_NORMAL_F": Const(_F32_MAX,
    F32),
    "CUDART_NAN_F": Const(math.nan, F32), "CUDART_NAN": Const(math.nan, F64), "NAN": Const(math.nan, F32),
    "CUDART_PI_F": Const(3.1415927410125732, F32), "CUDART_PI": Const(math.pi, F64), "M_PI": Const(math.pi, F64),
    "M_PI_2": Const(math.pi / 2, F64), "M_PI_4": Const(math.pi / 4, F64), "M_1_PI": Const(1 / math.pi, F64),
    "M_2_PI": Const(2 / math.pi, F64), "M_E": Const(math.e, F64), "M_LN2": Const(math.log(2), F64),
    "M_LOG2E": Const(math.log2(math.e), F64), "M_SQRT2": Const(math.sqrt(2), F64),
    "M_SQRT1_2": Const(math.sqrt(0.5), F64),
    "M_2_SQRTPI": Const(2 / math.sqrt(math.pi), F64), "FLT_MAX": Const(_F32_MAX, F32), "FLT_MIN": Const(2.0**-126, F32),
    "FLT_EPSILON": Const(2.0**-23, F32), "DBL_MAX": Const(_F64_MAX, F64), "DBL_MIN": Const(2.0**-1022, F64),
    "DBL_EPSILON": Const(2.0**-52, F64), "INT_MAX": Const(2**31 - 1, I32), "INT_MIN": Const(-(2**31), I32),
    "UINT_MAX": Const(2**32 - 1, U32), "LONG_MAX": Const(2**63 - 1, I64), "LLONG_MAX": Const(2**63 - 1, I64),
    "LLONG_MIN": Const(-(2**63), I64), "ULLONG_MAX": Const(2**64 - 1, U64), "INT32_MAX": Const(2**31 - 1, I32),
    "UINT32_MAX": Const(2**32 - 1, U32), "INT64_MAX": Const(2**63 - 1, I64), "UINT64_MAX": Const(2**64 - 1, U64),
    "SIZE_MAX": Const(2**64 - 1, U64), "CHAR_BIT": Const(8, I32), "UINT8_MAX": Const(255, I32),
    "SHRT_MAX": Const(32767, I32), "SHRT_MIN": Const(-32768, I32), "INT16_MAX": Const(32767, I32),
    "INT16_MIN": Const(-32768, I32), "UINT16_MAX": Const(65535, I32), "CHAR_MAX": Const(127, I32),
    "CHAR_MIN": Const(-128, I32), "SCHAR_MAX": Const(127, I32), "SCHAR_MIN": Const(-128, I32),
    "INT32_MIN": Const(-(2**31), I32), "INT64_MIN": Const(-(2**63), I64), "LONG_MIN": Const(-(2**63), I64),
    "ULONG_MAX": Const(2**64 - 1, U64),
    "INT8_MAX": Const(127, I32), "INT8_MIN": Const(-128, I32), "UCHAR_MAX": Const(255, I32),
    "USHRT_MAX": Const(65535, I32),
    "warpSize": Const(32, I32), "CUDART_ZERO_FP16": Const(0.0, F16), "CUDART_ONE_FP16": Const(1.0, F16),
    "CUDART_INF_FP16": Const(math.inf, F16), "CUDART_INF_BF16": Const(math.inf, BF16),
    "CLOCKS_PER_SEC": Const(1_000_000, I64),
}  # fmt: skip

_FLOAT = {  # max, smallest normal, epsilon
    F16: (65504.0, 2.0**-14, 2.0**-10),
    BF16: (3.3895313892515355e38, 2.0**-126, 2.0**-7),
    F32: (_F32_MAX, 2.0**-126, 2.0**-23),
    F64: (_F64_MAX, 2.0**-1022, 2.0**-52),
}


def limit(t: Scalar, member: str) -> Const | None:
    """``std::numeric_limits<t>::member()``, or None if there is no such member."""
    if t in _FLOAT:
        top, low, eps = _FLOAT[t]
        values = {"max": top, "lowest": -top, "min": low, "epsilon": eps, "infinity": math.inf, "quiet_NaN": math.nan}
        return Const(values[member], t) if member in values else None
    if t.is_int:
        low_i, top_i = t.extremes
        ints = {"max": top_i, "lowest": low_i, "min": low_i}
        return Const(ints[member], t) if member in ints else None
    return None


def limit_property(t: Scalar, member: str) -> Const | None:
    """``std::numeric_limits<t>::member``, a constant of the class, or None if there is no such member."""
    if t not in (F32, F64) and not t.is_int and t != BOOL:
        return None
    is_float = t in (F32, F64)
    digits = {F32: 24, F64: 53, BOOL: 1}.get(t, t.bits - t.is_signed)
    flags = {
        "is_specialized": True, "is_integer": not is_float, "is_exact": not is_float, "is_iec559": is_float,
        "is_signed": is_float or t.is_signed, "is_bounded": True,
        "is_modulo": t.is_int and t != BOOL and not t.is_signed,
        "has_infinity": is_float, "has_quiet_NaN": is_float, "has_signaling_NaN": is_float,
    }  # fmt: skip
    if member in flags:
        return Const(flags[member], BOOL)
    decimal = {F32: 6, F64: 15}.get(t, int(digits * math.log10(2)))
    numbers = {"digits": digits, "digits10": decimal, "radix": 2, "max_digits10": {F32: 9, F64: 17}.get(t, 0)}
    return Const(numbers[member], I32) if member in numbers else None


def folded_float(e: Expr) -> Const | None:
    """The value of a constant floating-point expression, each operation rounded to its type; None if it has none."""
    if isinstance(e, Const):
        return e
    t = e.type
    if not isinstance(t, Scalar) or (t not in (F32, F64) and not t.is_int):
        return None
    if isinstance(e, Unary) and e.op == "-" and (x := folded_float(e.x)) is not None and t.is_float:
        return Const(-x.value, t)
    if isinstance(e, Cast) and e.style != "bit" and (x := folded_float(e.x)) is not None:
        if t.is_float:
            return Const(_rounded(float(x.value), t), t)
        exact = math.isfinite(x.value) and abs(x.value) < 2.0 ** (t.bits - 1) and (t.is_signed or x.value >= 0)
        return Const(int(x.value), t) if exact else None
    if isinstance(e, Binary) and e.op in _ARITHMETIC and t.is_float:
        a, b = folded_float(e.a), folded_float(e.b)
        if a is None or b is None or (e.op == "/" and b.value == 0):
            return None
        return Const(_rounded(_ARITHMETIC[e.op](float(a.value), float(b.value)), t), t)
    return None


def folded_integer(e: Expr) -> Const | None:
    """The value of a constant integer expression where unsigned arithmetic and conversions wrap; None if none.

    What overflows a signed type has no value.
    """
    if isinstance(e, Const):
        return e if e.ty.is_int or e.ty == BOOL else None
    t = e.type
    if not isinstance(t, Scalar) or t.is_float or not isinstance(e, Unary | Binary | Cast | Select | Call):
        return None
    if isinstance(e, Call):
        args = [c for a in e.args if (c := folded_integer(a)) is not None] if e.fn in BIT_FUNCS else []
        folded = fold_node(dataclasses.replace(e, args=tuple(args))) if len(args) == len(e.args) else None
        return folded if isinstance(folded, Const) else None
    if isinstance(e, Select):
        c = folded_integer(e.cond)
        return None if c is None else folded_integer(e.a if c.value else e.b)
    if isinstance(e, Cast):
        x = folded_integer(e.x)
        return None if x is None or e.style == "bit" else const_as(x, t)
    if isinstance(e, Unary):
        x = folded_integer(e.x)
        if x is None or e.op not in _SIGNS:
            return None
        return _wrapped(_SIGNS[e.op](int(x.value)), t)
    a, b = folded_integer(e.a), folded_integer(e.b)
    if a is None or b is None or (e.op in "/%" and b.value == 0):
        return None
    if e.op in ("<<", ">>") and not 0 <= b.value < a.ty.bits:
        return None
    if e.op == "<<" and a.value >= 0 and (shifted := int(a.value) << int(b.value)) < 1 << t.bits:
        return const_as(Const(shifted, t), t)  # into the sign bit as well ([expr.shift] since CWG 1457)
    return _wrapped(INT_OPS[e.op](a.value, b.value), t)


_SIGNS: dict[str, Callable[[int], int]] = {
    "-": operator.neg, "~": operator.invert, "+": operator.pos, "!": operator.not_
}  # fmt: skip


def _wrapped(v: int, t: Scalar) -> Const | None:
    if t == BOOL:
        return Const(bool(v), BOOL)
    if not t.is_signed:
        return Const(v & ((1 << t.bits) - 1), t)
    return Const(v, t) if -(1 << (t.bits - 1)) <= v < 1 << (t.bits - 1) else None


def const_as(c: Const, to: Scalar) -> Const | None:
    """A literal converted exactly as C++ would, or None when a cast must stay."""
    if to == BOOL:
        return Const(bool(c.value), BOOL)
    if to.is_int and not isinstance(c.value, float):
        mask = (1 << to.bits) - 1
        raw = int(c.value) & mask
        if to.is_signed and raw >> (to.bits - 1):
            raw -= mask + 1
        return Const(raw, to, c.spelling if raw == c.value and not isinstance(c.value, bool) else "")
    if to in (F32, F64):
        value = float(c.value)
        if to == F32 and abs(value) < 3.4e38:
            value = struct.unpack("f", struct.pack("f", value))[0]
        return Const(value, to)
    return None


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv
}  # fmt: skip


def _rounded(x: float, t: Scalar) -> float:
    """``x`` rounded to ``t``; one double operation on floats rounds like one float operation (2 * 24 + 2 <= 53)."""
    if t == F64 or not math.isfinite(x):
        return x
    return struct.unpack("f", struct.pack("f", x))[0] if abs(x) <= _F32_MAX else math.copysign(math.inf, x)


_BITS: dict[Scalar, tuple[str, str]] = {F16: ("H", "e"), F32: ("I", "f"), F64: ("Q", "d")}
"""Formats of a float's bits and of its value, for ``struct``."""


def of_bits(c: Const, to: Scalar) -> Const | None:
    """The number of type ``to`` that the bits of the integer ``c`` are; None for a NaN, whose bits a number loses."""
    if to not in _BITS or c.ty.bits != to.bits or isinstance(c.value, float):
        return None
    bits, number = _BITS[to]
    (value,) = struct.unpack(number, struct.pack(bits, c.value & ((1 << to.bits) - 1)))
    return None if math.isnan(value) else Const(value, to)
