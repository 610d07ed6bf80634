"""The ``int`` domain: floats are elements of the ring Z/2^64, held as wrapping signed 64-bit integers.

Why a ring and not "small integers": sums and products wrap but stay exact, so any reassociation or distribution gives
the same bits, while max, min and comparisons see small inputs as the integers they are. On top of the ring:

* 1/2 is a fixed odd element H and 1/odd its modular inverse, so ``x/y == x*rcp(y)`` and ``rcp`` is multiplicative.
  Every float literal m*2^-k is m*H^k. The one identity given up is 2*H == 1.
* ``exp(x) = G^x`` with G = 3 (mod 8): the order of G is 2^62 and divides 2^64, so exp(x+y) = exp(x)exp(y) holds
  exactly, and so do the identities of sigmoid, tanh and online softmax.
* floats to floats casts are exact; all other functions are keyed hashes.
* bit patterns are the machine's for small whole numbers, hashes of others (``bit_patterns``).
* +-infinity are the largest and smallest elements: identities of min and max, found by ``isinf``.

Blind spots: rounding, NaN, -0, and anything special to infinities other than max/min/isinf.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ktc.ir.field_words import TWOS, WHOLE
from ktc.ir.interp.execution.true_counts import all_true
from ktc.ir.types import Scalar

from . import integers
from .bit_patterns import reinterpreted
from .domain import Domain, Unsupported
from .keyed_hashes import HUGE, dyadic, keyed, whole_numbers
from .powers import KnownValues, power_of, scale_of, whole_power
from .realmath import OPERATORS, REALS, plain_name

_MASK = (1 << 64) - 1
_HALF = 0xD1342543DE82EF95  # odd: stands for 1/2
_BASE = 0x9E3779B97F4A7C1B  # = 3 (mod 8): order 2^62
_INF = np.int64((1 << 63) - 1)
_LN2_F32 = float(np.float32(math.log(2)))
_LOG2E_F32 = float(np.float32(math.log2(math.e)))


def _signed(v: int) -> np.int64:
    v &= _MASK
    return np.int64(v - (1 << 64) if v >> 63 else v)


def _literal(value: float) -> int:
    m, k = dyadic(value)
    return m * (pow(2, k, 1 << 64) if k >= 0 else pow(_HALF, -k, 1 << 64)) & _MASK


_LOG2E = _literal(_LOG2E_F32) | 1  # made a unit, so that ln 2 can be its exact inverse
_LN2 = pow(_LOG2E, -1, 1 << 64)


def _u(x):
    return np.asarray(x).astype(np.int64, copy=False).view(np.uint64)


def _s(x):
    return np.asarray(x).view(np.int64)[()]


def _reciprocal(x):
    """H^k / odd for x = 2^k * odd; infinity for 0."""
    u = _u(x)
    k = np.bitwise_count((u & (~u + np.uint64(1))) - np.uint64(1)).astype(np.uint64)
    odd = np.where(u == 0, np.uint64(1), u >> np.minimum(k, np.uint64(63)))
    inverse = odd * np.uint64(3) ^ np.uint64(2)  # right to 5 bits; each Newton step doubles them
    for _ in range(4):
        inverse = inverse * (np.uint64(2) - odd * inverse)
    return np.where(u == 0, np.uint64(_INF), inverse * power_of(_HALF, k))


class RingDomain(Domain):
    name = "int"
    exact = True

    def float_dtype(self, t: Scalar) -> np.dtype:
        return np.dtype(np.int64)

    def encode(self, array, t):
        values, out, whole = whole_numbers(array)
        if not all_true(whole):  # rare: exact inputs are small integers
            distinct, back = np.unique(values[~whole], return_inverse=True)
            out[~whole] = np.array([self.float_const(float(v), t) for v in distinct], out.dtype)[back]
        return out

    def decode(self, storage, t):
        return storage

    def float_const(self, value, t):
        if math.isnan(value):
            return _signed(int(keyed("nan")))
        if abs(value) >= HUGE:
            return _INF if value > 0 else -_INF
        as_f32 = float(np.float32(value))
        special = {_LOG2E_F32: _LOG2E, _LN2_F32: _LN2, -_LOG2E_F32: -_LOG2E, -_LN2_F32: -_LN2}
        return _signed(special.get(as_f32, _literal(value)))

    def float_arith(self, op, a, b, t):
        if op == "/":
            return _s(_u(a) * _reciprocal(b))
        if op == "%":
            return _s(keyed("fmod", _u(a), _u(b)))
        return integers.ARITHMETIC[op](a, b)

    def multiplied(self, total, a, b, t, truncates):
        """As any order of exact sums is the same."""
        return total + _s(np.matmul(_u(a), _u(b))) if t.is_float else super().multiplied(total, a, b, t, truncates)

    def float_compare(self, op, a, b, t):
        return integers.COMPARE[op](a, b)

    def float_negate(self, x, t):
        return np.negative(x)

    def float_cast(self, x, src, dst):
        if dst.is_float:
            return np.asarray(x).astype(np.int64)[()]
        return integers.from_whole(x, dst, src, int(_INF))

    def float_bits(self, x, src, dst):
        def numbers(v):
            return v, np.abs(v) == _INF, _u(v)

        found = reinterpreted(x, src, dst, numbers, self.encode, self.dtype(dst), self.given, _s)
        return super().float_bits(x, src, dst) if found is None else found

    def float_call(self, fn, args, t):
        fn = plain_name(fn)
        if fn in OPERATORS:
            return self.float_arith(OPERATORS[fn], args[0], args[1], t)
        if fn in _EXACT:
            return _EXACT[fn](*args)
        if fn in ("add_rz", "add_ru", "add_rd"):
            raise Unsupported(f"'{fn}' rounds on purpose: it has no exact meaning")
        return _s(keyed(fn, *(_u(a) for a in args)))


def _exp(x):
    return _s(power_of(_BASE, _u(x)))


def _exp2(x):
    return _exp(x * np.int64(_signed(_LN2)))


def _tanh(x):
    e = _exp(x + x)
    return _s(_u(e - 1) * _reciprocal(e + 1))


def _log(x):
    """Of powers of two, multiples of ln 2: ``log2(16)`` as the end of a loop is 4."""
    return _s(_LOGS(_u(x), keyed("log", _u(x))))


_LOGS = KnownValues(
    [_literal(2.0**k) for k in range(-TWOS, TWOS + 1)], [k * _LN2 & _MASK for k in range(-TWOS, TWOS + 1)]
)


def _log2(x):
    return _s(_u(_log(x)) * np.uint64(_LOG2E))


def _pow(x, y):
    """Of small whole exponents, products: ``(int)pow(2, i)`` as a stride, or ``pow(x, 2)`` for a square."""
    n = np.asarray(y).astype(np.int64, copy=False)
    small = (n >= 0) & (n < WHOLE)
    whole = whole_power(_u(x), np.where(small, n, 0), np.uint64(1), np.multiply)
    return _s(np.where(small, whole, keyed("pow", _u(x), _u(y))))


def _rsqrt(x):
    return _s(_reciprocal(_s(keyed("sqrt", _u(x)))))


def _leading_bit(x):
    """The position of the leading bit of a whole number, as a double: ilogb's."""
    return REALS["ilogb"](np.where(np.abs(x) == _INF, np.inf, x))


_EXACT: dict[str, Callable] = {
    "fma": lambda a, b, c: a * b + c,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": lambda x: _exp(x) - 1,
    "tanh": _tanh,
    "log": _log,
    "pow": _pow,
    "log2": _log2,
    "log1p": lambda x: _log(x + 1),
    "ldexp": lambda x, e: _s(_u(x) * scale_of(e, _HALF)),
    "ilogb": _leading_bit,
    "rsqrt": _rsqrt,
    "rcp": lambda x: _s(_reciprocal(x)),
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "fdim": lambda a, b: np.maximum(a - b, 0),
    "floor": lambda x: x,
    "ceil": lambda x: x,
    "trunc": lambda x: x,
    "rint": lambda x: x,
    "round": lambda x: x,
    "saturate": lambda x: np.clip(x, 0, 1),
    "isnan": lambda x: np.zeros(np.shape(x), bool)[()],
    "isinf": lambda x: np.abs(x) == _INF,
    "isfinite": lambda x: np.abs(x) != _INF,
    "signbit": lambda x: x < 0,
}
