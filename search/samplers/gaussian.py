"""Gaussian-process regression with a Matern-5/2 kernel and one length scale per knob, in numpy.

Rasmussen & Williams, *Gaussian Processes for Machine Learning*, eqs. 2.25, 2.26, 4.17 and 5.9. Hyperparameters are the
maximum a posteriori, found by BFGS on their logarithms with analytic gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_JITTER = 1e-9
_LENGTH_MEAN, _LENGTH_SD = -0.7, 1.5  # prior of log(length scale); inputs lie in [0, 1]
_SCALE_SD = 1.0  # prior of log(signal variance), around 1: targets are standardised
_NOISE_MEAN, _NOISE_SD = np.log(1e-3), 2.0  # prior of log(noise variance)


@dataclass(frozen=True)
class GaussianProcess:
    """A fitted process: ``x`` (n, d) in [0, 1], ``theta`` the logs of d length scales, signal and noise variance."""

    x: np.ndarray
    theta: np.ndarray
    inverse: np.ndarray
    alpha: np.ndarray

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation of the noise-free function at ``x`` (m, d)."""
        k = _matern(_squared(x, self.x, self.theta))[0] * np.exp(self.theta[-2])
        var = np.exp(self.theta[-2]) - np.einsum("ij,ij->i", k @ self.inverse, k)
        return k @ self.alpha, np.sqrt(np.maximum(var, 1e-12))


def fit(x: np.ndarray, y: np.ndarray, theta: np.ndarray | None = None, *, steps: int = 40) -> GaussianProcess:
    """The process for standardised targets ``y``, its hyperparameters optimised from ``theta`` (``steps=0``: kept)."""
    start = default_theta(x.shape[1]) if theta is None else theta
    best = minimise(lambda t: negative_log_posterior(t, x, y), start, steps) if steps else start
    inverse = np.linalg.inv(_covariance(best, x)[0])
    return GaussianProcess(x, best, inverse, inverse @ y)


def default_theta(d: int) -> np.ndarray:
    return np.concatenate([np.full(d, _LENGTH_MEAN), [0.0, _NOISE_MEAN]])


def _squared(a: np.ndarray, b: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Squared distances (n, m) in units of the length scales."""
    scale = np.exp(-theta[:-2])
    a, b = a * scale, b * scale
    return np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * (a @ b.T), 0)


def _matern(squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The kernel, and its derivative by the squared distance."""
    r = np.sqrt(5 * squared)
    e = np.exp(-r)
    return (1 + r + 5 / 3 * squared) * e, -5 / 6 * (1 + r) * e


def _covariance(theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariance of the observations, the kernel, and its derivative by the squared distance."""
    k, dk = _matern(_squared(x, x, theta))
    cov = np.exp(theta[-2]) * k
    cov[np.diag_indices(len(x))] += np.exp(theta[-1]) + _JITTER
    return cov, k, dk


def negative_log_posterior(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Of the hyperparameters, up to a constant; and its gradient. Infinite far outside the prior."""
    if np.any(np.abs(theta) > 15):
        return np.inf, np.zeros_like(theta)
    cov, k, dk = _covariance(theta, x)
    try:
        chol = np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        return np.inf, np.zeros_like(theta)
    inverse = np.linalg.inv(chol)
    inverse = inverse.T @ inverse
    alpha = inverse @ y
    loss = np.log(np.diag(chol)).sum() + 0.5 * y @ alpha
    w = 0.5 * (inverse - np.outer(alpha, alpha))  # d loss / d cov
    g = w * dk * np.exp(theta[-2])
    # sum over pairs of g * (x_a - x_b)^2, for every knob at once
    pairs = 2 * (g.sum(1) @ (x * x)) - 2 * np.einsum("aj,aj->j", x, g @ x)
    gradient = np.empty_like(theta)
    gradient[:-2] = -2 * np.exp(-2 * theta[:-2]) * pairs
    gradient[-2] = np.sum(w * k) * np.exp(theta[-2])
    gradient[-1] = np.trace(w) * np.exp(theta[-1])
    scales = len(theta) - 2
    sd = np.concatenate([np.full(scales, _LENGTH_SD), [_SCALE_SD, _NOISE_SD]])
    z = (theta - default_theta(scales)) / sd
    return float(loss + 0.5 * z @ z), gradient + z / sd


def minimise(f: Callable[[np.ndarray], tuple[float, np.ndarray]], x: np.ndarray, steps: int) -> np.ndarray:
    """BFGS with a backtracking line search (Nocedal & Wright, algorithms 6.1 and 3.1)."""
    value, grad = f(x)
    h = np.eye(len(x))
    for _ in range(steps):
        if np.abs(grad).max() < 1e-2:
            break
        direction = -h @ grad
        slope = grad @ direction
        if slope >= 0:
            h, direction, slope = np.eye(len(x)), -grad, -grad @ grad
        length = min(1.0, 2.0 / np.abs(direction).max())
        while length > 1e-6:
            trial_value, trial_grad = f(x + length * direction)
            if trial_value <= value + 1e-4 * length * slope:
                break
            length *= 0.5
        else:
            break
        s, yv = length * direction, trial_grad - grad
        x, value, grad = x + s, trial_value, trial_grad
        curvature = s @ yv
        if curvature > 1e-10:
            rho = 1 / curvature
            a = np.eye(len(x)) - rho * np.outer(s, yv)
            h = a @ h @ a.T + rho * np.outer(s, s)
    return x
