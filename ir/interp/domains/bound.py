"""The ``bound`` domain: a double value together with a bound of the error a device makes computing it.

Each value is ``y + e*1j``: y in double, and |device's value - y| <= e, by running error analysis (Higham, *Accuracy and
Stability of Numerical Algorithms*, 3.3): every operation adds one rounding ``u*|result|`` to what it inherits:

    x + y -> ex + ey + u|x+y|          x * y -> |x|ey + |y|ex + ex ey + u|xy| + s
    f(x)  -> max |f(x +- ex) - f(x)| + 2u*ulp(f)*|f(x)| + s     (f monotone; sin, cos: Lipschitz)

u is the type's unit round-off and s its smallest subnormal. So the bound knows the accumulation depth, cancellations
and the number of low-precision roundings of *this* program; contraction into fma only makes the truth smaller.
Branches and float -> int conversions follow the double values: a decision that rounding could flip is not covered.
"""

from __future__ import annotations

import numpy as np

from ktc.ir.interp.execution.true_counts import count_true

from . import integers
from .bit_patterns import numbers_of, patterns_of
from .directed_rounding import DIRECTED
from .domain import Domain, Unsupported, order_of_bits
from .realmath import BOOLEAN, OPERATORS, REALS, plain_name
from .rounding import LARGEST, SMALLEST, UNIT_ROUNDOFF, round_to

ULPS: dict[str, float] = {
    "div": 2.5, "rcp": 2.5, "sqrt": 3, "rsqrt": 2, "cbrt": 2, "exp": 3, "exp2": 3, "exp10": 3, "expm1": 3, "log": 3,
    "log2": 3, "log10": 3, "log1p": 2, "sin": 4, "cos": 4, "tan": 5, "sinh": 4, "cosh": 4, "tanh": 5, "asin": 4,
    "acos": 4, "atan": 5, "atan2": 6, "erf": 16, "erfc": 16, "pow": 16, "hypot": 4,
}  # fmt: skip
"""Largest error in ulp of float32 functions: the laxer of the CUDA C++ Programming Guide (mathematical functions
appendix) and the OpenCL C specification (relative error as ULPs, full profile). Functions not listed are exact."""

FAST: dict[str, tuple[float, float]] = {
    "fast_exp": (4, 1.2), "fast_exp2": (4, 0), "fast_exp10": (4, 3.9), "fast_log": (4, 0), "fast_log2": (4, 0),
    "fast_log10": (4, 0), "fast_div": (3, 0), "fast_rcp": (3, 0), "fast_rsqrt": (3, 0), "fast_sqrt": (3, 0),
    "fast_tanh": (2.0**13, 0), "fast_pow": (32, 4),
}  # fmt: skip
"""(ulps, further ulps per unit of |x|) of the fast versions: CUDA guide, intrinsic functions (``__expf``:
2 + 1.173|x|); tanh.approx is accurate to 2^-11 (PTX ISA)."""

FAST_ABSOLUTE: dict[str, float] = {
    "fast_sin": 2.0**-21.19, "fast_cos": 2.0**-21.41, "fast_log": 2.0**-21.41, "fast_log2": 2.0**-21,
    "fast_log10": 2.0**-22,
}  # fmt: skip
"""Absolute errors the guide documents on the central interval of some fast functions."""

_LIPSCHITZ = frozenset({"sin", "cos"})


class BoundDomain(Domain):
    """How a number is kept is up to :meth:`value`, :meth:`error` and :meth:`made`: other bounds share the functions."""

    name = "bound"

    def float_dtype(self, t):
        return np.dtype(np.complex128)

    def value(self, x):
        return np.real(x)

    def error(self, x):
        return np.imag(x)

    def made(self, v, e):
        v, e = np.asarray(v, np.float64), np.asarray(e, np.float64)
        out = np.empty(np.broadcast(v, e).shape, np.complex128)
        out.real, out.imag = v, known(v, e)
        return out[()]

    @np.errstate(all="ignore")
    def encode(self, array, t):
        return self.made(np.asarray(array).astype(np.float64), 0.0)

    def decode(self, storage, t):
        return storage

    def float_const(self, value, t):
        return self.made(np.float64(round_to(np.float64(value), t)), 0.0)

    def float_arith(self, op, a, b, t):
        u, s = UNIT_ROUNDOFF[t.name], SMALLEST[t.name]
        x, y, ex, ey = self.value(a), self.value(b), self.error(a), self.error(b)
        if op in "+-":
            v = x + y if op == "+" else x - y
            return self._in_range(v, ex + ey + u * np.abs(v), t)
        if op == "*":
            v = x * y
            return self._in_range(v, np.abs(x) * ey + np.abs(y) * ex + ex * ey + u * np.abs(v) + s, t)
        if op == "/":
            v = x / y
            return self._in_range(v, quotient_error(x, y, ex, ey) + division_roundoff(t) * np.abs(v) + s, t)
        return self.float_call("fmod", [a, b], t)

    def _in_range(self, v, e, t):
        """``v`` with the bound ``e``; with none where the device may have overflowed and the double did not."""
        return self.made(v, np.where(np.abs(v) + e > LARGEST[t.name], np.inf, e))

    def float_compare(self, op, a, b, t):
        return integers.COMPARE[op](self.value(a), self.value(b))

    def chosen(self, taken, a, b, t):
        """As a maximum: whichever the device takes is as near as both may be."""
        if not t.is_float:
            return super().chosen(taken, a, b, t)
        return self.made(np.where(taken, self.value(a), self.value(b)), np.maximum(self.error(a), self.error(b)))

    def bit_order(self, x, t, signed):
        return order_of_bits(self.value(x), signed) if t.is_float else super().bit_order(x, t, signed)

    def float_negate(self, x, t):
        return self.made(-self.value(x), self.error(x))

    @np.errstate(all="ignore")
    def float_cast(self, x, src, dst):
        if not dst.is_float:
            return integers.from_float(self.value(x), dst, src)
        u = UNIT_ROUNDOFF[dst.name]
        if not src.is_float:
            v = np.asarray(x).astype(np.float64)
            return self.made(v, np.where(np.abs(v) * u <= 0.5, 0.0, u * np.abs(v)))
        if contains(dst, src):
            return x
        v, e = self.value(x), self.error(x)
        rounded = self._in_range(v, e + u * (np.abs(v) + e) + SMALLEST[dst.name], dst)
        same = (e == 0) & holds(dst, v)
        return np.where(same, self.made(v, 0.0), rounded)[()] if count_true(same) else rounded

    def float_bits(self, x, src, dst):
        """The machine's patterns, of numbers without an error: of any other, the device may have another pattern."""
        if not src.is_float:
            return self.made(numbers_of(x, dst), 0.0)
        found = None if np.any(self.error(x)) else patterns_of(self.value(x), src)
        if found is None:
            raise self.without_patterns(src, dst)
        return self.made(numbers_of(found, dst), 0.0) if dst.is_float else np.asarray(found).view(self.dtype(dst))[()]

    def truncated(self, total, terms, t):
        """Terms are aligned to the largest and cut there: each loses less than one unit in its last place."""
        largest = np.max([np.abs(self.value(x)) + self.error(x) for x in terms], axis=0)
        return self._looser(total, 2 * UNIT_ROUNDOFF[t.name] * len(terms) * largest)

    def multiplied(self, total, a, b, t, truncates):
        """As step by step, without a look at each where operands have no errors and nothing comes near the ends of the
        type."""
        v, x, y = (np.array(self.value(z), order="C") for z in (total, a, b))
        largest = np.max(np.abs(x), initial=0.0) * np.max(np.abs(y), initial=0.0) * x.shape[2]
        reached = largest + np.max(np.abs(v) + self.error(total), initial=0.0)
        if not t.is_float or not reached < LARGEST[t.name] / 2 or np.any(self.error(a)) or np.any(self.error(b)):
            return super().multiplied(total, a, b, t, truncates)
        u, s = UNIT_ROUNDOFF[t.name], SMALLEST[t.name]
        e = np.array(self.error(total), order="C")
        most = np.abs(v) + e
        for k in range(x.shape[2]):
            product = x[:, :, k, None] * y[:, k, None, :]
            v += product
            size = np.abs(product, out=product)
            error = u * size
            error += s
            e += error
            e += u * np.abs(v)
            if truncates:
                np.maximum(most, np.add(size, error, out=size), out=most)
        return self.made(v, e + 2 * u * (x.shape[2] + 1) * most if truncates else e)

    def float_call(self, fn, args, t):
        if fn in DIRECTED:  # one step of the last place, where the nearest number is half a step off at most
            out = self.float_call(DIRECTED[fn][0], args, t)
            return self._looser(out, 2 * UNIT_ROUNDOFF[t.name] * np.abs(self.value(out)) + SMALLEST[t.name])
        plain = plain_name(fn)
        if plain in OPERATORS:
            out = self.float_arith(OPERATORS[plain], args[0], args[1], t)
            return self._loosened(out, fn, args[0], t) if fn in FAST else out
        if plain == "fma":
            return self.float_arith("+", self.float_arith("*", args[0], args[1], t), args[2], t)
        if plain == "ldexp":
            return self.float_arith("*", args[0], self.made(np.exp2(np.asarray(args[1], np.float64)), 0.0), t)
        values, errors = [self.value(a) for a in args], [self.error(a) for a in args]
        if plain in BOOLEAN:
            return np.asarray(REALS[plain](values[0]))[()]
        if plain in ("min", "max"):
            return self.made(REALS[plain](*values), np.maximum(*errors))
        if plain not in REALS:
            raise Unsupported(f"no error bound for the function '{fn}'")
        f = REALS[plain]
        v = np.asarray(f(*values), np.float64)
        relative = 2 * UNIT_ROUNDOFF[t.name] * (ULPS.get(plain, 0.0) if t.bits <= 32 else 2.0)
        inherited = errors[0] if plain in _LIPSCHITZ else _spread(f, v, values, errors)
        out = self._in_range(v, inherited + relative * np.abs(v) + SMALLEST[t.name], t)
        return self._loosened(out, fn, args[0], t) if fn in FAST or fn in FAST_ABSOLUTE else out

    def _loosened(self, out, fn, x, t):
        ulps, slope = FAST.get(fn, (0.0, 0.0))
        relative = 2 * UNIT_ROUNDOFF["f32"] * (ulps + slope * np.abs(self.value(x)))
        return self._looser(out, relative * np.abs(self.value(out)) + FAST_ABSOLUTE.get(fn, 0.0))

    def _looser(self, x, more):
        return self.made(self.value(x), self.error(x) + more)


def known(v, e):
    """The error bounds ``e`` of values ``v``: 0 for infinities and NaNs, infinite where no bound is known."""
    return np.where(np.isfinite(v), np.where(np.isnan(e), np.inf, e), 0.0)


def quotient_error(x, y, ex, ey):
    """What the errors of x and y do to x / y."""
    return (ex + np.abs(x / y) * ey) / np.maximum(np.abs(y) - ey, 0.0)


def division_roundoff(t):
    return 2 * UNIT_ROUNDOFF[t.name] * (ULPS["div"] if t.bits == 32 else 0.5)


def contains(wide, narrow) -> bool:
    """Whether every ``narrow`` value is a ``wide`` value."""
    return wide == narrow or wide.bits > narrow.bits


def holds(t, numbers) -> np.ndarray:
    """Which ``numbers`` are of type ``t`` as they are."""
    return np.asarray(np.asarray(round_to(numbers, t)).astype(np.float64) == numbers)


def _spread(f, v, values, errors):
    """Largest change of ``f`` when each argument moves by its error: all corners (f monotone in each argument)."""
    worst = np.zeros(np.shape(v))
    corners: list[list] = [[]]
    for x, e in zip(values, errors):
        corners = [[*c, x + sign * e] for c in corners for sign in ((-1, 1))]
    for corner in corners:
        moved = np.abs(f(*corner) - v)
        worst = np.maximum(worst, np.where(np.isnan(moved), np.inf, moved))
    return worst


__all__ = [
    "FAST",
    "FAST_ABSOLUTE",
    "ULPS",
    "BoundDomain",
    "contains",
    "division_roundoff",
    "holds",
    "known",
    "quotient_error",
]
