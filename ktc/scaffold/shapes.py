"""Fitting extents: the product of sizes that a buffer's reach follows from probe to probe."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.intexpr import evaluate

SLACK, WORST = 1.35, 16.0
"""How much above what is touched a product may lie: borders and guards leave elements out. Up to the second number it
is only a guess, of too much memory rather than too little."""

MAX_DEGREE, QUOTIENT_DEGREE = 4, 2

MOST_TIMES = 1024
"""Elements of a size that are believed where the probes do not all show exactly as many, as they do of rows of a fixed
length."""

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
        return self.loose <= SLACK

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
    found: list[tuple[float, int, Extent]] = []
    possible = [f"cdiv({a}, {b})" for a, b in quotients if a in names and (b in names or b.isdigit())]
    with_one = [(q, *rest) for q in possible for rest in _products(names, QUOTIENT_DEGREE)]
    for factors in (*_products((*names, *terms)), *with_one):
        for plus in (0, 1):
            if plus and not factors:
                continue
            extent = _scaled(factors, plus, seen)
            if extent is None:
                continue
            looseness = max(extent.value(s) / max(e, 1) for s, e in seen)
            if looseness <= WORST:
                exact = all(extent.value(s) == e for s, e in seen)
                cost = (
                    len(factors)
                    + 2 * any("(" in f for f in factors)
                    + (extent.times > 1)
                    + 3 * (extent.over > 1)
                    + 2 * bool(plus)
                )
                made = dataclasses.replace(extent, exact=exact, loose=looseness)
                found.append((looseness, cost, made))
    if not found:
        return None
    tightest = min(looseness for looseness, _, _ in found)
    near = [(cost, looseness, i) for i, (looseness, cost, _) in enumerate(found) if looseness <= tightest * 1.02]
    return found[min(near)[2]][2]


def _products(names: Sequence[str], most: int = MAX_DEGREE) -> list[tuple[str, ...]]:
    """Products of up to ``most`` sizes, a size at most twice, in the order of the names."""
    out: list[tuple[str, ...]] = [()]
    for degree in range(1, most + 1):
        out += [c for c in itertools.combinations_with_replacement(names, degree) if max(map(c.count, c)) <= 2]
    return out


def _scaled(factors: tuple[str, ...], plus: int, seen: Sequence[tuple[Mapping[str, int], int]]) -> Extent | None:
    """The product times or over the least number that bounds every extent; None if it would have to be large."""
    need = max((e - plus) / math.prod(value_of(f, s) for f in factors) for s, e in seen)
    if need <= 0:
        return None
    if not factors:
        return Extent((), times=math.ceil(need))
    if need > 0.75:
        times = math.ceil(need - 1e-9)
        fixed_row = all(math.prod(value_of(f, s) for f in factors) * times + plus == e for s, e in seen)
        return Extent(factors, times=times, plus=plus) if times <= MOST_TIMES or fixed_row else None
    over = next((d for d in reversed(DIVISORS) if 1 / d >= need - 1e-9), 1)
    return Extent(factors, over=over, plus=plus)
