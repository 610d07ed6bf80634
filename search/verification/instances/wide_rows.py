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
from ktc.search.verification.integers.reaching import one_round

from .instances import MAX_ELEMENTS, MOST_ROWS, MOST_THREADS, WIDE, Instance, Maker
from .sizes import BEYOND

MOST_RESIDENT = COOPERATIVE_LANES // 4
"""Threads of all blocks that wait for each other: each statement takes as long as they are."""


def wide_rows(original: Kernel, candidate: Kernel, workload: Workload) -> list[Instance]:
    """Rows as long as keep all threads of a block of the candidate busy, and as many as fit: every thread gets some
    row's peak. If these are fewer than threads, shorter ones too, more than there are threads: a stride by the number
    of blocks is then seen for none by the number of threads."""
    maker = Maker((original, candidate), workload, WIDE * MAX_ELEMENTS)
    base = maker.base()
    inputs = [a for a in workload.args if a.role in ("in", "inout") and a.shape]
    if not base or not inputs or not candidate.is_spmd:
        return []
    largest = max(inputs, key=lambda a: len(a.shape))
    rows = [n for n in maker.names if n in names_in(largest.shape[-1])]
    outer = [n for n in maker.names if n not in rows and any(n in names_in(e) for e in largest.shape)][:1]
    usual = scalars_of(workload, workload.scenarios[0].sizes)
    threads = min(max(geometry_of(k, usual).threads for k in launch_kernels(candidate)), MOST_THREADS)

    def made(width: int, count: int) -> Instance | None:
        wide = {**base, n: maker.near(n, max(width, threads) + BEYOND)}
        found = maker.make({**wide, **{m: maker.near(m, count) for m in outer}})
        return found if found is not None and _resident(candidate, scalars_of(workload, found.sizes)) else None

    for n in rows[:1]:
        tile = max((t for t in maker.tiles if t <= MOST_THREADS), default=1)
        widths = max(one_round(candidate, maker, n), tile), threads
        counts = threads + BEYOND, *(MOST_ROWS >> k for k in range(8))
        found = next((i for w, c in itertools.product(widths, counts) if (i := made(w, c)) is not None), None)
        many = made(threads, threads + BEYOND)
        few = found is not None and any(found.sizes[m] <= threads for m in outer)
        return [i for i in (found, many if few else None) if i is not None]
    return []


def _resident(candidate: Kernel, scalars: Mapping[str, int | float]) -> bool:
    """Whether blocks that wait for each other are few enough for a run."""
    waiting = [geometry_of(k, scalars) for k in launch_kernels(candidate) if is_cooperative(k.body)]
    return all(g.blocks * g.threads <= MOST_RESIDENT for g in waiting)


__all__ = ["wide_rows"]
