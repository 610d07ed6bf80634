"""What buffers of integers hold in a probe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Fill = Callable[[int], np.ndarray]
"""Contents of an integer buffer of that many elements."""


def constant(value: int) -> Fill:
    """Every element ``value``: an index into something of more than ``value`` elements."""
    return lambda n: np.full(n, value)


def first_of(values: Sequence[int]) -> Fill:
    """The ``values``, and ones behind them, or as many of them as there are elements."""
    return lambda n: np.array([*values, *[1] * n][:n])


def between(least: int, most: int, first: int = 0) -> Fill:
    """Integers from ``most``, or ``first`` below it, down to ``least``, and again."""
    return lambda n: most - (np.arange(n) + first) % (most - least + 1)


def in_rows(fill: Fill, row: int, place: int) -> Fill:
    """``fill`` at one place of every ``row`` elements; those after it grow from 0, in steps that differ from row to
    row: regions that begin inside of something and end outside."""

    def filled(n: int) -> np.ndarray:
        at = np.arange(n)
        steps = np.array((1, 7, 3, 15, 31))[at // row % 5]
        return np.where(at % row == place, fill(n), (at - place - 1) % row * steps)

    return filled


def spaced(by: int) -> Fill:
    """Numbers from 0 on, each ``by`` more than the one before."""
    return lambda n: np.arange(n) * by


def distinct(size: int) -> Fill:
    """Indices below ``size``, each once, the last first; as often as needed where there are more elements."""
    return lambda n: size - 1 - np.arange(n) % max(size, 1)


def one_each(size: int) -> Fill:
    """Indices below ``size``: each once, and the last for all the rest, so that most parts are hardly begun."""
    return lambda n: np.minimum(np.arange(n), max(size, 1) - 1)


def offsets(last: int, elements: int, uneven: bool = False) -> Fill:
    """Ascending from 0 to ``last`` within the first ``elements``: where the parts of something begin, which are as long
    as each other or, ``uneven``, each longer than the one before."""

    def fill(n: int) -> np.ndarray:
        out = np.full(n, last)
        count = min(n, max(elements, 2))
        out[:count] = (np.linspace(0, 1, count) ** (2 if uneven else 1) * last).astype(np.int64)
        return out

    return fill
