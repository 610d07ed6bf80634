"""Which sizes to try: small, awkward, and such that every guard and assumption is exercised.

A size's values come from the numbers the candidate is built of (knobs, block extents, their products): for a tile T,
the sizes 1, T-1, T, T+1 and 2T plus a prime, besides a few fixed primes and the scenarios' own values. Instances
respect the workload's assumptions. A candidate with runtime guards is only run where they hold, for elsewhere its
launcher falls back to the original.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir import intexpr
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import geometry_of
from ktc.ir.interp.state import Geometry
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const
from ktc.ir.reference import names as names_in
from ktc.ir.walk import all_exprs
from ktc.ir.workload import Workload

MAX_ELEMENTS = 48_000
"""Array elements plus threads of one instance."""

FIXED = (1, 2, 3, 5, 7, 8, 13, 16, 31, 32, 33, 64, 97, 128, 257)
TILE_LIMIT = 1 << 15


@dataclass(frozen=True)
class Instance:
    """Sizes by name, and the scalar arguments they give; ``cost`` is array elements plus threads."""

    sizes: Mapping[str, int]
    scalars: Mapping[str, int | float]
    cost: int


def instances(
    original: Kernel, candidate: Kernel, workload: Workload, *, count: int = 16, limit: int = MAX_ELEMENTS
) -> list[Instance]:
    """At most ``count`` instances of cost up to ``limit`` on which both kernels must agree, cheapest first.

    Every feasible one satisfies both kernels' assumptions, runtime guards included.
    """
    names = list(workload.scenarios[0].sizes) if workload.scenarios else []
    values = {n: _interesting(n, original, candidate, workload) for n in names}
    found: dict[tuple[int, ...], Instance] = {}
    for combination in _combinations(names, values, workload):
        if combination in found:
            continue
        made = _instance(dict(zip(names, combination)), original, candidate, workload)
        if made is not None and made.cost <= limit:
            found[combination] = made
        if len(found) >= count:
            break
    return sorted(found.values(), key=lambda i: (i.cost, tuple(i.sizes.values())))


def larger_instances(original: Kernel, candidate: Kernel, workload: Workload, *, limit: int) -> Iterator[Instance]:
    """For each size, the most production-like instance of cost up to ``limit``: that size as large as it fits, the
    others small. For code that only long rows reach."""
    names = list(workload.scenarios[0].sizes) if workload.scenarios else []
    small = {n: _step(n, original, candidate, workload) for n in names}
    for n in sorted(names, key=lambda n: -_innermost(n, workload)):
        value = max(int(s.sizes[n]) for s in workload.scenarios)
        while value >= small[n]:
            made = _instance({**small, n: value}, original, candidate, workload)
            if made is not None and made.cost <= limit:
                yield made
                break
            value = value // 2 // small[n] * small[n]


def _combinations(names: list[str], values: dict[str, list[int]], workload: Workload) -> Iterator[tuple[int, ...]]:
    """Each size walks through its awkward values while the others stay small, then scenarios, then all pairs.

    Walks are interleaved and start with sizes of innermost dimensions (those that tiles and vectors cover), so that
    even one instance says something.
    """
    small = {n: [v for v in sorted(values[n]) if v <= 3][::-1] or [min(values[n])] for n in names}
    longest = max((len(v) for v in values.values()), default=0)
    for k in range(longest):
        for n in sorted(names, key=lambda n: -_innermost(n, workload)):
            if k < len(values[n]):
                others = [small[m][(k + i) % len(small[m])] for i, m in enumerate(names)]
                yield tuple(values[n][k] if m == n else o for m, o in zip(names, others))
        yield tuple(values[n][min(k, len(values[n]) - 1)] for n in names)  # all of them awkward at once
    for s in workload.scenarios:
        yield tuple(int(s.sizes[n]) for n in names)
        for n in names:  # one size as large as in production: guards such as d == 4096
            yield tuple(int(s.sizes[m]) if m == n else small[m][0] for m in names)
    for pair in itertools.combinations(names, 2):
        for a, b in itertools.product(values[pair[0]], values[pair[1]]):
            chosen = {pair[0]: a, pair[1]: b}
            yield tuple(chosen.get(m, small[m][0]) for m in names)


def _innermost(name: str, workload: Workload) -> int:
    """In how many arguments the size is part of the last dimension."""
    return sum(name in names_in(a.shape[-1]) for a in workload.args if a.shape)


def _interesting(name: str, original: Kernel, candidate: Kernel, workload: Workload) -> list[int]:
    """Values worth trying for one size, the most telling first; multiples of what the assumptions ask for.

    First 2T + a prime and 1, then T+1, T-1 and T, each for all tiles T from the largest on.
    """
    step = _step(name, original, candidate, workload)
    tiles = sorted(_tiles(original, workload) | _tiles(candidate, workload), reverse=True)
    beyond = [2 * t + 7 for t in tiles]
    ordered = [*beyond[:1], 1, *(t + 1 for t in tiles), *(t - 1 for t in tiles), *tiles, *beyond[1:], *FIXED]
    ordered += [int(s.sizes[name]) for s in workload.scenarios if name in s.sizes]
    out: list[int] = []
    for v in ordered:
        v = max(1, round(v / step)) * step
        if v <= TILE_LIMIT * 2 + 7 and v not in out:
            out.append(v)
    return out


def _tiles(kernel: Kernel, workload: Workload) -> set[int]:
    """Numbers the index arithmetic is made of: knobs, block extents, their products, and literals."""
    factors = [v for v in kernel.knob_values.values() if v > 1]
    for s in workload.scenarios[:1]:
        try:
            block = geometry_of(kernel, _scalars(workload, s.sizes)).block
            factors += [b for b in block if b > 1]
        except KtcError:
            pass
    products = {1}
    for f in factors[:6]:
        products |= {p * f for p in products if p * f <= TILE_LIMIT}
    literals = {int(e.value) for e in all_exprs(kernel.body) if isinstance(e, Const) and not e.ty.is_float}
    return (products | {v for v in sorted(literals) if 2 < v <= TILE_LIMIT}) - {1}


def _step(name: str, original: Kernel, candidate: Kernel, workload: Workload) -> int:
    """The smallest of 1, 2, 4, ... 256 whose multiples satisfy the assumptions, as far as sampling tells."""
    base = {n: int(v) for n, v in workload.scenarios[0].sizes.items()}
    step = 1
    while step < 256:
        if all(_feasible(original, candidate, workload, {**base, name: step * m}) for m in (1, 3, 5)):
            return step
        step *= 2
    return 1


def _feasible(original: Kernel, candidate: Kernel, workload: Workload, sizes: Mapping[str, int]) -> bool:
    scalars = _scalars(workload, sizes)
    return holds(original, scalars, sizes) and holds(candidate, scalars, sizes)


def holds(kernel: Kernel, scalars: Mapping[str, int | float], sizes: Mapping[str, int] | None = None) -> bool:
    """Whether no assumption (runtime guards included) and no promised fact of the kernel is false for these scalars."""
    env = {**(sizes or {}), **{k: v for k, v in scalars.items() if isinstance(v, int)}, **kernel.knob_values}
    for p in kernel.params:
        v = env.get(p.sym.name)
        low, high = p.range
        if v is not None and (
            v % max(p.divisible_by, 1) or (low is not None and v < low) or (high is not None and v > high)
        ):
            return False
    return not any(evaluate(a.expr, env) in (False, 0) for a in kernel.assumptions)


def runnable(kernel: Kernel, workload: Workload, sizes: Mapping[str, int]) -> bool:
    """Whether the kernel itself (not its fall-back) runs for these sizes."""
    return holds(kernel, _scalars(workload, sizes), sizes)


def _scalars(workload: Workload, sizes: Mapping[str, int]) -> dict[str, int | float]:
    """The scalar arguments, without making arrays."""
    out: dict[str, int | float] = {}
    for a in workload.args:
        if a.role == "scalar" and a.value is not None:
            out[a.name] = intexpr.evaluate(a.value, sizes) if isinstance(a.value, str) else a.value
    return out


def _instance(sizes: dict[str, int], original: Kernel, candidate: Kernel, workload: Workload) -> Instance | None:
    """The instance, or None if it is too large, infeasible, or cannot be launched."""
    if not _feasible(original, candidate, workload, sizes):
        return None
    scalars = _scalars(workload, sizes)
    elements = 0
    for a in workload.args:
        if a.role != "scalar":
            n = 1
            for e in a.shape:
                n *= intexpr.evaluate(e, sizes)
            elements += n
    threads = 0
    for kernel in (original, candidate):
        g: Geometry | None = None if kernel.is_parallel else geometry_of(kernel, scalars)
        threads = max(threads, g.blocks * g.threads if g else 0)
    cost = elements + threads
    return Instance(sizes, scalars, cost)
