"""Instances in which there is none of something: a size is 0.

Callers pass tensors without elements, batches without rows, and numbers of valid tokens that are 0; what then remains
(the first element that a tree would have added to, an empty maximum, a store behind a loop that never went round) shows
nowhere else. Where the source launches no block nothing may be written, whatever the candidate's own launch is.

An instance counts where nothing promises more than 0, host code comes to the launch, and the original does something
defined that leaves numbers: quotients by 0 are nobody's promise. Of the infinities that is so where nothing is divided:
the maximum of nothing is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import RunResult
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call
from ktc.ir.types import scalar_of
from ktc.ir.walk import all_exprs
from ktc.ir.workload.scenario_facts import is_launched
from ktc.search.verification.floats.accuracy import is_float

from .instances import MAX_ELEMENTS, Instance, Maker

if TYPE_CHECKING:
    from ktc.search.verification.job import Job

DIVIDING = frozenset({"rcp", "rsqrt", "div", "log", "log2", "log10", "log1p", "pow", "fmod", "atanh"})
"""Functions that make infinities of numbers, as quotients do."""


def without_any(job: Job) -> Iterator[Instance]:
    """The instances of ``job`` with one size 0 each, the others small."""
    maker = Maker((job.original, job.candidate), job.workload, MAX_ELEMENTS)
    names = [n for n in maker.names if not _is_promised(job, n)]
    few = maker.few() if names else {}
    for name in names if few else ():
        made = _made(maker, {**few, name: 0})
        if made is not None and is_launched(job.original, job.workload, made.sizes) and _leaves_numbers(job, made):
            yield made


def _is_promised(job: Job, name: str) -> bool:
    """Whether some parameter whose value is that size is promised to be 1 at least."""
    holding = {a.name for a in job.workload.args if a.role == "scalar" and a.value == name}
    return any((p.range[0] or 0) > 0 for k in (job.original, job.candidate) for p in k.params if p.sym.name in holding)


def _made(maker: Maker, sizes: dict[str, int]) -> Instance | None:
    """The instance with these sizes, where everything that is made of them has a value."""
    try:
        return maker.make(sizes)
    except KtcError:
        return None  # an extent, or the launch, divides by the size


def _leaves_numbers(job: Job, instance: Instance) -> bool:
    """Whether the original is defined there, and what it leaves are numbers."""
    try:
        if not job.oracle.has_meaning_for(instance.sizes, "exact"):
            return False
        left = job.oracle.run(instance.sizes, "float", "exact")
    except KtcError:
        return False
    return all(_are_numbers(x, job.original) for x in _floats(left))


def _floats(left: RunResult) -> Iterator[np.ndarray]:
    """What was written of the float outputs."""
    for name, x in left.outputs.items():
        if is_float(x.dtype):
            yield x[left.written[name]] if name in left.written else x


def _are_numbers(x: np.ndarray, kernel: Kernel) -> bool:
    return bool((np.isfinite(x) if _divides(kernel) else ~np.isnan(x)).all())


def _divides(kernel: Kernel) -> bool:
    """Whether ``kernel`` has a quotient of floats, or a function that is infinite somewhere."""
    return any(
        (isinstance(e, Binary) and e.op == "/" and not scalar_of(e.type).is_int)
        or (isinstance(e, Call) and e.fn in DIVIDING)
        for e in all_exprs(kernel.body)
    )


__all__ = ["without_any"]
