"""The ``terms`` domain: an error bound that holds for every order of summation.

The ``bound`` domain charges an addition ``u |x + y|``: partial sums, which another order does not have. Here a value
carries A, the sum of the absolute values of the terms it was added and multiplied together from, and the roundings on
its way, so that its error is at most (Higham, *Accuracy and Stability of Numerical Algorithms*, 3.1 and 4.2; Higham and
Mary, SIAM J. Sci. Comput. 41, 2019, for the second)

    min(h u, 6 sqrt(h) u) A + E          h roundings along the longest path

    x + y -> A = Ax + Ay, h = max(hx, hy) + 1, E = Ex + Ey
    x * y -> A = Ax Ay, h = hx + hy + 1, E = Ax Ey + Ay Ex + ex ey + s

with E what conversions underflow and functions lose. A depends neither on the order of a sum nor on how products are
distributed over it: with cancellation, or one large term, it allows far more than one program's partial sums happen to.
"""

from __future__ import annotations

import numpy as np

from ktc.ir.interp.execution.record_lanes import either
from ktc.ir.interp.execution.true_counts import count_true

from .bound import BoundDomain, contains, division_roundoff, holds, known, quotient_error
from .domain import Domain
from .rounding import LARGEST, SMALLEST, UNIT_ROUNDOFF

PROBABLE = 6.0
"""Roundings are independent enough that their sum exceeds so many standard deviations less than once in 10^8 times."""

STORED = np.dtype([(name, np.float64) for name in ("value", "size", "linear", "square", "inherited")])
"""A value, its A, the sums of u and of u^2 over the roundings on its way, and E."""


class TermsDomain(BoundDomain):
    name = "terms"

    def float_dtype(self, t):
        return STORED

    def value(self, x):
        return x["value"]

    def error(self, x):
        if not np.any(x["linear"]) and not np.any(x["inherited"]):
            return np.zeros(np.shape(x))  # as loaded
        relative = np.minimum(x["linear"], PROBABLE * np.sqrt(x["square"]))
        with np.errstate(invalid="ignore", over="ignore"):  # nothing is known of an infinity's error
            loaded = (x["linear"] == 0) & (x["inherited"] == 0)
            return np.where(loaded, 0.0, known(x["value"], relative * x["size"] + x["inherited"]))

    def made(self, v, e):
        return _stored(v, np.abs(v), 0.0, 0.0, e)

    def float_arith(self, op, a, b, t):
        u, s = UNIT_ROUNDOFF[t.name], SMALLEST[t.name]
        x, y = a["value"], b["value"]
        if op in "+-":
            v = x + y if op == "+" else x - y
            linear, square = (np.maximum(a[k], b[k]) + u**n for k, n in (("linear", 1), ("square", 2)))
            return _in_range(t, v, a["size"] + b["size"], linear, square, a["inherited"] + b["inherited"])
        if op == "*":
            passed = a["size"] * b["inherited"] + b["size"] * a["inherited"] + self.error(a) * self.error(b) + s
            linear, square = (a[k] + b[k] + u**n for k, n in (("linear", 1), ("square", 2)))
            return _in_range(t, x * y, a["size"] * b["size"], linear, square, passed)
        if op == "/":
            r = division_roundoff(t)
            linear, square = a["linear"] + r, a["square"] + r**2
            size = a["size"] / np.abs(y)
            own = np.minimum(a["linear"], PROBABLE * np.sqrt(a["square"])) * size
            passed = np.maximum(quotient_error(x, y, self.error(a), self.error(b)) - own, 0.0)
            return _in_range(t, x / y, size, linear, square, passed + s)
        return super().float_arith(op, a, b, t)

    multiplied = Domain.multiplied

    def float_negate(self, x, t):
        return _stored(-x["value"], x["size"], x["linear"], x["square"], x["inherited"])

    @np.errstate(all="ignore")
    def float_cast(self, x, src, dst):
        if not (src.is_float and dst.is_float) or contains(dst, src):
            return super().float_cast(x, src, dst)
        same = (self.error(x) == 0) & holds(dst, x["value"])
        u = UNIT_ROUNDOFF[dst.name]
        passed = x["inherited"] + u * self.error(x) + SMALLEST[dst.name]
        rounded = _in_range(dst, x["value"], x["size"], x["linear"] + u, x["square"] + u**2, passed)
        return either(same, self.made(x["value"], 0.0), rounded)[()] if count_true(same) else rounded


def _stored(*fields):
    fields = tuple(np.asarray(f, np.float64) for f in fields)
    out = np.empty(np.broadcast(*fields).shape, STORED)
    for name, f in zip(STORED.names or (), fields):
        out[name] = f
    return out[()]


def _in_range(t, v, size, linear, square, inherited):
    """A number without a bound where the device, in one order or another, may have overflowed."""
    return _stored(v, size, linear, square, np.where(size > LARGEST[t.name], np.inf, inherited))


def errors(decoded: np.ndarray) -> np.ndarray:
    """The error bounds of a run's decoded values."""
    return np.asarray(TermsDomain().error(decoded))


__all__ = ["TermsDomain", "errors"]
