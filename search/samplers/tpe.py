"""Tree-structured Parzen estimator over categoricals, arg max over the feasible unmeasured set.

The model is Optuna's multivariate TPE for categorical parameters (Watanabe, *Tree-structured Parzen estimator*,
arXiv:2304.11127, with its default gamma, weights and prior). Only the last step differs: instead of drawing 24 points
from the good density and keeping the best, the ratio of the densities is evaluated on every candidate, because the
feasible set can be listed.
"""

from __future__ import annotations

import math

import numpy as np

from .base import FeasibleSampler, History


class TpeSampler(FeasibleSampler):
    """``prior_weight`` is the weight of the uniform kernel, and of the smoothing inside each kernel."""

    pool = 32768
    prior_weight = 1.0

    def choose(self, history: History, candidates: np.ndarray) -> int:
        # failures rank after every success, whatever value they were told with
        order = np.lexsort((history.values, history.failed))
        n_good = min(math.ceil(0.1 * len(order)), 25)
        good, bad = np.sort(order[:n_good]), np.sort(order[n_good:])
        onehot = _onehot(candidates, self._sizes())
        score = self._log_density(history.rows[good], onehot) - self._log_density(
            np.concatenate([history.rows[bad], history.pending]), onehot
        )
        # ties are common early on: break them at random, not by position
        best = np.flatnonzero(score >= score.max() - 1e-12)
        return int(self.rng.choice(best))

    def _sizes(self) -> list[int]:
        return [len(d) for d in self.space.domains.values()]

    def _log_density(self, rows: np.ndarray, onehot: np.ndarray) -> np.ndarray:
        """log of the mixture of one kernel per observation and the uniform prior, at each candidate."""
        n = len(rows)
        weights = np.append(_recency(n), self.prior_weight)
        smooth = self.prior_weight / (n + 1)
        blocks = []
        for j, size in enumerate(self._sizes()):
            kernel = np.full((n + 1, size), smooth)
            kernel[np.arange(n), rows[:, j]] += 1
            blocks.append(np.log(kernel / kernel.sum(axis=1, keepdims=True)))
        terms = onehot @ np.concatenate(blocks, axis=1).T.astype(np.float32)
        terms += np.log(weights / weights.sum()).astype(np.float32)
        top = terms.max(axis=1, keepdims=True)
        return (top[:, 0] + np.log(np.exp(terms - top).sum(axis=1))).astype(float)


def _onehot(rows: np.ndarray, sizes: list[int]) -> np.ndarray:
    """(n, sum of sizes) indicators."""
    offsets = np.cumsum([0, *sizes[:-1]])
    out = np.zeros((len(rows), sum(sizes)), np.float32)
    out[np.arange(len(rows))[:, None], rows + offsets] = 1
    return out


def _recency(n: int) -> np.ndarray:
    """Optuna's default weights: the last 25 observations count fully, older ones ramp down to 1/n."""
    return np.ones(n) if n < 25 else np.concatenate([np.linspace(1 / n, 1, n - 25), np.ones(25)])
