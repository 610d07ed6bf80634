"""Limits of a launch that no instance came to: ``min(blocks, 65535)``, a grid of 1024 blocks whatever the sizes.

What a program does above such a limit has not been seen: the second round of a loop over the whole grid, the second
row of blocks of a launch that is split over two axes. A limit is a condition of the launch (a comparison, a minimum or
maximum) that came out one way for the sizes of all instances, and compares with a number or a knob that is large; or
such a number alone, as the extent of a grid that does not grow where the other program's does, or whose loops have not
gone round twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Binary, Call, Const, Expr, Knob, Var
from ktc.ir.walk import walk_expr
from ktc.search.verification.instances.reach import promised
from ktc.search.verification.instances.sizes import scalars_of
from ktc.search.verification.integers.intervals import Scope
from ktc.search.verification.job import Job

LARGE = 64
"""Limits from which on usual instances may not come to them: so many blocks of 256 threads are more than one has."""

Number = int | str
"""A number of the source, or the name of a knob."""


@dataclass(frozen=True)
class UnmetLimits:
    """Of one program: ``conditions`` of its launch by their place among :func:`launch_conditions`, with what those came
    out as (1 true, 2 false); the ``numbers`` that these compare with, and those that are ``fixed`` extents."""

    conditions: Mapping[int, int]
    numbers: frozenset[Number]
    fixed: frozenset[Number]


def unmet_limits(job: Job, kernel: Kernel) -> UnmetLimits:
    """Those of ``kernel``, which is one of the job's two programs."""
    seen = [outcomes(kernel, scalars_of(job.workload, i.sizes)) for i in job.coverage.tried]
    scope = Scope(kernel, {}, promised(job.workload))
    found: dict[int, int] = {}
    numbers: set[Number] = set()
    for k, e in enumerate(launch_conditions(kernel)):
        how = 0
        for at in seen:
            how |= at.get(k, 0)
        mine = set(numbers_of(kernel, e))
        if mine and how in (1, 2) and scope.truth(as_condition(e)) is None:
            found[k] = how
            numbers |= mine
    return UnmetLimits(found, frozenset(numbers), frozenset(_fixed(job, kernel)))


def launch_conditions(kernel: Kernel) -> list[Expr]:
    """Comparisons, minima and maxima of the extents, in the order in which they stand there."""
    launch = kernel.launch
    extents = (*launch.grid, *launch.block) if launch is not None else ()
    return [x for e in extents for x in walk_expr(e) if is_condition(x)]


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


def numbers_of(kernel: Kernel, e: Expr) -> Iterator[Number]:
    """Large numbers, and knobs of large values, that a condition compares with."""
    values = kernel.knob_values
    sides = () if not is_condition(e) else e.args if isinstance(e, Call) else (e.a, e.b)  # type: ignore[attr-defined]
    for side in sides:
        if isinstance(side, Const) and isinstance(side.value, int) and side.value >= LARGE:
            yield int(side.value)
        elif (evaluate(side, values) or 0) >= LARGE:
            yield from (x.name for x in walk_expr(side) if isinstance(x, Knob))


def _fixed(job: Job, kernel: Kernel) -> Iterator[Number]:
    """Large extents of a grid that is the same for all sizes, where that may be too few: the other program's grows, or
    there are loops that a larger instance would go round twice."""
    launch, other = kernel.launch, job.candidate if kernel is job.original else job.original
    if launch is None or other.launch is None or _grows(kernel):
        return
    coverage = job.theirs if kernel is job.original else job.coverage
    if _grows(other) or coverage.once:
        for e in launch.grid:
            if isinstance(e, Const | Knob) and int(evaluate(e, kernel.knob_values) or 0) >= LARGE:
                yield e.name if isinstance(e, Knob) else int(e.value)


def _grows(kernel: Kernel) -> bool:
    """Whether the number of threads hangs on the arguments."""
    launch = kernel.launch
    extents = (*launch.grid, *launch.block) if launch is not None else ()
    return any(isinstance(x, Var) for e in extents for x in walk_expr(e))


__all__ = [
    "LARGE",
    "Number",
    "UnmetLimits",
    "is_condition",
    "launch_conditions",
    "numbers_of",
    "outcomes",
    "unmet_limits",
]
