"""Gaussian-process regression by several hyperparameters at once, in numpy.

With ten measurements the evidence for one length scale over another is weak, and a process fitted to the most likely
ones is sure of what it cannot know: it searches where nothing is. So the prediction is the mixture of several processes
that explain the measurements, weighted by how well they do: the integral over hyperparameters, by importance sampling.

The kernel is a product over the inputs of Matern-5/2 correlations with a length scale each. Knobs have few values: the
logarithms of correlations are rows of tables, and their sum over knobs is a product of matrices. The amplitude is
integrated out analytically under a scaled-inverse-chi-squared prior, so that each process is a Student-t process
(Rasmussen & Williams, *Gaussian Processes for Machine Learning*, eqs. 2.25, 2.26, 4.17; Shah et al., *Student-t
processes*, 2014, eq. 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LENGTH_MEAN, LENGTH_SD, LENGTH_FREEDOM = 2.0, 0.6, 3.0
"""Student-t prior of the log of a length scale, counted in values of the knob: about seven, however many there are. A
switch changes little of what the other knobs do; of sixteen values the best may be in the middle, and the ends slow.
The heavy tails let results say otherwise: with a normal prior, a switch that the slow end of the space speaks for stays
so whatever is measured at the fast end."""

NOISE = (1e-3, 1e-2)
"""Range of the noise's variance in units of the signal's: repeated timings differ by a few per cent."""

_FREEDOM = 1.0
"""Degrees of freedom of the amplitude's prior, whose scale is 1: targets are standardised."""


class Inputs:
    """What knobs' values are to the processes: each knob has a table (inputs, values) of numbers in [0, 1]."""

    def __init__(self, knobs: Sequence[int], tables: Sequence[np.ndarray]) -> None:
        self.knobs, self.tables = list(knobs), list(tables)
        self.count = sum(len(t) for t in tables)
        """Inputs in all."""
        values = [t.shape[1] for t in tables for _ in t]
        self.lengths = LENGTH_MEAN - np.log(values)
        """(inputs,) means of the logs of length scales, where inputs lie in [0, 1]."""
        self._starts = np.cumsum([0, *(t.shape[1] for t in tables)])

    def indicators(self, rows: np.ndarray) -> np.ndarray:
        """(n, values of all knobs) ones where ``rows`` (n, knobs; ordinal positions) have a value."""
        out = np.zeros((len(rows), self._starts[-1]))
        out[np.arange(len(rows))[:, None], rows[:, self.knobs] + self._starts[:-1]] = 1
        return out

    def log_correlations(self, rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(h, n, values of all knobs) logs of the correlations of ``rows`` with each value, for ``lengths`` (h, inputs)
        on a logarithmic scale."""
        blocks, at = [], 0
        for knob, table in zip(self.knobs, self.tables):
            block = np.zeros((len(lengths), len(rows), table.shape[1]))
            for positions in table:
                distance = np.abs(positions[rows[:, knob], None] - positions)
                block += _log_matern(distance * np.exp(-lengths[:, at])[:, None, None])
                at += 1
            blocks.append(block)
        return np.concatenate(blocks, axis=2)


@dataclass(frozen=True)
class Hyperparameters:
    """Of h processes: ``lengths`` (h, d) the logs of the length scales, ``noise`` (h,) variances relative to the
    signal's."""

    lengths: np.ndarray
    noise: np.ndarray

    def __len__(self) -> int:
        return len(self.noise)

    def __getitem__(self, which: slice | np.ndarray) -> Hyperparameters:
        return Hyperparameters(self.lengths[which], self.noise[which])

    def with_(self, *others: Hyperparameters) -> Hyperparameters:
        parts = (self, *others)
        return Hyperparameters(np.concatenate([p.lengths for p in parts]), np.concatenate([p.noise for p in parts]))


@dataclass(frozen=True)
class Processes:
    """h processes that have seen the same ``rows`` (n, knobs).

    ``chol`` (h, n, n) are Cholesky factors of the covariances, ``alpha`` (h, n) the inverse covariances times the
    targets, ``scale`` (h,) variances of the signal, ``evidence`` (h,) the log of likelihood times prior, up to a
    constant.
    """

    inputs: Inputs
    rows: np.ndarray
    hyper: Hyperparameters
    chol: np.ndarray
    alpha: np.ndarray
    scale: np.ndarray
    evidence: np.ndarray

    def best(self, count: int) -> Processes:
        """At most ``count`` processes with the most evidence, most first: those that weigh at least a fiftieth of the
        first."""
        o = np.argsort(-self.evidence, kind="stable")[:count]
        o = o[self.evidence[o] > self.evidence[o[0]] - np.log(50)]
        return Processes(
            self.inputs, self.rows, self.hyper[o], self.chol[o], self.alpha[o], self.scale[o], self.evidence[o]
        )

    @property
    def weights(self) -> np.ndarray:
        """(h,) that sum to 1."""
        w = np.exp(self.evidence - self.evidence.max())
        return w / w.sum()

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and standard deviations (h, m) of the noise-free function at ``rows`` (m, knobs)."""
        k = _correlations(self.inputs, self.rows, rows, self.hyper.lengths)
        mean = np.einsum("hnm,hn->hm", k, self.alpha)
        whitened = np.linalg.inv(self.chol) @ k
        variance = 1 - (whitened * whitened).sum(axis=1)
        return mean, np.sqrt(np.maximum(variance, 1e-9) * self.scale[:, None])


def drawn(rng: np.random.Generator, count: int, inputs: Inputs) -> Hyperparameters:
    """From the prior."""
    lengths = inputs.lengths + LENGTH_SD * rng.standard_t(LENGTH_FREEDOM, (count, inputs.count))
    return Hyperparameters(lengths, np.exp(rng.uniform(math.log(NOISE[0]), math.log(NOISE[1]), count)))


def moved(rng: np.random.Generator, hyper: Hyperparameters) -> Hyperparameters:
    """Random steps away from ``hyper``: half of the length scales change."""
    shape = hyper.lengths.shape
    steps = np.where(rng.random(shape) < 0.5, 0.5 * rng.standard_normal(shape), 0)
    noise = np.clip(hyper.noise * np.exp(0.3 * rng.standard_normal(len(hyper))), *NOISE)
    return Hyperparameters(hyper.lengths + steps, noise)


def condition(inputs: Inputs, rows: np.ndarray, y: np.ndarray, hyper: Hyperparameters) -> Processes:
    """The processes given standardised targets ``y`` (n,) at ``rows`` (n, knobs; ordinal positions)."""
    n = len(y)
    covariance = _correlations(inputs, rows, rows, hyper.lengths)
    covariance[:, range(n), range(n)] += hyper.noise[:, None]
    chol = np.linalg.cholesky(covariance)
    alpha = np.linalg.solve(covariance, np.broadcast_to(y[:, None], (len(hyper), n, 1)))[:, :, 0]
    scale = (alpha @ y + _FREEDOM) / (n + _FREEDOM)
    likelihood = -np.log(np.diagonal(chol, axis1=1, axis2=2)).sum(axis=1) - 0.5 * (n + _FREEDOM) * np.log(scale)
    far = ((hyper.lengths - inputs.lengths) / LENGTH_SD) ** 2 / LENGTH_FREEDOM
    prior = -0.5 * (LENGTH_FREEDOM + 1) * np.log1p(far).sum(axis=1)
    return Processes(inputs, rows, hyper, chol, alpha, scale, likelihood + prior)


def _correlations(inputs: Inputs, a: np.ndarray, b: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(h, n, m) correlations of ``a`` (n, knobs) with ``b`` (m, knobs)."""
    return np.exp(inputs.log_correlations(a, lengths) @ inputs.indicators(b).T)


def _log_matern(distance: np.ndarray) -> np.ndarray:
    """log of the Matern-5/2 correlation at ``distance`` in units of the length scale."""
    r = np.sqrt(5) * distance
    return np.log1p(r + r * r / 3) - r
