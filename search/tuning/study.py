"""An in-memory Optuna study as a view of what is measured: ask it for a configuration, tell it an objective.

Optuna is loaded when the study is first asked: what is measured before is known without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.search.samplers import chosen, make
from ktc.search.space.knob_space import Config, Space

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler

_PATIENCE = 30
"""Times a sampler of somebody else may propose something infeasible or measured before a random choice is made."""


@dataclass(frozen=True)
class Proposal:
    """A configuration to measure; ``trial`` is the study's, or None when the study was not asked."""

    index: int
    config: Config
    trial: Any = None


class StudyView:
    """Wraps ``optuna.Study``.

    ``taken`` holds every index that must not be proposed: measured, in flight, claimed elsewhere. The objective is
    log(seconds). A failure is told as a value worse than any success, with a violated constraint: Optuna's samplers
    ignore trials in state FAIL, and would ask for the same configuration again.
    """

    def __init__(self, space: Space, sampler: str | BaseSampler, seed: int, budget: int) -> None:
        self.space = space
        self.taken: set[int] = set()
        self._wanted = chosen(sampler, space, budget) if isinstance(sampler, str) else sampler
        self._seed = seed
        self._measured: list[tuple[int, float | None]] = []  # what the study is yet to be told
        self._rng = np.random.default_rng(seed)
        self._worst = -math.inf

    @cached_property
    def sampler(self) -> BaseSampler:
        return make(self._wanted, self.space, self._seed) if isinstance(self._wanted, str) else self._wanted

    @cached_property
    def study(self) -> Study:
        """Begins with nothing: :meth:`_catch_up` tells it what was measured."""
        import optuna

        if optuna.logging.get_verbosity() == optuna.logging.INFO:  # its default: a line on stderr per study
            optuna.logging.set_verbosity(optuna.logging.WARNING)
        return optuna.create_study(sampler=self.sampler)

    @cached_property
    def _ours(self) -> bool:
        from ktc.search.samplers.base import FeasibleSampler

        return isinstance(self.sampler, FeasibleSampler)

    @cached_property
    def _distributions(self) -> dict[str, Any]:
        from ktc.search.samplers.base import distributions

        return distributions(self.space)

    @property
    def exhaustive(self) -> bool:
        """Whether the sampler enumerates the space, so that local search around the best has nothing to add."""
        return self._wanted == "brute" or type(self._wanted).__name__ == "BruteForceSampler"

    def add(self, index: int, seconds: float | None) -> None:
        """A finished configuration that the study did not propose: remembered, a seed, another process's."""
        self._measured.append((index, seconds))
        self.taken.add(index)
        if "study" in self.__dict__:
            self._catch_up()

    def _catch_up(self) -> None:
        """Tell the study what was measured before it was asked."""
        from optuna.trial import create_trial

        for index, seconds in self._measured:
            value, constraints = self._value(seconds)
            config: Mapping[str, Any] = self.space.config(index)
            self.study.add_trial(create_trial(
                params=dict(config), distributions=self._distributions, value=value, constraints=constraints
            ))  # fmt: skip
        self._measured.clear()

    def ask(self) -> Proposal | None:
        """A feasible configuration that is not taken (it is now), or None when there is none left."""
        if len(self.taken) >= self.space.size:
            return None
        self._catch_up()
        if self._ours:
            self.sampler.blocked = self.taken  # type: ignore[attr-defined]
        for _ in range(1 if self._ours else _PATIENCE):
            trial = self.study.ask(self._distributions)
            index = self.space.find(trial.params)
            if index >= 0 and index not in self.taken:
                self.taken.add(index)
                return Proposal(index, self.space.config(index), trial)
            trial.set_constraint("repeated" if index >= 0 else "infeasible", 1.0)
            self.study.tell(trial, self._value(None)[0])
        return self.take(self._any())

    def take(self, index: int) -> Proposal:
        """Reserve ``index`` without asking the sampler."""
        self.taken.add(index)
        return Proposal(index, self.space.config(index))

    def tell(self, proposal: Proposal, seconds: float | None) -> None:
        """The outcome of a proposal; ``seconds`` is None for a failure."""
        if proposal.trial is None:
            return self.add(proposal.index, seconds)
        value, constraints = self._value(seconds)
        for name, violation in constraints.items():
            proposal.trial.set_constraint(name, violation)
        self.study.tell(proposal.trial, value)

    def drop(self, proposal: Proposal, *, again: bool) -> None:
        """The proposal was not measured; ``again``: it may be proposed later."""
        import optuna

        if proposal.trial is not None:
            self.study.tell(proposal.trial, state=optuna.trial.TrialState.FAIL)
        if again:
            self.taken.discard(proposal.index)

    def _value(self, seconds: float | None) -> tuple[float, dict[str, float]]:
        if seconds is not None:
            self._worst = max(self._worst, math.log(seconds))
            return math.log(seconds), {"failed": -1.0}
        return (self._worst + math.log(2) if math.isfinite(self._worst) else 0.0), {"failed": 1.0}

    def _any(self) -> int:
        while True:
            for index in self.space.sample_indices(self._rng, len(self.taken) + 1):
                if index not in self.taken:
                    return index
