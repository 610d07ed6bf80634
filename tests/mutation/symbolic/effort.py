"""What a proof on symbols may cost, counted and not timed: an answer does not hang on how busy the machine is."""

from __future__ import annotations

MOST_EFFORT = 30_000_000
"""Expressions evaluated, and members of sums and maxima put together, in all runs of one proof."""


class Lost(Exception):
    """This cannot be followed on symbols."""


class Spent(Lost):
    """Nothing more is followed: the proof has cost what it may."""


class Effort:
    """What is left."""

    def __init__(self, left: int = MOST_EFFORT) -> None:
        self.left = left

    def spend(self, much: int = 1) -> None:
        self.left -= much
        if self.left < 0:
            raise Spent


__all__ = ["Effort", "Lost", "Spent"]
