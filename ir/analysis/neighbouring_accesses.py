"""Accesses that touch the same elements of an array, a few iterations of some loop apart: neighbours of a stencil."""

from __future__ import annotations

from collections.abc import Sequence

from .access_nests import Access
from .operation_counts import Counts

NEAR = 8
"""Iterations of a loop that neighbours are apart, at most."""


def families(found: Sequence[Access], count: Counts) -> list[int]:
    """For each of ``found`` the position of the first one whose elements it touches, too: the same array in the same
    mode, moving alike with every loop, an offset apart that is a few iterations of these loops."""
    known = [_moves(a, count) for a in found]
    out: list[int] = []
    for n, (a, mine) in enumerate(zip(found, known)):
        first = n
        for m in dict.fromkeys(out):
            other = known[m]
            if mine is None or other is None or (a.buffer, a.mode) != (found[m].buffer, found[m].mode):
                continue
            if mine[0] == other[0] and is_near(mine[1] - other[1], [s for _, s in mine[0]]):
                first = m
                break
        out.append(first)
    return out


def _moves(a: Access, count: Counts) -> tuple[tuple[tuple[str, int], ...], int] | None:
    """The strides by axis that are not zero, and the offset, in elements; None where one of them is not known."""
    strides = {name: count.value(s) if s is not None else None for name, s in a.strides.items()}
    rest = count.value(a.rest) if a.rest is not None else None
    if rest is None or None in strides.values():
        return None
    return tuple(sorted((k, s) for k, s in strides.items() if s)), rest


def is_near(offset: int, strides: Sequence[int]) -> bool:
    """Whether ``offset`` is at most :data:`NEAR` times each of some ``strides``, taken off the largest first."""
    left = abs(offset)
    for s in sorted({abs(s) for s in strides}, reverse=True):
        times = min((left // s, left // s + 1), key=lambda n: abs(left - n * s))  # the nearest: one plane less a row
        if times <= NEAR:
            left = abs(left - times * s)
    return left == 0
