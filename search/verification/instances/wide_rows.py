"""Instances in which every thread gets some row's peak."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from ktc.ir.interp import geometry_of
from ktc.ir.interp.run import COOPERATIVE_LANES
from ktc.ir.kernel import Kernel
from ktc.ir.loop_nodes import is_cooperative
from ktc.ir.sequences import launch_kernels
from ktc.ir.workload import Workload
from ktc.ir.workload.reference import names as names_in
from ktc.ir.workload.scenario_facts import scalars_of
from ktc.search.verification.floats.larger_floats import compared, of_last_thread, statements
from ktc.search.verification.integers.reaching import arguments, one_round

from .instances import MAX_ELEMENTS, MOST_ROWS, MOST_THREADS, WIDE, Instance, Maker
from .sizes import BEYOND

SEVERAL_ROUNDS = 4
"""Times the threads of the largest block: a row with which each of them has something to do again."""

MOST_RESIDENT = COOPERATIVE_LANES // 4
"""Threads of all blocks that wait for each other: each statement takes as long as they are."""

MOST_WORK = 40_000 * 256
"""Statements that all threads of the original run: rows of sums of products, each term of which is a sum, are longer
than anything else that it is run on, and may not come to an end. Shorter ones tell as much."""


def wide_rows(original: Kernel, candidate: Kernel, workload: Workload) -> list[Instance]:
    """Rows as long as keep all threads of a block of the candidate busy, and as many as fit: every thread gets some
    row's peak; shorter or fewer where the original would take very long (:data:`MOST_WORK`). If these are fewer than
    threads, shorter ones too, more than there are threads: a stride by the number of blocks is then seen for none by
    the number of threads."""
    maker = Maker((original, candidate), workload, WIDE * MAX_ELEMENTS)
    base = maker.base()
    if not base or not candidate.is_spmd:
        return []
    rows, outer = _rows(original, maker, base)
    usual = scalars_of(workload, workload.scenarios[0].sizes)
    threads = min(max(geometry_of(k, usual).threads for k in launch_kernels(candidate)), MOST_THREADS)

    def made(width: int, count: int) -> Instance | None:
        wide = {**base, n: maker.near(n, max(width, threads) + BEYOND)}
        found = maker.make({**wide, **{m: maker.near(m, count) for m in outer}})
        return found if found is not None and _resident(candidate, scalars_of(workload, found.sizes)) else None

    for n in rows[:1]:
        tile = max((t for t in maker.tiles if t <= MOST_THREADS), default=1)
        widths = max(one_round(candidate, maker, n), tile), threads
        counts = threads + BEYOND, *(MOST_ROWS >> k for k in range(9))
        fit = [i for w, c in itertools.product(widths, counts) if (i := made(w, c)) is not None]
        takes = {id(i): _takes(original, workload, i) for i in fit}
        least = min(fit, key=lambda i: takes[id(i)], default=None)
        found = next((i for i in fit if takes[id(i)] <= MOST_WORK), least)
        many = made(threads, threads + BEYOND)
        few = found is not None and any(found.sizes[m] <= threads for m in outer)
        return [i for i in (found, many if few else None) if i is not None]
    return []


def _rows(original: Kernel, maker: Maker, base: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Sizes that are the length of a row, and one that says how many rows there are. A row is the last dimension of the
    largest input, unless the original looks for the largest of elements that other sizes count: positions of attention,
    where inputs are rows of heads."""
    arrays = [a for a in maker.workload.args if a.shape]
    inputs = [a for a in arrays if a.role in ("in", "inout")]
    if not inputs:
        return [], []
    largest = max(inputs, key=lambda a: len(a.shape))
    rows = [n for n in maker.names if n in names_in(largest.shape[-1])]
    counting = _lengthening(original, maker, base)
    if counting and not counting & set(rows):
        along = [a for a in arrays if names_in(a.shape[-1]) & counting]
        largest = max(along or inputs, key=lambda a: len(a.shape))
        rows = [n for n in maker.names if n in counting]
    others = [n for n in maker.names if n not in rows and any(n in names_in(e) for e in largest.shape)]
    return rows, ([n for n in others if _varies(maker, base, n)] or others)[:1]


def _varies(maker: Maker, base: Mapping[str, int], name: str) -> bool:
    """Whether a size may be another one, which one that the candidate binds may not."""
    return any(maker.make({**base, name: maker.near(name, n)}) is not None for n in (2, 3, 5) if n != base[name])


def _lengthening(original: Kernel, maker: Maker, base: Mapping[str, int]) -> set[str]:
    """The sizes with which grows how many floats the first or the last thread of the original compares."""
    ends = original, of_last_thread(original)

    def asked(name: str, value: int) -> int:
        sizes = {**base, name: maker.near(name, value)}
        return max(compared(k, arguments(maker.workload, sizes, original)) for k in ends)

    return {n for n in maker.names if asked(n, SEVERAL_ROUNDS * MOST_THREADS) > asked(n, 1)}


def _takes(original: Kernel, workload: Workload, instance: Instance) -> int:
    """Statements that all threads of the original run."""
    scalars = scalars_of(workload, instance.sizes)
    lanes = sum(g.blocks * g.threads for g in (geometry_of(k, scalars) for k in launch_kernels(original)))
    numbers = arguments(workload, instance.sizes, original)
    return lanes * max(statements(k, numbers) for k in (original, of_last_thread(original)))


def _resident(candidate: Kernel, scalars: Mapping[str, int | float]) -> bool:
    """Whether blocks that wait for each other are few enough for a run."""
    waiting = [geometry_of(k, scalars) for k in launch_kernels(candidate) if is_cooperative(k.body)]
    return all(g.blocks * g.threads <= MOST_RESIDENT for g in waiting)


__all__ = ["wide_rows"]
