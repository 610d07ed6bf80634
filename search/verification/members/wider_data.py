"""What a candidate does only for numbers that the workload's data have not, seen with data of a wider range.

Blocks that keep the first 256 counts of a histogram in shared memory have a branch for elements beyond; where the data
are letters, that branch is never entered. Nothing in a kernel depends on how many elements a buffer has that it is not
told the number of, so the original and the candidate are compared once more with such buffers longer and with integers
beyond their range. Where the original has a defect then, as one has that looks the integers up in a table of its own,
nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ktc.ir.workload import ArgSpec, Workload
from ktc.ir.workload.input_data import numpy_dtype
from ktc.search.verification.instances.instances import instances
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import oracle_for
from ktc.search.verification.rungs.exact import exact

from .knob_members import learn

WIDER = 8
"""How many times as many numbers, and elements, there are."""

COUNT = 2
"""Instances."""


def learn_from_wider_data(job: Job, missing: Callable[[Job], str]) -> bool:
    """Adds to what ``job`` has exercised what the candidate exercises with data of a wider range, if it does what the
    original does there: whether it does. ``missing`` is for those that look for what has not been exercised."""
    wider = _wider(job.workload)
    if wider is None:
        return False
    oracle = oracle_for(job.original, wider, job.oracle.variant, job.oracle.seed)
    oracle.shared = None
    chosen = instances(oracle.original, job.candidate, wider, count=COUNT)
    made = Job(oracle.original, job.candidate, oracle, chosen, wider, only=True)
    if not chosen or exact(made).status != "pass" or not made.coverage.tried:
        return False
    learn(job, [made])
    return True


def _wider(workload: Workload) -> Workload | None:
    """The workload with more numbers in its integer arrays, and longer buffers; None if it has no array of integers
    between two numbers."""
    ranged = [a.name for a in workload.args if _between_numbers(a)]
    args = tuple(_ranged(a) if a.name in ranged else _longer(a) for a in workload.args)
    return replace(workload, args=args) if ranged and args != workload.args else None


def _between_numbers(a: ArgSpec) -> bool:
    """Whether an array holds integers between two numbers that no size gives."""
    whole = a.range is not None and all(isinstance(v, int) for v in a.range)
    return bool(whole and a.shape and a.role in ("in", "inout") and not a.values and a.dtype[0] in "iu")


def _ranged(a: ArgSpec) -> ArgSpec:
    """Those integers up to a larger one, as far as their type has it."""
    assert a.range is not None
    low, high = a.range
    most = int(np.iinfo(numpy_dtype(a.dtype)).max)
    return replace(a, range=(low, min(low + WIDER * (high - low + 1) - 1, most)))


def _longer(a: ArgSpec) -> ArgSpec:
    """A buffer of a number of elements that no size gives, with more of them."""
    if len(a.shape) != 1 or not a.shape[0].isdigit() or a.values:
        return a
    return replace(a, shape=(str(WIDER * int(a.shape[0])),))


__all__ = ["learn_from_wider_data"]
