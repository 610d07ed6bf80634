"""What our samplers share: every proposal is feasible, unmeasured and not pending.

Optuna's stock samplers propose from the product of the domains, so on a constrained space they repeat themselves and
propose what cannot be compiled. A :class:`FeasibleSampler` is an ordinary ``optuna.samplers.BaseSampler`` (usable with
``study.optimize`` too) whose subclasses only pick one index out of candidates that are already known to be good.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState
from threadpoolctl import ThreadpoolController

from ktc.search.space.knob_space import Space

if TYPE_CHECKING:
    from optuna.study import Study


class Exhausted(Exception):
    """Every feasible configuration is measured or pending."""


@dataclass(frozen=True)
class History:
    """What a study knows, in ordinal coordinates.

    ``rows`` is (n, knobs), ``values`` (n,) the objective of finished trials (log of seconds) and ``failed`` (n,)
    whether a constraint was violated; ``pending`` is (m, knobs).
    """

    rows: np.ndarray
    values: np.ndarray
    failed: np.ndarray
    pending: np.ndarray

    def __len__(self) -> int:
        return len(self.values)


@cache
def _blas() -> ThreadpoolController:
    """The linear algebra libraries of this process: numpy's is loaded by now, and to look for them takes longer than
    most choices."""
    return ThreadpoolController().select(user_api="blas")


PAIRS = 500
"""Pairs of changed knobs that are looked at around one configuration, at most."""


def changed(row: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n, knobs) rows that differ from ``row`` in one knob, all of them, and in two, a sample; ``sizes`` (knobs,) are
    those of the domains."""
    knob = np.repeat(np.arange(len(sizes)), sizes)
    digit = np.concatenate([np.arange(s) for s in sizes])
    other = digit != row[knob]
    knob, digit = knob[other], digit[other]
    single = np.tile(row, (len(knob), 1))
    single[np.arange(len(knob)), knob] = digit
    if len(knob) < 2:
        return single
    first, second = rng.integers(len(knob), size=(2, PAIRS))
    first, second = (m[knob[first] != knob[second]] for m in (first, second))
    double = single[first]
    double[np.arange(len(second)), knob[second]] = digit[second]
    return np.concatenate([single, double])


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """One categorical per knob, over its domain: dashboards show real values, whatever the sampler models."""
    return {n: CategoricalDistribution(d) for n, d in space.domains.items()}


class FeasibleSampler(BaseSampler):
    """Base class. Subclasses implement :meth:`choose`.

    ``blocked`` holds indices that must not be proposed although the study has no trial for them: configurations that
    another process, or a seed, has claimed.
    """

    startup = 10
    """Trials proposed by :meth:`choose_first` before the model is asked."""

    first_pool = 1
    """Candidates that :meth:`choose_first` looks at."""

    pool = 4096
    """Candidates a model looks at, at most; a uniform sample of a larger set, plus the best points' neighbours."""

    def __init__(self, space: Space, seed: int | None = None) -> None:
        self.space = space
        self.rng = np.random.default_rng(seed)
        self.blocked: set[int] = set()
        self._index: dict[int, int] = {}  # trial number -> index in the space, for finished trials

    @abc.abstractmethod
    def choose(self, history: History, candidates: np.ndarray) -> int:
        """Position in ``candidates`` (n, knobs; ordinal coordinates) of the next configuration to measure."""

    def choose_first(self, history: History, candidates: np.ndarray) -> int:
        """As :meth:`choose`, while there are too few results for a model; by default the first of a random order."""
        return 0

    # ------------------------------------------------------------------------------------------ the protocol of Optuna

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return distributions(self.space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next configuration, whole.

        Raises:
            Exhausted: when nothing is left to propose.
        """
        trials = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        finished = [t for t in trials if t.state == TrialState.COMPLETE and self._find(t) >= 0]
        running = [i for t in trials if t.state == TrialState.RUNNING and (i := self.space.find(t.params)) >= 0]
        taken = {self._find(t) for t in finished} | set(running) | self.blocked
        failed = np.array([any(v > 0 for v in t.constraints.values()) for t in finished], bool)
        history = History(
            rows=self.space.rows([self._find(t) for t in finished]),
            values=np.array([t.value for t in finished], float),
            failed=failed,
            pending=self.space.rows(running),
        )
        model = int(np.count_nonzero(~failed)) >= 2 and len(history) >= self.startup
        indices = self.candidates(taken, history, self.pool if model else self.first_pool)
        if not indices:
            raise Exhausted
        return self.space.config(indices[self._chosen(history, indices, model)])

    def _chosen(self, history: History, indices: Sequence[int], model: bool) -> int:
        choose = self.choose if model else self.choose_first
        # small matrices: BLAS threads gain nothing, and their spinning starves (and is starved by) parallel compiles
        with _blas().limit(limits=1):
            return choose(history, self.space.rows(indices))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Knobs are only ever sampled together; an unknown parameter is an error of the caller."""
        raise ValueError(f"'{param_name}' is not a knob of this space")

    def reseed_rng(self) -> None:
        self.rng = np.random.default_rng()

    # ------------------------------------------------------------------------------------------------------ candidates

    def candidates(self, taken: set[int], history: History, limit: int) -> list[int]:
        """Up to ``limit`` feasible indices not in ``taken``: all that are left, or a uniform sample of them together
        with what is near the three best."""
        if self.space.size <= 4 * limit + len(taken):
            left = np.setdiff1d(np.arange(self.space.size), np.fromiter(taken, np.int64, len(taken)))
            if len(left) <= limit:
                return [int(i) for i in left]
            drawn = [int(i) for i in self.rng.permutation(left)[:limit]]
        else:
            drawn = [i for i in self.space.sample_indices(self.rng, limit + len(taken)) if i not in taken][:limit]
        near = [i for i in self._near_best(history) if i not in taken] if limit > 1 else []
        return list(dict.fromkeys(near + drawn))

    def _near_best(self, history: History) -> list[int]:
        """What one or two changed knobs make of the three best configurations."""
        best = [i for i in np.argsort(history.values, kind="stable") if not history.failed[i]][:3]
        if not best:
            return []
        sizes = np.array([len(d) for d in self.space.domains.values()])
        near = np.concatenate([changed(history.rows[i], sizes, self.rng) for i in best])
        return [int(i) for i in self.space.find_rows(near) if i >= 0]

    def _find(self, trial: FrozenTrial) -> int:
        """Index of a finished trial (its parameters no longer change), or -1 for one of another space."""
        if trial.number not in self._index:
            self._index[trial.number] = self.space.find(trial.params)
        return self._index[trial.number]
