"""The loop behind :func:`ktc.search.tuning.tune.tune`: propose, claim, evaluate, record, tell."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.search.records.ledger import Claim, Ledger, StudyKey, config_key
from ktc.search.records.outcome import TRANSIENT, Outcome, objective
from ktc.search.space.knob_space import Config, Space

from .progress import Event, Progress
from .result import Budget, Evaluate, Shootout, Trial, TuneResult
from .study import Proposal, StudyView

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

_NEAR_BEST = 1.10
"""Configurations within 10 % of the best enter the shoot-out: measurements drift by 1 to 3 % between windows."""

_ATTEMPTS = 3
"""Times a configuration is tried when the device, not the configuration, is at fault."""


@dataclass
class _Flight:
    """A claimed configuration on its way to the evaluator."""

    proposal: Proposal
    claim: Claim
    future: Future[Outcome] | None = None


class Tuner:
    """The state of one run. ``start``, ``loop`` and ``finish``, in this order."""

    def __init__(
        self,
        evaluate: Evaluate,
        space: Space,
        budget: Budget,
        sampler: str | BaseSampler,
        ledger: Ledger,
        key: StudyKey,
        seed: int,
        weights: Mapping[str, float] | None,
        progress: Progress,
    ) -> None:
        self.evaluate, self.space, self.budget, self.ledger = evaluate, space, budget, ledger
        self.weights, self.progress = weights, progress
        self.view = StudyView(space, sampler, seed, budget.configs)
        self.study = ledger.study(key)
        self.polish, self.ahead, self.workers = 0, 0, 1
        self.prepare: Callable[[Config], object] | None = None
        self.trials: dict[int, Trial] = {}
        self.best: Trial | None = None
        self.resumed = 0
        self._seeds: deque[int] = deque()
        self._flights: deque[_Flight] = deque()
        self._attempts: Counter[int] = Counter()
        self._last_id = 0
        self._deadline = time.monotonic() + budget.seconds
        self._polishing = False

    # ------------------------------------------------------------------------------------------------------ the stages

    def start(self, seeds: list[Config]) -> None:
        """Read what is in the ledger, and queue the seeds that are feasible."""
        self._absorb()
        self.resumed = len(self.trials)
        feasible = [i for s in seeds if (i := self.space.find(s)) >= 0]
        self._seeds.extend(dict.fromkeys(feasible))
        dropped = len(seeds) - len(feasible)
        self._report("start", note=f"{dropped} infeasible seeds left out" if dropped else "")

    def loop(self) -> None:
        """Measure until the budget is spent or nothing is left."""
        pool = ThreadPoolExecutor(self.workers, "ktc-evaluate") if self.workers > 1 else None
        try:
            while self._refill(pool):
                flight = self._next()
                incumbent = self.best.outcome.seconds if self.best else None
                config = flight.proposal.config
                if not flight.future and not self.ledger.renew(flight.claim):  # waited for its turn until it expired
                    self._flights.remove(flight)
                    self.view.drop(flight.proposal, again=False)
                    continue
                outcome = flight.future.result() if flight.future else self.evaluate(config, incumbent)
                self._flights.remove(flight)
                self._land(flight, outcome)
        finally:
            if pool:
                pool.shutdown(wait=True, cancel_futures=True)
            for flight in self._flights:
                self.ledger.release(flight.claim)

    def finish(self, template: Kernel | None, shootout: Shootout | None, finalists: int) -> TuneResult:
        """Rank the best configurations, in a shoot-out if there is one."""
        ranking = self._finalists(finalists)
        if shootout and len(ranking) > 1:
            self._report("shootout", note=f"{len(ranking)} finalists")
            ranking = self._shoot(ranking, shootout) or ranking
        best = ranking[0] if ranking else None
        kernel = bind(template, best.config) if template is not None and best else None
        self._report("done", best)
        trials = tuple(self.trials.values())
        return TuneResult(best, tuple(ranking), trials, self.resumed, self.space.size, kernel, self._failures())

    # -------------------------------------------------------------------------------------------------- configurations

    def _refill(self, pool: ThreadPoolExecutor | None) -> bool:
        """Claim configurations until enough are in flight; whether any is."""
        while len(self._flights) < self.workers + self.ahead:
            self._absorb()
            over = len(self.trials) + len(self._flights) >= self.budget.configs or time.monotonic() > self._deadline
            proposal = None if over else self._propose()
            if proposal is None:
                if not over and self._free_abandoned():
                    continue
                break
            claim = self.ledger.claim(self.study, proposal.config)
            if claim is None:  # another process is faster: stays taken, and is absorbed when it is done
                self.view.drop(proposal, again=False)
                continue
            flight = _Flight(proposal, claim)
            self._flights.append(flight)
            if self.prepare:
                self.prepare(proposal.config)
            if pool:
                incumbent = self.best.outcome.seconds if self.best else None
                flight.future = pool.submit(self.evaluate, proposal.config, incumbent)
        return bool(self._flights)

    def _propose(self) -> Proposal | None:
        while self._seeds:
            index = self._seeds.popleft()
            if index not in self.view.taken:
                return self.view.take(index)
        if self.best and len(self.trials) + len(self._flights) >= self.budget.configs - self.polish:
            for config in self.space.neighbours(self.best.config):
                if (index := self.space.find(config)) not in self.view.taken:
                    if not self._polishing:
                        self._polishing = True
                        self._report("polish")
                    return self.view.take(index)
        return self.view.ask()

    def _free_abandoned(self) -> bool:
        """Make configurations available again whose owner, another process, vanished without a result."""
        held = {self.space.find(c) for c in self.ledger.claimed(self.study)} | {f.proposal.index for f in self._flights}
        abandoned = self.view.taken - self.trials.keys() - held
        self.view.taken -= abandoned
        return bool(abandoned)

    def _next(self) -> _Flight:
        futures = [f.future for f in self._flights if f.future]
        if not futures:
            return self._flights[0]
        done = wait(futures, return_when=FIRST_COMPLETED).done
        return next(f for f in self._flights if f.future in done)

    def _land(self, flight: _Flight, outcome: Outcome) -> None:
        index = flight.proposal.index
        if outcome.status in TRANSIENT:
            self.ledger.release(flight.claim)
            self.view.drop(flight.proposal, again=True)
            self._attempts[index] += 1
            if self._attempts[index] >= _ATTEMPTS:
                why = str(outcome.details.get("error", "no details"))
                raise KtcError(
                    "E-DEVICE-LOST",
                    f"the device failed {_ATTEMPTS} times on {flight.proposal.config}: {why}",
                    hint="what was measured is kept: run the same command again, or choose another --device",
                    exit_code=3,
                )
            self._seeds.appendleft(index)
        elif self.ledger.record(flight.claim, outcome):
            self._enter(index, outcome, flight.proposal)
        else:  # the lease expired and another process owns the configuration now
            self.view.drop(flight.proposal, again=False)

    def _absorb(self) -> None:
        """Take over what other processes, and earlier runs, have recorded."""
        for row in self.ledger.outcomes(self.study, after=self._last_id):
            self._last_id = row.id
            index = self.space.find(row.config)
            if index >= 0 and index not in self.trials:
                self._enter(index, row.outcome, None)

    def _enter(self, index: int, outcome: Outcome, proposal: Proposal | None) -> None:
        value = objective(outcome, self.weights, self.best.outcome.seconds if self.best else None)
        trial = Trial(self.space.config(index), outcome, value)
        self.trials[index] = trial
        self.view.tell(proposal or Proposal(index, trial.config), value)
        better = value is not None and not outcome.early and (self.best is None or value < (self.best.objective or 0))
        if better:
            self.best = trial
        if proposal:
            self._report("improved" if better else "measured", trial)

    # ------------------------------------------------------------------------------------------------------- finalists

    def _finalists(self, n: int) -> list[Trial]:
        if self.best is None or self.best.objective is None:
            return []
        bound = self.best.objective * _NEAR_BEST
        near = [t for t in self.trials.values() if t.objective is not None and t.objective <= bound]
        return sorted((t for t in near if not t.outcome.early), key=lambda t: t.objective or math.inf)[:n]

    def _shoot(self, finalists: list[Trial], shootout: Shootout) -> list[Trial]:
        """The finalists ranked by the shoot-out: the recorded one, when these very finalists have met before."""
        names = "\n".join(sorted(config_key(t.config) for t in finalists))
        round_ = "shootout-" + hashlib.sha256(names.encode()).hexdigest()[:16]
        rows = self.ledger.outcomes(self.study, round_=round_)
        if rows:
            met = [(r.config, r.outcome) for r in rows]
        else:
            outcomes = shootout([t.config for t in finalists])
            met = [(t.config, o) for t, o in zip(finalists, outcomes, strict=True) if o.ok]
            self.ledger.record_round(self.study, round_, met)
        ranked = [Trial(self.space.canonical(c), o, objective(o, self.weights)) for c, o in met]
        return sorted((t for t in ranked if t.objective is not None), key=lambda t: t.objective or math.inf)

    # --------------------------------------------------------------------------------------------------------- reports

    def _failures(self) -> dict[str, int]:
        return dict(Counter(t.outcome.status for t in self.trials.values() if not t.outcome.ok))

    def _report(self, kind: str, trial: Trial | None = None, note: str = "") -> None:
        best = self.best.objective if self.best else None
        event = Event(kind, len(self.trials), self.budget.configs, best=best, failures=self._failures(), note=note)
        if trial:
            event = replace(event, config=trial.config, outcome=trial.outcome, objective=trial.objective)
        self.progress(event)
