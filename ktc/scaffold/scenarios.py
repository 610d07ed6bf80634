"""Sizes for the scenarios: grown from the probes' until a scenario holds what its name promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

TARGETS = {"small": (1 << 18, 1 << 21), "medium": (1 << 23, 1 << 25), "large": (1 << 27, 1 << 32)}
"""Bytes of all buffers and scalars moved by all threads, at most, by scenario. Small fits a GPU's first-level caches,
medium its second level (and is timed on a CPU too), large neither."""

MOST = 1 << 24
"""No size becomes larger."""


NO_WORK = 1.1
"""A size that multiplies the work by no more when it is doubled brings none."""


@dataclass(frozen=True)
class Work:
    """How many scalars a launch moves: ``scale`` times the sizes to their powers, fitted to the probes."""

    scale: float
    powers: Mapping[str, float]

    def __call__(self, sizes: Mapping[str, int]) -> float:
        return self.scale * math.prod(sizes[n] ** p for n, p in self.powers.items())


def work_of(seen: Sequence[tuple[Mapping[str, int], int]], names: Sequence[str]) -> Work:
    """A power law through the probes, by least squares of logarithms."""
    rows = [(s, n) for s, n in seen if n > 0]
    if not rows or not names:
        return Work(float(max((n for _, n in rows), default=1)), {})
    a = np.array([[1.0, *(math.log(s[n]) for n in names)] for s, _ in rows])
    x = np.linalg.lstsq(a, np.array([math.log(n) for _, n in rows]), rcond=None)[0]
    return Work(math.exp(x[0]), {n: min(max(p, 0.0), 3.0) for n, p in zip(names, x[1:])})


def grown(
    start: Mapping[str, int],
    limits: tuple[int, int],
    size_bytes: Callable[[Mapping[str, int]], int],
    work: Callable[[Mapping[str, int]], float],
    legal: Callable[[Mapping[str, int]], bool],
    fixed: Collection[str] = (),
) -> dict[str, int]:
    """``start`` with its smallest size doubled again and again while bytes, work and launch allow it.

    What is ``fixed`` stays, and so does what brings neither memory nor work.
    """
    sizes, open_ = dict(start), set(start) - set(fixed)
    while open_:
        name = min(sorted(open_, key=list(start).index), key=lambda n: sizes[n])
        more = {**sizes, name: sizes[name] * 2}
        idle = size_bytes(more) <= size_bytes(sizes) and work(more) <= work(sizes) * NO_WORK
        if (
            not idle
            and more[name] <= MOST
            and size_bytes(more) <= limits[0]
            and work(more) <= limits[1]
            and legal(more)
        ):
            sizes = more
        else:
            open_.discard(name)
    return sizes
