"""How long a worker may take before it counts as hung."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadlines:
    """Most seconds a worker may take, by kind of request, before it counts as hung.

    Once three requests of a kind on the same inputs were answered, ``PATIENCE`` times the slowest of them (at least
    ``floor``) is enough: see :class:`Patience`.
    """

    start: float = 150.0  # import, the trials of devices not tried before, context, canary (which may compile)
    restart: float = 60.0  # all that was compiled and tried for the first one is known
    compile: float = 120.0
    run: float = 60.0
    verify: float = 180.0
    gate: float = 600.0  # the ladder, in the interpreter
    floor: float = 15.0


PATIENCE, SEEN = 20.0, 3

HASTE = 3.0
"""The same, for who has no more time than that: a candidate that takes longer wins nothing."""


class Patience:
    """Adaptive deadlines from how long the answers took so far."""

    def __init__(self, floor: float) -> None:
        self.floor = floor
        self._slowest: dict[str, tuple[int, float]] = {}

    def limit(self, kind: str, most: float, left: float = math.inf) -> float:
        """The deadline of the next request of ``kind``: never above ``most``, and little above the ``left`` seconds
        that there are for it, once an answer showed how long one takes; the first one has at least ``floor``."""
        n, slowest = self._slowest.get(kind, (0, 0.0))
        limit = most if n < SEEN else min(most, max(self.floor, PATIENCE * slowest))
        return min(limit, max(left, self.floor / 3, HASTE * slowest) if n else max(left, self.floor))

    def learn(self, kind: str, seconds: float) -> None:
        n, slowest = self._slowest.get(kind, (0, 0.0))
        self._slowest[kind] = (n + 1, max(slowest, seconds))
