"""Floats where no error bound can be computed: some operation (a float taken apart into its bits) has no meaning in the
domains that count errors.

Results with the original's bits are right. Others are held to what those of a device are held to where terms may come
in another order; where each float is computed by one expression after the other, nobody knows whether they are right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp.equivalence import bits_differ
from ktc.search.verification.floats.accuracy import is_float
from ktc.search.verification.floats.agreement import disagreement
from ktc.search.verification.floats.any_answer import in_one_order
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job, Outcome


def without_bounds(job: Job, chosen: Sequence[Instance], why: str) -> Outcome:
    """``pass`` for the original's bits on the instances ``chosen``, or for what agrees with them; ``unknown`` for what
    does not, as there is no bound (``why``); ``skip`` where they cannot be run."""
    agrees = 0
    try:
        for instance in chosen:
            want = job.oracle.run(instance.sizes, "float", "plain")
            got = job.run(instance, "plain", "float", want)
            for name, x in want.outputs.items():
                stored = want.written.get(name, np.ones(x.shape, bool))
                a, b = (np.where(stored, v, np.zeros((), x.dtype)) for v in (x, got.outputs[name]))
                other = _other(job, name, a, b)
                if other:
                    return Outcome("unknown", f"{other} {_at(instance)}, and no error bound is known: {why}")
                agrees += bool(_differ(a, b).any())
    except KtcError as e:
        if e.code != "E-INTERP-UNSUPPORTED":
            raise
        return Outcome("skip", why)
    if not agrees:
        return Outcome("pass", f"{len(chosen)} instances bit-identical")
    return Outcome("pass", f"{len(chosen)} instances agree as launches of a device have to; no error bound: {why}")


def _other(job: Job, name: str, want: np.ndarray, got: np.ndarray) -> str:
    """What is no result of the same program, as far as that can be told; '' if all may be one."""
    differs = _differ(want, got)
    if not differs.any():
        return ""
    one_order = in_one_order(job.original) and in_one_order(job.candidate)
    if is_float(want.dtype) and not (one_order and "fast_math" not in job.candidate.flags):
        return disagreement(name, want, got)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
    return f"{name}{list(at)} is {got[at]}, expected {want[at]}"


def _differ(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    differs = bits_differ(want, got)
    if is_float(want.dtype):
        differs &= ~(np.isnan(want.astype(np.float64)) & np.isnan(got.astype(np.float64)))
    return differs


def _at(instance: Instance) -> str:
    return f"(for {', '.join(f'{n}={v}' for n, v in instance.sizes.items())})"


__all__ = ["without_bounds"]
