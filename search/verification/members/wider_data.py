"""What a candidate does only for numbers that the workload's data have not, seen with data of a wider range.

Blocks that keep the first 256 counts of a histogram in shared memory have a branch for elements beyond; where the data
are letters, that branch is never entered. Nothing in a kernel depends on how many elements a buffer has that it is not
told the number of, so the original and the candidate are compared once more with such buffers longer and with integers
beyond their range. Nor does it know how numbers that are passed hang together: that ``count`` elements are as many as
the extents of a tensor have, so that a quotient by the outermost extent is 0. They are compared with more of them, too.
Where the original has a defect then, as one has that looks the integers up in a table of its own, nothing is learnt.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.workload import ArgSpec, Workload
from ktc.ir.workload.input_data import numpy_dtype
from ktc.ir.workload.reference import names
from ktc.search.verification.instances.instances import MAX_ELEMENTS, Instance, Maker, instances
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import oracle_for
from ktc.search.verification.rungs.exact import exact

from .knob_members import learn

WIDER = 8
"""How many times as many numbers, and elements, there are."""

MORE = 2
"""How many times as many elements a kernel is told of."""

COUNT = 2
"""Instances with a wider range of numbers."""

COST = 1 << 18
"""What instances with more elements cost together (see :attr:`~.instances.Instance.cost`)."""


def learn_from_wider_data(job: Job, missing: Callable[[Job], str]) -> bool:
    """Adds to what ``job`` has exercised what the candidate exercises with data of a wider range, if it does what the
    original does there: whether it does. ``missing`` is for those that look for what has not been exercised."""
    found = False
    for wider, chosen in ((_wider(job.workload), _few), (_more(job.workload), _as_tried)):
        if wider is not None and missing(job):
            found |= _learn(job, wider, chosen)
    return found


def _learn(job: Job, wider: Workload, chosen: Callable[[Job, Kernel, Workload], list[Instance]]) -> bool:
    """Whether the candidate does what the original does with the data of ``wider`` in the ``chosen`` instances: adds
    what it exercises then."""
    oracle = oracle_for(job.original, wider, job.oracle.variant, job.oracle.seed)
    oracle.shared = None
    tried = chosen(job, oracle.original, wider)
    made = Job(oracle.original, job.candidate, oracle, tried, wider, only=True)
    if not tried or exact(made).status != "pass" or not made.coverage.tried:
        return False
    learn(job, [made])
    return True


def _few(job: Job, original: Kernel, wider: Workload) -> list[Instance]:
    """A few instances of ``wider``."""
    return instances(original, job.candidate, wider, count=COUNT)


def _as_tried(job: Job, original: Kernel, wider: Workload) -> list[Instance]:
    """Instances of ``wider`` of the sizes that ``job`` has tried, the cheapest first: what is missing may be missing in
    several branches, which other sizes lead to."""
    maker = Maker((original, job.candidate), wider, MAX_ELEMENTS)
    made = (maker.make(i.sizes) for i in job.coverage.tried)
    found = sorted((i for i in made if i is not None), key=lambda i: i.cost)
    costs = itertools.accumulate(i.cost for i in found)
    return [i for i, cost in zip(found, costs) if cost <= COST]


def _wider(workload: Workload) -> Workload | None:
    """The workload with more numbers in its integer arrays, and longer buffers; None if it has no array of integers
    between two numbers."""
    ranged = [a.name for a in workload.args if _between_numbers(a)]
    args = tuple(_ranged(a) if a.name in ranged else _longer(a) for a in workload.args)
    return replace(workload, args=args) if ranged and args != workload.args else None


def _more(workload: Workload) -> Workload | None:
    """The workload with numbers that are computed from several sizes twice as large, and all buffers as much longer;
    None if there is no such number."""
    computed = {a.name for a in workload.args if a.role == "scalar" and _is_product(a.value)}
    args = tuple(
        replace(a, value=f"{MORE} * ({a.value})") if a.name in computed else _times_as_long(a) for a in workload.args
    )
    return replace(workload, args=args) if computed else None


def _is_product(value: object) -> bool:
    """Whether a number is one of several sizes, as the elements of all rows are."""
    return isinstance(value, str) and "*" in value and len(names(value)) > 1


def _times_as_long(a: ArgSpec) -> ArgSpec:
    """A buffer with more elements."""
    if not a.shape or a.values:
        return a
    return replace(a, shape=(f"{MORE} * ({a.shape[0]})", *a.shape[1:]))


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
