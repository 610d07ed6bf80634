"""Special values in the rung of floats: infinities, NaN, zeros with a sign, subnormals, the largest numbers there are.

Wherever the original has an answer on them the candidate has to have the same one
(:func:`ktc.search.verification.floats.special_values.unlike`). A workload may exclude some, and a fast approximation
gives some up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

from ktc.ir.interp import RunResult
from ktc.ir.interp.equivalence import bits_differ
from ktc.search.verification.floats.accuracy import is_float
from ktc.search.verification.floats.any_answer import answers_of
from ktc.search.verification.floats.any_order import overflows
from ktc.search.verification.floats.special_inputs import draws, kinds_of, rounds_to_integers
from ktc.search.verification.floats.special_values import SpecialRows, unlike
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job, Planned
from ktc.search.verification.verdict import Failure

from .exact import defect, endless, stopped


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


def special_runs(job: Job, chosen: list[Instance]) -> Iterator[Planned]:
    """What :func:`special_failure` asks for; where sums may come in another order, error bounds are likely to be."""
    runs = list(_runs(job, chosen, kinds_for(job)))
    yield from (job.planned("candidate", i, "float", data) for i, data in runs)
    for i, data in runs if "reassociates" in job.candidate.flags else ():
        yield job.planned("alone", i, "bound", data)
        yield job.planned("original", i, "float64", data)


def kinds_for(job: Job) -> tuple[str, ...]:
    """The special values that the workload does not exclude, and no approximation of the two programs gives up."""
    return kinds_of((job.original, job.candidate), job.workload)


def _runs(job: Job, chosen: list[Instance], kinds: tuple[str, ...]) -> Iterator[tuple[Instance, SpecialRows]]:
    for instance in chosen:
        yield from ((instance, data) for data in draws(job.oracle.specialised(instance.sizes), kinds))


def _failure(job: Job, instance: Instance, data: SpecialRows) -> Failure | None:
    oracle, sizes = job.oracle, instance.sizes
    want = oracle.run(sizes, "float", data)
    if endless(want):
        return None
    got = job.run(instance, data, "float", want)
    if endless(got):
        return defect(want.findings, got, instance, "float")
    if (wrong := stopped(want, got, instance, "float")) is not None:
        where = f"for special values ({', '.join(data.kinds)}) in rows"
        return dataclasses.replace(wrong, message=f"{wrong.message} {where}")
    integers = not rounds_to_integers(job.original)
    alone = cache(partial(job.alone, instance, data))
    for name, x in want.outputs.items():
        h, stored = got.outputs[name], want.written.get(name, np.ones(x.shape, bool))
        if is_float(x.dtype):
            exact, bound = partial(_exact, job, instance, data, name), partial(_bound, alone, name)
            wide = partial(_wide, alone, name) if "reassociates" in job.candidate.flags else None
            differs = unlike(x, h, exact, bound, wide, answers_of(job.original, job.candidate))
            if differs.any():
                differs &= ~_decided_by_order(job, instance, data, name, x)
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


def _wide(alone: Callable[[str], RunResult], name: str) -> np.ndarray:
    """What the candidate, run ``alone`` in a domain, computes in double."""
    return alone("float64").outputs[name]


def _decided_by_order(job: Job, instance: Instance, data: SpecialRows, name: str, x: np.ndarray) -> np.ndarray:
    """Where atomics of the original come to another infinity, or to NaN, in another order, which nobody promises."""
    inputs = job.oracle.inputs(instance.sizes, data)
    return overflows(job.original, inputs).get(name, np.zeros(x.shape, bool))


def _bound(alone: Callable[[str], RunResult], name: str) -> np.ndarray:
    """How far rounding may take the candidate, run ``alone`` in a domain."""
    return np.imag(alone("bound").outputs[name])
