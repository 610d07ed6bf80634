"""Flat shared arrays by row and column: a tile is a copy of rows, of which a cell's number says nothing.

    s[ty * 16 + tx] = a[row * k + p + tx]             s[ty, tx] = a[row * k + p + tx]
    sum += s[ty * 16 + i] * ..                        sum += s[ty, i] * ..

What an index is moved by says how long a row may be. A guess: that no column reaches the next row is for whoever builds
on it to find. Threads in a row may fill several rows (``s[tid * 4]``, of 16 columns): where rows of what is read say
nothing of what is written, its place is divided.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions
from ktc.ir.fold import evaluate
from ktc.ir.nodes import Body, Sym
from ktc.ir.types import Array

from .flat_planes import flat_index, indices_of, reshaped

TRIED = 3
"""Lengths of a row, at most."""


def by_rows(body: Body, array: Sym) -> Iterator[tuple[Body, Sym]]:
    """``body`` with ``array`` by rows of each length that its indices suggest, and that array; the longest first."""
    t = array.type
    whole = evaluate(t.shape[0], {}) if isinstance(t, Array) and len(t.shape) == 1 else None
    if whole is None:
        return
    names = definitions(body)
    moved = {abs(k) for i in indices_of(body, array) for f, k in flat_index(i, names).items() if f}
    rows = [k for k in sorted(moved, reverse=True) if 1 < k < whole and whole % k == 0]
    for divided in (False, True):
        for row in rows[:TRIED]:
            yield reshaped(body, array, (int(whole) // row, row), names, divided)


__all__ = ["by_rows"]
