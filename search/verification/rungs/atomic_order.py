"""Atomics in another order: who comes first to a place, and finds what was there, is nobody's to say.

The interpreter applies the atomics that threads make at once by the threads' numbers, a device as they come. Where the
original leaves the same results in the opposite order, its callers may count on them: one warp that keeps what it
finds in order, with one atomic a round, leaves a sorted list. A candidate in which each thread has an atomic of its own
leaves it only where they happen to come in turn.
"""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import RunResult, compare, run
from ktc.ir.interp.equivalence import shows_order
from ktc.ir.kernel import Kernel
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job, Outcome

from .exact import FUEL, STEPS, endless, mismatched, told
from .scalar_values import SHARE, cheap_instances


def atomic_order(job: Job) -> Outcome:
    """The original's results where atomics come in the opposite order; ``skip`` where the candidate's atomics do not
    show in which order they came, or the original's results hang on that."""
    if not shows_order(job.candidate):
        return Outcome("skip", "no atomic shows when it came")
    domain = job.domains[0]
    chosen = cheap_instances(job, SHARE) or sorted(job.coverage.tried, key=lambda i: i.cost)[:1]
    same: list[tuple[Instance, RunResult]] = []
    try:
        for instance in chosen:
            want = job.oracle.run(instance.sizes, domain, "exact", STEPS)
            if endless(want):
                continue
            if compare(want, _backwards(job, job.original, instance, domain), domain) is not None:
                return Outcome("skip", "the original's results hang on the order of its atomics")
            same.append((instance, want))
        for instance, want in same:
            got = _backwards(job, job.candidate, instance, domain)
            if endless(got):
                return Outcome("unknown", "the candidate did not end where atomics come in another order")
            what = "wrong result where atomics come in another order"
            failure = mismatched(compare(want, got, domain), instance, what)
            if failure is not None:
                return told(failure)
    except KtcError as e:
        if e.code != "E-INTERP-UNSUPPORTED":
            raise
        return Outcome("skip", e.message)
    return Outcome("pass", "also with atomics in another order")


def _backwards(job: Job, kernel: Kernel, instance: Instance, domain: str) -> RunResult:
    args = job.oracle.inputs(instance.sizes, "exact")
    undefined = job.oracle.undefined
    return run(
        kernel, args, domain=domain, sanitize=False, fuel=FUEL, undefined=undefined, returned=job.stored, backwards=True
    )


__all__ = ["atomic_order"]
