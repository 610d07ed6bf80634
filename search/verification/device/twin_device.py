"""The twins of two programs side by side on a device, at any size: equal to the bit, or wrong."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ktc.backends.base import Emitted, Executable, Runtime
from ktc.ir.interp.domains.domain import domain_named
from ktc.ir.interp.equivalence import bits_differ
from ktc.ir.kernel import Kernel
from ktc.ir.types import SCALARS, U64, Scalar, scalar_of
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import runnable
from ktc.search.verification.verdict import Failure, Rung, Verdict

from .arena import POISONS, launch_checked

SMALL = 64
"""Integers up to this magnitude are looked up instead of encoded one by one: exact inputs are such."""


def twin_differential(
    runtime: Runtime,
    original: Emitted,
    candidate: Emitted,
    workload: Workload,
    *,
    variant: str | None = None,
    sizes: Iterable[Mapping[str, int]] | None = None,
    seed: int = 0,
    executables: tuple[Executable, Executable] | None = None,
) -> Verdict:
    """Run the twins ``original`` and ``candidate`` (:func:`.twin.twin`, emitted for this runtime's language).

    Inputs are the workload's exact ones as words; sizes default to its scenarios. TESTED if every output has the same
    bits, REJECTED with the first element that has not, UNKNOWN if no size fits the candidate's guards.

    Raises:
        CompileFailure: the device compiler refused one of the texts.
    """
    began = time.perf_counter()
    wanted = [s.sizes for s in workload.scenarios] if sizes is None else list(sizes)
    chosen = [dict(s) for s in wanted if runnable(candidate.kernel, workload, s)]
    if not chosen:
        return _verdict("UNKNOWN", "no sizes satisfy the candidate's guards", began)
    exe = executables or (runtime.compile(original), runtime.compile(candidate))
    for s in chosen:
        plain = workload.make_inputs(s, variant, seed, True)
        inputs = words(original.kernel, plain, _types(workload, variant))
        are_words = frozenset(n for n in plain if inputs[n] is not plain[n])
        failure = _compare(runtime, exe, workload, s, inputs, are_words)
        if failure:
            return _verdict("REJECTED", str(failure), began, failure)
    largest = ", ".join(" ".join(f"{k}={v}" for k, v in s.items()) for s in chosen)
    return _verdict("TESTED", f"equal to the bit modulo a prime on {runtime.device.name}: {largest}", began)


def _verdict(status: str, detail: str, began: float, failure: Failure | None = None) -> Verdict:
    seconds = time.perf_counter() - began
    state = {"TESTED": "pass", "REJECTED": "fail"}.get(status, "unknown")
    return Verdict(status, "twin", detail, (Rung("twin", state, detail, seconds),), seconds, failure)


def _types(workload: Workload, variant: str | None) -> dict[str, str]:
    return {a.name: workload.dtype(a, variant) for a in workload.args}


def words(twin: Kernel, inputs: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """``inputs`` of the original as the twin takes them: floats as words where its parameters are."""
    params = {p.sym.name: p.sym.type for p in twin.params}
    out: dict[str, Any] = {}
    for name, value in inputs.items():
        t = params.get(name)
        source = SCALARS.get(types.get(name, ""))
        if value is None or t is None or scalar_of(t) != U64 or source is None or not source.is_float:
            out[name] = value
        elif isinstance(value, np.ndarray):
            out[name] = encoded(value, source)
        else:
            out[name] = int(domain_named("field").const(value, source))
    return out


def encoded(array: np.ndarray, t: Scalar) -> np.ndarray:
    """Floats of type ``t`` as words."""
    field = domain_named("field")
    values = array.reshape(-1).astype(np.float32)
    with np.errstate(invalid="ignore"):
        small = values.astype(np.int8)
    if (small == values).all() and (np.abs(small.astype(np.int16)) <= SMALL).all():
        table = field.encode(np.arange(-SMALL, SMALL + 1, dtype=np.float64), t)
        return table[small.astype(np.intp) + SMALL].reshape(array.shape)
    return field.encode(array.reshape(-1), t).reshape(array.shape)


def _compare(
    runtime: Runtime,
    exe: tuple[Executable, Executable],
    workload: Workload,
    sizes: Mapping[str, int],
    inputs: Mapping[str, Any],
    are_words: frozenset[str],
) -> Failure | None:
    where = dict(sizes)
    want, got = (launch_checked(runtime, e, workload, inputs, POISONS[0]) for e in exe)
    if got.trespass and not want.trespass:
        return Failure("out-of-bounds", got.trespass, where, "twin")
    for name in want.outputs:
        x, y = (_comparable(o.outputs[name], name in are_words) for o in (want, got))
        differs = bits_differ(x, y)
        if differs.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), x.shape))
            message = f"{name}{list(at)} is not the original's modulo the prime ({int(differs.sum())} differ)"
            return Failure("mismatch", message, where, "twin", name, at, str(x[at]), str(y[at]))
    return None


def _comparable(x: np.ndarray, of_words: bool) -> np.ndarray:
    """The P-residues of words: the other half only serves exponentials (see the field domain)."""
    return x.astype(np.uint32) if of_words else x


__all__ = ["encoded", "twin_differential", "words"]
