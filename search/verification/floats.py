"""L3 in floating point: bit-identical where nothing may change rounding, else within the error bound."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import RunResult, run
from ktc.ir.interp.equivalence import bits_differ
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Reduce
from ktc.ir.types import scalar_of
from ktc.ir.walk import walk

from .accuracy import is_float, lost_accuracy, no_looser, outside_bound
from .instances import Instance
from .job import Job, Outcome
from .verdict import Failure

STEPS = 12_000
"""Statements of the candidate over the instances of this layer, as far as the exact layer has counted them."""


def floats(job: Job) -> Outcome:
    """L3 in floating point: within the candidate's error bound, or bit-identical where rounding order cannot change."""
    chosen = _telling(job)
    identical = not may_round_differently(job.original, job.candidate)
    wild = [(i, True) for i in chosen[: 1 + len(chosen) // 2]] if _spreadable(job) else []
    for instance, spread in [*((i, False) for i in chosen), *wild]:
        args = job.oracle.wild(instance.sizes) if spread else job.oracle.inputs(instance.sizes, exact=False)
        try:
            want = job.oracle.run(instance.sizes, "float", exact=False, wild=spread)
            got = job.run(instance, args, "float", want)
            failure = _bits(want, got, instance) if identical else _bounded(job, args, want, got, instance, spread)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            return Outcome("skip", e.message)
        if failure:
            return Outcome("fail", str(failure), failure)
    how = "bit-identical" if identical else "within the error bound, no less accurate than the original"
    return Outcome("pass", f"{len(chosen)} instances {how}")


def _spreadable(job: Job) -> bool:
    """Whether float inputs may take any magnitude, and only the float types' own limits matter."""
    floats = ("f16", "bf16", "f32", "f64")
    return any(
        a.role in ("in", "inout") and a.range is None and job.workload.dtype(a, job.oracle.variant) in floats
        for a in job.workload.args
    )


def _telling(job: Job) -> list[Instance]:
    """The smallest (empty lanes meet infinities there), and those where each size is largest (roundings add up)."""
    found = [i for i in job.instances if id(i) in job.steps] or job.instances
    names = list(found[0].sizes) if found else []
    longest = [max(found, key=lambda i: (i.sizes[n], i.cost)) for n in names]
    busiest = sorted(found, key=lambda i: -job.steps.get(id(i), 0))[:2]  # those whose guards let something through
    chosen = list({id(i): i for i in (*busiest[:1], *found[:3], *found[-1:], *busiest, *longest)}.values())
    total = 0
    kept: list[Instance] = []
    for i in chosen:
        total += job.steps.get(id(i), 0)
        if total <= STEPS or len(kept) < 3:
            kept.append(i)
    return kept


def may_round_differently(original: Kernel, candidate: Kernel) -> bool:
    """Whether float results may legally differ: declared by a pass, or a combining order nobody promised."""
    if (candidate.flags | original.flags) & {"reassociates", "fast_math"}:
        return True
    return any(
        isinstance(s, Reduce) or (isinstance(s, Atomic) and scalar_of(s.buffer.type).is_float)
        for k in (original, candidate)
        for s in walk(k.body)
    )


def _bits(want: RunResult, got: RunResult, instance: Instance) -> Failure | None:
    for name, x in want.outputs.items():
        stored = want.written.get(name, np.ones(x.shape, bool))
        differs = bits_differ(x, got.outputs[name]) & stored
        if is_float(x.dtype):
            differs &= ~(np.isnan(x.astype(np.float64)) & np.isnan(got.outputs[name].astype(np.float64)))
        if differs.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
            a, b = str(x[at]), str(got.outputs[name][at])
            message = f"{name}{list(at)} is {b}, expected {a} to the bit: nothing here may change rounding"
            return Failure("mismatch", message, dict(instance.sizes), "float", name, at, a, b)
    return None


def _bounded(
    job: Job, args: Mapping, want: RunResult, got: RunResult, instance: Instance, wild: bool = False
) -> Failure | None:
    exact_values = job.oracle.run(instance.sizes, "float64", exact=False, wild=wild)
    bounds = run(job.candidate, args, domain="bound", sanitize=False, undefined=job.oracle.undefined)
    for name, x in want.outputs.items():
        h = got.outputs[name]
        stored = want.written.get(name, np.ones(x.shape, bool))
        if not is_float(x.dtype):
            differs = bits_differ(x, h) & stored
            if differs.any():
                at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
                message = f"{name}{list(at)} is {h[at]}, expected {x[at]}"
                return Failure("mismatch", message, dict(instance.sizes), "float", name, at, str(x[at]), str(h[at]))
            continue
        y, e = exact_values.outputs[name], np.imag(bounds.outputs[name])
        y, e, h0, x0 = (np.where(stored, v, 0) for v in (y, e, h.astype(np.float64), x.astype(np.float64)))
        if "fast_math" not in job.candidate.flags:
            theirs = job.oracle.run(instance.sizes, "bound", exact=False, wild=wild).outputs[name]
            e = no_looser(e, np.where(stored, np.imag(theirs), 0), y, h.dtype)
        bad = outside_bound(h0.astype(h.dtype), y, e)
        if bad is None and "fast_math" not in job.candidate.flags:
            bad = lost_accuracy(h0.astype(h.dtype), x0.astype(x.dtype), y)
        if bad:
            message = f"{name}{list(bad.index) if bad.index else ''}: {bad}"
            return Failure(
                "inaccurate",
                message,
                dict(instance.sizes),
                "float",
                name,
                bad.index,
                f"{bad.expected!r}",
                f"{bad.got!r}",
            )
    return None
