"""Whether a raised kernel, and what it lowers to, leave what the source leaves, on fresh instances in three domains."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ktc.ir.fold import evaluate
from ktc.ir.interp import run
from ktc.ir.interp.equivalence import compare
from ktc.ir.interp.run import RunResult
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Load
from ktc.ir.walk import all_exprs, walk
from ktc.passes.lowering import materialise

from .instances import argument_sets

FUEL = 60_000
HARMLESS = frozenset({"redundant-store"})
SAME_ON_BOTH = frozenset({"out-of-bounds", *HARMLESS})
"""Defects of a source with which the two can still be compared: both read and write the same places."""

LOOSE = {"float32": 1e-3, "float64": 1e-8, "float16": 4e-2, "bfloat16": 2e-1}
"""How far the float domain may differ, of the largest value, where sums were taken in another order."""


@dataclass
class Verdict:
    """``clean``: runs of a source without a defect that were compared; ``outside``: compared though the source leaves
    its buffers; ``wrong``: the first difference."""

    clean: int = 0
    outside: int = 0
    defective: int = 0
    wrong: str = ""
    late: bool = False


def audit(source: Kernel, raised: Kernel, *, count: int, seed: int, seconds: float) -> Verdict:
    began = time.process_time()
    verdict = Verdict()
    reordered = "reassociates" in raised.flags or any(isinstance(s, Atomic) for s in walk(source.body))
    wide = any(isinstance(e, Load) and e.width != 1 for e in all_exprs(source.body))  # beyond an end: other elements
    forms = {"raised": raised, "lowered again": materialise(raised)}
    for number, (values, args) in enumerate(argument_sets(source, count, seed)):
        if not _taken(raised, args):
            continue
        for domain in ("int", "field", "float"):
            if time.process_time() - began > seconds:
                verdict.late = True
                return verdict
            data = _real(args, number) if domain == "float" else args
            first = run(source, data, domain=domain, fuel=FUEL)
            kinds = {f.kind for f in first.findings}
            if kinds - SAME_ON_BOTH or (wide and not kinds <= HARMLESS):
                verdict.defective += 1
                continue
            verdict.clean += kinds <= HARMLESS
            verdict.outside += not kinds <= HARMLESS
            for name, form in forms.items():
                if name != "raised" and domain == "field":
                    continue
                second = run(form, data, domain=domain, fuel=max(FUEL, 8 * first.steps))
                why = _difference(first, second, domain, reordered)
                if why:
                    sizes = {k: v for k, v in data.items() if not isinstance(v, np.ndarray)}
                    verdict.wrong = f"{name}, {values} values, {sizes}: {why}"
                    return verdict
    return verdict


def _taken(raised: Kernel, args: Mapping[str, object]) -> bool:
    """Whether the launcher would take ``raised`` for these arguments: what a raise assumed holds."""
    sizes = {k: int(v) for k, v in args.items() if isinstance(v, int | np.integer)}
    env = raised.environment(sizes)
    return all(evaluate(a.expr, env) in (True, None) for a in raised.assumptions)


def _difference(first: RunResult, second: RunResult, domain: str, reordered: bool) -> str:
    known = HARMLESS | {f.kind for f in first.findings}
    new = next((f for f in second.findings if f.kind not in known), None)
    if new is not None:
        return str(new)
    if domain != "float" or not reordered:
        found = compare(first, second, domain)
        return str(found) if found else ""
    for name in sorted(first.outputs.keys() | second.outputs.keys()):
        if name not in first.outputs or name not in second.outputs:
            return f"{name} is stored by one only"
        x, y = first.outputs[name], second.outputs[name]
        if x.dtype.name not in LOOSE:
            if not np.array_equal(x, y):
                return f"{name} differs"
            continue
        a, b = x.astype(np.float64), y.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        top = np.abs(a[finite]).max(initial=0.0)
        off = np.where(finite, np.abs(a - b) > LOOSE[x.dtype.name] * (np.abs(a) + 1e-3 * top), ~_same_kind(a, b))
        if off.any():
            at = int(np.argmax(off))
            return f"{name}[{at}] is {y.reshape(-1)[at]}, expected {x.reshape(-1)[at]} (domain float)"
    return ""


def _same_kind(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (np.isnan(a) & np.isnan(b)) | (a == b)


def _real(args: dict, number: int) -> dict:
    """The same arguments with real numbers in floating-point buffers."""
    rng = np.random.default_rng(number + 77)
    out = dict(args)
    for k, v in args.items():
        if isinstance(v, np.ndarray) and v.dtype.kind not in "iub":
            out[k] = rng.normal(0, 1, v.shape).astype(v.dtype)
    return out


__all__ = ["Verdict", "audit"]
