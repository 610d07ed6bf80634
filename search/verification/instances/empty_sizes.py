"""Instances in which there is none of something: sizes of 0 that no array and no launch is made of.

How many tokens are valid, how many steps there have been: a caller may pass 0, and what then remains (the first element
that a tree would have added to, an empty maximum) shows nowhere else. An instance counts where the original does
something defined and all that it leaves are numbers: quotients by 0 are nobody's promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.sequences import launch_extents
from ktc.ir.walk import used
from ktc.ir.workload import reference

from .instances import MAX_ELEMENTS, Instance, Maker

if TYPE_CHECKING:
    from ktc.search.verification.job import Job


def without_any(job: Job) -> Iterator[Instance]:
    """The instances of ``job`` with one size 0 each, the others small."""
    maker = Maker((job.original, job.candidate), job.workload, MAX_ELEMENTS)
    names = [n for n in _counts(job) if (maker.promised_least(n) or 0) <= 0]
    few = maker.few() if names else {}
    for name in names if few else ():
        made = maker.make({**few, name: 0})
        if made is not None and _leaves_numbers(job, made):
            yield made


def _counts(job: Job) -> list[str]:
    """The sizes that are the values of scalars, and no part of a shape, of another formula or of a launch."""
    args = job.workload.args
    formulas = [
        *(t for a in args for t in a.shape),
        *(x for a in args for x in (*(a.range or ()), *a.values) if isinstance(x, str)),
        *(a.value for a in args if isinstance(a.value, str) and not a.value.isidentifier()),
    ]
    launched = {s.name for k in (job.original, job.candidate) for e in launch_extents(k) for s in used(e)}
    elsewhere = {n for text in formulas for n in reference.names(text)} | launched
    elsewhere |= {a.value for a in args if a.name in launched and isinstance(a.value, str)}
    values = {a.value for a in args if a.role == "scalar"}
    sizes = job.workload.scenarios[0].sizes if job.workload.scenarios else {}
    return [n for n in sizes if n in values and n not in elsewhere]


def _leaves_numbers(job: Job, instance: Instance) -> bool:
    """Whether the original is defined there, and leaves finite numbers alone."""
    try:
        if not job.oracle.has_meaning_for(instance.sizes, "exact"):
            return False
        outputs = job.oracle.run(instance.sizes, "float", "exact").outputs
    except KtcError:
        return False
    return all(np.isfinite(x).all() for x in outputs.values() if x.dtype.kind == "f")


__all__ = ["without_any"]
