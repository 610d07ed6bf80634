"""Which sizes to try: small, awkward, and such that every guard and assumption is exercised.

A size's values come from the numbers the candidate is built of (:mod:`.sizes`): for a tile T, the sizes 1, T-1, T, T+1
and 2T+7, besides a few fixed primes and the scenarios' own values. Instances respect the workload's assumptions. A
candidate with runtime guards is only run where they hold, for elsewhere its launcher falls back to the original.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ktc.ir.fold import evaluate
from ktc.ir.interp import geometry_of
from ktc.ir.kernel import Kernel
from ktc.ir.sequences import launch_extents, launch_kernels
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import used
from ktc.ir.workload import Workload, size_expressions
from ktc.ir.workload.reference import FormulaError

from .choices import choices
from .filled import filled, several_blocks
from .fragment_cuts import FRAGMENT, cut_fragments, has_fragments
from .sizes import (
    REMEMBERED,
    Sizes,
    by_interest,
    candidates,
    has_values,
    innermost,
    runnable,
    scalar_arguments,
    scalars_of,
    steps_of,
    tiles,
)  # fmt: skip

MAX_ELEMENTS = 48_000
"""Array elements plus threads of one instance. Where a launch has many blocks along an axis whatever the sizes, threads
count a sixteenth: most of them find nothing to do."""

IDLE = 16

LAUNCHED = 1 << 23
"""Threads of the largest launch: half of what the interpreter takes."""

NO_FORMULA = ("and", "or", "not", "==", "!=", "<", "<=", ">", ">=")
"""What stands in a condition and in no number."""

LARGER = 8
"""How much costlier an extra instance may be than a usual one."""

ROOMY = 64
"""The same, where buffers make the cost and few threads work on them."""

FEW = 3
"""Of the larger instances: the other sizes, in steps."""

LONGEST = 1 << 17
"""Where the search for the largest value of a size that fits starts, if no scenario nor the declared range has more."""

WIDE, MOST_THREADS, MOST_ROWS = 12, 1024, 320
"""How much costlier the instance with wide rows may be than a usual one, and how large it grows."""


@dataclass(frozen=True)
class Instance:
    """Sizes by name; ``cost`` is array elements plus threads (see :data:`MAX_ELEMENTS`). ``full``: blocks, or rounds,
    are full to the last element or one more, or several; no other sizes show what these do."""

    sizes: Mapping[str, int]
    cost: int
    full: bool = False


def instances(
    original: Kernel, candidate: Kernel, workload: Workload, *, count: int = 24, limit: int = MAX_ELEMENTS
) -> list[Instance]:
    """At most ``count`` instances of cost up to ``limit`` on which both kernels must agree, cheapest first; besides
    them those that fill blocks exactly or make several (:mod:`.filled`) or cut operands of tensor cores off
    (:mod:`.fragment_cuts`).

    Each satisfies both kernels' assumptions, runtime guards included. The first picks (``count`` may be 1) are the most
    telling ones (:mod:`.choices`).
    """
    maker = Maker((original, candidate), workload, limit)
    found: dict[tuple[int, ...], Instance] = {}
    for sizes in choices(maker):
        made = maker.make(sizes)
        if made is not None:
            found.setdefault(tuple(made.sizes.values()), made)
        if len(found) >= count:
            break
    if count > 1:
        wide = Maker(maker.kernels, workload, min(LARGER * limit, LARGER * MAX_ELEMENTS))
        for i in _telling(maker, wide, list(found.values())):
            found[tuple(i.sizes.values())] = replace(i, full=True)
        for sizes in cut_fragments(maker) if has_fragments(candidate) else ():
            made = maker.make(sizes)
            if made is not None:
                found.setdefault(tuple(made.sizes.values()), made)
    return sorted(found.values(), key=lambda i: (i.cost, tuple(i.sizes.values())))


def with_large_buffers(original: Kernel, candidate: Kernel, workload: Workload, count: int) -> list[Instance]:
    """At most ``count`` instances whose buffers are larger than those of :func:`instances` may be, of few threads: of a
    source that has all of its sizes written in it there is no other."""
    kernels = (original, candidate)
    found = instances(original, candidate, workload, count=count, limit=ROOMY * MAX_ELEMENTS)
    most = LARGER * MAX_ELEMENTS
    return [i for i in found if all(_threads(k, workload, tuple(i.sizes.items())) <= most for k in kernels)]


def _telling(maker: Maker, wide: Maker, tried: list[Instance]) -> list[Instance]:
    """Those that fill blocks and rounds, and those that make several, larger than others if need be (``wide``)."""
    full = [i for sizes in filled(maker) if (i := maker.make(sizes)) is not None]
    several = several_blocks(wide, [i.sizes for i in (*tried, *full)])
    return full + [i for sizes in several if (i := wide.make(sizes)) is not None]


def larger_instances(maker: Maker) -> Iterator[Instance]:
    """All sizes a fragment of matrices and most of another one, for what hangs on several sizes at once; then for each
    size an instance with that size as large as fits, the others small, but not so small that a halo is all there is.
    For code that only long rows reach."""
    together = maker.make({n: maker.near(n, FRAGMENT + FRAGMENT // 2 - 1) for n in maker.names})
    if together is not None:
        yield together
    base = maker.few()
    for n in maker.names if base else ():
        yield from maker.largest({**base, n: maker.longest(n)}, n)


AXES = tuple(f"{what} along {axis}" for what in ("block", "thread") for axis in "xyz")
"""Of a launch, in the order of :func:`extents`. Of a sequence those of each launch, one after the other."""


def axis_name(kernel: Kernel, axis: int) -> str:
    """The ``axis``-th of :data:`AXES`, of a sequence with the launch that it is of."""
    launch, own = divmod(axis, len(AXES))
    return f"{AXES[own]} of '{launch_kernels(kernel)[launch].name}'" if kernel.is_sequence else AXES[own]


def extents(kernel: Kernel, scalars: Mapping[str, int | float]) -> tuple[int, ...]:
    """Blocks of the grid and threads of a block, along x, y and z each, of every launch. Sizes may decide the threads
    too, where a loop has no other level beyond what one thread does."""
    found = (geometry_of(k, scalars) for k in launch_kernels(kernel))
    return tuple(n for g in found for n in (*g.grid, *g.block))


def open_axes(kernel: Kernel) -> set[int]:
    """The :data:`AXES` along which sizes decide how many there are."""
    return {k for k, e in enumerate(launch_extents(kernel)) if evaluate(e, kernel.knob_values) is None}


def single_axes(kernel: Kernel, workload: Workload, tried: list[Instance]) -> set[int]:
    """The :data:`AXES` along which some scenario has several blocks, or threads, and no instance tried has."""

    def wide(sizes: Mapping[str, int]) -> set[int]:
        return {k for k, n in enumerate(extents(kernel, scalars_of(workload, sizes))) if n > 1}

    if not kernel.is_spmd:
        return set()
    usual = [wide(s.sizes) for s in workload.scenarios if runnable(kernel, workload, s.sizes)]
    return (set().union(*usual) - set().union(*(wide(i.sizes) for i in tried))) & open_axes(kernel)


def launched_always(kernels: tuple[Kernel, ...], workload: Workload) -> int:
    """What the threads of a launch cost that is as large at all sizes, as that of a loop over the whole grid is."""
    sizes = [tuple(s.sizes.items()) for s in workload.scenarios]
    least = max((min((_threads(k, workload, s) for s in sizes), default=0) for k in kernels), default=0)
    return least // IDLE + 1 if any(map(_has_constant_blocks, kernels)) else 0


class Maker:
    """Makes instances of one pair of kernels, if they are feasible and small enough."""

    def __init__(self, kernels: tuple[Kernel, Kernel], workload: Workload, limit: int) -> None:
        self.kernels, self.workload, self.limit = kernels, workload, limit
        names = list(workload.scenarios[0].sizes) if workload.scenarios else []
        self.names = names
        self.inner = {n: innermost(n, workload) for n in names}
        self.steps = {n: steps_of(n, kernels, workload) for n in names}
        self.step = {n: s.by for n, s in self.steps.items()}
        self.tiles = set().union(*(tiles(k, workload) for k in kernels))
        self.always = any(_has_constant_blocks(k) for k in self.kernels)
        self._known: dict[tuple[int, ...], Instance | None] = {}
        self._suggested: dict[str, list[int]] = {}

    def near(self, name: str, v: int) -> int:
        """The value of a size that the assumptions allow nearest to ``v``."""
        return self.steps[name].near(v)

    def make(self, sizes: Mapping[str, int]) -> Instance | None:
        """The instance of these sizes; where they do not keep to the workload's equations between sizes, that of those
        in which the sizes that these tell are what they tell."""
        key = tuple(sizes[n] for n in self.names)
        if key not in self._known:
            asked = dict(zip(self.names, key))
            self._known[key] = self._make(told_sizes(self.workload, asked))
        return self._known[key]

    def _make(self, sizes: dict[str, int]) -> Instance | None:
        key = tuple(sizes.items())
        if not all(_runs(k, self.workload, key) for k in self.kernels) or impossible(self.workload, key):
            return None
        cost = _elements(self.workload, key)
        if cost > self.limit:
            return None
        threads = max(_threads(k, self.workload, key) for k in self.kernels)
        cost += threads // IDLE if self.always else threads
        return Instance(sizes, cost) if cost <= self.limit and threads <= LAUNCHED else None

    def base(self) -> dict[str, int]:
        """The cheapest feasible combination of small multiples of the steps and the scenarios' values; {} if none."""
        options = {
            n: [self.steps[n].at(1), *sorted({int(s.sizes[n]) for s in self.workload.scenarios})] for n in self.names
        }
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
        """Small sizes, as far as they are feasible not so small that a halo is all there is; {} if none are. A size
        that others must divide is large in scenarios, and need not be."""
        base = self.base()
        for n in self.names if base else ():
            wider = {**base, n: self.steps[n].at(FEW)}
            base = wider if self.make(wider) is not None else base
        for n in sorted(base, key=lambda n: -base[n]):
            smaller = (v for v in self._candidates(n) if self.steps[n].at(FEW) <= v < base[n])
            base[n] = next((v for v in smaller if self.make({**base, n: v}) is not None), base[n])
        return base

    def _candidates(self, name: str) -> list[int]:
        """Values of a size that what the candidate is built of suggests, in ascending order."""
        if name not in self._suggested:
            self._suggested[name] = sorted(candidates(name, self.tiles, self.steps[name], self.workload))
        return self._suggested[name]

    def promised(self, name: str) -> int | None:
        """The largest value of a size that some argument's declared range allows; None if none declares one."""
        highs = (int(high) for _, high in self._ranges(name))
        return min(map(self.steps[name].below, highs), default=None)

    def lowest(self, name: str) -> int:
        """The smallest value of a size that every argument's declared range allows, at least one."""
        return max((int(low) for low, _ in self._ranges(name) if low > 1), default=1)

    def _ranges(self, name: str) -> list[tuple[float, float]]:
        """The ranges that arguments declare whose value is that size."""
        return [a.range for a in self.workload.args if a.role == "scalar" and a.value == name and a.range]

    def longest(self, name: str) -> int:
        """The largest value of a size worth looking at: what scenarios have, or is promised and might fit."""
        scenarios, promised = (int(s.sizes[name]) for s in self.workload.scenarios), self.promised(name)
        if promised is None:
            return max(LONGEST, *scenarios)
        return min(max(LONGEST, self.limit, *scenarios), promised)

    def largest(self, sizes: Mapping[str, int], name: str) -> Iterator[Instance]:
        """The first that can be made of ``sizes`` and those with half, a quarter, ... of the size ``name``."""
        promised = self.promised(name)
        value = sizes[name] if promised is None else min(sizes[name], promised)
        while value >= self.steps[name].at(1):
            made = self.make({**sizes, name: value})
            if made is not None:
                yield made
                return
            value = self.steps[name].below(value // 2)

    def values(self, name: str, base: Mapping[str, int]) -> list[int]:
        """Feasible values of one size, the others at ``base``, the most telling first."""
        possible = candidates(name, self.tiles, self.steps[name], self.workload)
        feasible = [v for v in possible if self.make({**base, name: v}) is not None]
        return by_interest(feasible, self.tiles, self.steps[name], self.inner[name] > 0)


def told_sizes(workload: Workload, sizes: Mapping[str, int]) -> dict[str, int]:
    """``sizes`` with those that equations of the workload tell, of others: ``P == (H + 2 * pad - R) / stride + 1``."""
    found = dict(sizes)
    for fact in workload.assume:
        name, _, formula = (part.strip() for part in fact.partition("=="))
        if name not in found or any(sign in formula.split() for sign in NO_FORMULA):
            continue
        with suppress(FormulaError):  # there is none, or others than sizes tell it: whoever asks for it is told so
            value = size_expressions.evaluate(formula, found)
            found[name] = value if value > 0 else found[name]
    return found


def _has_constant_blocks(kernel: Kernel) -> bool:
    """Whether knobs alone say that an axis of the grid has several blocks, or one has many even where all numbers are
    1: ``1024 / n + 1``."""
    extents = [e for k in launch_kernels(kernel) if k.launch is not None for e in k.launch.grid]
    ones = {**kernel.knob_values, **{s.name: 1 for e in extents for s in used(e)}}
    alone = any(int(evaluate(e, kernel.knob_values) or 1) > 1 for e in extents)
    return alone or any(int(evaluate(e, ones) or 1) > IDLE for e in extents)


@by_identity(REMEMBERED)
def _elements(workload: Workload, sizes: Sizes) -> int:
    """Elements of all arrays; those between rows that lie apart count a sixteenth."""
    env = dict(sizes)
    shapes = (a.shape for a in workload.args if a.role != "scalar")
    return sum(
        _in_rows(shape[0], env) if len(shape) == 1 else math.prod(size_expressions.evaluate(e, env) for e in shape)
        for shape in shapes
    )


def _in_rows(shape: str, sizes: Mapping[str, int]) -> int:
    """What an array of ``shape`` elements costs: ``512 * n + m - 512`` ends with the m-th element of the n-th row, and
    holds n rows of m elements 512 apart. What ends so has as many steps of one pitch as each size has values."""
    whole = size_expressions.evaluate(shape, sizes)
    pitches = {n: size_expressions.evaluate(shape, {**sizes, n: v + 1}) - whole for n, v in sizes.items()}
    steps = [sizes[n] for n, pitch in pitches.items() if pitch]
    last = sum(pitch * (sizes[n] - 1) for n, pitch in pitches.items())
    if max(pitches.values(), default=0) < 2 or last != whole - 1:
        return whole
    rows = math.prod(steps) * (steps[0] if len(steps) == 1 else 1)  # 513 * n - 512: n rows of n
    return min(whole, max(rows, whole // IDLE))


@by_identity(REMEMBERED, subjects=2)
def _runs(kernel: Kernel, workload: Workload, sizes: Sizes) -> bool:
    if not has_values(workload, dict(sizes)):
        return False
    return runnable(kernel, workload, dict(sizes), scalar_arguments(workload, sizes))


@by_identity(REMEMBERED, subjects=2)
def _threads(kernel: Kernel, workload: Workload, sizes: Sizes) -> int:
    """Threads of all launches; parallel form counts as its elements do."""
    if not kernel.is_spmd:
        return 0
    launched = (geometry_of(k, scalar_arguments(workload, sizes)) for k in launch_kernels(kernel))
    return sum(g.blocks * g.threads for g in launched)


@by_identity(REMEMBERED)
def impossible(workload: Workload, key: Sizes) -> bool:
    """Whether an argument has a dimension below 0, or holds values of which there are none, or distinct ones of which
    there are fewer than elements (of a row)."""
    sizes = dict(key)
    for a in workload.args:
        shape = [size_expressions.evaluate(e, sizes) for e in a.shape]
        if any(n < 0 for n in shape):
            return True
        if a.role != "scalar" and a.range is not None:
            if 0 in shape:
                continue  # nothing is in it
            low, high = (size_expressions.evaluate(v, sizes) if isinstance(v, str) else v for v in a.range)
            differ = {"distinct": math.prod(shape), "distinct-rows": shape[-1] if shape else 1}.get(a.init, 0)
            if high < low or differ > high - low + 1:
                return True
    return False
