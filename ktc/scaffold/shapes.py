"""Fitting extents: the product of sizes that a buffer's reach follows from probe to probe."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import truediv

from ktc.ir.workload.size_expressions import evaluate

SLACK, WORST = 1.35, 16.0
"""How much above what is touched a product may lie: borders and guards leave elements out. Up to the second number it
is only a guess, of too much memory rather than too little."""

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
    product is above what is touched.
    """

    factors: tuple[str, ...]
    times: int = 1
    over: int = 1
    plus: int = 0
    exact: bool = False
    loose: float = 1.0

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
    values = {f: tuple(value_of(f, s) for s, _ in seen) for f in (*sized, *possible)}
    with_one = [(q, *rest) for q in possible for rest in _products(names, QUOTIENT_DEGREE)]
    found = _tight((*_products(sized), *with_one), values, seen)
    if not any(e.exact for _, _, e in found):
        more = (p for n in range(MAX_DEGREE + 1, MOST_DEGREE + 1) for p in _of_degree(sized, n) if len({*p}) >= n - 1)
        likely = any(e.plausible for _, _, e in found)
        found += (f for f in _tight(more, values, seen) if f[2].exact or (not likely and f[2].plausible))
    if not found:
        return None
    tightest = min(looseness for looseness, _, _ in found)
    near = [(cost, looseness, i) for i, (looseness, cost, _) in enumerate(found) if looseness <= tightest * 1.02]
    near = [n for n in near if found[n[2]][2].plausible] or near  # rows of 1023 are none where 1024 - k are exact
    return found[min(near)[2]][2]


def fit_sum(
    seen: Sequence[tuple[Mapping[str, int], int]], names: Sequence[str], quotients: Collection[tuple[str, str]] = ()
) -> Extent | None:
    """The tightest bound of the extents of ``seen`` that is a sum of two products of ``names``: rows of tokens, and
    what fills up the last block of each expert. None if none is plausible in the mean of the probes."""
    seen = [(s, e) for s, e in seen if e > 0]
    possible = [f"cdiv({a}, {b})" for a, b in quotients if a in names and b in names]
    parts = [" * ".join(p) for p in (*_products(names, 2)[1:], *((q,) for q in possible))]
    values = {p: [evaluate(p, s) for s, _ in seen] for p in parts}
    found = []
    for a, b in itertools.combinations(parts, 2):
        made = [x + y for x, y in zip(values[a], values[b])]
        loose = sum(made) / max(sum(e for _, e in seen), 1)
        if loose <= SLACK and all(n >= e for n, (_, e) in zip(made, seen)):
            exact = all(n == e for n, (_, e) in zip(made, seen))
            found.append((loose, len(a) + len(b), Extent((f"({a} + {b})",), exact=exact, loose=loose)))
    return min(found, key=lambda f: f[:2])[2] if found and len(seen) > 2 else None


def _tight(
    products: Iterable[tuple[str, ...]],
    values: Mapping[str, tuple[int, ...]],
    seen: Sequence[tuple[Mapping[str, int], int]],
) -> list[tuple[float, int, Extent]]:
    """How loose, how complicated and which: the multiples of ``products`` that bound all of ``seen`` within ``WORST``.

    ``values``: of each factor, by probe.
    """
    found = []
    extents = [e for _, e in seen]
    for factors in products:
        whole = [math.prod(at) for at in zip(*(values[f] for f in factors))] if factors else [1] * len(seen)
        if max(map(truediv, extents, whole)) > WORST * min(map(truediv, extents, whole)):
            continue
        for plus in (0, 1) if factors else (0,):
            extent = _scaled(factors, plus, whole, extents)
            if extent is None:
                continue
            made = [-(-n * extent.times // extent.over) + plus if factors else extent.times for n in whole]
            looseness = max(map(truediv, made, extents))
            if looseness <= WORST:
                cost = (
                    len(factors)
                    + 2 * any("(" in f for f in factors)
                    + (extent.times > 1)
                    + 3 * (extent.over > 1)
                    + 2 * bool(plus)
                )
                found.append((looseness, cost, dataclasses.replace(extent, exact=made == extents, loose=looseness)))
    return found


def _products(names: Sequence[str], most: int = MAX_DEGREE) -> list[tuple[str, ...]]:
    """Products of up to ``most`` sizes, a size at most twice, in the order of the names."""
    return [(), *(p for degree in range(1, most + 1) for p in _of_degree(names, degree))]


def _of_degree(names: Sequence[str], degree: int) -> Iterator[tuple[str, ...]]:
    products = itertools.combinations_with_replacement(names, degree)
    return (c for c in products if degree < 3 or max(map(c.count, c)) <= 2)


def _scaled(factors: tuple[str, ...], plus: int, whole: Sequence[int], extents: Sequence[int]) -> Extent | None:
    """The product, ``whole`` by probe, times or over the least number that bounds every extent; None if it would have
    to be large."""
    need = max((e - plus) / n for e, n in zip(extents, whole))
    if need <= 0:
        return None
    if not factors:
        return Extent((), times=math.ceil(need))
    if need > 0.75:
        times = math.ceil(need - 1e-9)
        fixed_row = all(n * times + plus == e for e, n in zip(extents, whole))
        return Extent(factors, times=times, plus=plus) if times <= MOST_TIMES or fixed_row else None
    over = next((d for d in reversed(DIVISORS) if 1 / d >= need - 1e-9), 1)
    return Extent(factors, over=over, plus=plus)
