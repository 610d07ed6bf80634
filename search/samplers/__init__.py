"""Samplers by name. Importing this package is cheap; Optuna is imported by :func:`make`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.search.space.knob_space import Space

if TYPE_CHECKING:
    from .base import FeasibleSampler

SAMPLERS: dict[str, tuple[str, str, str]] = {
    "gp": ("gp", "GpSampler", "Gaussian process with log expected improvement"),
    "tpe": ("tpe", "TpeSampler", "tree-structured Parzen estimator over categoricals"),
    "random": ("simple", "RandomSampler", "uniform over the feasible unmeasured set"),
    "brute": ("simple", "BruteForceSampler", "every feasible configuration once"),
}
"""Name -> (module, class, one line of help)."""

BRUTE_BELOW = 200
"""Spaces smaller than this are enumerated when the budget allows it."""


def make(name: str, space: Space, seed: int | None = None, *, budget: int | None = None) -> FeasibleSampler:
    """The sampler called ``name``; ``auto`` is brute force where ``budget`` covers a small space, else ``gp``.

    Raises:
        KtcError: E-SAMPLER-UNKNOWN.
    """
    from importlib import import_module

    if name == "auto":
        small = space.size < BRUTE_BELOW and (budget is None or budget >= space.size)
        name = "brute" if small else "gp"
    if name not in SAMPLERS:
        known = ", ".join(["auto", *SAMPLERS])
        raise KtcError("E-SAMPLER-UNKNOWN", f"no sampler named '{name}'", hint=f"known: {known}", exit_code=2)
    module, cls, _ = SAMPLERS[name]
    return getattr(import_module(f".{module}", __name__), cls)(space, seed)
