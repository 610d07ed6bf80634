"""Peaks where some load of the candidate does not look.

Which element of a row is the largest decides what a maximum is, and nothing else of the others. Who leaves elements out
is right until one of them stands out; with rows as long as it takes to go round a loop twice there are too many of them
for each to have its turn. So the candidate is asked which elements each of its loads reads. What is left of an array
that a load reads most of may have been forgotten: those elements stand out then, upwards and downwards. Where another
load reads them, as behind whole tiles or whole rounds, results are the same.

What is looked for shows grossly: other rungs say how exact results are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ktc.ir.interp import run
from ktc.search.verification.floats.accuracy import is_float
from ktc.search.verification.floats.agreement import misplaced_special, scale_of
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import PEAK, Inputs
from ktc.search.verification.verdict import Failure

MOST = 0.5
"""The share of an array that a load reads, at least, for what is left of it to be looked at."""

GROSS = 2.0**-5
"""How far a result may be off, of itself and of the root mean square of its array together."""

LOADS = 4
"""Loads whose rest is looked at, on one instance."""


@dataclass(frozen=True)
class Rest:
    """Elements (flat) of the input ``name``, one in each row, that some load of it does not read."""

    name: str
    at: tuple[int, ...]


def unread_failure(job: Job, instance: Instance) -> Failure | None:
    """The first output that differs where elements stand out that a load of the candidate does not read."""
    oracle, sizes = job.oracle, instance.sizes
    plain = oracle.inputs(sizes, "plain")
    for rest in _rests(job, instance, plain):
        for sign in (1.0, -1.0):
            args = _with_peaks(plain, rest, sign)
            want, got = (run(k, args, domain="float", sanitize=False, undefined=oracle.undefined)
                         for k in (oracle.launched, job.candidate))  # fmt: skip
            if not (want.ended and got.ended):
                continue
            for name, x in want.outputs.items():
                stored = want.written.get(name, np.ones(x.shape, bool))
                a, b = (np.where(stored, r.outputs[name], 0).astype(x.dtype) for r in (want, got))
                far = _far(a, b)
                if far.any():
                    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), far.shape))
                    message = (
                        f"{name}{list(at)} is {b[at]}, expected {a[at]}, where an element of {rest.name} stands out "
                        "that a load does not read"
                    )
                    return Failure("mismatch", message, dict(sizes), "float", name, at, str(a[at]), str(b[at]))
    return None


def _far(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Where results have nothing to do with each other: integers that differ by more than a rounding."""
    g, h = want.astype(np.float64), got.astype(np.float64)
    if not is_float(want.dtype):
        return np.abs(h - g) > 1
    special, misplaced = misplaced_special(g, h)
    with np.errstate(invalid="ignore"):
        return np.where(special, misplaced, np.abs(h - g) > GROSS * (np.abs(g) + scale_of(g)))


def _rests(job: Job, instance: Instance, plain: Inputs) -> Iterator[Rest]:
    """What loads that read most of an input leave of it."""
    free = job.oracle.specialised(instance.sizes)
    seen = run(job.candidate, plain, domain="float", sanitize=False, footprints=True, undefined=job.oracle.undefined)
    found: dict[Rest, None] = {}
    for name, read in seen.reads:
        x = free.get(name)
        if x is None or read.size != x.size or not MOST <= read.mean() < 1:
            continue
        rows = ~read.reshape(-1, x.shape[-1] if x.ndim > 1 else x.size)
        at = (
            r * rows.shape[1] + int(places[r % len(places)])
            for r, row in enumerate(rows)
            if len(places := np.flatnonzero(row))
        )
        found[Rest(name, tuple(at))] = None
    yield from list(found)[:LOADS]


def _with_peaks(args: Inputs, rest: Rest, sign: float) -> Inputs:
    x = np.array(args[rest.name])
    x.reshape(-1)[list(rest.at)] = sign * PEAK[2 if x.dtype == np.float16 else 4]
    return {**args, rest.name: x}


__all__ = ["unread_failure"]
