"""What goes into a tuning run and what comes out: the evaluator's protocol, budgets, trials, the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ktc.ir.kernel import Kernel
from ktc.search.records.outcome import Outcome
from ktc.search.space.knob_space import Config


class Evaluate(Protocol):
    """Build, verify and time one configuration.

    ``incumbent`` is the best configuration's seconds by scenario (None before there is one): an evaluator may stop a
    clearly slower configuration after a launch or two and answer ``Outcome(..., early=True)``. Faults of the
    configuration are statuses, not exceptions; a ``KtcError`` (the environment's) ends the run, which can be resumed.
    """

    def __call__(self, config: Config, incumbent: Mapping[str, float] | None) -> Outcome: ...


Shootout = Callable[[Sequence[Config]], Sequence[Outcome]]
"""Times the finalists interleaved in one process, and answers in the order given."""


@dataclass(frozen=True)
class Budget:
    """``configs`` measured in all, earlier runs of the study included; ``seconds`` of wall clock for this run."""

    configs: int = 100
    seconds: float = math.inf


@dataclass(frozen=True)
class Trial:
    """One measured configuration; ``objective`` is in seconds, None if it failed."""

    config: Config
    outcome: Outcome
    objective: float | None


@dataclass(frozen=True)
class TuneResult:
    """What a run found. ``best`` is None when every configuration failed; then ``failures`` says how.

    ``ranking`` lists the finalists, best first, with the shoot-out's outcomes if there was one. ``trials`` are in the
    order of measuring, ``resumed`` of them from earlier runs. ``kernel`` is the template with the best values bound.
    """

    best: Trial | None
    ranking: tuple[Trial, ...]
    trials: tuple[Trial, ...]
    resumed: int
    space_size: int
    kernel: Kernel | None = None
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def trajectory(self) -> list[float]:
        """Best objective after each trial, in seconds; inf before the first success."""
        out, best = [], math.inf
        for t in self.trials:
            best = min(best, t.objective if t.objective is not None else math.inf)
            out.append(best)
        return out
