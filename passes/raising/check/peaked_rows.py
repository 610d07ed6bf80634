"""Values of which the largest and the smallest lie in each part of a block in turn, a row for each part.

A sum shows each term that is left out. A maximum shows one only where that is the largest of its row: of values drawn
at random, a tree that leaves out one warp of 32 gives the right maximum of 31 rows in 32.
"""

from __future__ import annotations

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.workload.input_data import numpy_dtype

from .invented_arguments import Arguments

PARTS = 32
"""Rows, and parts of what a source reaches at once: warps of the largest block."""

HIGHEST, LOWEST, SPREAD = 1 << 10, -(1 << 9), 1 << 8
"""Peaks, the highest of which is so without its sign, too; others are below ``SPREAD``. Half precision has all."""


def peaked(kernel: Kernel, args: Arguments, row: int, reach: int, seed: int, whole: bool) -> Arguments:
    """Buffers of rows of ``row`` elements: the largest of each row lies at the end of one of the :data:`PARTS` of
    ``reach``, in the first or the second round of a loop over it, the smallest half a turn on.

    ``whole``: those of integers, too, which may be indices.
    """
    out: Arguments = {}
    for p in kernel.params:
        t = scalar_of(p.sym.type)
        if isinstance(p.sym.type, Ptr) and args[p.sym.name] is not None and (
            t.is_float or (whole and t.is_int and t.bits >= 16)
        ):  # fmt: skip
            size = np.size(args[p.sym.name])
            values = np.random.default_rng(seed).integers(1, SPREAD, size)
            rows = np.arange(-(-size // row))
            for peak, turn in ((HIGHEST, 0), (LOWEST if t.is_signed or t.is_float else 0, PARTS // 2)):
                at = rows * row + _ends(rows + turn, reach, row)
                values[at[at < size]] = peak
            out[p.sym.name] = values.astype(numpy_dtype(t.name))
    return out


def _ends(turns: np.ndarray, reach: int, row: int) -> np.ndarray:
    """Where the part whose turn it is ends, in every other row a round further, if rows are so long."""
    ends = (turns % PARTS + 1) * reach // PARTS - 1
    later = ends + turns % 2 * reach
    return np.where(later < row, later, np.minimum(ends, row - 1))


__all__ = ["PARTS", "peaked"]
