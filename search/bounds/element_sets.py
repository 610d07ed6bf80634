"""How many bytes a set of array elements covers, the set given as runs of elements at regular distances.

A :class:`Runs` is the trace of one access under a loop nest: for each point of the loops that were enumerated a start,
and for each loop that was not a distance and a count. Loops whose iterations touch or overlap are joined before
anything is enumerated, so that an access to a whole matrix is one run, whatever the matrix's size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

MOST_RUNS = 1 << 22
"""Runs enumerated for one access; of an access with more, the first ones count, so that a set may be too small."""

MOST_GRANULES = 1 << 24
"""Granules that are looked at one by one; runs that lie further apart are sorted, which takes longer."""

Count = int | np.ndarray


@dataclass(frozen=True)
class Runs:
    """Runs of elements: for each of the points p and each i < counts[p] of every dimension one of ``length[p]``
    elements from ``start[p]`` + the sum of i * distance on.

    ``start``, ``length``: int64 of shape (points,), in elements. ``dims``: (distance, counts), distances positive.
    """

    start: np.ndarray
    length: np.ndarray
    dims: tuple[tuple[int, np.ndarray], ...]


def runs(start: Count, width: int, dims: Sequence[tuple[int, Count]], points: int) -> Runs:
    """The runs of an access of ``width`` elements at ``start``, moved by ``dims`` (distance of either sign, count).

    Points at which a count is not positive are left out: nothing is accessed there.
    """
    at = np.broadcast_to(np.asarray(start, np.int64), (points,))
    counts = [np.broadcast_to(np.asarray(n, np.int64), (points,)) for _, n in dims]
    alive = np.ones(points, bool)
    for n in counts:
        alive &= n > 0
    at, counts = at[alive], [n[alive] for n in counts]
    moved: list[tuple[int, np.ndarray]] = []
    for (distance, _), n in zip(dims, counts, strict=True):
        if distance < 0:
            at = at + distance * (n - 1)
        if distance:
            moved.append((abs(distance), n))
    return Runs(at, np.full(len(at), width, np.int64), tuple(moved))


def covered_bytes(sets: Iterable[Runs], element: int, granule: int = 1) -> tuple[int, bool]:
    """Bytes of the union of ``sets``, in whole granules, and whether all runs were looked at.

    ``element``: bytes of an element. ``granule``: bytes that memory moves at once, each at a multiple of as many.
    """
    first, last, whole = [], [], True
    for one in sets:
        starts, ends, complete = _intervals(one, element, granule)
        first.append(starts)
        last.append(ends)
        whole &= complete
    if not first:
        return 0, True
    lo, hi = np.concatenate(first), np.concatenate(last)
    lowest, span = (int(lo.min()), int(hi.max() - lo.min())) if len(lo) else (0, 0)
    if span <= MOST_GRANULES:
        opened = np.bincount(lo - lowest, minlength=span + 1) - np.bincount(hi - lowest, minlength=span + 1)
        return int(np.count_nonzero(np.cumsum(opened))) * granule, whole
    order = np.argsort(lo, kind="stable")
    lo, hi = lo[order], hi[order]
    reached = np.maximum.accumulate(hi)
    before = np.concatenate((lo[:1], reached[:-1]))
    return int(np.maximum(0, hi - np.maximum(lo, before)).sum()) * granule, whole


def _intervals(one: Runs, element: int, granule: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """First granule and the one after the last, of each run, once the runs that no untouched granule parts are one."""
    start, length = one.start, one.length
    apart: list[tuple[int, np.ndarray]] = []
    for distance, n in sorted(one.dims, key=lambda d: d[0]):
        gap = (distance - int(length.min(initial=1 << 62))) * element
        if not apart and gap < max(granule, 1):
            length = distance * (n - 1) + length
        else:
            apart.append((distance, n))
    start, length, whole = _enumerated(start, length, apart)
    start, length = start * element, length * element
    return start // granule, -(-(start + length) // granule), whole


def _enumerated(
    start: np.ndarray, length: np.ndarray, dims: Sequence[tuple[int, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Start and length of every single run, and whether there are no more than that."""
    whole, counts = True, [n for _, n in dims]
    for i, (distance, _) in enumerate(dims):
        n = np.minimum(counts[i], MOST_RUNS)
        fits = np.cumsum(n) <= max(MOST_RUNS, int(n[0]) if len(n) else 0)
        whole &= bool(fits.all()) and bool((n == counts[i]).all())
        n = n * fits
        point = np.repeat(np.arange(len(n)), n)
        step = np.arange(len(point)) - np.repeat(np.cumsum(n) - n, n)
        start, length = start[point] + distance * step, length[point]
        counts = [c[point] for c in counts]
    return start, length, whole
