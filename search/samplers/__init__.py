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


def chosen(name: str, space: Space, budget: int | None = None) -> str:
    """``name``; for ``auto``, ``brute`` where ``budget`` covers a small space, else ``gp``.

    Raises:
        KtcError: E-SAMPLER-UNKNOWN.
    """
    if name == "auto":
        small = space.size < BRUTE_BELOW and (budget is None or budget >= space.size)
        name = "brute" if small else "gp"
    if name not in SAMPLERS:
        known = ", ".join(["auto", *SAMPLERS])
        raise KtcError("E-SAMPLER-UNKNOWN", f"no sampler named '{name}'", hint=f"known: {known}", exit_code=2)
    return name


def make(name: str, space: Space, seed: int | None = None, *, budget: int | None = None) -> FeasibleSampler:
    """The sampler that :func:`chosen` names, which raises the same."""
    from importlib import import_module

    module, cls, _ = SAMPLERS[chosen(name, space, budget)]
    return getattr(import_module(f".{module}", __name__), cls)(space, seed)
