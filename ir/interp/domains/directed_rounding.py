"""Arithmetic in single precision that is rounded one way: ``__fadd_rz`` towards zero, ``_ru`` up, ``_rd`` down.

The nearest number is at most one step off. On which side of it the exact result lies is the sign of a rest that double
precision holds exactly: of a product in 48 bits, of a difference of neighbours, or of a sum by what it lost.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

DIRECTIONS = ("rz", "ru", "rd")

FUNCTIONS = ("add", "sub", "mul", "div", "sqrt", "rcp", "fma")

DIRECTED: dict[str, tuple[str, str]] = {f"{fn}_{to}": (fn, to) for fn in FUNCTIONS for to in DIRECTIONS}
"""The function and the direction of each name."""


@np.errstate(all="ignore")
def directed(fn: str, to: str, args: list) -> np.ndarray:
    """``fn`` of single-precision ``args``, rounded in the direction ``to``."""
    wide = [np.asarray(a, np.float64) for a in args]
    whole, rest = _RESULTS[fn](*wide)
    nearest = np.asarray(whole).astype(np.float32)
    side = np.where(np.isinf(nearest) & np.isfinite(whole), -np.sign(whole), rest(nearest.astype(np.float64)))
    below = (to != "ru") & (side < 0) & ((to == "rd") | (nearest > 0))
    above = (to != "rd") & (side > 0) & ((to == "ru") | (nearest < 0))
    lower, higher = (np.nextafter(nearest, np.float32(end)) for end in (-np.inf, np.inf))
    return np.where(below, lower, np.where(above, higher, nearest))[()]


Rest = Callable[[np.ndarray], np.ndarray]
"""The sign of what the exact result is more than a number near it."""


def _sum(a, b) -> tuple[np.ndarray, Rest]:
    whole = a + b
    more = whole - a
    lost = (a - (whole - more)) + (b - more)
    return whole, lambda n: np.where(whole == n, np.sign(lost), np.sign(whole - n))


def _product(a, b) -> tuple[np.ndarray, Rest]:
    return a * b, lambda n: np.sign(a * b - n)


def _quotient(a, b) -> tuple[np.ndarray, Rest]:
    return a / b, lambda n: np.sign(a - n * b) * np.sign(b)


def _root(x) -> tuple[np.ndarray, Rest]:
    return np.sqrt(x), lambda n: np.sign(x - n * n)


_RESULTS: dict[str, Callable] = {
    "add": _sum, "sub": lambda a, b: _sum(a, -b), "mul": _product, "div": _quotient, "sqrt": _root,
    "rcp": lambda x: _quotient(np.ones_like(x), x), "fma": lambda a, b, c: _sum(a * b, c),
}  # fmt: skip


__all__ = ["DIRECTED", "directed"]
