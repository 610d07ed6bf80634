"""Which sizes to try: small, awkward, and such that every guard and assumption is exercised.

A size's values come from the numbers the candidate is built of (:mod:`.sizes`): for a tile T, the sizes 1, T-1, T, T+1
and 2T+7, besides a few fixed primes and the scenarios' own values. Instances respect the workload's assumptions. A
candidate with runtime guards is only run where they hold, for elsewhere its launcher falls back to the original.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir import intexpr
from ktc.ir.fold import evaluate
from ktc.ir.interp import geometry_of
from ktc.ir.kernel import Kernel
from ktc.ir.memo import by_identity
from ktc.ir.reference import FormulaError
from ktc.ir.workload import Workload

from .sizes import BEYOND, by_interest, candidates, innermost, multiple, runnable, scalars_of, step_of, tiles

MAX_ELEMENTS = 48_000
"""Array elements plus threads of one instance. Threads that every launch has, whatever the sizes, count a sixteenth:
most of them find nothing to do."""

IDLE = 16

LARGER = 8
"""How much costlier an extra instance may be than a usual one."""

FEW, LONGEST = 3, 1 << 17
"""Of the larger instances: the other sizes, in steps, and where the search for the largest that fits starts."""

WIDE, MOST_THREADS, MOST_ROWS = 4, 1024, 320
"""How much costlier the instance with wide rows may be than a usual one, and how large it grows."""


@dataclass(frozen=True)
class Instance:
    """Sizes by name; ``cost`` is array elements plus threads (see :data:`MAX_ELEMENTS`)."""

    sizes: Mapping[str, int]
    cost: int


def instances(
    original: Kernel, candidate: Kernel, workload: Workload, *, count: int = 16, limit: int = MAX_ELEMENTS
) -> list[Instance]:
    """At most ``count`` instances of cost up to ``limit`` on which both kernels must agree, cheapest first.

    Each satisfies both kernels' assumptions, runtime guards included. The first picks (``count`` may be 1) vary the
    sizes of innermost dimensions; half of all do, a quarter vary the others, a quarter all at once.
    """
    maker = Maker((original, candidate), workload, limit)
    found: dict[tuple[int, ...], Instance] = {}
    for sizes in _choices(maker):
        made = maker.make(sizes)
        if made is not None:
            found.setdefault(tuple(sizes.values()), made)
        if len(found) >= count:
            break
    return sorted(found.values(), key=lambda i: (i.cost, tuple(i.sizes.values())))


def larger_instances(maker: Maker) -> Iterator[Instance]:
    """For each size, an instance with that size as large as fits, the others small, but not so small that a halo is all
    there is. For code that only long rows reach."""
    base = maker.few()
    for n in maker.names if base else ():
        yield from maker.largest({**base, n: max(LONGEST, *(int(s.sizes[n]) for s in maker.workload.scenarios))}, n)


def single_blocks(kernel: Kernel, workload: Workload, tried: list[Instance]) -> set[int]:
    """Axes of the grid that some scenario gives several blocks and no instance tried did."""

    def wide(sizes: Mapping[str, int]) -> set[int]:
        return {k for k, n in enumerate(geometry_of(kernel, scalars_of(workload, sizes)).grid) if n > 1}

    if kernel.is_parallel:
        return set()
    usual = [wide(s.sizes) for s in workload.scenarios if runnable(kernel, workload, s.sizes)]
    return set().union(*usual) - set().union(*(wide(i.sizes) for i in tried))


class Maker:
    """Makes instances of one pair of kernels, if they are feasible and small enough."""

    def __init__(self, kernels: tuple[Kernel, Kernel], workload: Workload, limit: int) -> None:
        self.kernels, self.workload, self.limit = kernels, workload, limit
        names = list(workload.scenarios[0].sizes) if workload.scenarios else []
        self.names = names
        self.inner = {n: innermost(n, workload) for n in names}
        self.step = {n: step_of(n, kernels, workload) for n in names}
        self.tiles = set().union(*(tiles(k, workload) for k in kernels))
        self.always = self._constant_threads()
        self._known: dict[tuple[int, ...], Instance | None] = {}

    def make(self, sizes: Mapping[str, int]) -> Instance | None:
        key = tuple(sizes[n] for n in self.names)
        if key not in self._known:
            self._known[key] = self._make(dict(zip(self.names, key)))
        return self._known[key]

    def _make(self, sizes: dict[str, int]) -> Instance | None:
        key = tuple(sizes.items())
        if not all(_runs(k, self.workload, key) for k in self.kernels):
            return None
        cost = _elements(self.workload, key)
        if cost > self.limit:
            return None
        threads = max(_threads(k, self.workload, key) for k in self.kernels)
        always = min(threads, self.always)
        cost += threads - always + always // IDLE
        return Instance(sizes, cost) if cost <= self.limit else None

    def _constant_threads(self) -> int:
        """Threads that a launch has whatever the sizes: along those axes of the grid that depend on knobs alone."""
        most = 0
        for launch, knobs in ((k.launch, k.knob_values) for k in self.kernels if k.launch is not None):
            blocks = math.prod(int(evaluate(e, knobs) or 1) for e in launch.grid)
            block = [evaluate(e, knobs) for e in launch.block]
            threads = MOST_THREADS if None in block else math.prod(int(n or 1) for n in block)
            most = max(most, blocks * threads if blocks > 1 else 0)
        return most

    def base(self) -> dict[str, int]:
        """The cheapest feasible combination of small multiples of the steps and the scenarios' values; {} if none."""
        options = {n: [self.step[n], *sorted({int(s.sizes[n]) for s in self.workload.scenarios})] for n in self.names}
        combinations = [dict(zip(self.names, c)) for c in itertools.islice(itertools.product(*options.values()), 4096)]
        order = sorted((self._least(sizes), k) for k, sizes in enumerate(combinations))
        best: tuple[int, int] | None = None  # cost, then the place in the list
        for elements, k in order:
            if best is not None and elements > best[0]:
                break  # whatever else these cost
            made = self.make(combinations[k])
            if made is not None and (best is None or (made.cost, k) < best):
                best = made.cost, k
        return combinations[best[1]] if best else {}

    def _least(self, sizes: Mapping[str, int]) -> int:
        """What an instance costs at least: its arrays' elements; 0 for sizes at which a shape has no meaning."""
        try:
            return _elements(self.workload, tuple(sizes.items()))
        except FormulaError:
            return 0

    def few(self) -> dict[str, int]:
        """Small sizes, as far as they are feasible not so small that a halo is all there is; {} if none are."""
        base = self.base()
        for n in self.names if base else ():
            wider = {**base, n: FEW * self.step[n]}
            base = wider if self.make(wider) is not None else base
        return base

    def largest(self, sizes: Mapping[str, int], name: str) -> Iterator[Instance]:
        """The first that can be made of ``sizes`` and those with half, a quarter, ... of the size ``name``."""
        promised = (a.range for a in self.workload.args if a.role == "scalar" and a.value == name and a.range)
        highest = (int(high) // self.step[name] * self.step[name] for _, high in promised)
        value = min([sizes[name], *highest])
        while value >= self.step[name]:
            made = self.make({**sizes, name: value})
            if made is not None:
                yield made
                return
            value = value // 2 // self.step[name] * self.step[name]

    def values(self, name: str, base: Mapping[str, int]) -> list[int]:
        """Feasible values of one size, the others at ``base``, the most telling first."""
        possible = candidates(name, self.tiles, self.step[name], self.workload)
        feasible = [v for v in possible if self.make({**base, name: v}) is not None]
        return by_interest(feasible, self.tiles, self.step[name], self.inner[name] > 0)


def _choices(maker: Maker) -> Iterator[dict[str, int]]:
    """Sizes to try, the most telling first, in turns: an inner size varies, then an outer one, then all."""
    base = maker.base()
    if not base:
        return
    values = {n: maker.values(n, base) for n in maker.names}
    few = {n: [v for v in values[n] if v <= 3 * maker.step[n]][:3] or [base[n]] for n in maker.names}
    inner = sorted((n for n in maker.names if maker.inner[n]), key=lambda n: -maker.inner[n])
    outer = [n for n in maker.names if not maker.inner[n]]

    def walk(names: list[str]) -> Iterator[dict[str, int]]:
        for k in range(max((len(values[n]) for n in names), default=0)):
            for n in names:
                if k < len(values[n]):
                    yield {m: values[n][k] if m == n else few[m][(k + 1) % len(few[m])] for m in maker.names}

    def together() -> Iterator[dict[str, int]]:
        for k in range(max(len(v) for v in values.values())):
            for back in range(len(maker.names) + 1):  # outer sizes smaller, until it fits
                yield {n: values[n][min(k + back * (not maker.inner[n]), len(values[n]) - 1)] for n in maker.names}

    def pairs() -> Iterator[dict[str, int]]:
        for a, b in itertools.combinations(maker.names, 2):
            for x, y in itertools.product(values[a], values[b]):
                yield {**base, a: x, b: y}

    def scenarios() -> Iterator[dict[str, int]]:
        """The workload's own, which no size is degenerate in, from the cheapest."""
        known = [maker.make({n: int(s.sizes[n]) for n in maker.names}) for s in maker.workload.scenarios]
        yield from (dict(i.sizes) for i in sorted((i for i in known if i is not None), key=lambda i: i.cost))

    def alike() -> Iterator[dict[str, int]]:
        """All sizes about as large as each other: a quarter of what fits, for the work of a block is their product."""
        for most in sorted({v for n in maker.names for v in values[n]}, reverse=True):
            sizes = {n: max((v for v in values[n] if v <= most), default=base[n]) for n in maker.names}
            made = maker.make(sizes)
            if made is not None and made.cost <= maker.limit // 4:
                yield sizes
                return

    def many() -> Iterator[dict[str, int]]:
        """Each outer size by itself as large as half of what fits allows: of rows that coarsened blocks and persistent
        ones share out again and again, the last share has something to do as well."""
        for n in outer:
            for k in range(LONGEST.bit_length(), 0, -1):
                sizes = {m: few[m][0] for m in maker.names} | {n: multiple((1 << k) + BEYOND, maker.step[n])}
                made = maker.make(sizes)
                if made is not None and made.cost <= maker.limit // 2:
                    yield sizes
                    break

    turns = [walk(inner), scenarios(), walk(outer), many(), walk(inner), alike(), together()]
    yield from _turns(turns if len(maker.names) > 1 else [walk(inner), walk(outer), scenarios()], maker)
    yield from pairs()


def _turns(walks: list[Iterator[dict[str, int]]], maker: Maker) -> Iterator[dict[str, int]]:
    """One new feasible choice of each walk in turn, until all are exhausted."""
    seen: set[tuple[int, ...]] = set()
    while walks:
        for w in list(walks):
            for sizes in w:
                key = tuple(sizes.values())
                if key not in seen and maker.make(sizes) is not None:
                    seen.add(key)
                    yield sizes
                    break
            else:
                walks.remove(w)


Sizes = tuple[tuple[str, int], ...]

REMEMBERED = 1 << 14
"""Sizes of which is kept what a workload and a kernel make of them: an original meets them with every candidate."""


@by_identity(REMEMBERED)
def _elements(workload: Workload, sizes: Sizes) -> int:
    """Elements of all arrays."""
    env = dict(sizes)
    shapes = (a.shape for a in workload.args if a.role != "scalar")
    return sum(math.prod(intexpr.evaluate(e, env) for e in shape) for shape in shapes)


@by_identity(REMEMBERED)
def _scalars(workload: Workload, sizes: Sizes) -> Mapping[str, int | float]:
    return scalars_of(workload, dict(sizes))


@by_identity(REMEMBERED, subjects=2)
def _runs(kernel: Kernel, workload: Workload, sizes: Sizes) -> bool:
    return runnable(kernel, workload, dict(sizes), _scalars(workload, sizes))


@by_identity(REMEMBERED, subjects=2)
def _threads(kernel: Kernel, workload: Workload, sizes: Sizes) -> int:
    """Threads of a launch; parallel form counts as its elements do."""
    if kernel.is_parallel:
        return 0
    g = geometry_of(kernel, _scalars(workload, sizes))
    return g.blocks * g.threads
