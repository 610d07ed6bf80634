"""The state of one ``optimize`` run: what was proposed, verified, measured and rejected so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, bind
from ktc.ir.workload import Scenario, Workload
from ktc.search.space.knob_space import completed
from ktc.search.verification import Verdict

from .build import Builder, Candidate
from .failures import INTERNAL, Failed, FailureGroup, grouped
from .lab import Lab, Tuned
from .memory import Memory
from .planner import Outcome, Planner, Proposal
from .stopping import Stopping

Progress = Callable[[Mapping[str, object]], None]
"""Called with ``{"event": ..., "elapsed": s, ...}``; see :func:`ktc.agent.optimize.optimize` for the events."""

FINALISTS = 3
"""Configurations per scenario that meet the original in the shoot-out."""

CONTENDERS = 16
"""Configurations per template and scenario that may become finalists, when faster ones fail the gate at the end."""

WRONG = ("wrong", "crash", "hang")
"""Statuses of a configuration that point at a bug in a pass, not at a limit of the device."""


@dataclass(frozen=True)
class Finalist:
    """A measured configuration: ``seconds`` on the scenario it is a finalist of."""

    candidate: Candidate
    knobs: Mapping[str, int]
    seconds: float


@dataclass
class Run:
    """Everything the steps of a run share. ``outcomes`` is keyed by (scenario, script), scenario '' for all of them."""

    work: Workload
    original: Kernel
    lab: Lab
    planner: Planner
    budget: int
    progress: Progress
    memory: Memory | None
    builder: Builder
    time_limit: float = math.inf
    started: float = field(default_factory=time.monotonic)
    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    finalists: dict[str, list[Finalist]] = field(default_factory=dict)  # the original first, then by time
    totals: dict[tuple[str, str], int] = field(default_factory=dict)  # (scenario, candidate key) -> measurements
    rejected: list[Mapping[str, object]] = field(default_factory=list)
    history: list[Mapping[str, object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    spent: int = 0  # measurements that count against the budget, recalled ones included
    measured: int = 0  # those made by this process, failures included
    failed: dict[tuple[str, str], tuple[Failed, ...]] = field(default_factory=dict)  # as totals: what was not timed
    failed_now: int = 0  # those of them that this process tried
    raised: Kernel | None = None
    stopping: dict[str, Stopping] = field(default_factory=dict)
    _gated: dict[str, Verdict] = field(default_factory=dict)

    def why_stop(self, scenario: Scenario) -> str:
        """Why nothing new is begun for ``scenario``; '' while there is no reason."""
        best = min((f.seconds for f in self.finalists.get(scenario.name, ())), default=math.inf)
        return self.stopping.get(scenario.name, Stopping()).why(best)

    def tell(self, event: str, **data: object) -> None:
        self.progress({"event": event, "elapsed": time.monotonic() - self.started, **data})

    def raise_kernel(self) -> None:
        """The parallel form, for facts and sites; what it assumes, or that there is none, is a note and no error."""
        built = self.builder.build(Proposal("raise", ""))
        if isinstance(built, Outcome):
            self.notes.append(f"not raised: {built.detail} [{built.code}]")
        else:
            self.raised = built.kernel
            self.notes += [n for n in built.notes if n.startswith("assumed: ")]

    def settle(self, c: Candidate, status: str, why: str = "", at: str = "", **data: object) -> None:
        """Record what became of a candidate on scenario ``at`` ('': on all)."""
        p = c.proposal or Proposal(c.script, "")
        o = Outcome(c.script, status, why, planner=p.planner, reason=p.reason, **data)  # type: ignore[arg-type]
        self.outcomes[at, c.script] = o

    def reject(self, c: Candidate, knobs: Mapping[str, int], why: str, at: str = "") -> None:
        """A wrong candidate: kept, reported, never a winner."""
        row = {"script": c.script, "knobs": dict(knobs), "verdict": why, "scenario": at}
        if row not in self.rejected:
            self.rejected.append(row)
            self.tell("rejected", script=c.script, knobs=dict(knobs), why=why, scenario=at)

    def gate_template(self, c: Candidate) -> Verdict:
        """The ladder on a template: at its default knobs (or feasible ones near them) or, where those need more than
        the interpreter can follow, at its smallest ones."""
        verdict = self._gate(c, completed(c.kernel, {}))
        smallest = {k.name: k.value if k.value is not None else min(k.domain) for k in c.kernel.knobs if k.domain}
        if verdict.status == "UNKNOWN" and smallest and feasible(c.kernel, smallest):
            verdict = self._gate(c, smallest)
        if not verdict.ok:
            self.reject(c, {}, str(verdict))
        return verdict

    def gate_final(self, c: Candidate, knobs: Mapping[str, int]) -> str:
        """The ladder at the very knobs that would win; '' when it is wrong, else what to say of it.

        A configuration too large for the interpreter is accepted on the template's verdict at other knobs together with
        the device's, which the duel asks for at the full sizes: the answer says so.
        """
        verdict = self._gate(c, knobs)
        if verdict.status == "UNKNOWN":
            return "TESTED at smaller knobs, and on the device" if self.gate_template(c).ok else ""
        if not verdict.ok:
            self.reject(c, knobs, str(verdict))
        return verdict.status if verdict.ok else ""

    def _gate(self, c: Candidate, knobs: Mapping[str, int]) -> Verdict:
        key = c.key + repr(sorted(knobs.items()))
        if key not in self._gated:
            self.tell("verify", script=c.script, knobs=dict(knobs))
            self._gated[key] = verdict = self.lab.gate(bind(c.kernel, knobs) if knobs else c.kernel)
            self.tell("verified", script=c.script, knobs=dict(knobs), status=verdict.status, seconds=verdict.seconds)
        return self._gated[key]

    def account(self, c: Candidate, scenario: Scenario, tuned: Tuned) -> None:
        """Book the measurements of one tuning step and its best configurations."""
        at = scenario.name
        self.spent += tuned.spent - self.totals.get((at, c.key), 0)
        self.totals[at, c.key] = tuned.spent
        self.measured += tuned.fresh
        before = len(self.failed.get((at, c.key), ()))
        self.failed[at, c.key] = tuple(Failed(at, c.script, dict(k), status, why) for k, status, why in tuned.failures)
        self.failed_now += min(tuned.fresh, len(tuned.failures) - before)
        for knobs, status, detail in tuned.failures:
            if status in WRONG:
                self.reject(c, knobs, f"{status}: {detail}", at)
        best = tuned.ranked[0][1] if tuned.ranked else None
        self.history.append({"scenario": at, "script": c.script, "spent": self.spent, "best": best})
        base = self.finalists[at][0].seconds
        said = {"spent": self.spent, "budget": self.budget, "best": best, "original": base, "trials": tuned.trials}
        new = grouped(self.failed[at, c.key][before:])
        self.tell("tune", scenario=at, script=c.script, failures=new, **said)
        if best is None:
            _, status, detail = tuned.failures[0] if tuned.failures else ({}, "", tuned.why_empty)
            self.settle(c, "failed" if tuned.failures else "infeasible", f"{status} {detail}".strip(), at)
            return
        knobs = dict(tuned.ranked[0][0])
        self.settle(c, "tuned", f"{best * 1e6:.4g} µs", at, gain=base / best, knobs=knobs)
        others = [f for f in self.finalists[at][1:] if f.candidate.key != c.key]
        mine = [Finalist(c, k, t) for k, t in tuned.ranked[:CONTENDERS]]
        self.finalists[at][1:] = sorted(others + mine, key=lambda f: f.seconds)

    def failures(self) -> tuple[FailureGroup, ...]:
        """What was tried and not timed, by cause; scripts that a pass failed on are among them."""
        broken = [Failed(at, o.script, {}, INTERNAL, o.detail) for (at, _), o in self.outcomes.items() if _broken(o)]
        return grouped([*(f for fs in self.failed.values() for f in fs), *broken])


def _broken(o: Outcome) -> bool:
    """Whether a pass itself failed on a script: its configurations were never tried."""
    return o.status == "failed" and o.code == "E-PASS-BUG"


def feasible(kernel: Kernel, knobs: Mapping[str, int]) -> bool:
    """Whether ``knobs`` satisfy the kernel's own constraints (unknown ones count as satisfied)."""
    return all(evaluate(c, knobs) in (None, True, 1) for c in kernel.constraints)
