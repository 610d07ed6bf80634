"""The rungs that run a candidate, climbed by members of its family in its place.

The candidate binds sizes for which no interpreter has the time. What its members do between them counts as done by it:
a branch that one of them entered, a condition that came out one way in one and the other way in another.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import Expr
from ktc.ir.walk import stmt_exprs, walk, walk_expr
from ktc.ir.workload import Scenario, Workload
from ktc.ir.workload.scenario_facts import scalars_of
from ktc.search.verification.instances.coverage import Coverage
from ktc.search.verification.instances.instances import (
    LARGER,
    MAX_ELEMENTS,
    Instance,
    Maker,
    axis_name,
    extents,
    instances,
)
from ktc.search.verification.job import Job, Outcome
from ktc.search.verification.rungs.exact import exact, told
from ktc.search.verification.rungs.float_rungs import float_runs, floats

from .family import Bound, Family, family_of
from .member_choice import LIMIT, Member, chosen_members
from .own_sizes import wrong_at_own_sizes
from .smaller_sizes import GRAINS

COUNT = 6
"""Instances of one member, where the candidate leaves some sizes open."""

FLOAT_LIMIT = LARGER * MAX_ELEMENTS
"""Elements and threads of the members that are run on floats: all kinds of data, several times."""


LARGE = 1_000_000
"""Elements and threads from which on a member is run in one exact domain, as the smaller ones are run in all."""

LONG = 1 / 8
"""The same by what a run takes, as a share of what it may; but for the first, such members are not run on floats."""


@dataclass
class MemberRuns:
    """The members of one candidate, ``job``, and what came of them. ``find``: finds its family, if that is not found by
    binding other sizes; ``assumed``: what is assumed by that; ``foreseen``: see :func:`.chosen_members`."""

    job: Job
    bound: Bound
    find: Callable[[], Family | str] | None = None
    assumed: str = ""
    foreseen: Callable[[Mapping[str, int]], float] | None = None
    jobs: list[Job] = field(default_factory=list)
    _ran: dict[tuple[tuple[str, int], ...], tuple[Job, Outcome]] = field(default_factory=dict)
    """Members of one size stand for themselves in every grain."""
    _made: dict[tuple[tuple[str, int], ...], Job] = field(default_factory=dict)

    def exact(self) -> Outcome:
        """As :func:`ktc.search.verification.rungs.exact.exact`, on all members. That a member fails does not say that
        the candidate is wrong: that some of its own blocks do, does."""
        found = self._members()
        wrong = wrong_at_own_sizes(self.job, self.bound.real) if found.status == "unknown" else None
        return found if wrong is None else told(wrong)

    def _members(self) -> Outcome:
        """What all members come to: pass, or unknown with the reason."""
        job = self.job
        found = self.find() if self.find is not None else None
        family = found or family_of(job.original, job.candidate, job.workload, self.bound)
        sizes = " ".join(f"{n}={v}" for n, v in self.bound.sizes.items())
        doubt = f"{sizes} is too much to run, and smaller sizes do not stand for it"
        if isinstance(family, str):
            return Outcome("unknown", f"{doubt}: {family}")
        doubts = [self._run(family, grain) for grain in GRAINS]
        if all(doubts):
            return Outcome("unknown", f"{doubt}: {doubts[0]}")
        told = "; ".join(" ".join(f"{n}={v}" for n, v in j.coverage.tried[0].sizes.items()) for j in self.jobs)
        detail = f"{len(self.jobs)} members of the candidate's family, for {told}"
        return Outcome("pass", f"{detail}, with {self.assumed}" if self.assumed else detail)

    def _run(self, family: Family, grain: int) -> str:
        """Why members of one grain do not stand for the candidate; '' if they do."""
        if self.jobs:
            return ""
        job = self.job
        members = chosen_members(family, job.original, job.workload, grain, self.foreseen)
        if isinstance(members, str):
            return members
        jobs: list[Job] = []
        self._announce(members)
        for member in members:
            made, outcome = self._exact(member)
            if outcome.status != "pass" or not made.coverage.tried:
                small = " ".join(f"{n}={v}" for n, v in member.sizes.items())
                return f"with {small}, {outcome.detail}"
            if not jobs and made.name:
                self._announce_floats(made)
            jobs.append(made)
        several = {k for made in jobs for k in _wide(made)}
        real = extents(job.candidate, scalars_of(job.workload, self.bound.real))
        for k, n in enumerate(real):
            if n > 1 and k not in several:
                return f"none of those that do has a second {axis_name(job.candidate, k)}"
        for made in jobs:
            self._learn(made)
        self.jobs = jobs
        return ""

    def _announce(self, members: list[Member]) -> None:
        """What all ``members`` will need, to processes that have nothing else to do."""
        if self.job.shared is None:
            return
        made = [job for job in map(self._job_of, members) if job.name]
        runs = [(job, i, d) for job in made for i in job.instances for d in job.domains[: 1 if job.large else None]]
        self.job.shared.later = (
            *(job.planned("original", i, d, "exact") for job, i, d in runs),
            *(job.planned("candidate", i, d, "exact", d == job.domains[0]) for job, i, d in runs),
        )

    def _announce_floats(self, first: Job) -> None:
        """What the member that has passed first will need on floats, while larger ones are being run."""
        if self.job.shared is not None and self._has_floats(first, count=0):
            with contextlib.suppress(KtcError):  # said where the runs are needed
                self.job.shared.later += tuple(float_runs(first))

    def _job_of(self, member: Member) -> Job:
        """The job of a member, made once."""
        key = tuple(member.sizes.items())
        if key not in self._made:
            self._made[key] = self._job(member)
        return self._made[key]

    def _exact(self, member: Member) -> tuple[Job, Outcome]:
        """What the rung says of a member, which does not depend on why the member was chosen."""
        key = tuple(member.sizes.items())
        if key not in self._ran:
            made = self._job_of(member)
            outcome = exact(made) if made.instances else Outcome("unknown", "no instance")
            if outcome.status == "pass" and self.find is not None:
                outcome = next((found for i in made.coverage.tried if (found := _meaningless(made, i))), outcome)
            self._ran[key] = made, outcome
        return self._ran[key]

    def floats(self) -> Outcome:
        """As the rung of that name, on the members that are small enough; the first that does not pass decides."""
        ratio, count = None, 0
        for made in self.jobs:
            if not self._has_floats(made, count):
                continue
            outcome = floats(made)
            self._learn(made)
            if outcome.status != "pass":
                return dataclasses.replace(outcome, status="unknown" if outcome.status == "fail" else outcome.status)
            count += 1
            ratio = max((r for r in (ratio, outcome.ratio) if r is not None), default=None)
        return Outcome("pass" if count else "unknown", f"{count} members of the candidate's family", ratio=ratio)

    def _job(self, member: Member) -> Job:
        """A member against the original, at the sizes that it is for."""
        job, bound = self.job, self.bound
        usual = tuple(
            Scenario(s.name, {**s.sizes, **member.sizes})
            for s in job.workload.scenarios
            if all(s.sizes[n] == v for n, v in bound.sizes.items())
        )
        workload = dataclasses.replace(job.workload, scenarios=usual)
        kernels = job.original, member.kernel
        only = set(bound.real) == set(bound.sizes)
        one = Maker(kernels, workload, 2 * LIMIT).make(member.sizes) if only else None
        chosen = self._instances(member, workload) if not only else [one] if one is not None else []
        large = any(i.cost > LARGE for i in chosen) or (self.foreseen or _nothing)(member.sizes) > LONG
        shared = job.shared
        name = shared.member(member.kernel, self.find is not None) if shared is not None else ""
        made = Job(
            job.original, member.kernel, job.oracle, chosen, workload, only=only, large=large, shared=shared, name=name,
        )  # fmt: skip
        made.theirs = job.theirs
        return made

    def _has_floats(self, made: Job, count: int) -> bool:
        """Whether a member is small enough to be run on floats, where ``count`` have been."""
        costs = max(i.cost for i in made.coverage.tried)
        return costs <= FLOAT_LIMIT and not (count and self._takes(made) > LONG)

    def _takes(self, made: Job) -> float:
        """What a run of a member takes, as a share of what it may."""
        return max((self.foreseen or _nothing)(i.sizes) for i in made.coverage.tried)

    def _instances(self, member: Member, workload: Workload) -> list[Instance]:
        for limit in (MAX_ELEMENTS, FLOAT_LIMIT, LIMIT):
            found = instances(self.job.original, member.kernel, workload, count=COUNT, limit=limit)
            if found:
                return found
        return []

    def _learn(self, made: Job) -> None:
        """What a member has exercised, the candidate has."""
        mine, theirs = self.job.coverage, made.coverage
        statements = {id(b): a for a, b in zip(walk(mine.candidate.body), walk(theirs.candidate.body), strict=True)}
        places = {id(b): id(a) for a, b in zip(_expressions(mine), _expressions(theirs), strict=True)}
        for name in ("unreached", "once"):
            missed = {id(statements[k]): statements[k] for k in getattr(theirs, name) or {}}
            known = getattr(mine, name)
            setattr(mine, name, missed if known is None else {k: s for k, s in known.items() if k in missed})
        for k, seen in theirs.outcomes.items():
            if k in places:
                mine.outcomes[places[k]] = mine.outcomes.get(places[k], 0) | seen
        mine.several |= _wide(made)


def _meaningless(job: Job, instance: Instance) -> Outcome | None:
    """That an original which nobody has written for such sizes has a defect there, which the candidate may share."""
    found = job.defects_for(instance.sizes)
    return Outcome("unknown", f"the original has a defect: {found[0].message}") if found else None


def _nothing(sizes: Mapping[str, int]) -> float:
    return 0.0


def _wide(job: Job) -> set[int]:
    """The axes along which some instance had several blocks, or threads."""
    every = (extents(job.candidate, scalars_of(job.workload, i.sizes)) for i in job.coverage.tried)
    return {k for found in every for k, n in enumerate(found) if n > 1}


def _expressions(coverage: Coverage) -> Iterator[Expr]:
    for s in walk(coverage.candidate.body):
        for e in stmt_exprs(s):
            yield from walk_expr(e)


__all__ = ["MemberRuns"]
