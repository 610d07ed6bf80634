"""Pointers that a kernel asks about, and a workload is silent about: they are null in some instances, so that what the
kernel does without them is checked as well.

Only where the original means something without them, and the workload's reference does not need them.
"""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.kernel import Kernel
from ktc.ir.null_pointers import known_nulls, pointers_asked_about
from ktc.ir.support.memo import by_identity
from ktc.ir.workload import Workload
from ktc.ir.workload.reference import names
from ktc.search.verification.oracle import oracle_for

from .instances import instances

PERIODS = (3, 2, 5, 7)
"""One in so many sums of sizes is that of an instance without the first pointer, the second, and so on: numbers
without a common divisor, so that any two are missing together, and each without the other. A quotient of the sum says
so of the fifth."""

TRIED = 12
"""Instances among which are some without the pointer, to see whether the original can do without it."""


@by_identity(8, subjects=2)
def with_optional_pointers(workload: Workload, original: Kernel, variant: str | None, seed: int) -> Workload:
    """``workload``, in which each pointer that ``original`` may do without is null at some sizes."""
    known = known_nulls(original)
    asked = {s.name for s in pointers_asked_about(original) if s not in known}
    needed = {n for _, text in workload.formulas for n in names(text)}
    silent = [a.name for a in workload.args if a.name in asked - needed and a.null is None and a.role != "scalar"]
    for k, name in enumerate(silent):
        changed = _without(workload, name, k)
        if changed is not None and _means_something(original, changed, name, variant, seed):
            workload = changed
    return workload


def _without(workload: Workload, name: str, k: int) -> Workload | None:
    """``workload`` with the argument ``name``, the ``k``-th of its kind, null at one in :data:`PERIODS` sums of its
    sizes."""
    sizes = sorted({n for s in workload.scenarios for n in s.sizes})
    if not sizes:
        return None
    turn, which = divmod(k, len(PERIODS))
    period = PERIODS[which]
    rule = f"({' + '.join(sizes)}) // {1 + 3 * turn} % {period} == {which % period}"
    args = tuple(replace(a, null=rule) if a.name == name else a for a in workload.args)
    return replace(workload, args=args)


def _means_something(original: Kernel, workload: Workload, name: str, variant: str | None, seed: int) -> bool:
    spec = next(a for a in workload.args if a.name == name)
    oracle = oracle_for(original, workload, variant, seed)
    without = [i for i in instances(original, original, workload, count=TRIED) if spec.is_null(i.sizes)]
    return bool(without) and all(oracle.has_meaning_for(i.sizes, "plain") for i in without)


__all__ = ["with_optional_pointers"]
