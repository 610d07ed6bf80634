"""C's integer arithmetic on numpy arrays: wrapping, truncating division, shifts that shift all out.

Every value domain shares these: only floating-point types differ between domains.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from ktc.ir.types import I32, U32, Scalar

DTYPES: dict[str, np.dtype] = {
    name: np.dtype(code)
    for name, code in {
        "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
        "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool",
        "copyevent": "int32",
    }.items()
}  # fmt: skip


def _quotient(a, b):
    """Truncating division. ``fmod`` has C's sign rule for integers, so ``a - fmod(a, b)`` divides exactly."""
    q = np.floor_divide(a - np.fmod(a, b), b)
    return np.asarray(q, dtype=np.asarray(a).dtype)[()]


def _shift(op: Callable) -> Callable:
    def shifted(a, b):
        value, by = np.asarray(a), np.asarray(b)
        bits = value.dtype.itemsize * 8
        over = (by < 0) | (by >= bits)
        if not over.any():
            return op(a, by.astype(value.dtype)[()])
        count = np.where(over, bits - 1, by).astype(value.dtype)
        signed = op is np.right_shift and value.dtype.kind == "i"
        sign = value >> (bits - 1) if signed else np.zeros_like(value)
        return np.where(over, sign, op(value, count)).astype(value.dtype)[()]

    return shifted


ARITHMETIC: dict[str, Callable] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _quotient,
    "%": np.fmod,
    "<<": _shift(np.left_shift),
    ">>": _shift(np.right_shift),
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}

COMPARE: dict[str, Callable] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}

SCALAR: dict[str, Callable] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
"""The same of two scalars of numpy, which know these operators: a function made for arrays takes ten times as long."""


def _unsigned(x):
    x = np.asarray(x)
    return x.view(np.dtype(f"uint{x.dtype.itemsize * 8}"))


def popcount(x):
    return np.bitwise_count(_unsigned(x)).astype(np.int32)[()]


def _bit_length(x) -> np.ndarray:
    """Position of the highest set bit plus one, 0 for 0: by smearing the bit downwards and counting."""
    u = _unsigned(x).copy()
    shift = 1
    while shift < u.dtype.itemsize * 8:
        u |= u >> u.dtype.type(shift)
        shift *= 2
    return np.bitwise_count(u).astype(np.int32)


def clz(x):
    return (np.int32(np.asarray(x).dtype.itemsize * 8) - _bit_length(x))[()]


def ffs(x):
    """One plus the position of the lowest set bit; 0 for 0."""
    u = _unsigned(x)
    lowest = u & (~u + u.dtype.type(1))
    return _bit_length(lowest)[()]


def brev(x):
    x = np.asarray(x)
    raw = np.frombuffer(np.ascontiguousarray(_unsigned(x)).tobytes(), np.uint8).reshape(-1, x.dtype.itemsize)
    bits = np.unpackbits(raw, axis=1, bitorder="little")[:, ::-1]
    packed = np.packbits(bits, axis=1, bitorder="little")
    return np.frombuffer(packed.tobytes(), x.dtype).reshape(x.shape).copy()[()]


def mulhi(a, b):
    """High half of the double-width product of 32- or 64-bit operands."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.itemsize == 8:
        return _wide_mulhi(a, b)
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    return ((a.astype(wide) * b.astype(wide)) >> wide(32)).astype(a.dtype)[()]


def _wide_mulhi(a: np.ndarray, b: np.ndarray):
    """``mulhi`` of 64 bits, by products of 32-bit halves; a negative operand counts 2**64 too much as unsigned."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x, y = _unsigned(a), _unsigned(b)
    lower = (x & low) * (y & low)
    middle = (x >> half) * (y & low) + (lower >> half)
    crossed = (x & low) * (y >> half) + (middle & low)
    high = (x >> half) * (y >> half) + (middle >> half) + (crossed >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.astype(a.dtype)[()]


def byte_perm(x, y, selector):
    """CUDA's ``__byte_perm``: nibble i of the selector picks byte i of the result from the eight bytes of y:x."""
    both = _unsigned(x).astype(np.uint64) | (_unsigned(y).astype(np.uint64) << np.uint64(32))
    s = _unsigned(selector).astype(np.uint64)
    out = np.zeros(np.broadcast(both, s).shape, np.uint64)
    for i in range(4):
        pick = (s >> np.uint64(4 * i)) & np.uint64(7)
        out |= ((both >> (pick * np.uint64(8))) & np.uint64(255)) << np.uint64(8 * i)
    return out.astype(np.uint32).astype(np.asarray(x).dtype)[()]


def cdiv(a, b):
    """Ceiling division for positive ``b``."""
    return _quotient(a + b - np.asarray(b).dtype.type(1), b)


def mul24(a, b):
    """The product of the low 24 bits of each (sign-extended for signed types), modulo 2^32."""
    dtype = np.asarray(a).dtype
    low = [(np.asarray(x).astype(np.int64) & 0xFFFFFF) for x in (a, b)]
    if dtype.kind == "i":
        low = [(x ^ 0x800000) - 0x800000 for x in low]
    return (low[0] * low[1]).astype(np.uint64).astype(np.uint32).astype(dtype)[()]


def dp4a(a, b, c):
    """The sum of the products of four bytes, added to ``c``; signed if ``a`` is."""
    dtype = np.asarray(c).dtype
    total = np.asarray(c).astype(np.int64)
    for i in range(4):
        x, y = ((np.asarray(v).astype(np.int64) >> (8 * i)) & 0xFF for v in (a, b))
        if np.asarray(a).dtype.kind == "i":
            x, y = ((v ^ 0x80) - 0x80 for v in (x, y))
        total = total + x * y
    return total.astype(np.uint64).astype(np.uint32).astype(dtype)[()]


FUNCTIONS: dict[str, Callable] = {
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "popc": popcount,
    "clz": clz,
    "ffs": ffs,
    "brev": brev,
    "mulhi": mulhi,
    "byte_perm": byte_perm,
    "cdiv": cdiv,
    "mul24": mul24,
    "dp4a": dp4a,
}


@np.errstate(all="ignore")  # NaN and what is out of range have their values here
def from_float(x, t: Scalar, source: Scalar):
    """float -> integer as CUDA converts: toward zero, saturating, NaN to 0; to fewer than 32 bits by 32 of them, whose
    lower ones are kept (``cvt.rzi.s32.f32``, ``st.u8``), but from 16-bit floats, whose classes convert by ``cvt``."""
    if t.kind == "bool":
        return np.asarray(x != 0)[()]
    if t.bits < 32 <= source.bits:
        return cast(from_float(x, I32 if t.is_signed else U32, source), t)
    x = np.trunc(np.asarray(x, dtype=np.float64))
    dtype = DTYPES[t.name]
    info = np.iinfo(dtype)
    low, high = float(info.min), float(info.max)  # float(max) may round up to 2^63 or 2^64: clip with >=
    inside = np.where((x > low) & (x < high), x, 0.0).astype(dtype)
    out = np.where(x >= high, info.max, np.where(x <= low, info.min, inside)).astype(dtype)
    return out[()]


def from_whole(x, t: Scalar, source: Scalar, largest: int):
    """The same of exact numbers, where those beyond ``largest`` stand for infinity."""
    if t.kind == "bool":
        return np.asarray(x != 0)[()]
    if t.bits < 32 <= source.bits:
        return cast(from_whole(x, I32 if t.is_signed else U32, source, largest), t)
    info = np.iinfo(DTYPES[t.name])
    return np.clip(x, max(info.min, -largest), min(info.max, largest)).astype(DTYPES[t.name])[()]


def cast(x, dst: Scalar):
    """integer or bool -> integer or bool."""
    if dst.kind == "bool":
        return np.asarray(x != 0)[()]
    return np.asarray(x).astype(DTYPES[dst.name])[()]
