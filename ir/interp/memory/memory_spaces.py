"""Buffers: global arrays, shared arrays (a row per block), private arrays (a row per thread or iteration)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.interp.execution.frames import Active, Frame
from ktc.ir.interp.execution.true_counts import count_true
from ktc.ir.nodes import Sym
from ktc.ir.types import Scalar

from .row_layout import RowLayout

if TYPE_CHECKING:
    from ktc.ir.interp.sanitizer.polls import Polls
    from ktc.ir.interp.sanitizer.shadow import Shadow


WORD = np.dtype(np.uint64)


@dataclass
class Buffer:
    """Storage of one symbol. ``data`` is flat: ``rows`` times ``size`` scalars of type ``elem``; of a private array
    ``side_by_side``, ``size`` times as many as there are rows: lanes touch the same element of their own at once.

    ``dims`` are the declared extents (None: a pointer, one flat index), ``lanes`` the vector length of an element.
    ``owner`` is the frame whose lanes own the rows (None: global). ``written`` marks initialised scalars (None: all).
    ``null``: there is none, and the pointer is ``nullptr``; ``size`` is 0. ``serial`` is its identity for good: shared
    memory ends with its block, and what is allocated then may stand at its address. ``base`` is the address of the
    first element in bytes, the same in every run of kernels that take the same parameters (None: not known).
    """

    sym: Sym
    elem: Scalar
    lanes: int
    dims: tuple[int, ...] | None
    size: int
    data: np.ndarray
    owner: Frame | None = None
    written: np.ndarray | None = None
    shadow: Shadow | None = None
    polls: Polls | None = None
    align: int = 0
    space: str = "global"
    null: bool = False
    names: dict = field(default_factory=dict)
    serial: int = field(default_factory=count().__next__)
    base: int | None = None
    layout: RowLayout | None = None
    """How the rows of a parameter lie that may lie anywhere."""
    side_by_side: bool = False
    _starts: tuple[Frame, np.ndarray] | None = None
    """The last frame whose lanes' rows were asked for, and where they begin."""

    def places(self, frame: Frame, act: Active, flat: Any) -> Any:
        """Where in ``data`` each active lane of ``frame`` has the scalar ``flat`` of its own row."""
        return (flat * self.step if self.side_by_side else flat) + self._begins(frame, act)

    def column(self, flat: Any) -> slice:
        """Where in ``data`` all rows have their scalar ``flat``."""
        assert self.owner is not None
        first = int(flat) * self.step
        return (
            slice(first, first + self.step) if self.side_by_side else slice(first, self.size * self.owner.n, self.size)
        )

    @property
    def step(self) -> int:
        """How far apart in ``data`` neighbouring scalars of a row are."""
        return self.owner.n if self.side_by_side and self.owner is not None else 1

    @property
    def rows(self) -> np.ndarray:
        """``data`` as an array of rows."""
        return self.in_rows(self.data)

    def in_rows(self, data: np.ndarray) -> np.ndarray:
        """``data``, or what is known of each scalar of it, as an array of rows."""
        return data.reshape(self.size, -1).T if self.side_by_side else data.reshape(-1, self.size)

    def _begins(self, frame: Frame, act: Active) -> np.ndarray:
        """Where in ``data`` the row of each active lane of ``frame`` begins."""
        assert self.owner is not None
        if act is None and self._starts is not None and self._starts[0] is frame:
            return self._starts[1]
        rows = frame.rows_in(self.owner, act)
        found = (self.owner.all if rows is None else rows) * (1 if self.side_by_side else self.size)
        if act is None:
            self._starts = frame, found
        return found

    @cached_property
    def _limits(self) -> tuple[np.ndarray, ...]:
        """The extents, and that of an element: as arrays they are compared in half the time. Nothing is within a
        negative one, which sizes that no caller passes may give a shared array."""
        extents = self.dims if self.dims is not None else (self.size // self.lanes,)
        return tuple(np.array(max(n, 0), WORD) for n in (*extents, self.lanes))

    def holds(self, at: Any) -> bool:
        """Whether all places, of one index, are there."""
        if self.layout is not None and np.any(self.layout.beyond(at, 1)):
            return False
        if at.ndim == 0:
            return 0 <= at < self.size
        return not count_true(at.view(WORD) >= self._limits[0])

    def locate(self, index: list, width: int) -> tuple[np.ndarray, np.ndarray | None, int]:
        """Flat scalar position inside a row, a mask of lanes in bounds (None: all), and the scalars moved.

        ``index`` holds int64 values, uniform or one per lane. Extents are checked per dimension; a wide access may run
        over the end of a row of an array (as C allows), not over the end of the array.
        """
        extents = self.dims if self.dims is not None else (self.size // self.lanes,)
        picks_lane = len(index) > len(extents)
        flat: Any = None
        bad: Any = None
        for i, extent, limit in zip(index, (*extents, self.lanes), self._limits):
            if i.ndim == 0:
                if not 0 <= i < extent:
                    bad = np.True_ if bad is None else bad | np.True_
            elif count_true(outside := i.view(WORD) >= limit):  # negative ones are large
                bad = outside if bad is None else bad | outside
            flat = i if flat is None else flat * extent + i
        assert flat is not None
        if self.layout is not None and np.any(over := self.layout.beyond(flat, width)):
            bad = over if bad is None else bad | over
        moved = width
        if not picks_lane and self.lanes > 1:
            flat, moved = flat * self.lanes, width * self.lanes
        if moved > 1:
            over = flat + moved > self.size
            if over if over.ndim == 0 else count_true(over):
                bad = over if bad is None else bad | over
        return flat, (None if bad is None else ~bad), moved

    def passed(self, data: np.ndarray) -> np.ndarray:
        """What of ``data``, one entry an element, is of elements that the array has that was passed."""
        return data[: self.size] if self.layout is None else self.layout.gathered(data[: self.size])

    def address(self, index: list):
        """Bytes from address 0 to an element, inside the buffer or not; 0 of a pointer that is null."""
        assert self.base is not None
        flat: Any = np.uint64(0)
        for i, extent in zip(index, (1, *(self.dims or ())[1:], self.lanes)):
            flat = flat * np.uint64(extent) + np.asarray(i).astype(np.int64).view(np.uint64)
        within = self.elem.bytes * (1 if len(index) > len(self.dims or (0,)) else self.lanes)
        return np.asarray(np.uint64(0 if self.null else self.base) + flat * np.uint64(within))[()]


def base_of(position: int) -> int:
    """Where the buffer at ``position`` lies, parameters first: far from the others, and as ``cudaMalloc`` aligns them,
    at least to 256 bytes. Every block and thread has its own at one address."""
    return (position + 1) << 40
