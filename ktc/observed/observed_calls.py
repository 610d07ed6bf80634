"""What a kernel was called with, by the names of its parameters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class ObservedBuffer:
    """A pointer that was passed. ``base``: where its allocation begins, ``bytes``: from the pointer to the end of that
    (0: not known). ``content``: those bytes before the launch, where they were recorded."""

    address: int = 0
    base: int = 0
    bytes: int = 0
    content: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def null(self) -> bool:
        return self.address == 0


@dataclass(frozen=True)
class ObservedCall:
    """Calls with one geometry and the same scalars: how many, and the seconds of all together (0: not known)."""

    grid: Dims
    block: Dims
    shared: int
    scalars: Mapping[str, int | float]
    buffers: Mapping[str, ObservedBuffer]
    launches: int = 1
    seconds: float = 0.0


@dataclass(frozen=True)
class ObservedCalls:
    """All calls of a kernel, those that took longest first. ``program``: what ran, ``by``: the command that saw it.
    ``alignments``: the largest power of two that divides all addresses of a buffer; ``equal``: pairs of buffers that
    were the same memory in some call."""

    program: str
    by: str
    calls: tuple[ObservedCall, ...]
    alignments: Mapping[str, int] = field(default_factory=dict)
    equal: frozenset[tuple[str, str]] = frozenset()

    @property
    def launches(self) -> int:
        return sum(c.launches for c in self.calls)

    def share(self, call: ObservedCall) -> float:
        """The part of the kernel's time that ``call`` took; of its launches, where times are not known."""
        seconds = sum(c.seconds for c in self.calls)
        return call.seconds / seconds if seconds else call.launches / self.launches

    def apart(self, name: str) -> bool:
        """Whether the allocation of ``name`` was that of no other buffer, in any call."""
        for call in self.calls:
            own = call.buffers.get(name)
            others = (b for n, b in call.buffers.items() if n != name)
            if own is None or not own.base or any(not o.null and o.base in (0, own.base) for o in others):
                return False
        return not any(name in pair for pair in self.equal)


def equal_buffers(calls: tuple[ObservedCall, ...]) -> frozenset[tuple[str, str]]:
    """Pairs of buffers that were the same memory in one of ``calls``."""
    return frozenset(
        (a, b)
        for c in calls
        for (a, x), (b, y) in itertools.combinations(c.buffers.items(), 2)
        if not x.null and x.address == y.address
    )
