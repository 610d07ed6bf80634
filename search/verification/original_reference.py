"""Does the source compute what the workload's ``[reference]`` says? Asked before any candidate is.

The original runs in the interpreter's floats on the inputs that the workload describes; an element of an output that
has a formula must be within the original's own error bound of it (:mod:`ktc.search.verification.floats.accuracy`), NaN
and infinities in the same places, integers equal. What is so only after a rounding is not held against it: a number
that rounds to one integer in float32 and to another in float64 is no mistake, so an element is wrong if the original is
in real arithmetic as well. Elements that the original does not write are not judged: no formula can say that nothing is
there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.ir.workload.reference import FormulaError
from ktc.search.verification.floats.accuracy import beyond, is_float
from ktc.search.verification.instances.instances import Instance, instances

from .oracle import Oracle, oracle_for
from .verdict import Failure

COUNT = 4
"""Instances on which the original is compared with its reference."""


def check_reference(original: Kernel, workload: Workload, variant: str | None = None, seed: int = 0) -> None:
    """Compare ``original`` with the reference of ``workload``, if it has one.

    Raises:
        KtcError: E-ORIGINAL for a source that computes something else, with the first element that differs.
    """
    failure = other_than_reference(oracle_for(original, workload, variant, seed))
    if failure is None:
        return
    formula = dict(workload.formulas)[failure.buffer]
    hint = f'either the source is wrong, or [reference] is: {failure.buffer} = "{formula}" in {workload.path}'
    loc = original.loc if isinstance(original.loc, Loc) else None
    raise KtcError("E-ORIGINAL", f"the original kernel is not what its reference says: {failure}", loc, hint)


def other_than_reference(oracle: Oracle) -> Failure | None:
    """The first element in which the original differs from the reference, on the smallest instance that shows it; None
    if it does not, if there is no reference, or if the interpreter cannot follow the kernel. Found out once."""
    if oracle.judged is None:
        oracle.judged = (_compared(oracle),)
    return oracle.judged[0]


def _compared(oracle: Oracle) -> Failure | None:
    if not oracle.workload.formulas:
        return None
    oracle.workload.check_formulas()
    repeat = oracle.original.repeat
    if repeat is not None and repeat.launches != 1:  # what the reference says is what one launch does
        one = oracle.original.with_(repeat=dataclasses.replace(repeat, launches=1))
        return other_than_reference(oracle_for(one, oracle.workload, oracle.variant, oracle.seed))
    for instance in instances(oracle.original, oracle.original, oracle.workload, count=COUNT):
        try:
            failure = _on(oracle, instance)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            return None
        if failure:
            return failure
    return None


def _on(oracle: Oracle, instance: Instance) -> Failure | None:
    sizes = instance.sizes
    inputs = oracle.inputs(sizes, "plain")
    try:
        expected = oracle.workload.reference(inputs) or {}
    except FormulaError as e:
        where = ", ".join(f"{k}={v}" for k, v in sizes.items())
        loc = Loc(str(oracle.workload.path), 1)
        raise KtcError(e.code, f"the reference cannot be evaluated for {where}: {e.message}", loc, e.hint) from e
    got = oracle.run(sizes, "float", "plain")
    if not got.ended:
        return None
    bounds: Mapping[str, np.ndarray] = {}
    if any(is_float(got.outputs[name].dtype) for name in expected if name in got.outputs):
        bounds = run(oracle.launched, inputs, domain="bound", sanitize=False, undefined=oracle.undefined).outputs
    real = oracle.run(sizes, "float64", "plain").outputs
    for name, y in expected.items():
        h = got.outputs[name]
        written = got.written.get(name, np.ones(h.shape, bool))
        floating = is_float(h.dtype)
        bound = np.where(written, np.imag(bounds[name]), 0.0) if floating else np.zeros(h.shape)
        far, allowed = beyond(h, y, bound)
        far &= written & beyond(real[name].astype(h.dtype), y, bound)[0]
        if far.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), far.shape))
            tolerance = f"tolerance {allowed[at]:.3g}" if floating else "integers have to be equal"
            return _failure(name, at, y, h, tolerance, instance)
    return None


def _failure(
    name: str, at: tuple[int, ...], expected: np.ndarray, got: np.ndarray, tolerance: str, instance: Instance
) -> Failure:
    a, b = f"{float(expected[at]):.9g}", f"{float(got[at]):.9g}"
    message = f"{name}{list(at)} is {b}, the reference says {a} ({tolerance})"
    return Failure("reference", message, dict(instance.sizes), "float", name, at, a, b)
