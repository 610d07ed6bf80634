"""Launches of other numbers of blocks than the workload's formulas give, where the caller passes these numbers.

``k<<<grid_of(n), 512>>>`` with a function of another file: a draft says how many blocks there are, and promises
nothing. What raising makes of ``if (i >= n) return`` is a loop up to ``min(n, 512 * blocks)`` then, of which all runs
with enough blocks see one side. With fewer of them the original leaves the rest as it was, and so must a candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.nodes import Expr
from ktc.ir.sequences import launch_extents
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used
from ktc.ir.workload.size_expressions import evaluate
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job

from .scalar_values import compared, means_something, statements_of

FEWER = (2, 4)
"""What numbers of blocks are divided by; with the last one, an axis of a single block has two."""

INSTANCES = 4
"""Instances that each is tried on."""

MOST_STATEMENTS = 4_000
"""Statements of the candidate in one of them."""


@dataclass
class PassedBlocks:
    """``settled``: conditions of the candidate, by ``id``, that came out both ways, with other numbers of blocks if not
    without; ``differs``: where the candidate does something else than the original then; '' if nowhere."""

    settled: frozenset[int] = frozenset()
    differs: str = ""


def passed_blocks(job: Job, conditions: Sequence[Expr]) -> PassedBlocks:
    """Original and candidate compared in launches of fewer blocks, for the sake of those ``conditions`` of the
    candidate that came out one way and hang on how many there are."""
    numbers = _numbers(job)
    named = definitions(job.candidate.body)
    wanted = [e for e in conditions if any(v.name in numbers for v in used(expand(e, named)))]
    seen = {id(e): job.coverage.outcomes.get(id(e), 0) for e in wanted}
    for instance, call in _calls(job, numbers) if wanted else ():
        oracle = job.oracle.with_numbers(tuple(call.items()))
        if not means_something(job, oracle, instance):
            continue
        one = Job(job.original, job.candidate, oracle, [], oracle.workload)
        failure = compared(one, instance)
        if failure is not None:
            told = replace(failure, sizes={**instance.sizes, **call})
            return PassedBlocks(differs=f"in a launch of other numbers of blocks: {told}")
        for at in seen:
            seen[at] |= one.coverage.outcomes.get(at, 0)
    return PassedBlocks(frozenset(at for at, how in seen.items() if how == 3))


def _numbers(job: Job) -> Mapping[str, int | str]:
    """Numbers of blocks that the caller passes, or their formulas, by name: the source asks for them in its launch
    alone, and nothing is promised or assumed of them."""
    kernel = job.original
    asked = {v.name for e in all_exprs(kernel.body) for v in used(e)}
    asked |= {v.name for k in (kernel, job.candidate) for a in k.assumptions for v in used(a.expr)}
    launched = {v for e in launch_extents(kernel) for v in used(e)}
    own = {v.name for v in launched if v.name not in asked and isinstance(v.type, Scalar) and v.type.is_int}
    free = (a for a in job.workload.args if a.name in own and a.range is None and a.divisible_by == 1)
    return {a.name: a.value for a in free if isinstance(a.value, int | str)}


def _calls(job: Job, numbers: Mapping[str, int | str]) -> Iterator[tuple[Instance, dict[str, int]]]:
    """Instances of some blocks, the largest of few statements first, each with fewer of them."""
    short = [i for i in job.coverage.tried if 0 < statements_of(job, i) <= MOST_STATEMENTS]
    usual = [(i, {name: _at(i, n) for name, n in numbers.items()}) for i in short]
    several = [(i, call) for i, call in usual if any(n >= max(FEWER) for n in call.values())]
    for instance, call in sorted(several, key=lambda found: found[0].cost, reverse=True)[:INSTANCES]:
        for by in FEWER:
            one = 2 if by == FEWER[-1] else 1
            yield instance, {name: one if n == 1 else max(n // by, 1) for name, n in call.items()}


def _at(instance: Instance, number: int | str) -> int:
    return evaluate(number, instance.sizes) if isinstance(number, str) else number


__all__ = ["PassedBlocks", "passed_blocks"]
