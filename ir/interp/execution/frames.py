"""Lanes, frames and active sets: how one statement runs for every thread (or iteration) at once.

A :class:`Frame` is a set of ``n`` lanes in lockstep: the threads of a batch of blocks, or the iterations of a ``par``
nest. Each lane of a child frame has one parent lane (``index``). An *active set* is ``None`` (all lanes) or a sorted
array of lane numbers. A *value* is uniform (0-d; ``(1, w)`` for a vector) or has one entry per active lane. Variables
are kept per frame, full width, and treated as immutable: an assignment under a partial active set copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ktc.ir.nodes import Sym

from .record_lanes import copied, picked, put

FEW = 1024
"""Lanes for which a value is quicker written out than shown once to all."""

Active = np.ndarray | None
"""The lanes a statement runs for: sorted lane numbers, or None for all."""


def is_uniform(value: Any) -> bool:
    """One value for all lanes: a scalar, or a vector stored as one row."""
    ndim = value.ndim
    return ndim == 0 or (ndim == 2 and value.shape[0] == 1)


def spread(value: Any, n: int) -> np.ndarray:
    """``value`` with one entry (or row) per lane."""
    if value.ndim == 0:
        return value.repeat(n) if n <= FEW else np.broadcast_to(value, (n,))
    if value.ndim == 2 and value.shape[0] == 1:
        return np.broadcast_to(value, (n, value.shape[1]))
    return value


def merge(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Union of two disjoint active sets."""
    if not len(a):
        return b
    if not len(b):
        return a
    return np.sort(np.concatenate([a, b]))


def scatter(n: int, lanes: np.ndarray, value: np.ndarray, base: np.ndarray | None = None) -> np.ndarray:
    """A full-width array holding ``value`` at ``lanes``, and ``base`` (or zeros) elsewhere."""
    shape = (n, *np.shape(value)[1:])
    if base is None:
        full = np.zeros(shape, value.dtype)
    else:
        full = copied(base) if base.shape == shape else np.array(np.broadcast_to(base, shape))
    put(full, lanes, value)
    return full


@dataclass
class Frame:
    n: int
    parent: Frame | None = None
    index: np.ndarray | None = None
    values: dict[Sym, Any] = field(default_factory=dict)
    undefined: dict[Sym, np.ndarray] = field(default_factory=dict)
    """For variables declared without a value: which lanes have not assigned them yet."""
    exited: np.ndarray | None = None
    fixed: bool = False
    """Whether no variable of an outer frame changes while this frame is there: what is read of one is kept here."""

    @cached_property
    def all(self) -> np.ndarray:
        """The numbers of all lanes."""
        found = np.arange(self.n)
        found.flags.writeable = False
        return found

    def count(self, act: Active) -> int:
        return self.n if act is None else len(act)

    def lanes(self, act: Active) -> np.ndarray:
        return self.all if act is None else act

    def up(self, act: Active) -> Active:
        """The parent lanes of the active lanes, one each."""
        assert self.index is not None
        return self.index if act is None else self.index[act]

    def uniform(self, sym: Sym) -> Any:
        """A variable of this or an outer frame that is the same for all of its lanes, none of which has still to assign
        it; else None."""
        frame: Frame | None = self
        while frame is not None:
            v = frame.values.get(sym)
            if v is not None:
                return v if is_uniform(v) and not (frame.undefined and sym in frame.undefined) else None
            frame = frame.parent
        return None

    def find(self, sym: Sym, act: Active) -> tuple[Frame, Active]:
        """The frame holding ``sym`` and, there, the lane each active lane reads. KeyError if nobody does."""
        frame: Frame = self
        while sym not in frame.values:
            if frame.parent is None:
                raise KeyError(sym)
            act, frame = frame.up(act), frame.parent
        return frame, act

    def outer(self, sym: Sym) -> Any:
        """A variable of an outer frame where this one is ``fixed``, for all lanes here; None where some lanes of the
        frame that holds it have not assigned it yet. KeyError if nobody holds it."""
        assert self.parent is not None
        if self.parent.fixed and sym not in self.parent.values:
            v = self.parent.outer(sym)
        else:
            owner, lanes = self.parent.find(sym, None)
            if sym in owner.undefined:
                return None
            v = owner.values[sym]
            v = v if lanes is None or is_uniform(v) else v[lanes]
        if v is not None:
            v = self.values[sym] = v if is_uniform(v) else v[self.index]
        return v

    def read(self, sym: Sym, act: Active) -> Any:
        frame, act = self.find(sym, act)
        value = frame.values[sym]
        return value if act is None or is_uniform(value) else picked(value, act)

    def declare(self, sym: Sym, value: Any, act: Active) -> None:
        """A new variable of this frame: lanes outside ``act`` cannot see it, so their value does not matter."""
        if self.undefined:
            self.undefined.pop(sym, None)
        self.values[sym] = value if act is None or is_uniform(value) else scatter(self.n, act, value)

    def assign(self, sym: Sym, value: Any, act: Active) -> None:
        """Overwrite a variable of this very frame for the active lanes."""
        if act is None:
            if self.undefined:
                self.undefined.pop(sym, None)
            self.values[sym] = value
            return
        if self.undefined and sym in self.undefined:
            mask = self.undefined[sym].copy()
            mask[act] = False
            self.undefined[sym] = mask
        self.values[sym] = scatter(self.n, act, spread(value, len(act)), self.values[sym])

    def rows_in(self, owner: Frame, act: Active) -> Active:
        """The lane of ``owner`` (this frame or an ancestor) that each active lane belongs to."""
        frame: Frame = self
        while frame is not owner:
            assert frame.parent is not None
            act, frame = frame.up(act), frame.parent
        return act
