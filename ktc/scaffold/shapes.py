"""Fitting extents: the product of sizes that a buffer's reach follows from probe to probe."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from ktc.ir.workload.size_expressions import evaluate

SLACK, WORST = 1.35, 16.0
"""How much above what is touched a product may lie: borders and guards leave elements out. Up to the second number it
is only a guess, of too much memory rather than too little."""

NEARLY = 1.02
"""How much looser than the tightest a simpler product may be."""

MAX_DEGREE, MOST_DEGREE, QUOTIENT_DEGREE = 4, 6, 2
"""Factors of a shape; where no product of so many is exact; where one of them is a quotient."""

MOST_TIMES = 1024
"""Elements of a size that are believed where the probes do not all show exactly as many, as they do of rows of a fixed
length."""

MOST_CHOSEN = 16
"""Elements of a row, of which any number is as likely as another; above it, only multiples of it are likely."""

DIVISORS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Extent:
    """``factors`` of a product with ``times`` or ``over`` (rounded up) and ``plus`` elements more.

    ``exact``: the probes touch the last element and none beyond it, at all sizes. ``loose``: by how much at most the
    product is above what is touched. ``told``: the source says it so, dimension by dimension.
    """

    factors: tuple[str, ...]
    times: int = 1
    over: int = 1
    plus: int = 0
    exact: bool = False
    loose: float = 1.0
    told: bool = False

    @property
    def plausible(self) -> bool:
        """Whether it is tight, and rows of a length that nothing shows are of one that a person would have chosen."""
        chosen = self.times <= MOST_CHOSEN or self.times % MOST_CHOSEN == 0
        return self.loose <= SLACK and (self.exact or chosen)

    @property
    def is_product(self) -> bool:
        """Whether it is a product of sizes and nothing else."""
        return (self.times, self.over, self.plus) == (1, 1, 0) and all(f.isidentifier() for f in self.factors)

    def with_factor(self, name: str, factors: tuple[str, ...]) -> Extent:
        """This extent with the product ``factors`` for the size ``name``."""
        product = " * ".join(factors)
        product = f"({product})" if len(factors) > 1 else product
        inside = (re.sub(rf"\b{name}\b", product, f) for f in self.factors)
        parts = (factors if f == name else (g,) for f, g in zip(self.factors, inside))
        return dataclasses.replace(self, factors=tuple(itertools.chain.from_iterable(parts)))

    def with_quotients(self, exact: Sequence[tuple[str, str]]) -> Extent:
        """This extent with the quotients that are ``exact`` as such: of whole groups none is rounded up."""
        factors = self.factors
        for a, b in exact:
            factors = tuple(f.replace(f"cdiv({a}, {b})", f"({a} / {b})") for f in factors)
        return dataclasses.replace(self, factors=factors)

    def value(self, sizes: Mapping[str, int]) -> int:
        product = math.prod(value_of(f, sizes) for f in self.factors) * self.times
        return -(-product // self.over) + self.plus

    @property
    def shape(self) -> tuple[str, ...]:
        """The dimensions as a workload writes them: one a factor, multiples and remainders with the last."""
        if not self.factors:
            return (str(self.times + self.plus),)
        if self.plus or self.over > 1:
            whole = " * ".join(([str(self.times)] if self.times > 1 else []) + list(self.factors))
            whole = f"cdiv({whole}, {self.over})" if self.over > 1 else whole
            return (f"{whole} + {self.plus}" if self.plus else whole,)
        *first, last = (f[1:-1] if f.startswith("(") and self.times == 1 else f for f in self.factors)
        return (*first, f"{self.times} * {last}" if self.times > 1 else last)


def value_of(factor: str, sizes: Mapping[str, int]) -> int:
    """A size, or the quotient of two: ``cdiv(K, group)``."""
    return sizes[factor] if factor in sizes else evaluate(factor, sizes)


def fit(
    seen: Sequence[tuple[Mapping[str, int], int]],
    names: Sequence[str],
    quotients: Collection[tuple[str, str]] = (),
    terms: Sequence[str] = (),
) -> Extent | None:
    """The simplest tight bound of the extents of ``seen`` (sizes, elements) as a product of ``names``.

    Each of ``quotients`` and of ``terms``, which are sums of sizes, counts as a size. Probes that touch nothing say
    nothing. None if no product of them stays within ``WORST`` of what is touched.
    """
    seen = [(s, e) for s, e in seen if e > 0]
    if not seen:
        return Extent((), times=1, exact=False)
    possible = [f"cdiv({a}, {b})" for a, b in quotients if a in names and (b in names or b.isdigit())]
    sized = (*names, *terms)
    factors = _Factors((*sized, *possible), seen)
    quotient = range(len(sized), len(factors.names))
    with_one = (_beside(quotient, rest) for rest in _products(len(names), QUOTIENT_DEGREE) if possible)
    found = _tight(itertools.chain(_products(len(sized)), with_one), factors)
    if not any(e.exact for _, _, e in found):
        more = (_mostly_distinct(len(sized), n) for n in range(MAX_DEGREE + 1, MOST_DEGREE + 1))
        likely = any(e.plausible for _, _, e in found)
        found += (f for f in _tight(more, factors) if f[2].exact or (not likely and f[2].plausible))
    if not found:
        return None
    tightest = min(looseness for looseness, _, _ in found)
    near = [(cost, looseness, i) for i, (looseness, cost, _) in enumerate(found) if looseness <= tightest * NEARLY]
    near = [n for n in near if found[n[2]][2].plausible] or near  # rows of 1023 are none where 1024 - k are exact
    return found[min(near)[2]][2]


def fit_sum(
    seen: Sequence[tuple[Mapping[str, int], int]], names: Sequence[str], quotients: Collection[tuple[str, str]] = ()
) -> Extent | None:
    """The tightest bound of the extents of ``seen`` that is a sum of two products of ``names``: rows of tokens, and
    what fills up the last block of each expert. None if none is plausible in the mean of the probes."""
    seen = [(s, e) for s, e in seen if e > 0]
    possible = [f"cdiv({a}, {b})" for a, b in quotients if a in names and b in names]
    products = [tuple(names[k] for k in row) for rows in _products(len(names), 2) for row in rows.tolist()]
    parts = [" * ".join(p) for p in (*products[1:], *((q,) for q in possible))]
    values = {p: [evaluate(p, s) for s, _ in seen] for p in parts}
    found = []
    for a, b in itertools.combinations(parts, 2):
        made = [x + y for x, y in zip(values[a], values[b])]
        loose = sum(made) / max(sum(e for _, e in seen), 1)
        if loose <= SLACK and all(n >= e for n, (_, e) in zip(made, seen)):
            exact = all(n == e for n, (_, e) in zip(made, seen))
            found.append((loose, len(a) + len(b), Extent((f"({a} + {b})",), exact=exact, loose=loose)))
    return min(found, key=lambda f: f[:2])[2] if found and len(seen) > 2 else None


class _Factors:
    """What shapes are made of: ``names``, which of these are quotients or sums (``composed``), the ``values`` of each
    (a row a factor, a column a probe) and the ``extents`` that the probes saw."""

    def __init__(self, names: Sequence[str], seen: Sequence[tuple[Mapping[str, int], int]]) -> None:
        self.names = names
        self.composed = np.array(["(" in f for f in names], bool)
        self.values = np.array([[value_of(f, s) for s, _ in seen] for f in names], float).reshape(-1, len(seen))
        self.extents = np.array([e for _, e in seen], float)

    def products(self, rows: np.ndarray, probes: slice | Sequence[int]) -> np.ndarray:
        """The product of each of ``rows``, which are positions of factors, in each of the ``probes``."""
        values = np.ascontiguousarray(self.values[:, probes].T)
        out = np.ones((len(values), len(rows)))
        for column in rows.T:
            out *= values[:, column]
        return out


def _tight(products: Iterable[np.ndarray], factors: _Factors) -> list[tuple[float, int, Extent]]:
    """How loose, how complicated and which: the multiples of ``products`` that bound what all probes saw within
    ``WORST``, without those that are looser than both ``SLACK`` and, by 2 %, the tightest of them.

    ``products``: rows of positions in ``factors``, those of one array equally long. Doubles hold the numbers exactly
    that are within ``WORST`` of what memory has room for.
    """
    found: list[_Bound] = []
    tightest = WORST
    for p in products:
        found += _bounding(p, factors, max(SLACK, tightest * NEARLY))
        tightest = min((f[0] for f in found), default=WORST)
    most = max(SLACK, tightest * NEARLY)
    return [(looseness, cost, _extent(row, at, factors)) for looseness, cost, row, at in found if looseness <= most]


_Scale: TypeAlias = tuple[int, int, int, bool, float]
"""The ``times``, ``over``, ``plus``, ``exact`` and ``loose`` of an extent."""

_Bound: TypeAlias = tuple[float, int, Sequence[int], _Scale]
"""How loose and how complicated a product is, the positions of its factors, and how it is scaled."""


def _extent(row: Sequence[int], scale: _Scale, factors: _Factors) -> Extent:
    return Extent(tuple(factors.names[k] for k in row), *scale)


def _bounding(products: np.ndarray, factors: _Factors, most: float) -> Iterator[_Bound]:
    """The multiples of ``products`` that :func:`_tight` speaks of, ``most`` as loose as that: times or over the least
    number that bounds every extent, or that and one element more."""
    extents, degree = factors.extents[:, None], products.shape[1]
    products, whole = _followed(products, factors)
    composed = 2 * factors.composed[products].any(axis=1)
    found = []
    for plus in (0, 1) if degree else (0,):
        need = ((extents - plus) / whole).max(axis=0, initial=-np.inf)
        many = (need > 0.75) | (degree == 0)
        times = np.where(many, np.ceil(need - 1e-9), 1.0)
        over = np.where(many, 1.0, _least_divisor(need))
        made = np.ceil(whole * times / over) + plus
        looseness, exact = (made / extents).max(axis=0, initial=0), (made == extents).all(axis=0)
        fits = (need > 0) & (looseness <= min(most, WORST)) & (~many | (times <= MOST_TIMES) | exact | (degree == 0))
        cost = degree + composed + (times > 1) + 3 * (over > 1) + 2 * plus
        for k in np.flatnonzero(fits).tolist():
            scale = int(times[k]), int(over[k]), plus, bool(exact[k]), float(looseness[k])
            found.append((k, (float(looseness[k]), int(cost[k]), products[k].tolist(), scale)))
    yield from (f for _, f in sorted(found, key=lambda f: f[0]))


def _followed(products: np.ndarray, factors: _Factors) -> tuple[np.ndarray, np.ndarray]:
    """Those of ``products`` that the extents follow within ``WORST``, and their values, a row a probe: numpy computes
    along rows at once. Most are ruled out by the probes of the fewest and of the most elements alone."""
    extents = factors.extents
    ends = [int(extents.argmin()), int(extents.argmax())]
    for probes in (ends, slice(None)):
        whole = factors.products(products, probes)
        with np.errstate(divide="ignore", invalid="ignore"):  # a factor may be 0 at some sizes: none of a shape
            ratio = extents[probes][:, None] / whole
        alike = ratio.max(axis=0, initial=0) <= WORST * ratio.min(axis=0, initial=np.inf)
        products, whole = products[alike], whole[:, alike]
    return products, whole


def _least_divisor(need: np.ndarray) -> np.ndarray:
    """The largest divisor by which a product still is as large as is needed, 1 where it is not."""
    out = np.ones(need.shape)
    for d in DIVISORS:
        out[1 / d >= need - 1e-9] = d
    return out


def _products(names: int, most: int = MAX_DEGREE) -> list[np.ndarray]:
    """Products of up to ``most`` of so many sizes, a size at most twice, in the order of the names: an array a degree,
    a row a product."""
    return [_of_degree(names, degree) for degree in range(most + 1)]


@cache
def _of_degree(names: int, degree: int) -> np.ndarray:
    chosen = [*itertools.combinations_with_replacement(range(names), degree)]
    products = np.array(chosen, int).reshape(len(chosen), degree)
    if degree < 3:
        return products
    return products[(products[:, 2:] != products[:, :-2]).all(axis=1)]  # they are in order: no three are alike


@cache
def _mostly_distinct(names: int, degree: int) -> np.ndarray:
    """Those of the products in which no size but one is there twice."""
    products = _of_degree(names, degree)
    return products[_distinct(products) >= degree - 1]


def _distinct(products: np.ndarray) -> np.ndarray:
    """How many different sizes each product has."""
    return 1 + (np.diff(products, axis=1) != 0).sum(axis=1)


def _beside(more: Sequence[int], products: np.ndarray) -> np.ndarray:
    """``products`` with one factor more, the first: each of ``more`` in turn. All in one array: there are a hundred
    quotients of twenty sizes, and what is asked of an array costs more than what is asked of its rows."""
    first = np.repeat(np.array(more, int), len(products))
    return np.hstack([first[:, None], np.tile(products, (len(more), 1))])
