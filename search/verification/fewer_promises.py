"""Calls that nothing rules out any more once what a draft guessed of the sizes is taken away from two kernels.

A draft's ranges begin at 1 because its sizes do, and end where its indices still fit, and its divisors are those of its
sizes; no caller promised anything. A launcher that is to leave their tests out runs its kernel for sizes of 0, too, for
those between the multiples, and for all that the types hold; the ladder was kept away from all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import compare
from ktc.ir.kernel import Kernel
from ktc.ir.types import Scalar
from ktc.ir.workload import Workload
from ktc.passes.lowering import materialise
from ktc.passes.raising.normalise.whole_quotients import in_integers
from ktc.search.verification.device.repeated_launches import in_step
from ktc.search.verification.instances.empty_sizes import without_any
from ktc.search.verification.instances.instances import MAX_ELEMENTS, Instance, instances
from ktc.search.verification.instances.optional_pointers import with_optional_pointers
from ktc.search.verification.integers.intervals import Interval
from ktc.search.verification.integers.ranges import Wrap, wraps
from ktc.search.verification.integers.statement_context import stays_in_type
from ktc.search.verification.rungs.exact import defect

from .job import Job
from .oracle import oracle_for

BELOW = (28, 24, 20, 16, 12, 8, 0)
"""How far below the largest number of their type sizes are tried, as powers of two: as far as tiles and strides go."""

USUAL = 6
"""Instances of usual sizes, multiples of nothing, that the two are compared on."""

SMALL = MAX_ELEMENTS // 4
"""What one of them costs, where there are so many that cost no more."""

PRODUCTS = (1 << 15, 46_340, 1 << 20)
"""Sizes beside them: where the product of two still is, or is just not, an integer of 32 bits."""


def alike_with_less(original: Kernel, candidate: Kernel, workload: Workload, variant: str | None = None) -> bool:
    """Whether ``candidate`` does what ``original`` does for all sizes that the two allow, as far as that can be told:
    at some that either takes, where a size is 0, and where one is so large that indices may leave their types."""
    try:
        candidate = in_integers(materialise(candidate))
        same = in_step(in_integers(original), candidate)
        if same is None or not _stays_as_long_in_its_types(same, candidate, workload):
            return False
        workload = with_optional_pointers(workload, same, variant, 0)
        oracle = oracle_for(same, workload, variant, 0)
        job = Job(oracle.original, candidate, oracle, [], workload)
        return all(_alike(job, instance) for instance in chain(without_any(job), _usual(job)))
    except KtcError:
        return False


def _usual(job: Job) -> Iterator[Instance]:
    """Instances of usual sizes, small ones where there are as many: what a multiple is of something shows in them, and
    the ladder has been through larger ones. Sizes of 0 tell more often, and sooner."""
    small = instances(job.original, job.candidate, job.workload, count=USUAL, limit=SMALL)
    enough = len(small) >= USUAL
    yield from small if enough else instances(job.original, job.candidate, job.workload, count=USUAL)


def _stays_as_long_in_its_types(original: Kernel, candidate: Kernel, workload: Workload) -> bool:
    """Whether no arithmetic of ``candidate`` may leave its type at sizes at which none of ``original`` does. Of sizes
    that are given in other ways than as a number nothing is known."""
    spans = {p.sym.name: p.range for p in candidate.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
    known: dict[str, tuple[int, int]] = {}
    for a in workload.args:
        if a.name in spans and isinstance(a.range, tuple) and all(isinstance(v, int) for v in a.range):
            known[a.name] = (int(a.range[0]), int(a.range[1]))
    types = {p.sym.name: p.sym.type for p in candidate.params}
    largest = {n: types[n].extremes[1] for n in known if spans[n][1] is None}  # type: ignore[attr-defined]
    for high in sorted({most - (1 << k) + 1 for most in largest.values() for k in BELOW} | {*PRODUCTS}):
        names: dict[str, Interval] = {}
        for n, (low, most) in known.items():
            names[n] = (low, max(most, min(high, largest[n])) if n in largest else most)
        open_ = wraps(candidate, names)
        if open_ and not wraps(original, names) and not _kept_by_guards(candidate, open_, names):
            return False
    return True


def _kept_by_guards(kernel: Kernel, open_: list[Wrap], names: dict[str, Interval]) -> bool:
    """Whether what intervals leave open is ruled out by all that ``kernel`` tests, its launcher's guards included."""
    return all(stays_in_type(kernel, w.stmt, w.expr, names) for w in open_)


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


__all__ = ["alike_with_less"]
