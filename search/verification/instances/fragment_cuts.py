"""Sizes at which operands of tensor cores are cut off in every place that a thread has elements of them.

Of a 16 x 16 operand a thread has pairs in two rows, eight apart, and in two places along the depth, eight apart: each
is loaded behind a condition of its own, on both sizes. What a wrong one lets through is multiplied by zeros; it is seen
only where it is read behind the buffer's last element: the last row is of the first or of the second half of its
fragment, and the depth ends behind the first pairs of its first or second half, behind two whole fragments, so that a
factor that is one off has moved the end by a pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Mma, TileMma
from ktc.ir.walk import walk
from ktc.ir.workload.reference import names

if TYPE_CHECKING:
    from .instances import Maker

FRAGMENT = 16
"""Rows or columns of an operand of tensor cores: the largest part of a size that a thread has by itself."""

ROWS = (FRAGMENT + 7, 2 * FRAGMENT - 1)
"""The last row is in the first half of a fragment, and in the second."""
DEPTHS = (2 * FRAGMENT + 3, 2 * FRAGMENT + FRAGMENT // 2 + 3)
"""The end is behind some pairs of the first half of a fragment, and of the second."""


def has_fragments(kernel: Kernel) -> bool:
    return any(isinstance(s, Mma | TileMma) for s in walk(kernel.body))


def cut_fragments(maker: Maker) -> Iterator[dict[str, int]]:
    """Each size that sums run over as the depth (every one in turn, if none is known to be), the others as rows."""
    kept = {n for a in maker.workload.args if a.role != "in" for text in a.shape for n in names(text)}
    for depth in [n for n in maker.names if n not in kept] or maker.names:
        for rows in ROWS:
            for end in DEPTHS:
                yield {n: maker.near(n, end if n == depth else rows) for n in maker.names}


__all__ = ["FRAGMENT", "cut_fragments", "has_fragments"]
