"""What the verification ladder says of a run's configurations: asked for while others are measured.

A configuration that the ladder cannot decide (too large for the interpreter) is judged by its template: at its default
knobs, or near them, and where those need too much as well, at its smallest ones. What the device says at full size is
then the rest of the evidence; :attr:`Case.status` says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.support.memo import by_identity
from ktc.search.space.knob_space import completed
from ktc.search.verification import Verdict
from ktc.search.workers.worker_process import LISTENS_S

from .build import Candidate
from .gate import bound
from .lab import Lab
from .limits import portable_block

Knobs = Mapping[str, int]


@dataclass
class Case:
    """One configuration on trial. ``open``: the knobs at which it is judged next if those before decide nothing."""

    candidate: Candidate
    knobs: Knobs
    open: list[Knobs]
    coming: Future[Verdict]
    judged: Knobs  # the knobs that ``coming`` is about
    verdict: Verdict | None = None  # once it is settled

    @property
    def accepted(self) -> bool:
        return self.verdict is not None and self.verdict.ok

    @property
    def status(self) -> str:
        """What a report says of an accepted configuration."""
        assert self.verdict is not None
        return self.verdict.status if self.judged == self.knobs else "TESTED at smaller knobs, and on the device"


@dataclass
class Verdicts:
    """Each configuration is asked about once. ``tell`` hears when a check begins and when it ends; ``meanwhile`` is
    called when another answer came than the one that is waited for."""

    lab: Lab
    tell: Callable[..., None]
    meanwhile: Callable[[], object] = lambda: None
    _cases: dict[str, Case] = field(default_factory=dict)
    _asked: dict[str, Future[Verdict]] = field(default_factory=dict)
    _heard: set[str] = field(default_factory=set)  # questions whose answer was told
    _told: set[str] = field(default_factory=set)  # cases whose verdict was given out

    @property
    def running(self) -> int:
        """Configurations without a verdict yet."""
        return sum(case.verdict is None for case in self._cases.values())

    def of(self, c: Candidate, knobs: Knobs) -> Case | None:
        """The case of a configuration that was asked about."""
        return self._cases.get(_name(c, knobs))

    def asked(self, c: Candidate) -> bool:
        """Whether any configuration of ``c`` was asked about."""
        return any(case.candidate.key == c.key for case in self._cases.values())

    def trusts(self, c: Candidate) -> bool:
        """Whether a configuration of ``c`` was accepted: of the others there is no reason to expect less."""
        return any(case.accepted and case.candidate.key == c.key for case in self._cases.values())

    def on_trial(self, which: Callable[[Candidate], bool]) -> list[Case]:
        """Cases of ``which`` candidates that have no verdict yet."""
        return [case for case in self._cases.values() if case.verdict is None and which(case.candidate)]

    def begin(self, c: Candidate, knobs: Knobs) -> Case:
        """Ask about a configuration, unless that was done."""
        name = _name(c, knobs)
        if name not in self._cases:
            limited = launchable(c.kernel)
            default = completed(limited, {})
            smallest = {k.name: k.value if k.value is not None else min(k.domain) for k in c.kernel.knobs if k.domain}
            others = [default, *([smallest] if smallest and feasible(limited, smallest) else [])]
            distinct = {_name(c, k): k for k in others}
            distinct.pop(name, None)
            self._cases[name] = Case(c, knobs, list(distinct.values()), self._ask(c, knobs), knobs)
        return self._cases[name]

    def settled(self) -> list[Case]:
        """Those that got their verdict since this was asked last."""
        for case in self._cases.values():
            while case.verdict is None and case.coming.done():
                self._take(case)
        new = {name: case for name, case in self._cases.items() if case.verdict is not None and name not in self._told}
        self._told |= new.keys()
        return list(new.values())

    def wait(self, case: Case, seconds: float = math.inf) -> None:
        """Wait for the verdict of ``case``, for ``seconds`` at most. What comes meanwhile is not kept waiting."""
        until = time.monotonic() + seconds
        while case.verdict is None:
            left = until - time.monotonic()
            try:
                case.coming.result(max(0.0, min(left, LISTENS_S)))
            except TimeoutError:
                if any(c.verdict is None and c.coming.done() for c in self._cases.values()):
                    self.meanwhile()
                if left <= 0:
                    return
            else:
                self._take(case)

    def _take(self, case: Case) -> None:
        """The answer that came for ``case``: its verdict, or the next question."""
        c, found = case.candidate, case.coming.result()
        if (name := _name(c, case.judged)) not in self._heard:
            self._heard.add(name)
            rungs = [
                {"name": r.name, "status": r.status, "detail": r.detail, "seconds": round(r.seconds, 3)}
                for r in found.rungs
            ]
            told = {"status": found.status, "reason": found.reason, "seconds": found.seconds, "rungs": rungs}
            self.tell("verified", script=c.script, knobs=case.judged, **told)
        if found.status == "UNKNOWN" and case.open:
            case.judged = case.open.pop(0)
            case.coming = self._ask(c, case.judged)
        else:
            case.verdict = found

    def _ask(self, c: Candidate, knobs: Knobs) -> Future[Verdict]:
        name = _name(c, knobs)
        if name not in self._asked:
            self.tell("verify", script=c.script, knobs=knobs)
            self._asked[name] = self.lab.gate(bound(c.kernel, knobs) if knobs else c.kernel)
        return self._asked[name]


def _name(c: Candidate, knobs: Knobs) -> str:
    return c.key + repr(sorted(knobs.items()))


@by_identity(64)
def launchable(kernel: Kernel) -> Kernel:
    """``kernel`` with one constraint more: knobs give a block no more threads than there may be, as each does alone."""
    from ktc.passes.lowering import materialise

    return kernel.with_(constraints=(*kernel.constraints, *portable_block(materialise(kernel))))


def feasible(kernel: Kernel, knobs: Knobs) -> bool:
    """Whether ``knobs`` satisfy the kernel's own constraints (unknown ones count as satisfied)."""
    return all(evaluate(c, knobs) in (None, True, 1) for c in kernel.constraints)


__all__ = ["Case", "Verdicts", "feasible"]
