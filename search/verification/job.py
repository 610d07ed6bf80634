"""One candidate against its original, as the layers see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ktc.ir.interp import FUEL, Finding, Kept, RunResult, run
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.search.verification.instances.coverage import Coverage
from ktc.search.verification.instances.instances import Instance

from .oracle import Oracle
from .verdict import Failure


@dataclass(frozen=True)
class Outcome:
    """pass | fail | skip | unknown, with one line, and the failure of a ``fail``.

    ``ratio``: the largest error observed, as a share of what its bound allows; None where bits had to be equal.
    """

    status: str
    detail: str
    failure: Failure | None = None
    ratio: float | None = None


@dataclass
class Job:
    """``steps`` holds, for the instances that ended so far, how many statements the candidate executed.

    ``kept`` is its working memory in each domain: launch after launch finds it as the one before left it, whatever
    that one's sizes were, as it does on a device. ``unsure``: a branch or guard has come out one way only where the
    sanitizer looked, so it looks at the other runs as well. ``only``: the candidate runs for no other instances.
    ``large``: these are so large that one domain has to do.
    """

    original: Kernel
    candidate: Kernel
    oracle: Oracle
    instances: list[Instance]
    workload: Workload
    domains: tuple[str, ...] = ("int", "field")
    steps: dict[int, int] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    unsure: bool = False
    only: bool = False
    large: bool = False
    coverage: Coverage = field(init=False)

    theirs: Coverage = field(init=False)

    @property
    def remembers(self) -> bool:
        """Whether a launch of the candidate finds what the one before left."""
        return any(p.scratch is not None for p in self.candidate.params)

    def __post_init__(self) -> None:
        self.coverage = Coverage(self.candidate, self.workload)
        self.theirs = Coverage(self.original, self.workload, self.coverage.tried)

    def run(
        self,
        instance: Instance,
        args: Mapping[str, Any],
        domain: str,
        want: RunResult,
        *,
        sanitize: bool = False,
        known: Collection[Finding] = (),
        most: int | None = None,
    ) -> RunResult:
        """The candidate in one domain; endless if it takes a hundred times the original's statements, and many, and
        twice what it took for these sizes before, or ``most``. Under the sanitizer, up to the first defect that the
        original has not (``known``: its defects, where ``want`` was not sanitized). What a run that did not end has
        exercised does not count: nothing says that it was right."""
        endless = any(f.kind == "fuel" for f in want.findings)
        before = self.steps.get(id(instance), 0)
        fuel = most or (FUEL // 15 if endless else max(FUEL // 5, 100 * want.steps, 2 * before))
        undefined = self.oracle.undefined
        shared = {(f.kind, f.buffer) for f in (*want.findings, *known)}
        result = run(
            self.candidate,
            args,
            domain=domain,
            sanitize=sanitize,
            fuel=fuel,
            undefined=undefined,
            fatal=(lambda f: (f.kind, f.buffer) not in shared) if sanitize else None,
            kept=self.kept.setdefault(domain, {}),
        )
        if not any(f.kind == "fuel" for f in result.findings):
            self.steps[id(instance)] = result.steps
            self.coverage.note(None, result)
            self.theirs.note(None, want)
        return result
