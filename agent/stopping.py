"""When a scenario's search ends before its measurements are spent: its time is over, or nothing is left to gain; and
what a time limit leaves for each part of a run that comes before the first measurement, and for what comes after.

A part that takes longer ends: what it would have found is missing, is said to be, and is never taken for granted.

=============  =====  ========================================================================================
until          share  what ends then, and what becomes of it
=============  =====  ========================================================================================
``checked``    0.25   the sanitizer's look at an original that ends, as its loops show: its defects are not known
``raised``     0.5    ``raise``: the source is tuned as it stands, or as far as it was understood
``begun``      0.6    what scripts begin with besides: sizes bound, divisors said
``planned``    1      planning and building of scripts: no more of them
``counted``    1.2    the count of what a launch has to do: the bound is as low as a launch's own time; and what the
                      device attains is not measured any more: there is no bound
``verified``   2      a verdict that all else waits for, as on a CPU: what has none is not accepted
=============  =====  ========================================================================================
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from ktc.search.bounds.speed_of_light import Bound

from .report import STOPPED_LATE

NEAR = 0.97
"""Share of the speed of light from which on the rest is the error of a measurement."""


SHARES = {"checked": 0.25, "raised": 0.5, "begun": 0.6, "planned": 1.0, "counted": 1.2, "verified": 2.0}

LEAST_S = {"checked": 2.0, "raised": 6.0, "begun": 2.0, "planned": 1.0}
"""Seconds that these parts have, from when they begin, however short the limit is and whatever came before them: most
kernels are raised in less, and without that nothing much can be won."""

NOT_CHECKED = "the original kernel was not looked at for defects: the time limit leaves no more time for it"


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


@dataclass(frozen=True)
class TimeShares:
    """A run that ``started`` then (of :func:`time.monotonic`) and is to take ``limit`` seconds."""

    started: float = 0.0
    limit: float = math.inf

    def until(self, part: str) -> float:
        """When ``part`` of the run, which begins now, ends; infinite without a limit."""
        return max(self.started + SHARES[part] * self.limit, time.monotonic() + LEAST_S.get(part, 0.0))

    def is_over(self, part: str) -> bool:
        """Whether ``part`` of the run, which has not begun, comes too late to begin."""
        return time.monotonic() > self.started + SHARES[part] * self.limit

    @classmethod
    def from_now(cls, limit: float, spent: float = 0.0) -> TimeShares:
        """Of a run of which ``spent`` seconds are over."""
        return cls(time.monotonic() - spent, limit)
