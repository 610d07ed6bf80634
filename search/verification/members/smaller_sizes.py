"""Smaller sizes in place of those that a candidate binds, such that what holds for the bound ones can be seen there.

Each is a divisor of the bound one, so that nothing divides it that does not divide the bound one, and small powers of
two divide both or neither. Where one size divides another, the smaller ones do so as well if that can be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

Sizes = Mapping[str, int]

MOST_VALUES = 7
"""Values of one size that are combined with those of the others."""

MOST_COMBINATIONS = 4096

AFFORDABLE = 1_000_000
"""Cost up to which nothing is said against sizes that divide each other as the bound ones do."""

IN_PROPORTION = 4
"""How much more those may cost beyond that."""

GRAINS = (4, 8, 32, 256)
"""What divides smaller sizes if it divides the bound ones: vectors of so many elements, tiles of so many."""


def smaller(
    real: Sizes, cost: Callable[[Sizes], int], grain: int, kept: Sizes | None = None
) -> Iterator[dict[str, int]]:
    """Smaller sizes than ``real``, ``kept`` ones at their values: those in proportion first that cost no more than
    :data:`AFFORDABLE`, the cheapest first; of the others, those in proportion may cost :data:`IN_PROPORTION` times as
    much. ``cost`` is 0 for sizes that cannot be."""
    kept = kept or {}
    values = {
        n: [kept[n]] if n in kept else list(itertools.islice(_divisors(v, grain), MOST_VALUES)) for n, v in real.items()
    }
    made = (dict(zip(values, c)) for c in itertools.islice(itertools.product(*values.values()), MOST_COMBINATIONS))
    priced = []
    for k, sizes in enumerate(made):
        price = cost(sizes)
        if price:
            alike = _in_proportion(real, sizes, grain)
            first = alike and price <= AFFORDABLE
            priced.append((not first, price if alike else IN_PROPORTION * price, k, sizes))
    yield from (s for *_, s in sorted(priced, key=lambda x: x[:3]))


def largest(real: Sizes, cost: Callable[[Sizes], int]) -> dict[str, int] | None:
    """Sizes as close to ``real`` as can be: the largest are divided first."""
    sizes = dict(real)
    while not cost(sizes):
        names = [n for n, v in sizes.items() if v > 1]
        if not names:
            return None
        n = max(names, key=sizes.__getitem__)
        sizes[n] //= least_factor(sizes[n])
    return sizes


def _divisors(n: int, grain: int) -> Iterator[int]:
    """Divisors of ``n`` that the grain divides as far as it divides ``n``, the least first but for one itself."""
    shared = math.gcd(n, grain) if n > 2 * grain else 1
    least = max(shared, 2)
    yield from (d for d in range(least, n) if n % d == 0 and d % shared == 0)
    yield from (d for d in (n, 1) if d % shared == 0)


def _in_proportion(real: Sizes, sizes: Sizes, grain: int) -> bool:
    """Whether of two sizes one divides the other where it does so in ``real``, with a quotient of that grain."""
    for a, b in itertools.permutations(real, 2):
        if real[a] % real[b] or real[a] == real[b]:
            continue
        shared = math.gcd(real[a] // real[b], grain)
        if sizes[a] % sizes[b] or sizes[a] // sizes[b] % shared:
            return False
    return True


def least_factor(n: int) -> int:
    return next((k for k in range(2, math.isqrt(n) + 1) if n % k == 0), n)


def tell_apart(chosen: list[Sizes], names: list[str]) -> bool:
    """Whether two products of powers of the sizes that are one number at all the ``chosen`` ones are so everywhere."""
    logs = np.array([[math.log(s[n]) for n in names] for s in chosen])
    return len(chosen) > len(names) and int(np.linalg.matrix_rank(logs[1:] - logs[0], 1e-9)) == len(names)


__all__ = ["GRAINS", "largest", "least_factor", "smaller", "tell_apart"]
