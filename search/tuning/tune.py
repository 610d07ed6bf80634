"""Tuning the open knobs of one template within a budget of measurements.

Seeds first (defaults, the planner's proposals), then the sampler, then a radius-1 polish around the best, then an
interleaved shoot-out of the finalists. Every outcome is in the ledger before the sampler hears of it, so that a killed
run continues where it was, and several processes may share one study.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ktc.ir.kernel import Kernel
from ktc.search.records.ledger import Ledger, StudyKey
from ktc.search.records.outcome import Outcome
from ktc.search.space.knob_space import Config, Space

from .progress import Event, Progress, silent
from .result import Budget, Evaluate, Shootout, Trial, TuneResult
from .tuner import Tuner

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def tune(
    template: Kernel | None,
    evaluate: Evaluate,
    space: Space,
    *,
    budget: Budget | int = 100,
    sampler: str | BaseSampler = "auto",
    ledger: Ledger | None = None,
    study_key: StudyKey | None = None,
    first: Mapping[str, int] | None = None,
    seeds: Iterable[Mapping[str, int]] = (),
    progress: Progress = silent,
    seed: int = 0,
    weights: Mapping[str, float] | None = None,
    shootout: Shootout | None = None,
    finalists: int = 5,
    polish: float = 0.2,
    prepare: Callable[[Config], object] | None = None,
    ahead: int = 0,
    workers: int = 1,
) -> TuneResult:
    """Find the fastest configuration of ``space``.

    Args:
        template: bound with the best values in the result (None: not bound).
        evaluate: measures one configuration; called from ``workers`` threads if there are several.
        budget: configurations in all; those already in the ledger count.
        sampler: a name of :data:`ktc.search.samplers.SAMPLERS`, ``auto``, or any Optuna sampler.
        ledger, study_key: where measurements are kept, and under which key; in memory by default.
        first: the configuration to begin with, before the defaults.
        seeds: configurations to try after these; infeasible ones are left out.
        weights: scenario -> weight of the geometric mean. Scenarios not named (held-out ones) never count.
        shootout: times the ``finalists`` best configurations interleaved; its ranking decides.
        polish: share of the budget kept for the neighbours of the best configuration.
        prepare, ahead: called with up to ``ahead`` configurations beyond the one being measured, to compile them early.

    Raises:
        KtcError: from the ledger or the environment (exit code 3). What was measured by then is kept.
    """
    limit = budget if isinstance(budget, Budget) else Budget(budget)
    key = study_key or StudyKey(template.name if template else "", "", "", "")
    run = Tuner(evaluate, space, limit, sampler, ledger or Ledger(), key, seed, weights, progress)
    run.polish = 0 if run.view.exhaustive else math.ceil(polish * limit.configs)
    run.prepare, run.ahead, run.workers = prepare, ahead, workers
    run.start([space.nearest(first or {}), space.default(), *map(space.canonical, seeds)])
    run.loop()
    return run.finish(template, shootout, finalists)


__all__ = ["Budget", "Evaluate", "Event", "Outcome", "Progress", "Shootout", "Trial", "TuneResult", "tune"]
