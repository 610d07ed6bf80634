"""Some blocks of a candidate at the sizes that it binds, against those of the original: whether it is wrong there.

All of its blocks are too many to interpret, and what a smaller member of its family does is not what it does itself.
The first, the middle and the last blocks of each axis of both grids can be run. What a block stores in the candidate
and another one in the original has to be the same number, and what is out of bounds among these blocks is so among
all. That nothing is found shows nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import RunResult, compare, geometry_of, run
from ktc.ir.interp.corner_blocks import corners, some_blocks
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, InlineAsm, RawStmt, is_cooperative
from ktc.ir.walk import walk
from ktc.ir.workload import size_expressions
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job
from ktc.search.verification.rungs.exact import defect, endless, mismatched
from ktc.search.verification.verdict import Failure

MOST_ELEMENTS = 1 << 24
"""Elements of all arrays: 128 MiB as words."""

FUEL = 16_000
"""Statements of each run: about a second."""

TELLING = frozenset({"out-of-bounds", "division-by-zero", "null-pointer", "shared-overflow"})
"""Defects of a block that no other block has a part in."""


def wrong_at_own_sizes(job: Job, sizes: Mapping[str, int]) -> Failure | None:
    """What some blocks of the candidate of ``job`` do wrong at ``sizes``, all sizes of a scenario for which it is made;
    None where nothing is seen to be wrong."""
    kernels = job.original, job.candidate
    if not all(map(_blocks_are_apart, kernels)) or _elements(job, sizes) > MOST_ELEMENTS:
        return None
    for domain in job.domains:
        try:
            want, got = (_some(k, job, sizes, domain) for k in kernels)
        except (KtcError, MemoryError):  # nothing that the domain, or the interpreter, can follow
            continue
        instance = Instance(sizes, 0)
        found = defect(want.findings, _telling(got), instance, domain)
        if found is None and not endless(want) and not endless(got):
            found = mismatched(compare(*_both_stored(want, got), domain), instance, "wrong result in some blocks")
        return found
    return None


def _blocks_are_apart(kernel: Kernel) -> bool:
    """Whether blocks of ``kernel`` have nothing to do with each other, so that each does alone what it does among all:
    without races, those that wait for no other and share no atomics."""
    if kernel.is_parallel or kernel.launch is None or kernel.launch.cluster is not None or kernel.repeat is not None:
        return False
    if is_cooperative(kernel.body) or any(p.scratch is not None for p in kernel.params):
        return False
    return not any(isinstance(s, Atomic | InlineAsm | RawStmt) for s in walk(kernel.body))


def _elements(job: Job, sizes: Mapping[str, int]) -> int:
    arrays = (a for a in job.workload.args if a.role != "scalar")
    return sum(math.prod(size_expressions.evaluate(e, sizes) for e in a.shape) for a in arrays)


def _some(kernel: Kernel, job: Job, sizes: Mapping[str, int], domain: str) -> RunResult:
    """The first, the middle and the last blocks of ``kernel``, with the elements that they store."""
    args = job.oracle.inputs(sizes, "exact")
    g = geometry_of(kernel, args)
    if not corners(g):
        raise KtcError("E-INTERP-LAUNCH", f"no legal launch: grid {g.grid}, block {g.block}")
    return run(some_blocks(kernel, g), args, domain=domain, sanitize=False, fuel=FUEL, undefined=job.oracle.undefined)


def _telling(got: RunResult) -> RunResult:
    return dataclasses.replace(got, findings=[f for f in got.findings if f.kind in TELLING])


def _both_stored(want: RunResult, got: RunResult) -> tuple[RunResult, RunResult]:
    """Both results, with what both have stored as all that they have stored."""
    both = {n: want.written[n] & got.written[n] for n in want.written.keys() & got.written.keys()}
    return tuple(  # type: ignore[return-value]
        dataclasses.replace(r, outputs={n: r.outputs[n] for n in both}, written=both) for r in (want, got)
    )


__all__ = ["wrong_at_own_sizes"]
