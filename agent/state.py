"""The state of one ``optimize`` run: what was proposed, verified, measured and rejected so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import While
from ktc.ir.support.quantities import duration
from ktc.ir.walk import walk
from ktc.ir.workload import Scenario, Workload
from ktc.search.limiters.limiter import Profile
from ktc.search.space.knob_space import completed
from ktc.search.verification import Verdict

from .build import Builder, Candidate
from .failures import INTERNAL, Failed, FailureGroup, grouped
from .lab import Lab, Tuned
from .leaders import Leaders
from .memory import Memory
from .planner import Outcome, Planner, Proposal
from .scripts import approximates, built_on, steps_of
from .stopping import Stopping
from .verdicts import Case, Verdicts

Progress = Callable[[Mapping[str, object]], None]
"""Called with ``{"event": ..., "elapsed": s, ...}``; see :func:`ktc.agent.optimize.optimize` for the events."""

LONG_S = 1.0
"""A launch that takes so long costs more than what it may tell, where something faster is there already."""

HOPELESS = 20.0
"""What is expected to take so many times what the fastest takes has no chance: expectations are right to their order of
magnitude."""

RAISED = Proposal("raise", "")
"""The parallel form, as every planner's scripts begin with it."""

FINALISTS = 3
"""Configurations per scenario that meet the original in the shoot-out."""

AT_ONCE = 3
"""Verdicts that are open at a time: processes without one of their own assist the oldest, so that a few come soon
instead of many late."""

LEADERS_MORE = 2
"""Open besides, for what became the fastest meanwhile: it does not wait behind what it has beaten."""

CONTENDERS = 16
"""Configurations per template and scenario that may become finalists, when faster ones fail the gate at the end."""

WRONG = ("wrong", "crash", "hang")
"""Statuses of a configuration that point at a bug in a pass, not at a limit of the device."""


@dataclass(frozen=True)
class Finalist:
    """A measured configuration: ``seconds`` on the scenario it is a finalist of, with their 95 % ``interval``."""

    candidate: Candidate
    knobs: Mapping[str, int]
    seconds: float
    interval: tuple[float, float] | None = None


def is_of_results(rejected: Mapping[str, object]) -> bool:
    """Whether a configuration was rejected for what it computes, not for how it ended."""
    return not str(rejected["verdict"]).startswith(("crash", "hang"))


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
    begun: set[str] = field(default_factory=set)  # scenarios whose first idea is being compiled and verified
    stopping: dict[str, Stopping] = field(default_factory=dict)
    first_improvement: float = 0.0  # seconds from the start to the first verified one; 0: there is none
    verdicts: Verdicts = field(init=False)
    _withdrawn: dict[str, str] = field(default_factory=dict)  # candidate key -> its script where it is wrong, else ''
    _released: set[str] = field(default_factory=set)  # candidate keys for which nothing else is waited for
    leaders: Leaders = field(init=False)
    _tainted: bool = False
    _profiles: dict[tuple[str, str, str], Profile | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.verdicts = Verdicts(self.lab, self.tell, self.hear)
        self.lab.between = self.hear
        self.leaders = Leaders(self.tell)

    def why_stop(self, scenario: Scenario) -> str:
        """Why nothing new is begun for ``scenario``; '' while there is no reason. A time that leaves nothing to gain is
        one only once it is verified: that is waited for."""
        stopping = self.stopping.get(scenario.name, Stopping())
        while (f := self._unverified_leader(scenario)) is not None and stopping.is_near(f.seconds):
            case = self.verdicts.begin(f.candidate, f.knobs)
            self.verdicts.wait(case, stopping.seconds_left)
            self.hear()
            if case.verdict is None or self._open_parents(f.candidate):
                break
        known = (f for f in self.finalists.get(scenario.name, ()) if not f.candidate.script or self.is_verified(f))
        return stopping.why(min((f.seconds for f in known), default=math.inf))

    def deadline(self, scenario: Scenario) -> float:
        """When the time for ``scenario`` is over, as :func:`time.monotonic` says it; infinite without a limit."""
        return self.stopping.get(scenario.name, Stopping()).deadline

    def is_late(self, scenario: Scenario) -> bool:
        """Whether the time for ``scenario`` is over."""
        return self.deadline(scenario) <= time.monotonic()

    @property
    def seconds_left(self) -> float:
        """Until the time limit of the run is over; below zero once it is."""
        return self.started + self.time_limit - time.monotonic()

    def patience(self, scenario: Scenario, times: float = 1.0) -> float:
        """Seconds left for verdicts on what was measured: ``times`` the time limit, counted from its end."""
        return max(0.0, self.deadline(scenario) + times * self.time_limit - time.monotonic())

    def _unverified_leader(self, scenario: Scenario) -> Finalist | None:
        leader = min(self.finalists.get(scenario.name, ()), key=lambda f: f.seconds, default=None)
        return leader if leader is not None and leader.candidate.script and not self.is_verified(leader) else None

    def tell(self, event: str, **data: object) -> None:
        self.progress({"event": event, "elapsed": time.monotonic() - self.started, **data})

    def raise_kernel(self) -> None:
        """The parallel form, for facts and sites; what it assumes, or that there is none, is a note and no error."""
        built = self.builder.build(RAISED)
        self.notes += self.builder.start_notes
        if isinstance(built, Outcome):
            self.notes.append(f"not raised: {built.detail} [{built.code}]")
        else:
            self.raised = built.kernel
            self.notes += [n for n in built.notes if n.startswith("assumed: ")]

    def settle(self, c: Candidate, status: str, why: str = "", at: str = "", **data: object) -> None:
        """Record what became of a candidate on scenario ``at`` ('': on all)."""
        p = c.proposal or Proposal(c.script, "")
        said = {"planner": p.planner, "reason": p.reason, "predicted": p.predicted}
        o = Outcome(c.script, status, why, scenario=at, **said, **data)  # type: ignore[arg-type]
        self.outcomes[at, c.script] = o

    def reject(self, c: Candidate, knobs: Mapping[str, int], why: str, at: str = "") -> None:
        """A wrong candidate: kept, reported, never a winner."""
        row = {"script": c.script, "knobs": dict(knobs), "verdict": why, "scenario": at}
        if row not in self.rejected:
            self.rejected.append(row)
            self.tell("rejected", script=c.script, knobs=dict(knobs), why=why, scenario=at)

    # -------------------------------------------------------------------------------------------------- verification

    def hear(self) -> None:
        """Take the verdicts that came, then ask for those of the fastest configurations that have none."""
        busy = True
        while busy:
            settled = self.verdicts.settled()
            for case in settled:
                self._settled(case)
            leader = self._next_to_verify()
            if leader is not None:
                self.verdicts.begin(leader.candidate, leader.knobs)
            busy = bool(settled) or leader is not None
        self.tell_leaders()

    def foresee(self, c: Candidate, knobs: Mapping[str, int]) -> None:
        """Ask for the verdict on what is going to be measured, where nobody has anything else to verify."""
        if self.lab.gates and not self.verdicts.running and not self.verdicts.asked(c):
            self.verdicts.begin(c, knobs)

    def _next_to_verify(self) -> Finalist | None:
        """Whose verdict to ask for, if another may be open: the fastest configuration of all, then that of each
        template that was not asked about. Where verdicts are waited for, only the fastest, and that once a template."""
        gates = max(1, self.lab.gates)
        for original, *rest in reversed(self.finalists.values()):
            faster = [f for f in rest if f.seconds < original.seconds]
            for f in faster if self.lab.gates else faster[:1]:
                leads = f is faster[0]
                if self.verdicts.running >= min(gates, AT_ONCE + LEADERS_MORE * leads):
                    break
                if not self.verdicts.asked(f.candidate):
                    return f
                again = leads and self.lab.gates and self.verdicts.trusts(f.candidate)
                if again and self.verdicts.of(f.candidate, f.knobs) is None:
                    return f
        return None

    def _settled(self, case: Case) -> None:
        """What follows from a verdict: a configuration that is not accepted is out. So is its template, unless that is
        accepted at its default knobs."""
        verdict, c = case.verdict, case.candidate
        if verdict is None or verdict.ok:
            return
        self.reject(c, case.knobs, str(verdict))
        for at, (original, *rest) in self.finalists.items():
            others = [f for f in rest if f.candidate.key != c.key or f.knobs != case.knobs]
            if len(others) < len(rest):
                self.finalists[at] = [original, *others]
                self._settle_tuned(c, at)
        default = completed(c.kernel, {})
        if verdict.status == "REJECTED" and case.judged == case.knobs != default:
            self.verdicts.begin(c, default)
        else:
            self._withdraw(c, verdict)
        self._tainted |= self.measured > 0 and verdict.status == "REJECTED"

    def _settle_tuned(self, c: Candidate, at: str) -> None:
        """Record the fastest configuration that ``c`` has left on scenario ``at``."""
        original, *rest = self.finalists[at]
        left = next((f for f in rest if f.candidate.key == c.key), None)
        if left is None:
            self.settle(c, "rejected", "no configuration was accepted", at)
        else:
            gain = original.seconds / left.seconds
            self.settle(c, "tuned", duration(left.seconds), at, gain=gain, knobs=dict(left.knobs))

    def _withdraw(self, c: Candidate, verdict: Verdict) -> None:
        """Take a template back, and what was built on it if it is wrong: they are no finalists, and no planner sees
        their times."""
        self._withdrawn[c.key] = c.script if verdict.status == "REJECTED" else ""
        for (at, script), o in list(self.outcomes.items()):
            if at and script == c.script:
                del self.outcomes[at, script]
            elif o.status == "tuned" and self._built_on_wrong(script):
                why = f"built on what was rejected: {c.label}"
                self.outcomes[at, script] = replace(o, status="withdrawn", detail=why, gain=None, knobs={})
        self.settle(c, "rejected", str(verdict), code=f"V-{verdict.status}")
        for at, (original, *rest) in self.finalists.items():
            self.finalists[at] = [original, *(f for f in rest if not self.is_withdrawn(f.candidate))]

    def is_withdrawn(self, c: Candidate) -> bool:
        """Whether ``c`` is out for good."""
        return c.key in self._withdrawn or self._built_on_wrong(c.script)

    def _built_on_wrong(self, script: str) -> bool:
        return any(built_on(script, wrong) for wrong in self._withdrawn.values() if wrong)

    def why_futile(self, c: Candidate) -> str:
        """Why ``c`` is not worth measuring: its last step approximates functions, and made another script wrong that is
        right without it. '' where nothing says so."""
        last = steps_of(c.script)[-1:]
        if not last or not approximates(last[0]):
            return ""
        right = {steps_of(script) for (at, script), o in self.outcomes.items() if at and o.status == "tuned"}
        wrong = {str(r["script"]): steps_of(str(r["script"])) for r in self.rejected if is_of_results(r)}
        for script, steps in wrong.items():
            if steps[-1:] == last and steps[:-1] in right and script != c.script:
                return f"its last step made a script wrong that is right without it: {script}"
        return ""

    def why_hopeless(self, p: Proposal, scenario: Scenario) -> str:
        """Why ``p`` is not worth measuring on ``scenario``: its launches would be long, and what is there is far faster
        than what its planner expects of it. '' where nothing says so."""
        original, *rest = self.finalists[scenario.name]
        best = min((f.seconds for f in rest), default=math.inf)
        expected = original.seconds / p.predicted if p.predicted else 0.0
        if expected < LONG_S or expected < HOPELESS * best:
            return ""
        return f"expected to take {duration(expected)}, where {duration(best)} was measured"

    def is_verified(self, f: Finalist) -> bool:
        """Whether the ladder accepted this very configuration (see :mod:`.verdicts`), and nothing below is on trial."""
        case = self.verdicts.of(f.candidate, f.knobs)
        return case is not None and case.accepted and not self._open_parents(f.candidate)

    def is_decided(self, f: Finalist, seconds: float) -> bool:
        """Whether the ladder has said whether it accepts this very configuration, and all that it was built on that was
        asked about, after ``seconds`` at most."""
        until = time.monotonic() + seconds
        case = self.verdicts.begin(f.candidate, f.knobs)
        for asked in (case, *self._open_parents(f.candidate)):
            self.verdicts.wait(asked, max(0.0, until - time.monotonic()))
        self.hear()
        return self.was_decided(f)

    def was_decided(self, f: Finalist) -> bool:
        """Whether that is known by now."""
        case = self.verdicts.of(f.candidate, f.knobs)
        return case is not None and case.verdict is not None and not self._open_parents(f.candidate)

    def stands_alone(self, f: Finalist) -> bool:
        """Whether the ladder accepted this very configuration, whatever it will say of what that is built on."""
        case = self.verdicts.of(f.candidate, f.knobs)
        return case is not None and case.accepted and not self.is_withdrawn(f.candidate)

    def release(self, c: Candidate) -> None:
        """Wait no longer for verdicts on what ``c`` is built on: its own says that it is right."""
        self._released.add(c.key)

    def _open_parents(self, c: Candidate) -> list[Case]:
        if c.key in self._released:
            return []
        return self.verdicts.on_trial(lambda parent: built_on(c.script, parent.script))

    def may_be_measured(self, c: Candidate, seconds: float) -> bool:
        """Whether ``c`` ends on every input, as far as its loops show; else the ladder has to accept it first, within
        ``seconds``."""
        if not any(isinstance(s, While) for s in walk(c.kernel.body)):
            return True
        return bool(self.gate_final(c, completed(c.kernel, {}), seconds))

    def gate_final(self, c: Candidate, knobs: Mapping[str, int], seconds: float) -> str:
        """The ladder at the very knobs that would win: what to say of it, '' when it does not accept them within
        ``seconds``. What they were built on, and is on trial, is waited for."""
        until = time.monotonic() + seconds
        case = self.verdicts.begin(c, knobs)
        open_ = [case]
        while open_:
            for each in open_:
                self.verdicts.wait(each, until - time.monotonic())
            self.hear()
            open_ = [*([case] if case.verdict is None else []), *self._open_parents(c)]
            if open_ and time.monotonic() > until:
                return ""
        if not case.accepted:  # then nothing of its template is tried before that is accepted
            self.verdicts.wait(self.verdicts.begin(c, completed(c.kernel, {})), until - time.monotonic())
            self.hear()
        return case.status if case.accepted and not self.is_withdrawn(c) else ""

    def clean_device(self) -> None:
        """Measure in a fresh process, if a kernel that turned out wrong ran in this one."""
        if self._tainted:
            self.lab.renew()
        self._tainted = False

    def tell_leaders(self) -> None:
        """Say what is the fastest verified configuration of each scenario, where that has changed."""
        for at, (original, *rest) in self.finalists.items():
            best = next((f for f in rest if self.is_verified(f) and not self._why_out(f)), None)
            if self.leaders.update(at, original, best, self._why_out):
                self.first_improvement = self.first_improvement or time.monotonic() - self.started

    def _why_out(self, f: Finalist) -> str:
        """Why a configuration can win no more; '' where it can."""
        for row in self.rejected:
            if row["script"] == f.candidate.script and row["knobs"] == dict(f.knobs):
                return str(row["verdict"])
        if not self.is_withdrawn(f.candidate):
            return ""
        wrong = (w for w in self._withdrawn.values() if w and built_on(f.candidate.script, w))
        return next((f"built on what was rejected: {w}" for w in wrong), "its template was rejected")

    # -------------------------------------------------------------------------------------------------- measurements

    def profile(self, f: Finalist, scenario: Scenario) -> Profile | None:
        """What limits ``f`` on ``scenario``, looked at once; None where that is not known."""
        key = (scenario.name, f.candidate.key, repr(sorted(f.knobs.items())))
        if key not in self._profiles:
            found = self.lab.profile(f.candidate, f.knobs, scenario, f.seconds)
            self._profiles[key] = found
            if found is not None:
                said = {"limiters": found.lines(), "numbers": dict(found.numbers)}
                self.tell("profile", scenario=scenario.name, script=f.candidate.script, **said)
        return self._profiles[key]

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
        intervals = {tuple(t.config.items()): t.outcome.interval.get(at) for t in tuned.trials}
        rejected = [r["knobs"] for r in self.rejected if r["script"] == c.script]
        mine = [Finalist(c, k, t, intervals.get(tuple(k.items()))) for k, t in tuned.ranked[:CONTENDERS]]
        mine = [] if self.is_withdrawn(c) else [f for f in mine if dict(f.knobs) not in rejected]
        lead = [{"knobs": dict(f.knobs), "seconds": f.seconds, "interval": f.interval} for f in mine[:1]]
        said = {"spent": self.spent, "budget": self.budget, "best": best, "original": base, "trials": tuned.trials}
        new = grouped(self.failed[at, c.key][before:])
        self.tell("tune", scenario=at, script=c.script, failures=new, leader=lead[0] if lead else None, **said)
        if self.is_withdrawn(c):
            return
        if best is None:
            _, status, detail = tuned.failures[0] if tuned.failures else ({}, "", tuned.why_empty)
            self.settle(c, "failed" if tuned.failures else "infeasible", f"{status} {detail}".strip(), at)
            return
        others = [f for f in self.finalists[at][1:] if f.candidate.key != c.key]
        self.finalists[at][1:] = sorted(others + mine, key=lambda f: f.seconds)
        self._settle_tuned(c, at)
        self.hear()

    def admit(self, f: Finalist, scenario: Scenario) -> None:
        """Book a verified configuration that no planner proposed: a finalist like any other."""
        at = scenario.name
        original, *rest = self.finalists[at]
        self.finalists[at] = [original, *sorted([*rest, f], key=lambda x: x.seconds)]
        self._settle_tuned(f.candidate, at)

    def failures(self) -> tuple[FailureGroup, ...]:
        """What was tried and not timed, by cause; scripts that a pass failed on are among them."""
        broken = [Failed(at, o.script, {}, INTERNAL, o.detail) for (at, _), o in self.outcomes.items() if _broken(o)]
        return grouped([*(f for fs in self.failed.values() for f in fs), *broken])


def _broken(o: Outcome) -> bool:
    """Whether a pass itself failed on a script: its configurations were never tried."""
    return o.status == "failed" and o.code == "E-PASS-BUG"
