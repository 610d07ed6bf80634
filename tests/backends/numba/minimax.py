"""Where the coefficients of :mod:`ktc.backends.numba.vector_math` come from: minimax polynomials by Remez's exchange.

``python -m tests.backends.numba.minimax`` prints them; a test compares. Each row of ``POLYNOMIALS`` says which function
is approximated, over which interval, by which powers, and by what an error is weighted: by its share of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

LONG = np.longdouble
GRID = 4000
"""Points at which an error is looked at: the zeros of a Chebyshev polynomial, close to each other at both ends."""

Function = Callable[[np.ndarray], np.ndarray]


def remez(f: Function, low: float, high: float, powers: Sequence[int], weight: Function) -> tuple[np.ndarray, float]:
    """Coefficients of ``powers`` with the least largest ``|weight * (f - polynomial)|`` over the interval, and that."""
    n = len(powers)
    t = np.cos(np.pi * (np.arange(GRID, dtype=LONG) + LONG(0.5)) / GRID)[::-1]
    x = (LONG(low) + LONG(high)) / 2 + (LONG(high) - LONG(low)) / 2 * t
    values, weights = f(x), weight(x)
    columns = np.stack([x**p for p in powers], 1)
    at = np.round((1 - np.cos(np.pi * np.arange(n + 1) / n)) / 2 * (GRID - 1)).astype(int)
    signs = ((-1.0) ** np.arange(n + 1)).astype(LONG)
    for _ in range(60):
        equations = np.concatenate([columns[at] * weights[at, None], signs[:, None]], 1)
        found = solve(equations, values[at] * weights[at])[:n]
        error = weights * (values - columns @ found)
        pieces = np.split(np.arange(GRID), np.flatnonzero(np.diff(np.sign(error)) != 0) + 1)
        peaks = [piece[np.argmax(np.abs(error[piece]))] for piece in pieces]
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        if len(peaks) < n + 1 or np.array_equal(peaks, at):
            break
        at = np.array(peaks)
    return found, float(np.max(np.abs(error)))


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Gauss with pivots, in extended precision (numpy's solver has doubles)."""
    a, b = a.copy(), b.copy()
    n = len(b)
    for i in range(n):
        p = i + int(np.argmax(np.abs(a[i:, i])))
        a[[i, p]], b[[i, p]] = a[[p, i]], b[[p, i]]
        factors = a[i + 1 :, i] / a[i, i]
        a[i + 1 :] -= factors[:, None] * a[i]
        b[i + 1 :] -= factors * b[i]
    x = np.zeros(n, LONG)
    for i in reversed(range(n)):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


def series(terms: Callable[[int], float], first: int = 0, count: int = 40) -> Function:
    """The power series with the coefficients ``terms(first), terms(first + 1), ...``, lowest power 0."""

    def f(x: np.ndarray) -> np.ndarray:
        total = np.zeros_like(x)
        for k in reversed(range(first, first + count)):
            total = total * x + LONG(terms(k))
        return total

    return f


def each(f: Callable[[float], float]) -> Function:
    """A function of doubles, element by element."""
    return lambda x: np.array([f(float(v)) for v in x], LONG)


def one_over_factorial(k: int) -> np.longdouble:
    out = LONG(1)
    for i in range(2, k + 1):
        out /= i
    return out


@dataclass(frozen=True)
class Row:
    """``f`` over ``low..high`` by ``powers``; ``weight``: the share of an error in the result."""

    f: Function
    low: float
    high: float
    powers: range
    weight: Function
    precision: type = np.float32

    def coefficients(self) -> tuple[list[float], float]:
        """In their precision, the constant first; the largest weighted error before they are rounded to that."""
        found, error = remez(self.f, self.low, self.high, self.powers, self.weight)
        return [float(self.precision(c)) for c in found], error


LN2 = math.log(2)
ROOT2 = math.sqrt(2)
LOG_LOW, LOG_HIGH = 1 / ROOT2 - 1, ROOT2 - 1


def _log_tail(x: np.ndarray) -> np.ndarray:
    """(log(1 + x) - x + x^2 / 2) / x^3, by its series near zero."""
    near = series(lambda k: (-1.0) ** k / LONG(k + 3), count=60)(x)
    with np.errstate(all="ignore"):
        far = (np.log1p(x) - x + x * x / 2) / x**3
    return np.where(np.abs(x) < 0.1, near, far)


def _tanh_tail(y: np.ndarray) -> np.ndarray:
    """(tanh(x) - x) / x^3 of y = x^2, by long division of the series of sinh and cosh."""
    sinh = [one_over_factorial(2 * k + 1) for k in range(30)]
    cosh = [one_over_factorial(2 * k) for k in range(30)]
    quotient: list[np.longdouble] = []
    for k in range(30):
        quotient.append(sinh[k] - sum((quotient[j] * cosh[k - j] for j in range(k)), LONG(0)))
    return series(lambda k: quotient[k], first=1, count=29)(y)


def _erf_over_x(y: np.ndarray) -> np.ndarray:
    """erf(x) / x - 1 of y = x^2, by its series."""
    scale = 2 / np.sqrt(LONG(np.pi))
    return scale * series(lambda k: (-1) ** k * one_over_factorial(k) / (2 * k + 1), count=60)(y) - 1


POLYNOMIALS = {
    "exp": Row(series(lambda k: one_over_factorial(k), first=2), -LN2 / 2 * 1.01, LN2 / 2 * 1.01, range(5),
               lambda r: r * r * np.exp(-r)),
    "log": Row(_log_tail, LOG_LOW, LOG_HIGH, range(8), lambda f: np.abs(f**3 / np.log1p(f))),
    "tanh": Row(_tanh_tail, 1e-12, 0.36, range(5), lambda y: y),
    "erf": Row(_erf_over_x, 1e-12, 0.87, range(7), lambda y: 1 / (1 + _erf_over_x(y))),
    "erfc": Row(each(lambda x: math.log(math.erfc(x))), 0.92, 4.0, range(9),
                each(lambda x: math.erfc(x) / math.erf(x))),
    "sin": Row(series(lambda k: (-1) ** k * one_over_factorial(2 * k + 1), first=1), 1e-12, 0.63, range(3),
               lambda y: y),
    "cos": Row(series(lambda k: (-1) ** k * one_over_factorial(2 * k), first=2), 1e-12, 0.63, range(3),
               lambda y: y * y / np.cos(np.sqrt(y))),
    "log2": Row(series(lambda k: 2 / np.log(LONG(2)) / (2 * k + 1)), 1e-12, (3 - 2 * ROOT2) ** 2, range(5),
                np.ones_like, np.float64),
    "exp2": Row(lambda r: np.exp(r * np.log(LONG(2))), -0.5, 0.5, range(8), lambda r: np.exp(-r * np.log(LONG(2))),
                np.float64),
}  # fmt: skip
"""exp: of (e^r - 1 - r) / r^2. log: of (log(1 + f) - f + f^2 / 2) / f^3. tanh: of (tanh x - x) / x^3 in x^2. erf: of
erf(x) / x - 1 in x^2; erfc: of log(erfc(x)). sin: of (sin x - x) / x^3 in
x^2; cos: of (cos x - 1 + x^2 / 2) / x^4 in x^2. log2: of log2((1 + s) / (1 - s)) / s in s^2; exp2: of 2^r."""


if __name__ == "__main__":
    for name, row in POLYNOMIALS.items():
        found, error = row.coefficients()
        print(f'    "{name}": ({", ".join(map(repr, found))}),  # 2^{math.log2(error):.1f}')
