"""Functions of real numbers by canonical name, over doubles: the one table the approximate domains share."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ktc.ir.interp.execution.true_counts import count_true


def _each(f: Callable, arity: int) -> Callable:
    """A scalar function over arrays (for what numpy lacks); domain errors give NaN."""

    def guarded(*xs):
        try:
            return f(*xs)
        except (ValueError, OverflowError):
            return math.nan

    ufunc = np.frompyfunc(guarded, arity, 1)
    return lambda *xs: np.asarray(ufunc(*xs), dtype=np.float64)[()]


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _tgamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


def _in_half_turns(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The quarter of a turn that ``x`` half turns end next to, and the sine and cosine of what is left: exactly 0
    and 1 where nothing is."""
    turned = np.fmod(x, 2.0)
    quarter = np.rint(2.0 * turned)
    left = np.pi * (turned - 0.5 * quarter)
    return np.fmod(quarter, 4.0) % 4.0, np.sin(left), np.cos(left)


def _sinpi(x):
    x = np.asarray(x, np.float64)
    quarter, sine, cosine = _in_half_turns(x)
    out = np.select([quarter == 0, quarter == 1, quarter == 2, quarter == 3], [sine, cosine, -sine, -cosine], np.nan)
    return np.where(out == 0, np.copysign(0.0, x), out)[()]


def _cospi(x):
    quarter, sine, cosine = _in_half_turns(np.asarray(x, np.float64))
    out = np.select([quarter == 0, quarter == 1, quarter == 2, quarter == 3], [cosine, -sine, -cosine, sine], np.nan)
    return (out + 0.0)[()]


def _exponent(of_zero: float, of_infinity: float, of_nan: float) -> Callable:
    """The exponent of the leading bit."""

    def exponent(x):
        x = np.asarray(x, np.float64)
        special = [x == 0, np.isinf(x), np.isnan(x)]
        return np.select(special, [of_zero, of_infinity, of_nan], np.frexp(x)[1] - 1.0)[()]

    return exponent


def _fdim(a, b):
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(np.greater(a, b), np.subtract(a, b), 0.0))[()]


def _saturate(x):
    return np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0))


def _extreme(of: Callable, sign: float) -> Callable:
    """A minimum (``sign`` -1) or maximum that passes over NaN, and takes -0 for less than +0, as PTX has it: numpy's
    choice among zeros depends on where in an array they are."""

    def extreme(a, b):
        out = of(a, b)
        zeros = np.asarray(out == 0)
        if not count_true(zeros):
            return out
        sum_of_zeros = sign * (sign * np.where(a == 0, a, 0.0 * sign) + sign * np.where(b == 0, b, 0.0 * sign))
        both = zeros & (a == 0) & (b == 0)
        return np.where(both, sum_of_zeros, out).astype(out.dtype)[()]

    return extreme


REALS: dict[str, Callable] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x), "rcp": lambda x: 1.0 / x, "cbrt": np.cbrt,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "erf": _each(math.erf, 1), "erfc": _each(math.erfc, 1),
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sinpi": _sinpi, "cospi": _cospi,
    "lgamma": _each(_lgamma, 1), "tgamma": _each(_tgamma, 1), "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "normcdf": _each(lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)), 1), "rhypot": lambda a, b: 1.0 / np.hypot(a, b),
    "logb": _exponent(-math.inf, math.inf, math.nan), "ilogb": _exponent(-(2.0**31), 2.0**31 - 1, -(2.0**31)),
    "ldexp": lambda x, e: np.ldexp(x, np.asarray(e).astype(np.int64)),
    "abs": np.abs, "saturate": _saturate,
    "pow": np.power, "fmod": np.fmod, "remainder": _each(math.remainder, 2),
    "min": _extreme(np.fmin, -1.0), "max": _extreme(np.fmax, 1.0), "copysign": np.copysign, "hypot": np.hypot,
    "fdim": _fdim,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
}  # fmt: skip

ALIASES: dict[str, str] = {
    "fast_exp": "exp", "fast_exp2": "exp2", "fast_exp10": "exp10", "fast_log": "log", "fast_log2": "log2",
    "fast_log10": "log10", "fast_sin": "sin", "fast_cos": "cos", "fast_tan": "tan", "fast_tanh": "tanh",
    "fast_pow": "pow", "fast_rcp": "rcp", "fast_rsqrt": "rsqrt", "fast_sqrt": "sqrt", "fast_div": "div",
    "add_rn": "add", "sub_rn": "sub", "mul_rn": "mul", "div_rn": "div", "sqrt_rn": "sqrt", "rcp_rn": "rcp",
    "fma_rn": "fma", "rsqrt_rn": "rsqrt", "fabs": "abs", "nearbyint": "rint",
}  # fmt: skip
"""Fast and explicitly rounded-to-nearest versions compute the same real function; only their error bound differs."""

OPERATORS: dict[str, str] = {"add": "+", "sub": "-", "mul": "*", "div": "/"}

MIXED = frozenset({"ldexp", "ilogb"})
"""Functions between floats and integers."""

BOOLEAN = frozenset({"isnan", "isinf", "isfinite", "signbit"})


def plain_name(fn: str) -> str:
    return ALIASES.get(fn, fn)
