"""Operators, conversions and functions mean what C and CUDA say, for every type."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ktc.ir.interp.domains import integers
from ktc.ir.interp.domains.domain import domain_named
from ktc.ir.interp.domains.rounding import fma, round_to
from ktc.ir.types import BF16, E4M3, F16, F32, F64, I8, I32, I64, SCALARS, U8, U32, U64

DEVICE = domain_named("float")
INTS = (I8, I32, I64, U8, U32, U64)


def wrap(value: int, t) -> int:
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.is_signed and value >> (t.bits - 1) else value


def samples(t, seed: int) -> np.ndarray:
    info = np.iinfo(integers.DTYPES[t.name])
    rng = np.random.default_rng(seed)
    edge = np.array([info.min, info.max, info.min + 1, 0, 1, 7], integers.DTYPES[t.name])
    return np.concatenate([edge, rng.integers(info.min, info.max, 40, integers.DTYPES[t.name])])


def c_division(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


PYTHON = {
    "+": lambda a, b, t: a + b,
    "-": lambda a, b, t: a - b,
    "*": lambda a, b, t: a * b,
    "/": lambda a, b, t: c_division(a, b),
    "%": lambda a, b, t: a - b * c_division(a, b),
    "&": lambda a, b, t: a & b,
    "|": lambda a, b, t: a | b,
    "^": lambda a, b, t: a ^ b,
    "<<": lambda a, b, t: a << b if 0 <= b < t.bits else 0,  # as PTX: amounts are unsigned, the width shifts all out
    ">>": lambda a, b, t: a >> (b if 0 <= b < t.bits else t.bits),
}


@pytest.mark.parametrize("op", PYTHON)
@pytest.mark.parametrize("t", INTS, ids=str)
def test_integer_operators_wrap_and_truncate(op: str, t) -> None:
    a, b = samples(t, 1), samples(t, 2)[::-1].copy()
    if op in "/%":
        b[b == 0] = 3
    with np.errstate(all="ignore"):
        got = DEVICE.arith(op, a, b, t)
    assert got.dtype == a.dtype
    assert [int(g) for g in got] == [wrap(PYTHON[op](int(x), int(y), t), t) for x, y in zip(a, b)]


@pytest.mark.parametrize("t", (I32, U32, I64, U64), ids=str)
def test_bit_functions(t) -> None:
    x = samples(t, 3)
    words = [int(v) & ((1 << t.bits) - 1) for v in x]
    assert list(integers.popcount(x)) == [w.bit_count() for w in words]
    assert list(integers.clz(x)) == [t.bits - w.bit_length() for w in words]
    assert list(integers.ffs(x)) == [(w & -w).bit_length() for w in words]
    mirrored = [wrap(int(format(w, f"0{t.bits}b")[::-1], 2), t) for w in words]
    assert [int(v) for v in integers.brev(x)] == mirrored


def test_high_product_and_byte_permutation() -> None:
    a, b = samples(I32, 4), samples(I32, 5)
    assert [int(v) for v in integers.mulhi(a, b)] == [int(x) * int(y) >> 32 for x, y in zip(a, b)]
    assert int(integers.byte_perm(np.uint32(0x33221100), np.uint32(0x77665544), np.uint32(0x7410))) == 0x77441100


WILD = (1.9, -1.9, 0.0, math.nan, math.inf, -math.inf, 1e30, -1e30)


@pytest.mark.parametrize("t", [t for t in INTS if t.bits >= 32], ids=str)
def test_float_to_int_truncates_saturates_and_zeroes_nan(t) -> None:
    info = np.iinfo(integers.DTYPES[t.name])
    x = np.array([*WILD, float(info.max)], np.float64)
    low = 0 if info.min == 0 else -1
    expected = [1, low, 0, 0, info.max, info.min, info.max, info.min, info.max]
    assert [int(v) for v in DEVICE.cast(x, F64, t)] == expected


@pytest.mark.parametrize("t", [t for t in INTS if t.bits < 32], ids=str)
def test_narrow_integers_are_the_lower_bits_of_32_but_from_halves(t) -> None:
    """``(signed char)x`` is ``cvt.rzi.s32.f32`` and its lowest byte stored; __half converts by ``cvt.rzi.s8.f16``."""
    whole = I32 if t.is_signed else U32
    x = np.array([*WILD, 300.5, -300.5, 70000.0], np.float32)
    assert [int(v) for v in DEVICE.cast(x, F32, t)] == [wrap(int(v), t) for v in DEVICE.cast(x, F32, whole)]
    info = np.iinfo(integers.DTYPES[t.name])
    big, small = DEVICE.cast(np.array([65504.0, -65504.0], np.float16), F16, t)
    assert (int(big), int(small)) == (min(65504, info.max), max(-65504, info.min))


def test_small_floats_round_once_to_nearest_even() -> None:
    assert float(round_to(np.float64(1 + 2**-11), F16)) == 1.0  # tie to even
    assert float(round_to(np.float64(1 + 2**-11 + 2**-40), F16)) == 1 + 2**-10
    assert float(round_to(np.float64(1 + 2**-9 + 2**-40), BF16)) == 1.0
    # just above a bf16 tie, but on it after rounding to float first: double rounding would go the wrong way
    assert float(round_to(np.float64(1 + 2**-8 + 2**-40), BF16)) == 1 + 2**-7
    assert float(round_to(np.float64(1e6), E4M3)) == 448.0  # saturates


def test_each_operation_of_a_small_type_rounds() -> None:
    one, tiny = np.float16(1), np.float16(2**-11)
    assert DEVICE.arith("+", DEVICE.arith("+", one, tiny, F16), tiny, F16) == np.float16(1)
    total = DEVICE.arith("+", ml_dtypes.bfloat16(256), ml_dtypes.bfloat16(1), BF16)
    assert float(total) == 256.0 and total.dtype == ml_dtypes.bfloat16


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal(500).astype(np.float32) for _ in range(2))
    c = (-a * b).astype(np.float32)  # the product's own rounding error is all that is left
    got = fma(a, b, c, np.dtype(np.float32))
    for x, y, z, h in zip(a, b, c, got):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert Fraction(float(h)) == exact  # representable: must be exact
    # a case that double rounding through float64 gets wrong
    x = np.float32(1 + 2**-23)
    h = fma(x, x, np.float32(2**-70), np.dtype(np.float32))
    assert h == np.float32(1 + 2**-22)
    tie = fma(np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2**-80), np.dtype(np.float32))
    assert tie == np.float32(1 + 2**-11 + 2**-23)


def test_reinterpretation_of_bits() -> None:
    bits = DEVICE.bitcast(np.float32(-1.5), F32, U32)
    assert int(bits) == struct.unpack("<I", struct.pack("<f", -1.5))[0]
    assert float(DEVICE.bitcast(bits, U32, F32)) == -1.5


def test_min_and_max_ignore_nan() -> None:
    x, nan = np.float32(3), np.float32(math.nan)
    assert DEVICE.call("max", [x, nan], F32) == 3 and DEVICE.call("min", [nan, x], F32) == 3


@pytest.mark.parametrize("name", sorted(SCALARS))
def test_literals_have_their_type(name: str) -> None:
    for domain in ("float", "float64", "int", "field", "bound"):
        d = domain_named(domain)
        assert d.const(1, SCALARS[name]).dtype == d.dtype(SCALARS[name])
    assert int(DEVICE.const(0xFFFFFFFF, U32)) == 0xFFFFFFFF and int(DEVICE.const(0xFFFFFFFF, I32)) == -1
