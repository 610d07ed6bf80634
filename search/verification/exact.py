"""L2 and L3: the sanitizer, and the original's bits in the exact domains, over a budget of instances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import FUEL, Finding, Mismatch, RunResult, compare
from ktc.ir.nodes import Stmt
from ktc.ir.text import print_stmt

from .instances import MAX_ELEMENTS, Instance, larger_instances, single_blocks
from .job import Job, Outcome
from .verdict import Failure

STEPS = 16_000
"""Statements of the candidate over all instances, foreseen from the original's: about a second in two domains."""

LEAST = 4
"""Instances that are run whatever they cost."""

LARGER = 8
"""How much costlier an extra instance may be than a usual one."""


@dataclass
class _Progress:
    """What the instances run so far have shown."""

    tried: list[Instance] = field(default_factory=list)
    spent: int = 0
    ratio: float = 1.0
    unreached: dict[int, Stmt] | None = None
    unsupported: dict[str, str] = field(default_factory=dict)
    larger: bool = False
    """Extra instances are being tried, as far as they are not too long for the original already."""

    def affordable(self, foreseen: int) -> bool:
        return len(self.tried) < LEAST or self.spent + foreseen * self.ratio <= STEPS

    def note(self, instance: Instance, original_steps: int, got: RunResult) -> None:
        self.tried.append(instance)
        self.spent += got.steps
        self.ratio = max(self.ratio, got.steps / max(original_steps, 1))
        missed = {id(s): s for s in got.unreached}
        known = missed if self.unreached is None else self.unreached
        self.unreached = {k: s for k, s in known.items() if k in missed}


def exact(job: Job) -> Outcome:
    """No defect in the sanitizer, and the original's bits in the exact domains, on every instance the budget allows.

    If a branch or loop of the candidate was never entered, or its grid never had a second block, a few larger instances
    are tried for their sake.
    """
    if not job.instances:
        return Outcome("unknown", "no instance satisfies the assumptions and guards within the size limit")
    progress = _Progress()
    for instance in _ordered(job, progress):
        failure = _once(job, instance, progress)
        if failure:
            return Outcome("fail", str(failure), failure)
        if len(progress.unsupported) == len(job.domains):
            return _sanitized(job, "; ".join(f"{d}: {why}" for d, why in sorted(progress.unsupported.items())))
    return Outcome("pass", _summary(job, progress))


def _ordered(job: Job, progress: _Progress) -> Iterator[Instance]:
    """The usual instances, then larger ones while code remains that none has entered, or an axis of the grid on which
    none had a second block."""
    yield from job.instances
    if progress.unreached or single_blocks(job.candidate, job.workload, progress.tried):
        for instance in larger_instances(job.original, job.candidate, job.workload, limit=LARGER * MAX_ELEMENTS):
            if not (progress.unreached or single_blocks(job.candidate, job.workload, progress.tried)):
                return
            progress.spent, progress.larger = 0, True
            yield instance


def _once(job: Job, instance: Instance, progress: _Progress) -> Failure | None:
    """One instance in every exact domain; sanitized in the first one that is supported."""
    args = job.oracle.inputs(instance.sizes, "exact")
    first = True
    for domain in job.domains:
        try:
            want = job.oracle.run(instance.sizes, domain, "exact", STEPS if progress.larger else FUEL)
            if progress.larger and any(f.kind == "fuel" for f in want.findings):
                return None
            if first and not progress.affordable(want.steps):
                return None
            got = job.run(instance, args, domain, want, sanitize=first)
        except KtcError as e:
            if e.code == "E-INTERP-TYPE":
                return Failure(e.code, e.message, dict(instance.sizes), domain, loc=str(e.loc or ""))
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            progress.unsupported[domain] = e.message
            continue
        failure = (_defect(want, got, instance, domain) if first else None) or _mismatch(
            compare(want, got, domain), instance
        )
        if failure:
            return failure
        if first:
            progress.note(instance, want.steps, got)
        first = False
    return None


def _summary(job: Job, progress: _Progress) -> str:
    largest = max(progress.tried, key=lambda i: i.cost)
    sizes = " ".join(f"{k}={v}" for k, v in largest.sizes.items())
    domains = [d for d in job.domains if d not in progress.unsupported]
    detail = f"{len(progress.tried)} instances up to {sizes}, domains {', '.join(domains)}"
    detail += "".join(f" (not {d}: {why})" for d, why in progress.unsupported.items())
    if progress.unreached:
        first = _listing(next(iter(progress.unreached.values())))
        detail += f"; {len(progress.unreached)} branches never entered, the first before '{first}'"
    return detail


def _sanitized(job: Job, why: str) -> Outcome:
    """L2 alone, on ordinary floats, for programs the exact domains cannot follow (they look at bit patterns)."""
    for instance in job.instances:
        args = job.oracle.inputs(instance.sizes, "exact")
        try:
            want = job.oracle.run(instance.sizes, "float", "exact")
            got = job.run(instance, args, "float", want, sanitize=True)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            return Outcome("unknown", e.message)
        failure = _defect(want, got, instance, "float")
        if failure:
            return Outcome("fail", str(failure), failure)
    return Outcome("pass", f"{len(job.instances)} instances without a defect, but no exact domain ({why})")


def _defect(want: RunResult, got: RunResult, instance: Instance, domain: str) -> Failure | None:
    """A sanitizer finding that the original does not share."""
    known = {(f.kind, f.buffer) for f in want.findings}
    new = next((f for f in got.findings if (f.kind, f.buffer) not in known), None)
    return from_finding(new, instance, domain) if new else None


def from_finding(f: Finding, instance: Instance, domain: str) -> Failure:
    """A sanitizer's finding as the reason why a program is wrong."""
    index = () if f.index is None else (f.index,)
    loc, stmt = str(f.loc or ""), "" if f.statement is None else _listing(f.statement)
    return Failure(f.kind, f.message, dict(instance.sizes), domain, f.buffer, index, loc=loc, statement=stmt)


def _listing(stmt: Stmt) -> str:
    return print_stmt(stmt).strip().splitlines()[0]


def _mismatch(m: Mismatch | None, instance: Instance) -> Failure | None:
    if m is None:
        return None
    message = f"wrong result: {m}"
    return Failure("mismatch", message, dict(instance.sizes), m.domain, m.buffer, m.index, str(m.expected), str(m.got))
