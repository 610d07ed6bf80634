"""Limits of a launch that no instance came to: ``min(blocks, 65535)``, a grid of 1024 blocks whatever the sizes.

What a program does above such a limit has not been seen: the second round of a loop over the whole grid, the second
row of blocks of a launch that is split over two axes. A limit is a condition of the launch (a comparison, a minimum or
maximum) that came out one way for the sizes of all instances, and compares with a number or a knob that is large; or
such a number alone, as the extent of a grid that does not grow where the other program's does, or whose loops have not
gone round twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from ktc.ir.fold import evaluate
from ktc.ir.interp import geometry_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Binary, Call, Const, Expr, For, HwIndex, Knob, Var
from ktc.ir.sequences import launch_extents, launch_kernels
from ktc.ir.walk import walk, walk_expr
from ktc.ir.workload.scenario_facts import scalars_of
from ktc.search.verification.instances.reach import promised
from ktc.search.verification.integers.intervals import Scope
from ktc.search.verification.job import Job

LARGE = 64
"""Limits from which on usual instances may not come to them: so many blocks of 256 threads are more than one has."""


@dataclass(frozen=True)
class Numbers:
    """Numbers that limit launches, those of knobs among them; and these ``knobs`` by name."""

    numbers: frozenset[int] = frozenset()
    knobs: frozenset[str] = frozenset()

    def and_also(self, *others: Numbers) -> Numbers:
        every = (self, *others)
        numbers, knobs = (n.numbers for n in every), (n.knobs for n in every)
        return Numbers(frozenset().union(*numbers), frozenset().union(*knobs))


@dataclass(frozen=True)
class UnmetLimits:
    """Of one program: ``conditions`` of its launch by their place among :func:`launch_conditions`, with what those came
    out as (1 true, 2 false); and the numbers that these compare with, or that are extents of a grid."""

    conditions: Mapping[int, int]
    limits: Numbers


def unmet_limits(job: Job, kernel: Kernel) -> UnmetLimits:
    """Those of ``kernel``, which is one of the job's two programs."""
    scope = Scope(kernel, {}, promised(job.workload))
    found: dict[int, int] = {}
    limits = _fixed(job, kernel)
    for k, (e, how) in enumerate(_seen(job, kernel)):
        mine = numbers_of(kernel, e)
        if mine.numbers and how in (1, 2) and scope.truth(as_condition(e)) is None:
            found[k] = how
            limits = limits.and_also(mine)
    return UnmetLimits(found, limits)


def met_conditions(job: Job, kernel: Kernel) -> list[Expr]:
    """Conditions of the launch that came out both ways: what lies beyond their numbers has been seen."""
    return [e for e, how in _seen(job, kernel) if how == 3]


def _seen(job: Job, kernel: Kernel) -> list[tuple[Expr, int]]:
    """The conditions of the launch, with how they came out for the sizes that were tried."""
    found = [outcomes(kernel, scalars_of(job.workload, i.sizes)) for i in job.coverage.tried]
    each = enumerate(launch_conditions(kernel))
    return [(e, reduce(or_, (at.get(k, 0) for at in found), 0)) for k, e in each]


def launch_conditions(kernel: Kernel) -> list[Expr]:
    """Comparisons, minima and maxima of the extents, in the order in which they stand there."""
    return [x for e in launch_extents(kernel) for x in walk_expr(e) if is_condition(x)]


def is_condition(e: Expr) -> bool:
    """Whether ``e`` is a choice between two whole numbers, or the condition of one."""
    return (isinstance(e, Binary) and e.op in COMPARISONS) or (
        isinstance(e, Call) and e.fn in ("min", "max") and len(e.args) == 2
    )


def as_condition(e: Expr) -> Expr:
    """What tells which way ``e`` comes out: of a minimum or maximum, whether its first operand is the smaller one."""
    return Binary("<", e.args[0], e.args[1]) if isinstance(e, Call) else e


def outcomes(kernel: Kernel, scalars: Mapping[str, int | float]) -> dict[int, int]:
    """How the conditions of the launch come out for these arguments, by their place: 1 true, 2 false."""
    env = kernel.environment({k: v for k, v in scalars.items() if isinstance(v, int)})
    values = {k: evaluate(as_condition(e), env) for k, e in enumerate(launch_conditions(kernel))}
    return {k: 1 if v else 2 for k, v in values.items() if v is not None}


def numbers_of(kernel: Kernel, e: Expr) -> Numbers:
    """Large numbers, of the text and of knobs, that a condition compares with."""
    sides = () if not is_condition(e) else e.args if isinstance(e, Call) else (e.a, e.b)  # type: ignore[attr-defined]
    return Numbers().and_also(*(_large(kernel, side) for side in sides))


def _large(kernel: Kernel, e: Expr) -> Numbers:
    """What ``e`` is made of, if it is a large number whatever the arguments."""
    values = kernel.knob_values
    if (evaluate(e, values) or 0) < LARGE:
        return Numbers()
    if isinstance(e, Const):
        return Numbers(frozenset({int(e.value)}))
    knobs = frozenset(x.name for x in walk_expr(e) if isinstance(x, Knob))
    return Numbers(frozenset(values[k] for k in knobs), knobs)


def _fixed(job: Job, kernel: Kernel) -> Numbers:
    """Large extents of a grid that is the same for all sizes, where that may be too few: the other program's grows, or
    there are loops that a larger instance would go round twice."""
    other = job.candidate if kernel is job.original else job.original
    coverage = job.theirs if kernel is job.original else job.coverage
    if not (_grows(other) or coverage.once):
        return Numbers()
    fixed = (k for k in launch_kernels(kernel) if not _grows(k) and k.launch is not None)
    grids = ((k, e) for k in fixed for e in (k.launch.grid if k.launch is not None else ()))
    return Numbers().and_also(*(_large(k, e) for k, e in grids if not _is_met(job, kernel, k, e)))


def _is_met(job: Job, kernel: Kernel, launched: Kernel, extent: Expr) -> bool:
    """Whether an instance came to the fixed ``extent`` of the grid of ``launched``, which is the program ``kernel`` or
    one launch of it: the other program had more blocks there (of several launches: no one knows which of them does
    that work), or a loop that goes on by so many went round twice."""
    other = job.candidate if kernel is job.original else job.original
    coverage = job.theirs if kernel is job.original else job.coverage
    most = evaluate(extent, kernel.knob_values)
    if most is not None and not (kernel.is_sequence or other.is_sequence):
        blocks = (geometry_of(other, scalars_of(job.workload, i.sizes)).blocks for i in job.coverage.tried)
        if any(n > most for n in blocks):
            return True
    rounds = [s for s in walk(launched.body) if isinstance(s, For) and _goes_on_by(s, extent)]
    return bool(rounds) and coverage.once is not None and not any(id(s) in coverage.once for s in rounds)


def _goes_on_by(s: For, extent: Expr) -> bool:
    """Whether a loop's next round is as many iterations later as there are blocks, or several times that."""
    return any(x == extent or (isinstance(x, HwIndex) and x.level == "grid_dim") for x in walk_expr(s.step))


def _grows(kernel: Kernel) -> bool:
    """Whether the number of threads hangs on the arguments."""
    return any(isinstance(x, Var) for e in launch_extents(kernel) for x in walk_expr(e))


__all__ = [
    "LARGE",
    "Numbers",
    "UnmetLimits",
    "is_condition",
    "launch_conditions",
    "met_conditions",
    "numbers_of",
    "outcomes",
    "unmet_limits",
]
