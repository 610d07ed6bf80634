"""The ``roundings`` domain: how often a value was rounded to a narrower type on its way, along the longest path.

A value is ``v + m*1j``: v in double (each conversion rounds to its type, so that branches follow the device), and m
packs the count of roundings with the narrowest type that is known to hold the value exactly. A conversion to a type
that holds the value already is no rounding: an f16 element that was widened, compared, shuffled and narrowed again has
been rounded as often as it was when it was loaded, and a byte is a half, by way of a float too. Integers
carry no count.

Arithmetic in a type rounds to it, too, which this does not count: a sum in half precision may be added up in another
order. ``roundings+f16`` and ``roundings+bf16`` do count it, for that one type, and count what comes in by all paths, so
that none hides what is rounded on another, and no order has more than another: a sum of n elements in half precision
has n - 1 roundings there, one in 32 bits that is rounded where it ends has one.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from . import integers
from .directed_rounding import DIRECTED
from .domain import Domain, Unsupported, order_of_bits
from .realmath import BOOLEAN, OPERATORS, REALS, plain_name
from .rounding import FLOAT_DTYPES, converted, round_to

CODES = {name: k + 1 for k, name in enumerate((*sorted(FLOAT_DTYPES), "8", "16", "32"))}
"""Of types that hold a value: a float, or whole numbers that are 2^8, 2^16 or 2^32 at most."""
EVERY = len(CODES) + 1
"""The code of a value that every type holds: zero, one, infinity."""

HOLDS = {
    "f64": {"f32", "f16", "bf16", "e4m3", "e5m2", "8", "16", "32"},
    "f32": {"f16", "bf16", "e4m3", "e5m2", "8", "16"},
    "f16": {"e4m3", "e5m2", "8"},
    "bf16": {"e4m3", "e5m2", "8"},
    "e4m3": set(),
    "e5m2": set(),
}
"""The types of which a float holds every number."""

SHIFT = 16
_ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}
_KEEPING = frozenset({"abs", "copysign"})


def _v(x):
    return np.real(x)


def _pair(v, count, code):
    """``count`` roundings so far, of a value that the type ``code`` holds (0: none is known to)."""
    v = np.asarray(v, np.float64)
    m = np.asarray(count, np.float64) * SHIFT + code
    out = np.empty(np.broadcast(v, m).shape, np.complex128)
    out.real, out.imag = v, m
    return out[()]


def counts(x: np.ndarray) -> np.ndarray:
    """The numbers of roundings of decoded values."""
    return np.floor(np.imag(x) * (1 / SHIFT))  # a power of two: exact, and far faster than a division of floats


def _most(*xs):
    return reduce(np.maximum, map(counts, xs))


def _all(*xs):
    return reduce(np.add, map(counts, xs))


def _code(x):
    m = np.imag(x)
    return m - SHIFT * np.floor(m * (1 / SHIFT))


def _common(a, b):
    """The type that holds two values, if one is known."""
    x, y = _code(a), _code(b)
    return np.where(x == EVERY, y, np.where((y == EVERY) | (x == y), x, 0))


def _nothing(x):
    """Where ``x`` adds nothing, as at the start of a sum."""
    return np.asarray((_v(x) == 0.0) & (_code(x) == EVERY), bool)


def _integer_code(x):
    """By the size of the number: what its type is says nothing, for C widens integers on their way."""
    size = np.abs(np.asarray(x).astype(np.float64))
    limits = [size <= 1, size <= 1 << 8, size <= 1 << 16, size <= 1 << 32]
    return np.select(limits, [EVERY, CODES["8"], CODES["16"], CODES["32"]], 0)


def _held(code, t):
    """Where the type ``t`` holds the values of these codes."""
    return np.isin(code, [EVERY, *(CODES[name] for name in (t.name, *HOLDS[t.name]))])


class RoundingsDomain(Domain):
    name = "roundings"
    stepping = ""
    """The type whose arithmetic is counted, too."""

    def float_dtype(self, t):
        return np.dtype(np.complex128)

    @np.errstate(all="ignore")
    def encode(self, array, t):
        return _pair(np.asarray(array).astype(np.float64), 0, CODES[t.name])

    def decode(self, storage, t):
        return storage

    def float_const(self, value, t):
        v = float(round_to(np.float64(value), t))
        return _pair(v, 0, EVERY if v in (0.0, 1.0) or not np.isfinite(v) else CODES[t.name])

    together = staticmethod(_most)
    """How the counts of operands come to that of a result."""

    def _step(self, t):
        """Roundings by one operation in ``t``."""
        return int(t.name == self.stepping)

    def float_arith(self, op, a, b, t):
        v, count = _ARITHMETIC[op](_v(a), _v(b)), self.together(a, b)
        if op not in ("+", "-"):
            return _pair(v, count + self._step(t), CODES[t.name])
        start, end = _nothing(a), _nothing(b)  # the other one's type holds the sum, and nothing is rounded
        code = np.where(start, _code(b), np.where(end, _code(a), CODES[t.name]))
        return _pair(v, count + self._step(t) * ~(start | end), code)

    def multiplied(self, total, a, b, t, truncates):
        """As step by step: of k products the count is the largest in a row or in a column, and the type is that of
        sums."""
        if not t.is_float:
            return super().multiplied(total, a, b, t, truncates)
        v, x, y = np.array(_v(total)), np.ascontiguousarray(_v(a)), np.ascontiguousarray(_v(b))
        for k in range(x.shape[2]):
            v += x[:, :, k, None] * y[:, k, None, :]
        if self.stepping:
            found = counts(a).sum(axis=2)[:, :, None] + counts(b).sum(axis=1)[:, None, :] + counts(total)
            return _pair(v, found + 2 * x.shape[2] * self._step(t), CODES[t.name])
        rows, columns = counts(a).max(axis=2)[:, :, None], counts(b).max(axis=1)[:, None, :]
        return _pair(v, np.maximum(counts(total), np.maximum(rows, columns)), CODES[t.name])

    def float_compare(self, op, a, b, t):
        return integers.COMPARE[op](_v(a), _v(b))

    def bit_order(self, x, t, signed):
        return order_of_bits(_v(x), signed) if t.is_float else super().bit_order(x, t, signed)

    def float_negate(self, x, t):
        return _pair(-_v(x), counts(x), _code(x))

    @np.errstate(all="ignore")
    def float_cast(self, x, src, dst):
        if not dst.is_float:
            return integers.from_float(_v(x), dst, src)
        if not src.is_float:
            value = converted(x, dst)
            held = _held(_integer_code(x), dst)
            return _pair(value, ~held, np.where(held, _integer_code(x), CODES[dst.name]))
        if src.bits < dst.bits:
            return x
        held = _held(_code(x), dst)
        code = np.where(held, _code(x), CODES[dst.name])
        return _pair(round_to(_v(x), dst).astype(np.float64), counts(x) + ~held, code)

    def float_call(self, fn, args, t):
        plain = plain_name(DIRECTED[fn][0] if fn in DIRECTED else fn)
        if plain in OPERATORS:
            return self.float_arith(OPERATORS[plain], args[0], args[1], t)
        if plain == "fma":
            return _pair(_v(args[0]) * _v(args[1]) + _v(args[2]), self.together(*args) + self._step(t), CODES[t.name])
        if plain not in REALS:
            raise Unsupported(f"no count of roundings for the function '{fn}'")
        v = REALS[plain](*(_v(a) for a in args))
        if plain in BOOLEAN:
            return np.asarray(v)[()]
        if plain in ("min", "max"):
            return _pair(v, self.together(*args), _common(*args))
        if plain in _KEEPING:
            return _pair(v, self.together(*args), _code(args[0]))
        return _pair(v, self.together(*args) + self._step(t), CODES[t.name])


class HalfStepsDomain(RoundingsDomain):
    name = "roundings+f16"
    stepping = "f16"
    together = staticmethod(_all)


class BfloatStepsDomain(RoundingsDomain):
    name = "roundings+bf16"
    stepping = "bf16"
    together = staticmethod(_all)


STEPPED = {d.stepping: d.name for d in (HalfStepsDomain, BfloatStepsDomain)}
"""By type, the domain that counts its arithmetic, too."""

__all__ = ["STEPPED", "BfloatStepsDomain", "HalfStepsDomain", "RoundingsDomain", "counts"]
