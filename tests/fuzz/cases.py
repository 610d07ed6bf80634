"""One fuzz case: a kernel, a script, knobs and sizes; and what is asked of it."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.frontend import load
from ktc.ir.interp import Finding, Mismatch, RunResult, mismatch, run
from ktc.ir.kernel import Kernel
from ktc.ir.text import print_kernel
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.verifier import verify as check_ir
from ktc.ir.workload.input_data import numpy_dtype
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification.device.repeated_launches import in_step
from ktc.search.verification.rungs.parse_back import parse_back, read_back
from tests.mutation.scripts import Pick, random_knobs, random_script

from .devices import CORES, check_on
from .openings import opened
from .parallel_kernels import parallel_kernel
from .shaped_kernels import shaped
from .shared_memory import shared_memory_kernel
from .spmd_kernels import spmd_source

LOWERED = ("E-LOWER", "E-KNOB")
"""Refusals that end a case in order."""

TARGETS = ("cuda", "hip", "opencl")

TOO_WIDE = "V-LAUNCH"

TWICE = Finding("redundant-store", "what a source that stores as it likes may do as well")


class Wrong(AssertionError):
    """A rewritten kernel that does not mean what it was made from."""


@dataclass(eq=False)
class Source:
    """A random kernel, and what its scripts share: its raised form and the runs that their results are held against.

    ``rows`` and ``columns`` are the values that n and m are drawn from. ``wasteful``: it may store twice itself.
    """

    form: str
    kernel: Kernel
    rows: tuple[int, ...] = (1, 2, 3, 5)
    columns: tuple[int, ...] = (1, 3, 8, 16, 33, 64, 100)
    wasteful: bool = False
    _runs: dict[tuple, RunResult] = field(default_factory=dict)

    @functools.cached_property
    def raised(self) -> Kernel:
        return apply_script(self.kernel, parse_script("raise")).kernel

    def run(self, before: Kernel, args: Mapping[str, Any], domain: str, sanitize: bool) -> RunResult:
        """The kernel, launched as ``before`` is, on the ``args`` of some sizes."""
        launches = before.repeat.launches if before.repeat else 1
        key = (args["n"], args["m"], launches, domain, sanitize)
        if key not in self._runs:
            self._runs[key] = run(before, args, domain=domain, sanitize=sanitize)
        return self._runs[key]


@dataclass(frozen=True)
class Case:
    source: Source
    after: Kernel
    sizes: dict[str, int]
    target: str = "cuda"

    def __str__(self) -> str:
        knobs = " ".join(f"{k}={v}" for k, v in self.after.knob_values.items())
        script = " | ".join(self.after.trace)
        return f"{print_kernel(self.source.kernel)}\nscript: {script}\nknobs: {knobs}\nsizes: {self.sizes}\n"


def draw_source(pick: Pick) -> Source:
    """A random kernel."""
    form = pick(("parallel", "spmd", "shaped", "shared"))
    if form == "shared":
        return Source("parallel", shared_memory_kernel(pick), wasteful=True)
    if form == "parallel":
        return Source(form, parallel_kernel(pick))
    if form == "spmd":
        return Source(form, load(spmd_source(pick)))
    form, kernel, (rows, columns) = shaped(pick)
    return Source(form, kernel, rows, columns)


def draw_case(source: Source, pick: Pick) -> Case:
    """A random script for it, random knobs and sizes."""
    parallel = source.form == "parallel"
    now = source.raised if not parallel and pick((True, True, True, False)) else source.kernel
    if parallel or "raise" in now.trace:
        now = opened(now, pick, source.form) if pick((True, False)) else now
    now = random_script(now, pick, most=pick((1, 3, 6)), without=frozenset({"fast-math"}), tries=pick((1, 8)))
    try:
        after = random_knobs(now, pick)
    except KtcError:  # no knobs satisfy the script's constraints
        after = source.kernel
    sizes = {"n": pick(source.rows), "m": pick(source.columns)}
    return Case(source, after, sizes, pick(TARGETS))


def draw(pick: Pick) -> Case:
    """A random case."""
    return draw_case(draw_source(pick), pick)


def arguments(kernel: Kernel, sizes: dict[str, int]) -> dict[str, object]:
    """Small non-zero integers in every buffer, each large enough for what the generators make."""
    rng = np.random.default_rng(sizes["n"] * 1000 + sizes["m"])
    elements = sizes["n"] * sizes["m"]
    more = elements if kernel.repeat else sizes["n"] * max(sizes["m"], 64)  # what is swapped has to be written whole
    out: dict[str, object] = dict(sizes)
    for p in kernel.params:
        if isinstance(p.sym.type, Ptr):
            dtype = numpy_dtype(scalar_of(p.sym.type).name)
            count = elements if p.sym.name in ("a", "b") else more
            values = rng.integers(1, 5, count) * rng.choice([-1, 1], count)
            out[p.sym.name] = values.astype(dtype)
    return out


def check(case: Case, counts: Counter, backends: Sequence[str] = (), every: int = 1) -> Kernel | None:
    """The lowered kernel, proved equal on the case's sizes in exact arithmetic; None where there is nothing to run.

    Every ``every``-th case is compiled and run by each of ``backends`` too.

    Raises:
        Wrong: with the case and what differs.
    """
    try:
        lowered = materialise(case.after)
    except KtcError as e:
        if not e.code.startswith(LOWERED):
            raise
        counts["not lowered"] += 1
        return None
    problems = check_ir(lowered)
    if any(p.code == TOO_WIDE for p in problems):
        counts["no launch"] += 1
        return None
    if problems:
        raise Wrong(f"{problems[0]}\n{case}")
    facts = [evaluate(a.expr, {**case.sizes, **lowered.knob_values}) for a in lowered.assumptions]
    if not all(f is None or f for f in facts):
        counts["guarded out"] += 1
        return None
    before = in_step(case.source.kernel, lowered)
    if before is None:
        raise Wrong(f"the sweeps of a launch are no whole number of the source's\n{case}")
    args = arguments(before, case.sizes)
    if case.source.run(before, args, "int", True).findings:
        counts["no meaning"] += 1  # iterations that touch what others write
        return None
    try:
        found = _differs(case, before, lowered, args)
    except KtcError as e:
        if e.code != "E-INTERP-UNSUPPORTED":
            raise
        counts["not interpreted"] += 1
        return None
    if _too_long(found):
        counts["too long"] += 1
        return None
    if found is not None:
        raise Wrong(f"{found}\n{case}\n{print_kernel(lowered)}")
    counts["compared"] += 1
    if counts["compared"] % every == 0:
        for backend in backends:
            text = case.after if backend.endswith(CORES) else lowered
            why = check_on(backend, before, text, args, counts, case.source.run)
            if why:
                raise Wrong(f"{why}\n{case}\n{print_kernel(lowered)}")
    text = parse_back(lowered, case.target)
    counts[f"{case.target} text: {text.status}"] += 1
    if text.status == "fail":  # another form: it has to compute the same, as in the verification ladder
        read = read_back(emit(lowered, case.target))
        if lowered.repeat is not None:  # a matter of the host: no text says it
            read = read.with_(repeat=lowered.repeat)
        try:
            found = _differs(case, before, read, args)
        except KtcError as e:  # a constant spelled by its bits has no meaning in the exact domains
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            found = _differs(case, before, read, args, ("float",))
        if _too_long(found):
            counts[f"{case.target} text: too long"] += 1
            return lowered
        if found is not None:
            raise Wrong(f"{text.detail}\nwhat was read back differs: {found}\n{case}\n{print_kernel(lowered)}")
        counts[f"{case.target} text: equal when run"] += 1
    return lowered


def _too_long(found: Mismatch | None) -> bool:
    """Whether a run was only cut short: what it would have left is not known."""
    return found is not None and found.finding is not None and found.finding.kind == "fuel"


def _differs(
    case: Case, before: Kernel, after: Kernel, args: Mapping[str, Any], domains: Sequence[str] = ("int", "field")
) -> Mismatch | None:
    """Where ``after`` leaves other bits than ``before``, or has a defect; sanitized in the first domain, as in the
    verification ladder: addresses, branches and barriers are the same in both."""
    for domain in domains:
        sanitize = domain == domains[0]
        first = case.source.run(before, args, domain, sanitize)
        if case.source.wasteful:
            first = dataclasses.replace(first, findings=[*first.findings, TWICE])
        found = mismatch(first, after, args, domain, sanitize=sanitize)
        if found is not None:
            return found
    return None
