"""Special values in the rung of floats: infinities, NaN, zeros with a sign, subnormals, the largest numbers there are.

Wherever the original has an answer on them the candidate has to have the same one
(:func:`ktc.search.verification.floats.special_values.unlike`). A workload may exclude some, and a fast approximation
gives some up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ktc.ir.interp import run
from ktc.ir.interp.equivalence import bits_differ
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Call, Cast
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs
from ktc.passes.scalar.fast_math import FAST, GIVES_UP
from ktc.search.verification.floats.accuracy import is_float
from ktc.search.verification.floats.special_values import VALUES, SpecialRows, unlike
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job
from ktc.search.verification.verdict import Failure

from .exact import defect, endless

DRAWS = 5
"""Inputs with special values that an instance is run on, at most: few rows take several."""

ALONE = 3
"""Of an instance with several float inputs: so many of them have special values alone, the others none."""


def special_failure(job: Job, chosen: list[Instance]) -> Failure | None:
    """The first element for which the candidate has another answer than the original on special values."""
    kinds = kinds_for(job)
    if not kinds:
        return None
    for instance, data in _runs(job, chosen, kinds):
        failure = _failure(job, instance, data)
        if failure:
            return failure
    return None


def kinds_for(job: Job) -> tuple[str, ...]:
    """The special values that the workload does not exclude, and no approximation of the two programs gives up."""
    called = {e.fn for k in (job.original, job.candidate) for e in all_exprs(k.body) if isinstance(e, Call)}
    lost = {kind for name, fn in FAST.items() if fn in called for kind in GIVES_UP[name]}
    return tuple(k for k in VALUES if k in job.workload.special and k not in lost)


def _runs(job: Job, chosen: list[Instance], kinds: tuple[str, ...]) -> Iterator[tuple[Instance, SpecialRows]]:
    for instance in chosen:
        inputs = job.oracle.specialised(instance.sizes)
        if not inputs:
            continue
        rows = max(max(1, x.size // max(1, x.shape[-1])) for x in inputs.values())
        turns = len(SpecialRows(kinds).turns())
        a_draw = max(1, rows // 2)
        for k in range(min(DRAWS, -(-turns // a_draw))):
            yield instance, SpecialRows(kinds, k * a_draw)
        alone = list(inputs)[:ALONE] if len(inputs) > 1 else []
        yield from ((instance, SpecialRows(kinds, 2 * k, name)) for k, name in enumerate(alone))


def _failure(job: Job, instance: Instance, data: SpecialRows) -> Failure | None:
    oracle, sizes = job.oracle, instance.sizes
    want = oracle.run(sizes, "float", data)
    if endless(want):
        return None
    inputs = oracle.inputs(sizes, data)
    got = job.run(instance, inputs, "float", want)
    if endless(got):
        return defect(want.findings, got, instance, "float")
    integers = not _rounds_to_integers(job.original)
    for name, x in want.outputs.items():
        h, stored = got.outputs[name], want.written.get(name, np.ones(x.shape, bool))
        if is_float(x.dtype):
            exact, bound = partial(_exact, job, instance, data, name), partial(_bound, job, instance, data, name)
            differs = unlike(x, h, exact, bound)
        else:
            differs = bits_differ(x, h) & integers
        differs = differs & stored
        if differs.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
            a, b = str(x[at]), str(h[at])
            where = f"for special values ({', '.join(data.kinds)}) in rows" + (f" of {data.only}" if data.only else "")
            return Failure(
                "mismatch", f"{name}{list(at)} is {b}, expected {a} {where}", dict(sizes), "float", name, at, a, b
            )
    return None


def _exact(job: Job, instance: Instance, data: SpecialRows, name: str) -> np.ndarray:
    """What the original computes in real arithmetic."""
    return job.oracle.run(instance.sizes, "float64", data).outputs[name]


def _bound(job: Job, instance: Instance, data: SpecialRows, name: str) -> np.ndarray:
    """How far rounding may take the candidate."""
    inputs = job.oracle.inputs(instance.sizes, data)
    bounds = run(job.candidate, inputs, domain="bound", sanitize=False, undefined=job.oracle.undefined)
    return np.imag(bounds.outputs[name])


def _rounds_to_integers(kernel: Kernel) -> bool:
    """Whether floats become integers, which has no meaning for infinities and NaN."""
    return any(
        isinstance(e, Cast) and isinstance(e.to, Scalar) and isinstance(e.x.type, Scalar) and e.to.is_int
        and e.x.type.is_float
        for e in all_exprs(kernel.body)
    )  # fmt: skip
