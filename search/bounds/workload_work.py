"""The work of a workload's launch: what its source touches and computes on the arguments that are measured with."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.passes.core.base import Refused, Step
from ktc.passes.core.pipeline import apply_step

from .compulsory_work import Work, compulsory_work
from .operations import fewest

SECTOR = 32
"""Bytes that a GPU's memory moves at least (CUDA C++ Best Practices Guide, coalesced access); less than a line of any
CPU's."""


def work_of(
    workload: Workload, sizes: Mapping[str, int], kernel: Kernel, variant: str | None = None, seed: int = 0
) -> Work:
    """The work of one launch of ``kernel``, the source, on ``workload``'s arguments at ``sizes``.

    It is counted on the source and on its parallel form, where it has one: neither counts too many bytes, so the larger
    figure holds; operations that only one of them needs are not needed.
    """

    @functools.cache
    def contents(name: str) -> np.ndarray | None:
        spec = next((a for a in workload.args if a.name == name), None)
        if spec is None or spec.role not in ("in", "inout"):
            return None
        return np.ravel(workload.make_input(spec, sizes, variant, seed))

    outputs = frozenset(a.name for a in workload.args if a.role == "out")
    scalars = workload.scalars(sizes)
    raised = apply_step(kernel, Step("raise"))
    forms = (kernel,) if isinstance(raised, Refused) else (kernel, raised.kernel)
    return _best([compulsory_work(k, scalars, contents, outputs, SECTOR) for k in forms])


def _best(found: list[Work]) -> Work:
    """What all of ``found`` say together, of one launch."""
    whole = [w for w in found if w.whole] or found
    return replace(
        whole[0],
        bytes_in=max(w.bytes_in for w in found),
        bytes_out=max(w.bytes_out for w in found),
        operations=functools.reduce(fewest, (w.operations for w in whole)),
    )
