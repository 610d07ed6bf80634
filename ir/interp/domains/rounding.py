"""Correctly rounded helpers that numpy lacks: fused multiply-add, and conversions to the small float types."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ktc.ir.types import Scalar

FLOAT_DTYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}

UNIT_ROUNDOFF: dict[str, float] = {
    "f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53, "bf16": 2.0**-8, "e4m3": 2.0**-4, "e5m2": 2.0**-3,
}  # fmt: skip
"""Half the distance from 1 to the next number: the relative error of one rounding to nearest."""

SMALLEST: dict[str, float] = {
    "f16": 2.0**-24, "f32": 2.0**-149, "f64": 2.0**-1074, "bf16": 2.0**-133, "e4m3": 2.0**-9, "e5m2": 2.0**-16,
}  # fmt: skip
"""The smallest positive (subnormal) number of each type."""

LARGEST: dict[str, float] = {name: float(ml_dtypes.finfo(dtype).max) for name, dtype in FLOAT_DTYPES.items()}
"""The largest finite number of each type."""


def _two_sum(a, b):
    """``(s, e)`` with s = fl(a + b) and s + e = a + b exactly (Knuth)."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


def to_odd_sum(a, b):
    """``a + b`` in double, rounded to odd: a later rounding to a type of at most 51 bits is then correct.

    Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd".
    """
    s, e = _two_sum(np.asarray(a, np.float64), np.asarray(b, np.float64))
    s = np.asarray(s)
    bits = s.view(np.int64)
    adjust = np.isfinite(s) & (e != 0) & ((bits & 1) == 0)
    outward = (e > 0) == (s > 0)
    return np.where(adjust, np.where(outward, bits + 1, bits - 1), bits).view(np.float64)[()]


@np.errstate(all="ignore")
def fma(a, b, c, dtype: np.dtype):
    """``a*b + c`` with one rounding for 16- and 32-bit types (their product is exact in double).

    For double, numpy has no exact product: a compensated sum that is right to well under 1 ulp is used.
    """
    a, b, c = (np.asarray(x, np.float64) for x in (a, b, c))
    if dtype.itemsize < 8:
        return to_odd_sum(a * b, c).astype(dtype)[()]
    beyond = np.isfinite(a) & np.isfinite(b) & ~np.isfinite(a * b)
    if beyond.any():  # the sum may be less than the product
        return np.asarray(np.where(beyond, fma(a * _SMALLER, b, c * _SMALLER, dtype) / _SMALLER,
                                   fma(np.where(beyond, 0.0, a), b, c, dtype)))[()]  # fmt: skip
    high, low = _two_product(a, b)
    s, e = _two_sum(high, c)
    rest = e + low
    return np.asarray(np.where(np.isfinite(s + rest) & (rest != 0), s + rest, s))[()]


_SMALLER = 2.0**-1000
"""By which one factor is scaled whose product is beyond the largest double: no product of two is then."""


def _two_product(a, b):
    """Dekker's product: high + low = a*b barring overflow."""
    splitter = 134217729.0  # 2^27 + 1
    p = a * b

    def split(x):
        t = splitter * x
        hi = t - (t - x)
        return hi, x - hi

    ah, al = split(a)
    bh, bl = split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@np.errstate(all="ignore")  # what is beyond the type is infinite there, and nothing to warn of
def round_to(x, t: Scalar):
    """``x`` rounded once to ``t``, to nearest even.

    The 8-bit types saturate at their largest finite number, and their NaN is 0x7f (CUDA's constructors, which are
    ``cvt.rn.satfinite``: PTX ISA 8.5, 9.7.9.21).
    """
    dtype = FLOAT_DTYPES[t.name]
    x = np.asarray(x)
    if t.bits == 8:
        x = _odd_float32(x) if x.dtype == np.float64 else x.astype(np.float32)
        largest = np.float32(ml_dtypes.finfo(dtype).max)
        out = np.asarray(np.clip(x, -largest, largest).astype(dtype))
        return np.where(np.isnan(x), np.uint8(0x7F), out.view(np.uint8)).astype(np.uint8).view(dtype)[()]
    if t.name == "bf16" and x.dtype == np.float64:
        x = _odd_float32(x)
    return x.astype(dtype)[()]


def converted(x, t: Scalar):
    """Numbers rounded once to ``t``, integers too."""
    x = np.asarray(x)
    return round_to(x.astype(np.float64) if t.bits == 64 else _odd_double(x), t)


def _odd_double(x: np.ndarray) -> np.ndarray:
    """Numbers as doubles, integers of 64 bits rounded to odd: rounding these to f32 or less is a single rounding."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        low, most = x.dtype.type(0xFFF), x.dtype.type(1 << 53)
        cut = (x & ~low) | np.where(x & low, x.dtype.type(0x800), x.dtype.type(0))  # one bit for those that do not fit
        beyond = (x > most) | (x < -most) if x.dtype.kind == "i" else x > most
        x = np.where(beyond, cut, x)
    return x.astype(np.float64)


def _odd_float32(x: np.ndarray) -> np.ndarray:
    """double -> float rounded to odd, so that a following rounding to a narrow type is a single rounding of ``x``."""
    with np.errstate(over="ignore"):
        near = x.astype(np.float32)
    error = x - near.astype(np.float64)
    bits = near.view(np.int32)
    adjust = np.isfinite(near) & (error != 0) & ((bits & 1) == 0)
    outward = np.abs(x) > np.abs(near)
    return np.where(adjust, np.where(outward, bits + 1, bits - 1), bits).view(np.float32)
