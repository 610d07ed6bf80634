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

from . import integers
from .domain import Domain, Unsupported
from .realmath import BOOLEAN, OPERATORS, REALS, plain_name
from .rounding import SMALLEST, UNIT_ROUNDOFF, round_to

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


def _v(x):
    return np.real(x)


def _e(x):
    return np.imag(x)


def _pair(v, e):
    """Where the value is infinite or NaN there is nothing to bound: only its position counts."""
    v, e = np.asarray(v, np.float64), np.asarray(e, np.float64)
    out = np.empty(np.broadcast(v, e).shape, np.complex128)
    out.real = v
    out.imag = np.where(np.isfinite(v), np.where(np.isnan(e), np.inf, e), 0.0)
    return out[()]


class BoundDomain(Domain):
    name = "bound"

    def float_dtype(self, t):
        return np.dtype(np.complex128)

    def encode(self, array, t):
        return _pair(np.asarray(array).astype(np.float64), 0.0)

    def decode(self, storage, t):
        return storage

    def float_const(self, value, t):
        return _pair(np.float64(round_to(np.float64(value), t)), 0.0)

    def float_arith(self, op, a, b, t):
        u, s = UNIT_ROUNDOFF[t.name], SMALLEST[t.name]
        x, y, ex, ey = _v(a), _v(b), _e(a), _e(b)
        if op in "+-":
            v = x + y if op == "+" else x - y
            return _pair(v, ex + ey + u * np.abs(v))
        if op == "*":
            v = x * y
            return _pair(v, np.abs(x) * ey + np.abs(y) * ex + ex * ey + u * np.abs(v) + s)
        if op == "/":
            v = x / y
            inherited = (ex + np.abs(v) * ey) / np.maximum(np.abs(y) - ey, 0.0)
            ulps = ULPS["div"] if t.bits == 32 else 0.5
            return _pair(v, inherited + 2 * u * ulps * np.abs(v) + s)
        return self.float_call("fmod", [a, b], t)

    def float_compare(self, op, a, b, t):
        return integers.COMPARE[op](_v(a), _v(b))

    def float_negate(self, x, t):
        return _pair(-_v(x), _e(x))

    def float_cast(self, x, src, dst):
        if not dst.is_float:
            return integers.from_float(_v(x), dst)
        if not src.is_float:
            v = np.asarray(x).astype(np.float64)
            exact = np.abs(v) * UNIT_ROUNDOFF[dst.name] <= 0.5
            return _pair(v, np.where(exact, 0.0, UNIT_ROUNDOFF[dst.name] * np.abs(v)))
        if _contains(dst, src):
            return x
        return _pair(_v(x), _e(x) + UNIT_ROUNDOFF[dst.name] * (np.abs(_v(x)) + _e(x)) + SMALLEST[dst.name])

    def truncated(self, total, terms, t):
        """Terms are aligned to the largest and cut there: each loses less than one unit in its last place."""
        largest = np.max([np.abs(_v(x)) + _e(x) for x in terms], axis=0)
        return _pair(_v(total), _e(total) + 2 * UNIT_ROUNDOFF[t.name] * len(terms) * largest)

    def float_call(self, fn, args, t):
        plain = plain_name(fn)
        if plain in OPERATORS:
            out = self.float_arith(OPERATORS[plain], args[0], args[1], t)
            return self._loosened(out, fn, args[0], t) if fn in FAST else out
        if plain == "fma":
            return self.float_arith("+", self.float_arith("*", args[0], args[1], t), args[2], t)
        if plain in BOOLEAN:
            return np.asarray(REALS[plain](_v(args[0])))[()]
        if plain in ("min", "max"):
            return _pair(REALS[plain](_v(args[0]), _v(args[1])), np.maximum(_e(args[0]), _e(args[1])))
        if plain not in REALS:
            raise Unsupported(f"no error bound for the function '{fn}'")
        f = REALS[plain]
        v = np.asarray(f(*(_v(a) for a in args)), np.float64)
        relative = 2 * UNIT_ROUNDOFF[t.name] * (ULPS.get(plain, 0.0) if t.bits <= 32 else 2.0)
        inherited = _e(args[0]) if plain in _LIPSCHITZ else _spread(f, v, args)
        out = _pair(v, inherited + relative * np.abs(v) + SMALLEST[t.name])
        return self._loosened(out, fn, args[0], t) if fn in FAST or fn in FAST_ABSOLUTE else out

    def _loosened(self, out, fn, x, t):
        ulps, slope = FAST.get(fn, (0.0, 0.0))
        extra = 2 * UNIT_ROUNDOFF["f32"] * (ulps + slope * np.abs(_v(x))) * np.abs(_v(out)) + FAST_ABSOLUTE.get(fn, 0.0)
        return _pair(_v(out), _e(out) + extra)


def _contains(wide, narrow) -> bool:
    """Whether every ``narrow`` value is a ``wide`` value."""
    return wide == narrow or wide.bits > narrow.bits


def _spread(f, v, args):
    """Largest change of ``f`` when each argument moves by its error: all corners (f monotone in each argument)."""
    worst = np.zeros(np.shape(v))
    corners: list[list] = [[]]
    for a in args:
        corners = [[*c, _v(a) + sign * _e(a)] for c in corners for sign in ((-1, 1))]
    for corner in corners:
        moved = np.abs(f(*corner) - v)
        worst = np.maximum(worst, np.where(np.isnan(moved), np.inf, moved))
    return worst
