"""Which sizes make a launch small enough for a check: its threads, their product, the statements of a run."""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from math import inf, prod

from ktc.ir.arith.size_equalities import completed, equalities
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Param
from ktc.ir.types import Scalar

from .run_length import statements

MAX_THREADS, MAX_FIXED = 1 << 13, 1 << 20
"""Threads of a launch; of one whose size no argument changes."""

MAX_VOLUME = 1 << 17

AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")

SMALLEST = (1, 2, 3, 16, 64, 256)
"""Sizes of which the first that a source takes are its smallest."""


def numbers_for(kernel: Kernel, rng: random.Random, unit: int, sizes: Sequence[int]) -> dict[str, int | float]:
    """A number for every scalar parameter, integers from ``sizes`` that are multiples of ``unit``."""
    return drawn(kernel, rng, dict.fromkeys((p.sym.name for p in kernel.params), tuple(sizes)), unit)


def drawn(
    kernel: Kernel, rng: random.Random, sizes: Mapping[str, Sequence[int]], unit: int = 1
) -> dict[str, int | float]:
    """A number for every scalar parameter, of the ``sizes`` for it; for one that the kernel assumes to follow from
    others what follows."""
    scalars = [p for p in kernel.params if isinstance(p.sym.type, Scalar)]
    return completed(kernel, {p.sym.name: number_for(p, rng, unit, sizes[p.sym.name]) for p in scalars})


def number_for(p: Param, rng: random.Random, unit: int, all_sizes: Sequence[int]) -> int | float:
    t = p.sym.type
    assert isinstance(t, Scalar)
    if t.is_float:
        return rng.choice((1.0, 2.0, 3.0))
    if t.kind == "bool":
        return rng.randrange(2)
    step = max(1, p.divisible_by)
    choices = _choices(tuple(all_sizes), unit, step, *p.range)
    return rng.choice(choices) if choices else (p.range[0] or step)


@lru_cache(1024)
def _choices(sizes: tuple[int, ...], unit: int, step: int, low: int | None, high: int | None) -> tuple[int, ...]:
    """The ``sizes`` that are multiples of ``unit``, times ``step``, from ``low`` to ``high``: thousands of draws are of
    the same few."""
    scaled = (s * step for s in sizes if s % unit == 0)
    return tuple(s for s in scaled if (low is None or s >= low) and (high is None or s <= high))


def launched(kernel: Kernel, scalars: dict[str, int | float]) -> int:
    """Threads of the launch; 0 if there is none."""
    env = kernel.environment(scalars)
    launch = kernel.launch
    assert launch is not None
    total = 1
    for e in (*launch.grid, *launch.block):
        n = evaluate(e, env)  # type: ignore[arg-type]
        if n is None or n < 1:
            return 0
        total *= int(n)
    return total


def launched_at_least(kernel: Kernel, sizes: Sequence[int]) -> int:
    """The fewest threads of launches in which all numbers are the same one of ``sizes``; 0 if none has any."""
    alike = (launched(kernel, numbers_for(kernel, random.Random(0), 1, (size,))) for size in sizes)
    return min((n for n in alike if n), default=0)


def single_axes(kernel: Kernel, scalars: Mapping[str, int | float]) -> frozenset[str]:
    """The axes along which a launch at these sizes has one block, or a block one thread, though at others there may be
    more."""
    launch, env = kernel.launch, kernel.environment(scalars)
    assert launch is not None
    axes = zip(AXES, (*launch.grid, *launch.block), strict=True)
    open_ = [(a, n) for a, n in axes if evaluate(n, kernel.knob_values) != 1]
    return frozenset(a for a, n in open_ if (evaluate(n, env) or 1) <= 1)


def acceptable(
    kernel: Kernel, scalars: Mapping[str, int | float], aside: Container[str] = (), within: float = inf
) -> bool:
    """Whether sizes, those ``aside`` not counted, are small, the kernel's assumptions hold for them, and a run takes
    no more than ``within`` statements, as far as sizes say that."""
    env = kernel.environment(scalars)
    following = {e.sym.name for e in equalities(kernel)}
    counted = {n: v for n, v in scalars.items() if n not in aside and n not in following}
    if not all(_allowed(p, scalars[p.sym.name]) for p in kernel.params if p.sym.name in following & scalars.keys()):
        return False
    if volume(counted) > MAX_VOLUME or not all(evaluate(a.expr, env) in (True, None) for a in kernel.assumptions):  # type: ignore[arg-type, operator]
        return False
    return within == inf or statements(kernel, scalars, within) <= within


def _allowed(p: Param, value: int | float) -> bool:
    """Whether ``value`` is within what is known of ``p``."""
    low, high = p.range
    return (low is None or value >= low) and (high is None or value <= high) and value % max(1, p.divisible_by) == 0


def least_statements(kernel: Kernel) -> float:
    """What a run takes at the smallest sizes that the kernel's assumptions leave, about."""
    rng, least = random.Random(0), inf
    for size in SMALLEST:
        scalars = numbers_for(kernel, rng, 1, (size,))
        if launched(kernel, scalars) and acceptable(kernel, scalars):
            least = min(least, statements(kernel, scalars))
    return least if least < inf else 0.0


def volume(scalars: Mapping[str, int | float]) -> int:
    """The product of all sizes."""
    return prod(max(1, v) for v in scalars.values() if isinstance(v, int))


__all__ = [
    "MAX_FIXED", "MAX_THREADS", "acceptable", "drawn", "launched", "launched_at_least", "least_statements",
    "number_for", "numbers_for", "single_axes", "volume",
]  # fmt: skip
