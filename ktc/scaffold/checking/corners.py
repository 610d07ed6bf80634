"""Whether a workload holds at the sizes of its scenarios: some blocks are run where all of them are too many.

Shapes are fitted, and confirmed, by whole runs at small sizes. At larger ones a shape may be too small for what the
kernel reaches, or the sizes such that no thread does anything: what is measured there would mean nothing. The first,
the middle and the last blocks of each axis of the grid are run together, each as it would run among all blocks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import Finding, geometry_of, run
from ktc.ir.interp.corner_blocks import corners, some_blocks
from ktc.ir.interp.execution.run_state import Geometry, work_of
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Scenario, Workload, size_expressions
from ktc.ir.workload.input_data import WHOLE, numpy_dtype

from ..indices import MOST_THREADS

SANITIZED = 1 << 22
"""Bytes of buffers up to which threads of the blocks are looked at for races, too: what orders their accesses takes
many times as much."""

PASSED_OVER = frozenset({"fuel", "redundant-store", "uninitialised"})
"""Findings that say nothing here: a run that is cut off, what many kernels do, what other blocks may have written."""

SEEDS = (1, 2)
"""Data that nothing has to be stored for before it is said that nothing is: a guard may depend on them."""


@dataclass(frozen=True)
class Limits:
    """What a look may cost. ``bytes``: of all buffers, with a copy of those that are written; where they are larger,
    the sizes are not looked at. ``work``: of the run (``RunResult.work``; 10,000 are about a second); the rest of a
    longer one is not looked at."""

    bytes: int = 1 << 28
    work: float = 10_000.0


USUAL = Limits()


@dataclass(frozen=True)
class Fault:
    """What is wrong at some sizes. ``kind``: that of a finding of the interpreter, ``idle``, ``launch``, or the code of
    an error; ``buffer``: what is reached beyond its end; ``place``: file and line, '' where there is none."""

    kind: str
    what: str
    buffer: str = ""
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.what}" if self.place else self.what


def faults(work: Workload, kernel: Kernel, limits: Limits = USUAL) -> Iterator[tuple[Scenario, Fault]]:
    """What is wrong with the scenarios of ``work``, the one with most elements first; of alike faults the first.

    ``limits`` are those of all looks together: each may take half of the work that is left.
    """
    said, left = set[tuple[str, str, str]](), limits.work
    for s in sorted(work.scenarios, key=lambda s: -math.prod(s.sizes.values())):
        try:
            fault, spent = look(work, kernel, s.sizes, dataclasses.replace(limits, work=left / 2))
        except (KtcError, MemoryError):  # nothing that the interpreter can follow: nothing is known
            continue
        left -= spent
        if fault is not None and (fault.kind, fault.place, fault.buffer) not in said:
            said.add((fault.kind, fault.place, fault.buffer))
            yield s, fault


def look(
    work: Workload, kernel: Kernel, sizes: Mapping[str, int], limits: Limits = USUAL
) -> tuple[Fault | None, float]:
    """What is wrong at ``sizes`` with the first, the middle and the last blocks of each axis of the grid, None if
    nothing is found within ``limits``; and the work that it took.

    Args:
        kernel: in SPMD form, with the facts of ``work`` (:meth:`ktc.ir.workload.Workload.load_kernel`).

    Raises:
        KtcError: E-INTERP-UNSUPPORTED and what else the interpreter has against running it.
    """
    spent = 0.0
    for seed in SEEDS:
        try:
            if bytes_of(work, sizes) > limits.bytes:
                return None, spent
            args = work.make_inputs(sizes, seed=seed)
        except KtcError as why:
            return Fault(why.code, why.message), spent
        g = geometry_of(kernel, args)
        if not 0 < g.threads <= MOST_THREADS or not g.blocks:
            return Fault("launch", f"no legal launch: grid {g.grid}, block {g.block}"), spent
        places = corners(g)
        fuel = int((limits.work - spent) / work_of(len(places) * g.threads))
        result = run(some_blocks(kernel, g), args, sanitize=bytes_of(work, sizes) <= SANITIZED, fuel=fuel)
        spent += result.work
        for f in result.findings:
            if f.kind not in PASSED_OVER:
                return _fault(f, g), spent
        if result.stored or not result.ended:
            return None, spent
    which = ", ".join(map(str, places))
    return Fault("idle", f"nothing is stored in the blocks {which} of the grid {g.grid}"), spent


def bytes_of(work: Workload, sizes: Mapping[str, int]) -> int:
    """Bytes of all buffers at ``sizes``, with those of what they are made from and of a copy of what is written."""
    total = 0
    for a in work.args:
        if a.role != "scalar":
            elements = math.prod(size_expressions.evaluate(e, sizes) for e in a.shape)
            width = numpy_dtype(work.dtype(a)).itemsize
            total += elements * (width * (1 if a.role == "in" else 2) + (16 if a.init in WHOLE else 0))
    return total


def _fault(f: Finding, g: Geometry) -> Fault:
    """A finding of a run of some blocks, in the numbers of the whole grid."""
    who = ""
    if f.block is not None:
        who = f" (block {corners(g)[f.block]} of the grid {g.grid}, thread {f.thread})"
    times = f", {f.count} times" if f.count > 1 else ""
    return Fault(f.kind, f"{f.message}{who}{times}", f.buffer, str(f.loc or ""))


__all__ = ["USUAL", "Fault", "Limits", "faults", "look"]
