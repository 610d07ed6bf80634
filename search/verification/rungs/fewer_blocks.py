"""Loops over a grid of a fixed size whose second round takes more than a check may run, in a grid of fewer blocks.

``pull<<<16, 512>>>`` goes on in steps of 8192, and each step goes through all n: at the 8193 elements of a second round
that is hundreds of millions of operations. Original and candidate are launched with two blocks instead, and compared
at sizes that make such loops go round twice there. The numbers of the candidate that are steps of its grid become those
of the smaller one; a candidate in which they mean something else differs from the original then, and one of which the
blocks share work in another way stays unexercised.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import compare, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Expr, HwIndex, Stmt, i32
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, map_body
from ktc.search.verification.instances.coverage import SECOND_ROUND, Coverage
from ktc.search.verification.instances.instances import MAX_ELEMENTS, Instance, Maker
from ktc.search.verification.job import Job

BLOCKS = 2
"""Blocks along an axis of which there are more."""

MOST_STATEMENTS = 128_000
"""Statements of one run: two rounds of some blocks of elements, each of which goes through all of them."""

USUAL = 2
"""Of the instances that were run in the whole grid, how many of the largest are run before those for the loops."""


def settled(job: Job, loops: Sequence[Stmt]) -> frozenset[int]:
    """Those of ``loops`` in the candidate, by ``id``, that went round twice in a grid of fewer blocks, in which
    original and candidate did the same."""
    candidate = in_fewer_blocks(job.candidate) if loops else None
    original = in_fewer_blocks(job.original) or job.original
    if candidate is None or not (original is job.original or _asks_for_blocks(original)):
        return frozenset()
    coverage = Coverage(candidate, job.workload)
    for instance in _chosen(job, coverage, original):
        if not _same(job, original, coverage, instance):
            return frozenset()
    if coverage.once is None:
        return frozenset()
    twins = dict(zip(map(id, job.coverage.loops), coverage.loops, strict=True))
    return frozenset(id(s) for s in loops if id(s) in twins and id(twins[id(s)]) not in coverage.once)


def in_fewer_blocks(k: Kernel) -> Kernel | None:
    """``k`` in a grid of few blocks along each axis that has a fixed number of more; None if there is no such axis."""
    launch = k.launch
    if launch is None or k.is_parallel:
        return None
    grid = list(launch.grid)
    steps: dict[int, int] = {}  # of one round of the whole grid, then of the smaller one
    for axis, (blocks, threads) in enumerate(zip(launch.grid, launch.block)):
        n, each = evaluate(blocks, k.knob_values), evaluate(threads, k.knob_values)
        if isinstance(n, int) and n > BLOCKS and isinstance(each, int):
            grid[axis] = i32(BLOCKS)
            steps[n * each] = BLOCKS * each
    if not steps:
        return None
    x, y, z = grid
    smaller = dataclasses.replace(launch, grid=(x, y, z))
    return k.with_(launch=smaller, body=map_body(k.body, lambda s: s, lambda e: _number(e, steps)))


def _number(e: Expr, steps: dict[int, int]) -> Expr:
    """A number that is one or several steps of the grid, or one less than that, in the smaller one."""
    if not isinstance(e, Const) or not isinstance(e.type, Scalar) or not e.type.is_int:
        return e
    for (step, less), rest in itertools.product(steps.items(), (0, 1)):
        times, left = divmod(int(e.value) + rest, step)
        if times > 0 and not left:
            return Const(times * less - rest, e.type)
    return e


def _asks_for_blocks(k: Kernel) -> bool:
    """Whether the source asks how many blocks there are: any number of them will do."""
    return any(isinstance(x, HwIndex) and x.level == "grid_dim" for x in all_exprs(k.body))


def _chosen(job: Job, coverage: Coverage, original: Kernel) -> Iterator[Instance]:
    kernels = original, coverage.candidate
    yield from sorted((i for i in job.coverage.tried if not i.full), key=lambda i: i.cost)[-USUAL:]
    yield from coverage.sizes_for_loops(Maker(kernels, job.workload, SECOND_ROUND * MAX_ELEMENTS))


def _same(job: Job, original: Kernel, coverage: Coverage, instance: Instance) -> bool:
    """Whether original and candidate do the same at these sizes, as far as they come to an end; ``coverage`` notes
    what was exercised."""
    for k, domain in enumerate(job.domains):
        try:
            args = job.oracle.inputs(instance.sizes, "exact")
            want = run(original, args, domain=domain, sanitize=not k, fuel=MOST_STATEMENTS)
            if not want.ended:
                return True  # too long here, too: as if it had not been tried
            got = run(
                coverage.candidate, args, domain=domain, sanitize=not k, fuel=2 * MOST_STATEMENTS,
                undefined=job.oracle.undefined,
            )  # fmt: skip
        except KtcError as e:
            if e.code == "E-INTERP-UNSUPPORTED":
                continue
            raise
        known = {(f.kind, f.buffer) for f in want.findings}
        if any((f.kind, f.buffer) not in known for f in got.findings) or compare(want, got, domain) is not None:
            return False
        if not k:
            coverage.note(instance, got)
    return True


__all__ = ["in_fewer_blocks", "settled"]
