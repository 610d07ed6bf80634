"""The ``field`` domain: floats are pairs of residues modulo the primes P and Q, with P = 2Q + 1.

Addition, multiplication and division are exact in both fields, hence invariant under any algebraic rewrite, and a
dropped, doubled or misplaced term changes the result except with probability about degree/P. The Q-residue exists for
exponentials: the squares modulo P form a group of order Q, so ``exp(x) = G^(x mod Q) mod P`` with G a square obeys
exp(x+y) = exp(x)exp(y) (the construction of Mirage, OSDI 2025). The results of functions that are neither rational nor
roots have no Q-residue, nor has anything computed from them; an exponential of such a number uses a keyed hash of its
P-residue instead. Results are compared by their P-residues.

Comparisons, max and min use the centred P-residue, in which small integers keep their order; the two extreme residues
stand for the infinities. ``sqrt(x) = x^((P+1)/4)`` is multiplicative and squares back to x up to sign; modulo Q it is
a power as well (``field_words.ROOTS``), so that exponentials of distances over a square root multiply, too.

Storage: one 64-bit word, P-residue in the low half, Q-residue (or Q for none) in the high half.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ktc.ir.field_words import ROOTS, TWOS, WHOLE, P, Q
from ktc.ir.interp.execution.true_counts import all_true, count_true
from ktc.ir.types import Scalar

from . import integers
from .bit_patterns import reinterpreted
from .domain import Domain
from .keyed_hashes import HUGE, dyadic, keyed, whole_numbers
from .powers import KnownValues, inverses, power_of, scale_of, whole_power
from .realmath import OPERATORS, REALS, plain_name

_G = 4  # a square, not 1: it generates the subgroup of order Q, because Q is prime
MANY = 512
"""Words at once from which on a remainder is quicker by a quotient and a product."""

SEVERAL = 32
"""Powers at once from which on it pays to find those that are alike."""

_MOD = {0: np.array(P, np.uint64), 1: np.array(Q, np.uint64)}
_NO_Q = np.array(Q, np.uint64)
_LOW = np.array(0xFFFFFFFF, np.uint64)
_SHIFT = np.array(32, np.uint64)
"""Arrays of no dimensions: an operator takes two thirds of the time that it does with a scalar of numpy's."""

_TOP = (P - 1) // 2
_LN2_F32 = float(np.float32(math.log(2)))
_LOG2E_F32 = float(np.float32(math.log2(math.e)))


def _p(x):
    return np.asarray(x).astype(np.uint64, copy=False) & _LOW


def _q(x):
    return np.asarray(x).astype(np.uint64, copy=False) >> _SHIFT


def _pack(p, q):
    return (p | (q << _SHIFT))[()]


def _from_p(p):
    """A number of which only the P-residue is known."""
    return _pack(p, _NO_Q)


def _known_q(x):
    """The Q-residue, or a fixed function of the P-residue where there is none."""
    q = _q(x)
    missing = q == _NO_Q
    return np.where(missing, keyed("q-residue", _p(x)) % _MOD[1], q) if count_true(missing) else q


def _both(p, q, *operands):
    """Pack, dropping the Q-residue wherever one of the operands' Q-residues is none."""
    largest = operands[0]
    for of in operands[1:]:
        largest = np.maximum(largest, of)
    missing = largest == _NO_Q  # no residue is larger
    return _pack(p, np.where(missing, _NO_Q, q) if count_true(missing) else q)


def _centred(x) -> np.ndarray:
    p = _p(x).astype(np.int64)
    return np.where(p > _TOP, p - P, p)


def _raised(base, exponent: int, modulus) -> np.ndarray:
    """One power of many words modulo a prime. Threads of a row often raise one number: each is raised once."""
    base = np.asarray(base, np.uint64)
    if base.size < SEVERAL:
        return _squared(base, exponent, modulus)
    distinct, back = np.unique(base, return_inverse=True)
    return _squared(distinct, exponent, modulus)[back].reshape(base.shape)


def _squared(base, exponent: int, modulus) -> np.ndarray:
    """The power, by repeated squaring: the exponent's bits say which steps there are."""
    result = np.ones(base.shape, np.uint64)
    while exponent:
        if exponent & 1:
            result = _reduced(result * base, modulus)
        exponent >>= 1
        base = _reduced(base * base, modulus) if exponent else base
    return result


def _inverse(x, prime: int):
    return inverses(x.reshape(-1), prime).reshape(x.shape)


def _of_int(x):
    """Signed integers into both fields."""
    x = np.asarray(x)
    if x.dtype.kind == "u":
        return _pack(x % _MOD[0], x % _MOD[1]) if x.dtype == np.uint64 else _of_int(x.astype(np.int64))
    x = x.astype(np.int64, copy=False)
    if x.size and x.min() > -Q and x.max() < Q:  # nearly always; a division takes ten times as long
        below = x < 0
        if not count_true(below):
            return _pack(x.view(np.uint64), x.view(np.uint64))
        return _pack((x + below * np.int64(P)).astype(np.uint64), (x + below * np.int64(Q)).astype(np.uint64))
    return _pack((x % np.int64(P)).astype(np.uint64), (x % np.int64(Q)).astype(np.uint64))


def _literal(value: float) -> tuple[int, int]:
    m, k = dyadic(value)
    return m * pow(2, k, P) % P, m * pow(2, k, Q) % Q


_LOG2E = _literal(_LOG2E_F32)
_LN2 = (pow(_LOG2E[0], -1, P), pow(_LOG2E[1], -1, Q))  # so that exp2(x * log2e) == exp(x)
_LN2_WORD = np.uint64(_LN2[0] | _LN2[1] << 32)


def _word(pq: tuple[int, int]) -> np.uint64:
    return np.uint64((pq[0] % P) | (pq[1] % Q) << 32)


def _reduced(x, modulus):
    """``x % modulus`` of unsigned words; a division by a word known beforehand takes a third of the remainder's time,
    and what else there is to do pays where there are many."""
    return x % modulus if x.size < MANY else x - x // modulus * modulus


def _reduced_sum(x, modulus):
    """:func:`_reduced` of what is less than twice the modulus: what is less than nothing is a large word."""
    return np.minimum(x, x - modulus) if x.ndim else x % modulus


def _add(a, b):
    q, r = _q(a), _q(b)
    return _both(_reduced_sum(_p(a) + _p(b), _MOD[0]), _reduced_sum(q + r, _MOD[1]), q, r)


def _negate(x):
    q = _q(x)
    return _both(_reduced_sum(_MOD[0] - _p(x), _MOD[0]), _reduced_sum(_MOD[1] - q, _MOD[1]), q)


def _sub(a, b):
    return _add(a, _negate(b))


def _mul(a, b):
    q, r = _q(a), _q(b)
    return _both(_reduced(_p(a) * _p(b), _MOD[0]), _reduced(q * r, _MOD[1]), q, r)


def _product_sum(total, a, b):
    """``total + a @ b`` in both fields. A Q-residue is none where that of any operand is."""
    p = _modular(_p(total), _p(a), _p(b), P)
    q, r, s = _q(total), _q(a), _q(b)
    missing = (q == _NO_Q) | (r == _NO_Q).any(axis=2)[:, :, None] | (s == _NO_Q).any(axis=1)[:, None, :]
    return _pack(p, np.where(missing, _NO_Q, _modular(q, r, s, Q)))


_HALF_WORD = np.uint64(16)


def _modular(total, a, b, prime: int):
    """``(total + a @ b) % prime`` of residues of 31 bits: products of their halves, summed in doubles, are exact."""
    (high, low), (left, right) = (
        ((x >> _HALF_WORD).astype(np.float64), (x & np.uint64(0xFFFF)).astype(np.float64)) for x in (a, b)
    )
    upper, middle, lower = (x.astype(np.uint64) for x in (high @ left, high @ right + low @ left, low @ right))
    parts = (upper % np.uint64(prime) * np.uint64((1 << 32) % prime), (middle % np.uint64(prime)) << _HALF_WORD, lower)
    return (sum(parts) % np.uint64(prime) + total) % np.uint64(prime)


LONGEST_SUM = 1 << 16
"""Products of two halves (below 2^32) that a double sums exactly, twice over."""


def _reciprocal(x):
    """Inverse in both fields (0 stays 0, deterministic like everything here)."""
    p, q = _inverse(_p(x), P), _q(x)
    if (q == _NO_Q).all():
        return _from_p(p)
    return _both(p, _inverse(np.where(q == _NO_Q, np.uint64(0), q), Q), q)


def _exp(x):
    return _from_p(power_of(_G, np.asarray(_known_q(x)), P))


def _tanh(x):
    e, one = _exp(_add(x, x)), _of_int(np.int64(1))
    return _mul(_sub(e, one), _reciprocal(_add(e, one)))


def _sqrt(x):
    return _powers(x, *ROOTS)


def _rsqrt(x):
    """The reciprocal of :func:`_sqrt`, in one power: ``x ** (P - 1)`` is 1, and 0 stays 0."""
    return _powers(x, P - 1 - ROOTS[0], Q - 1 - ROOTS[1])


def _powers(x, modulo_p: int, modulo_q: int):
    """A power of ``x`` in each field."""
    p, q = _raised(_p(x), modulo_p, _MOD[0]), _q(x)
    missing = q == _NO_Q
    return _from_p(p) if missing.all() else _both(p, _raised(np.where(missing, np.uint64(0), q), modulo_q, _MOD[1]), q)


def _hashed(fn: str, *args):
    return _drawn(keyed(fn, *(_p(a) for a in args)))


def _drawn(word):
    """The number that a hash stands for."""
    return _from_p(word % np.uint64(P))


class FieldDomain(Domain):
    name = "field"
    exact = True

    def float_dtype(self, t: Scalar) -> np.dtype:
        return np.dtype(np.uint64)

    def encode(self, array, t):
        values, words, whole = whole_numbers(array)
        out = np.atleast_1d(_of_int(words))
        if not all_true(whole):  # rare: exact inputs are small integers
            distinct, back = np.unique(values[~whole], return_inverse=True)
            out[~whole] = np.array([self.float_const(float(v), t) for v in distinct], out.dtype)[back]
        return out

    def decode(self, storage, t):
        return _p(storage).astype(np.uint32)

    def float_const(self, value, t):
        if math.isnan(value):
            return _hashed("nan", np.uint64(0))
        if abs(value) >= HUGE:
            return _of_int(np.int64(_TOP if value > 0 else -_TOP))
        as_f32 = float(np.float32(value))
        special = {
            _LOG2E_F32: _LOG2E,
            _LN2_F32: _LN2,
            -_LOG2E_F32: (-_LOG2E[0], -_LOG2E[1]),
            -_LN2_F32: (-_LN2[0], -_LN2[1]),
        }
        return _word(special[as_f32]) if as_f32 in special else _word(_literal(value))

    def float_arith(self, op, a, b, t):
        if op == "%":
            return _hashed("fmod", a, b)
        return _ARITH[op](a, b)

    def multiplied(self, total, a, b, t, truncates):
        """As any order of exact sums is the same."""
        if not t.is_float or a.shape[2] > LONGEST_SUM:
            return super().multiplied(total, a, b, t, truncates)
        return _product_sum(total, a, b)

    def float_compare(self, op, a, b, t):
        return integers.COMPARE[op](_centred(a), _centred(b))

    def float_negate(self, x, t):
        return _negate(x)

    def float_cast(self, x, src, dst):
        if src.is_float and dst.is_float:
            return x
        if dst.is_float:
            return _of_int(x)
        return integers.from_whole(_centred(x), dst, src, P)

    def float_bits(self, x, src, dst):
        def numbers(v):
            return _centred(v), _is_extreme(v), _p(v)

        found = reinterpreted(x, src, dst, numbers, self.encode, self.dtype(dst), self.given, _drawn)
        return super().float_bits(x, src, dst) if found is None else found

    def float_call(self, fn, args, t):
        fn = plain_name(fn)
        if fn in OPERATORS:
            return self.float_arith(OPERATORS[fn], args[0], args[1], t)
        return _EXACT[fn](*args) if fn in _EXACT else _hashed(fn, *args)


_ARITH: dict[str, Callable] = {"+": _add, "-": _sub, "*": _mul, "/": lambda a, b: _mul(a, _reciprocal(b))}


def _log(x):
    """Of powers of two, multiples of ln 2: ``log2(16)`` as the end of a loop is 4."""
    return _log_of(x, _hashed("log", x))


def _log_of(x, elsewhere):
    return _LOGS(_p(np.asarray(x)), elsewhere)[()]


def _pow(x, y):
    """Of small whole exponents, products: ``(int)pow(2, i)`` as a stride, or ``pow(x, 2)`` for a square."""
    return _pow_of(x, y, _hashed("pow", x, y))


def _pow_of(x, y, elsewhere):
    n = np.asarray(_centred(y))
    small = (n >= 0) & (n < WHOLE)
    whole = whole_power(np.asarray(x), np.where(small, n, 0), _of_int(np.int64(1)), _mul)
    return np.where(small, whole, elsewhere)[()]


_EXPONENTS = range(-TWOS, TWOS + 1)
_LOGS = KnownValues(
    [_literal(2.0**k)[0] for k in _EXPONENTS], [int(_word((k * _LN2[0], k * _LN2[1]))) for k in _EXPONENTS]
)


def _ldexp(x, e):
    """Scaled by a power of two in both fields."""
    return _mul(x, _pack(*(scale_of(e, pow(2, -1, prime), prime) for prime in (P, Q))))


def _leading_bit(x):
    """The position of the leading bit of the centred residue, as a double: ilogb's."""
    return REALS["ilogb"](np.where(_is_extreme(x), np.inf, _centred(x)))


def _is_extreme(x):
    return (np.abs(_centred(x)) == _TOP)[()]


def _pick(x, cond, y):
    return np.where(cond, x, y)[()]


_EXACT: dict[str, Callable] = {
    "fma": lambda a, b, c: _add(_mul(a, b), c),
    "exp": _exp,
    "exp2": lambda x: _exp(_mul(x, _LN2_WORD)),
    "expm1": lambda x: _sub(_exp(x), _of_int(np.int64(1))),
    "tanh": _tanh,
    "log": _log,
    "pow": _pow,
    "log2": lambda x: _mul(_log(x), _word(_LOG2E)),
    "ldexp": _ldexp,
    "ilogb": _leading_bit,
    "log1p": lambda x: _log(_add(x, _of_int(np.int64(1)))),
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "rcp": _reciprocal,
    "min": lambda a, b: _pick(a, _centred(a) <= _centred(b), b),
    "max": lambda a, b: _pick(a, _centred(a) >= _centred(b), b),
    "abs": lambda x: _pick(_negate(x), _centred(x) < 0, x),
    "isnan": lambda x: np.zeros(np.shape(x), bool)[()],
    "isinf": _is_extreme,
    "isfinite": lambda x: ~_is_extreme(x),
    "signbit": lambda x: (_centred(x) < 0)[()],
}
