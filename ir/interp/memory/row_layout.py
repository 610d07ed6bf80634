"""Where the rows of buffers lie in a run that may lie anywhere (:mod:`ktc.ir.pointer_rows`).

What a run is passed holds one row after the other, and how far they are apart is their length. The run itself has them
farther apart, by a number that is no size of the call and another one for each buffer: a kernel that takes it for one
computes something else, and one that goes beyond a row finds nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.pointer_rows import row_pitches
from ktc.ir.types import Ptr, Vec

GRAIN = 256
"""Elements that distances are multiples of, as far as vectors and tiles ask for any: addresses of rows are aligned."""


@dataclass(frozen=True)
class RowLayout:
    """Rows of ``length`` elements, of ``lanes`` scalars each, that begin ``pitch`` elements after each other."""

    length: int
    pitch: int
    lanes: int = 1

    def spread(self, rows: np.ndarray) -> np.ndarray:
        """``rows``, one after the other, as they lie; nothing of what is between them means anything."""
        compact = rows.reshape(-1, self.length, self.lanes)
        out = np.zeros((len(compact), self.pitch, self.lanes), rows.dtype)
        out[:, : self.length] = compact
        return out.reshape(-1)

    def gathered(self, data: np.ndarray) -> np.ndarray:
        """The scalars of ``data`` that are in rows, one row after the other."""
        return data.reshape(-1, self.pitch, self.lanes)[:, : self.length].reshape(-1)

    def beyond(self, place: Any, width: int) -> Any:
        """Whether ``width`` elements from ``place`` on are not all in one row."""
        return place % self.pitch + width > self.length


def row_layouts(kernel: Kernel, args: Mapping[str, Any]) -> dict[str, RowLayout]:
    """How rows lie of the arrays among ``args`` whose shape has a dimension of rows, by name."""
    found: dict[str, RowLayout] = {}
    for k, (buffer, pitch) in enumerate(row_pitches(kernel).items()):
        array, length = args.get(buffer.name), args.get(pitch.name)
        elem = buffer.type.elem if isinstance(buffer.type, Ptr) else buffer.type
        lanes = elem.n if isinstance(elem, Vec) else 1
        if not isinstance(array, np.ndarray) or length is None or not isinstance(lanes, int):
            continue
        if _has_rows(array, int(length) * lanes):
            found[buffer.name] = RowLayout(int(length), (int(length) // GRAIN + 2 + k) * GRAIN, lanes)
    return found


def _has_rows(array: np.ndarray, length: int) -> bool:
    return length > 0 and any(np.prod(array.shape[k:], dtype=np.int64) == length for k in range(1, array.ndim))


def laid_out(kernel: Kernel, args: Mapping[str, Any], layouts: Mapping[str, RowLayout]) -> dict[str, Any]:
    """``args`` with rows as far apart as ``layouts`` say."""
    apart = {pitch.name: layouts[b.name].pitch for b, pitch in row_pitches(kernel).items() if b.name in layouts}
    return {**args, **apart} if apart else dict(args)


__all__ = ["RowLayout", "laid_out", "row_layouts"]
