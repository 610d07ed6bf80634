"""When a scenario's search ends before its measurements are spent: its time is over, or nothing is left to gain."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from ktc.search.bounds.speed_of_light import Bound

from .report import STOPPED_LATE

NEAR = 0.97
"""Share of the speed of light from which on the rest is the error of a measurement."""


@dataclass(frozen=True)
class Stopping:
    """``deadline``: of :func:`time.monotonic`, in seconds; ``bound``: the least time of the scenario, where known;
    ``asked``: whether it was looked for."""

    deadline: float = math.inf
    bound: Bound | None = None
    asked: bool = False

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def is_near(self, best: float) -> bool:
        """Whether nothing is left to gain on ``best`` seconds."""
        return self.bound is not None and self.bound.fraction(best) >= NEAR and not self.bound.alarm(best)

    def why(self, best: float) -> str:
        """Why nothing new is begun once the best configuration takes ``best`` seconds; '' while there is no reason.

        A bound that ``best`` is clearly below is wrong, and no reason.
        """
        if self.bound is not None and self.is_near(best):
            return f"stopped at {100 * self.bound.fraction(best):.0f} % of the least time that {self.bound.unit} allows"
        return STOPPED_LATE if not self.seconds_left else ""
