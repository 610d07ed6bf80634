"""Samplers without a model: uniform random, and everything in order."""

from __future__ import annotations

import numpy as np

from .base import FeasibleSampler, History


class RandomSampler(FeasibleSampler):
    """Uniform over what is feasible and unmeasured."""

    pool = 1

    def choose(self, history: History, candidates: np.ndarray) -> int:
        return 0


class BruteForceSampler(FeasibleSampler):
    """Every feasible configuration once, in the order of the space."""

    startup = 0

    def candidates(self, taken: set[int], history: History, limit: int) -> list[int]:
        return next(([i] for i in range(self.space.size) if i not in taken), [])

    def choose(self, history: History, candidates: np.ndarray) -> int:
        return 0
