"""Gaussian processes with log expected improvement, arg max over feasible unmeasured configurations.

Inputs are, by knob, the ordinal position scaled to [0, 1] (powers of two are evenly spaced) and, where the domain has
other numbers than powers of two, the alignment (how often two divides the value): on recorded convolutions, whose block
widths are multiples of 16, it raises the score at 50 configurations (tests/bench/samplers.py).
LogEI: Ament et al., *Unexpected improvements to expected improvement*, NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ktc.search.space.knob_space import Space

from .base import FeasibleSampler, History
from .gaussian import Hyperparameters, Inputs, Processes, condition, drawn, moved

POPULATION = 24
"""Hyperparameters kept from one proposal to the next."""

MEMBERS = 6
"""Of these, how many predict."""

RENEWED_BELOW = 60
"""Up to this many results the hyperparameters are renewed at every proposal, later at every fifth."""

RESULTS = 100
"""Results that a model is given at most: the faster half are the fastest, the others a sample of the rest."""

CLIPPED_FROM = 60
"""Results from which on only the faster half is told apart."""

EDGE = 0.1
"""What a start at the edge of the domains costs against one that repeats the values of others."""


class GpSampler(FeasibleSampler):
    """Starts in the middle of the space, goes on with the values that are least measured, and then asks the model.

    The middle of the feasible set, by ordinal positions, is faster than most configurations of the recorded spaces: the
    extremes of a tile or of a block are seldom right. The model is asked from the third result on: many processes that
    explain so little disagree about the rest, and what one of them expects much of is a better start than what fills
    the space (tests/bench/samplers.py).
    """

    startup = 3
    first_pool = 100
    pool = 1500

    def __init__(self, space: Space, seed: int | None = None) -> None:
        super().__init__(space, seed)
        domains = list(space.domains.values())
        self._open = [j for j, d in enumerate(domains) if len(d) > 1]
        self._spans = np.array([len(domains[j]) - 1 for j in self._open], float)
        self._inputs = Inputs(self._open, [inputs(domains[j]) for j in self._open])
        self._hyper: Hyperparameters | None = None
        self._renewed = 0

    def choose_first(self, history: History, candidates: np.ndarray) -> int:
        """Knobs' values that were least measured so far, the more central the better."""
        here = self._positions(candidates)
        edge = EDGE * ((here - 0.5) ** 2).mean(axis=1)
        known = self._positions(np.concatenate([history.rows, history.pending]))
        if not len(known):
            return int(np.argmin(edge))
        alike = np.exp(-3 * np.abs(here[:, None] - known[None])).mean(axis=2)
        return int(np.argmin(alike.sum(axis=1) + edge * len(known)))

    def choose(self, history: History, candidates: np.ndarray) -> int:
        y = targets(history)
        kept = self._kept(y)
        rows, y = history.rows[kept], y[kept]
        model = self._believe(self._model(rows, y, len(history)), y, history.pending)
        mean, sd = model.predict(candidates)
        gains = log_expected_improvement(mean, sd, y.min()) + np.log(model.weights)[:, None]
        return int(np.argmax(np.logaddexp.reduce(gains, axis=0)))

    def _model(self, rows: np.ndarray, y: np.ndarray, told: int) -> Processes:
        """The processes that explain the results best, among those that did before, steps from them and new ones."""
        if self._hyper is None:
            hyper = drawn(self.rng, 4 * POPULATION, self._inputs)
        elif told < RENEWED_BELOW or told - self._renewed >= 5:
            fresh = drawn(self.rng, POPULATION // 4, self._inputs)
            hyper = self._hyper.with_(moved(self.rng, self._hyper), fresh)
        else:
            return condition(self._inputs, rows, y, self._hyper[:MEMBERS])
        found = condition(self._inputs, rows, y, hyper)
        kept = np.argsort(-found.evidence, kind="stable")[:POPULATION]
        self._hyper, self._renewed = hyper[kept], told
        return found.best(MEMBERS)

    def _kept(self, y: np.ndarray) -> np.ndarray:
        """Positions of the results that the model is given: the cost of a proposal does not grow with the study."""
        if len(y) <= RESULTS:
            return np.arange(len(y))
        order = np.argsort(y, kind="stable")
        fast, rest = order[: RESULTS // 2], order[RESULTS // 2 :]
        return np.concatenate([fast, rest[np.linspace(0, len(rest) - 1, RESULTS - len(fast)).astype(int)]])

    def _positions(self, rows: np.ndarray) -> np.ndarray:
        """(n, open knobs) ordinal positions in [0, 1]."""
        return rows[:, self._open] / self._spans

    def _believe(self, model: Processes, y: np.ndarray, pending: np.ndarray) -> Processes:
        """``model`` as if the pending configurations had come out as predicted, so that it does not ask beside them."""
        if not len(pending):
            return model
        believed = model.weights @ model.predict(pending)[0]
        rows = np.concatenate([model.rows, pending])
        return condition(self._inputs, rows, np.concatenate([y, believed]), model.hyper)


def inputs(domain: Sequence[int]) -> np.ndarray:
    """(inputs, values) numbers in [0, 1] for the values of ``domain``, which has two at least."""
    out = [np.linspace(0, 1, len(domain))]
    aligned = np.array([(v & -v).bit_length() for v in domain], float)
    powers = all(v > 0 and v & (v - 1) == 0 for v in domain)
    if len(domain) > 2 and not powers and aligned.min() < aligned.max():
        out.append((aligned - aligned.min()) / (aligned.max() - aligned.min()))
    return np.stack(out)


def targets(history: History) -> np.ndarray:
    """Standardised objective values; failures count as the slowest of the successes.

    Once there are :data:`CLIPPED_FROM` results, what is slower than the median counts as the median: first the whole
    space must be understood, then only its fast end be modelled well.
    """
    ok = history.values[~history.failed]
    y = np.where(history.failed, ok.max(), history.values)
    if len(y) >= CLIPPED_FROM:
        y = np.minimum(y, np.median(ok))
    return (y - y.mean()) / max(y.std(), 1e-9)


_SQRT_2PI = math.sqrt(2 * math.pi)
_erfc = np.vectorize(math.erfc, otypes=[float])


def log_expected_improvement(mean: np.ndarray, sd: np.ndarray, best: float) -> np.ndarray:
    """log E[max(best - f, 0)], accurate where the improvement itself underflows."""
    z = (best - mean) / sd
    return np.log(sd) + log_h(z)


def log_h(z: np.ndarray) -> np.ndarray:
    """log(phi(z) + z Phi(z)). For z < -1 the factor phi is taken out; for z < -10 the rest is its asymptotic series."""
    z = np.asarray(z, float)
    out = np.empty_like(z)
    upper, far = z > -1, z < -10
    mid = ~upper & ~far
    u = z[upper]
    out[upper] = np.log(np.exp(-0.5 * u * u) / _SQRT_2PI + u * 0.5 * _erfc(-u / math.sqrt(2)))
    t = -z[mid]
    mills = _SQRT_2PI / 2 * _erfc(t / math.sqrt(2)) * np.exp(0.5 * t * t) if t.size else t
    out[mid] = -0.5 * t * t - math.log(_SQRT_2PI) + np.log1p(-t * mills)
    t = -z[far]
    series = 1 - 3 / t**2 + 15 / t**4 - 105 / t**6
    out[far] = -0.5 * t * t - math.log(_SQRT_2PI) - 2 * np.log(t) + np.log(series)
    return out
