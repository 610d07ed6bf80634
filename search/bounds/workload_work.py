"""The work of a workload's launch: what its source touches and computes on the arguments that are measured with."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.null_pointers import with_decided
from ktc.ir.workload import Workload
from ktc.passes.core.base import Refused, Step
from ktc.passes.core.pipeline import apply_step
from ktc.passes.shared.array_elements import with_elements_apart

from .compulsory_work import Work, compulsory_work
from .operations import most

SECTOR = 32
"""Bytes that a GPU's memory moves at least (CUDA C++ Best Practices Guide, coalesced access); less than a line of any
CPU's."""

MOST_ELEMENTS = 1 << 26
"""Elements of a buffer whose contents are looked at: making those of a larger one takes seconds."""


def work_of(
    workload: Workload, sizes: Mapping[str, int], kernel: Kernel, variant: str | None = None, seed: int = 0
) -> Work:
    """The work of one launch of ``kernel``, the source, on ``workload``'s arguments at ``sizes``.

    It is counted on the parallel form, where the source has one; where that is not counted to its end, with elements of
    private arrays as variables, and on the source too: none counts too much, so the larger figures hold.
    """

    @functools.cache
    def contents(name: str) -> np.ndarray | None:
        spec = next((a for a in workload.args if a.name == name), None)
        if spec is None or spec.role not in ("in", "inout") or extents.get(name, 0) > MOST_ELEMENTS:
            return None
        return np.ravel(workload.make_input(spec, sizes, variant, seed))

    extents = workload.extents(sizes)
    outputs = frozenset(a.name for a in workload.args if a.role == "out")
    scalars = workload.scalars(sizes)
    nulls = {a.name: a.is_null(sizes) for a in workload.args if a.role != "scalar"}
    raised = apply_step(kernel, Step("raise"))
    found: list[Work] = []
    for form in _forms(kernel, None if isinstance(raised, Refused) else raised.kernel):
        known = {p.sym: nulls[p.sym.name] for p in form.params if p.sym.name in nulls}
        called = form.with_(body=with_decided(form.body, known))
        found.append(compulsory_work(called, scalars, contents, outputs, SECTOR))
        if found[-1].whole:
            return found[-1]
    return _best(found)


def _forms(kernel: Kernel, raised: Kernel | None) -> Iterator[Kernel]:
    if raised is not None:
        yield raised
        apart = with_elements_apart(raised)
        if apart is not raised:
            yield apart
    yield kernel


def _best(found: list[Work]) -> Work:
    """What all of ``found``, each of them a part of one launch's work, say together."""
    operations = functools.reduce(most, (w.operations for w in found))
    return Work(max(w.bytes_in for w in found), max(w.bytes_out for w in found), operations, whole=False)
