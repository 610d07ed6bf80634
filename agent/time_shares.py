"""What a time limit leaves for each part of a run that comes before its first measurement, and for what comes after.

A part that takes longer ends: what it would have found is missing, is said to be, and is never taken for granted.

=============  =====  ==================================================================================
until          share  what ends then, and what becomes of it
=============  =====  ==================================================================================
``checked``    0.25   the sanitizer's look at the original: its defects are not known
``raised``     0.5    ``raise``: the source is tuned as it stands, or as far as it was understood
``begun``      0.6    what scripts begin with besides: sizes bound, divisors said
``planned``    1      planning and building of scripts: no more of them
``counted``    1.2    the count of what a launch has to do: the bound is as low as a launch's own time
=============  =====  ==================================================================================
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

SHARES = {"checked": 0.25, "raised": 0.5, "begun": 0.6, "planned": 1.0, "counted": 1.2}

LEAST_S = {"checked": 1.0, "raised": 3.0, "begun": 4.0}
"""Seconds that these parts have however short the limit is: most kernels are raised in less, and without that nothing
much can be won."""

NOT_CHECKED = "the original kernel was not looked at for defects: the time limit leaves no more time for it"


@dataclass(frozen=True)
class TimeShares:
    """A run that ``started`` then (of :func:`time.monotonic`) and is to take ``limit`` seconds."""

    started: float = 0.0
    limit: float = math.inf

    def until(self, part: str) -> float:
        """When ``part`` of the run ends; infinite without a limit."""
        return self.started + max(SHARES[part] * self.limit, LEAST_S.get(part, 0.0))

    @classmethod
    def from_now(cls, limit: float, spent: float = 0.0) -> TimeShares:
        """Of a run of which ``spent`` seconds are over."""
        return cls(time.monotonic() - spent, limit)


__all__ = ["NOT_CHECKED", "TimeShares"]
