"""Rows that are read in vectors begin at multiples of those.

    *(const float2 *)(x + row * pitch + 2 * i)      // of n + 1 elements a row: pitch is 2 * ((n + 2) / 2)

What lies in a row is all that a draft has for its pitch; callers leave a rest at its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load, Store
from ktc.ir.types import Vec
from ktc.ir.walk import all_exprs, walk
from ktc.ir.workload.size_expressions import evaluate

from ..windows import names_in

MULTIPLE = 16 * 3
"""What sizes are where it is seen whether rows are multiples of vectors for sizes that are."""


def aligned_pitch(k: Kernel, length: str, buffers: Collection[str]) -> str:
    """``length``, of rows of ``buffers``, or the next multiple of their vectors, where it is none whatever multiples of
    these sizes are."""
    widest = max(_widths(k, buffers), default=1)
    if evaluate(length, dict.fromkeys(names_in(length), MULTIPLE)) % widest == 0:
        return length
    return f"cdiv({length}, {widest}) * {widest}"


def _widths(k: Kernel, buffers: Collection[str]) -> Iterator[int]:
    """How many elements of ``buffers`` are read or written at once."""
    for e in all_exprs(k.body):
        if isinstance(e, Load) and e.buffer.name in buffers and isinstance(e.width, int):
            yield e.width
    for s in walk(k.body):
        if isinstance(s, Store) and s.buffer.name in buffers and isinstance(t := s.value.type, Vec):
            yield t.n if isinstance(t.n, int) else 1


__all__ = ["aligned_pitch"]
