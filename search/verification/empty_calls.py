"""Calls in which there is none of something, for kernels from which what a draft guessed of their sizes was taken away.

A draft's ranges begin at 1 because its sizes do, and not because a caller promised anything: a launcher that is to
leave their tests out runs its kernel for sizes of 0, too, which the ladder kept away from.
"""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import compare
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.passes.lowering import materialise
from ktc.passes.raising.normalise.whole_quotients import in_integers
from ktc.search.verification.device.repeated_launches import in_step
from ktc.search.verification.instances.empty_sizes import without_any
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.instances.optional_pointers import with_optional_pointers
from ktc.search.verification.rungs.exact import defect

from .job import Job
from .oracle import oracle_for


def alike_without_any(original: Kernel, candidate: Kernel, workload: Workload, variant: str | None = None) -> bool:
    """Whether ``candidate`` does what ``original`` does wherever a size may be 0, for all that the two say."""
    try:
        candidate = in_integers(materialise(candidate))
        same = in_step(in_integers(original), candidate)
        if same is None:
            return False
        workload = with_optional_pointers(workload, same, variant, 0)
        oracle = oracle_for(same, workload, variant, 0)
        job = Job(oracle.original, candidate, oracle, [], workload)
        return all(_alike(job, instance) for instance in without_any(job))
    except KtcError:
        return False


def _alike(job: Job, instance: Instance) -> bool:
    for k, domain in enumerate(job.domains):
        try:
            want = job.oracle.run(instance.sizes, domain, "exact")
            got = job.run(instance, "exact", domain, want, sanitize=k == 0)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            continue
        if defect(want.findings, got, instance, domain) or compare(want, got, domain) is not None:
            return False
    return True


__all__ = ["alike_without_any"]
