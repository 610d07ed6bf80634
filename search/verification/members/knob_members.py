"""What a candidate does only at sizes that cost too much to run, seen at smaller values of its knobs.

A branch for rows of more than four million elements is one for rows of more than a thousand where blocks take 32
elements in place of 8192. The candidate with its knobs at other values is the same program; it has to be right for them
as well. For every knob there is one run in which that knob alone is at the candidate's value, or as close to it as can
be afforded: numbers that happen to be right for small values of it are wrong there. What counts is what all of those
runs have exercised.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.verifier import verify as check_ir
from ktc.ir.verifier.launch_rules import launch_exprs
from ktc.ir.walk import all_exprs, knobs_in
from ktc.ir.workload.scenario_facts import scalars_of
from ktc.search.verification.instances.instances import (
    LARGER,
    MAX_ELEMENTS,
    Instance,
    Maker,
    extents,
    instances,
)
from ktc.search.verification.instances.sizes import BEYOND
from ktc.search.verification.job import Job
from ktc.search.verification.rungs.exact import exact

MOST_TRIES = 3
"""Values of one knob that are tried, from the candidate's down."""

MOST_CHOICES = 4096
"""Combinations of knob values that are looked at for one that satisfies the constraints."""

COUNT = 2
"""Instances of one run, besides those that exercise what is missing."""

ALONE = 64_000
"""Statements of the candidate in a run by itself."""

SOME = (33, 70)
"""Other sizes, in steps, while one grows: what one loop of a nest does is seen only where all loops around it run."""

Missing = Callable[[Job], str]

Exercised = tuple[set[int], set[int], set[tuple[int, int]], set[int]]
"""Branches, loops that went round twice, conditions with outcomes, axes with several blocks or threads."""

NOTHING: Exercised = (set(), set(), set(), set())

Values = Mapping[str, int]


def learn_from_smaller_knobs(job: Job, missing: Missing) -> bool:
    """Adds to what ``job`` has exercised what the candidate exercises with smaller values of its knobs, if it does what
    the original does; whether there was any of that. ``missing`` says what of a candidate has not been exercised; ''
    once all is that can be."""
    candidate = job.candidate
    names = _used(candidate)
    least = next(_values(candidate, names, {}), None)
    if not names or least is None or least == _real(candidate, names):
        return False
    first = _run(job, least, missing)
    runs = [first]
    for name in names:
        if first is None:
            return False
        tried = (v for v in _down_to(candidate, name, least[name]))
        values = (next(_values(candidate, names, {name: at}), None) for at in tried)
        others = (_run(job, v, missing) for v in values if v is not None)
        runs.append(next((run for run in others if run is not None and _exercises(run, first, job)), None))
        if runs[-1] is None:
            return False
    learn(job, [run for run in runs if run is not None])
    return True


def _used(kernel: Kernel) -> list[str]:
    """The knobs that the program has, and that have other values."""
    found = {n for e in (*all_exprs(kernel.body), *launch_exprs(kernel)) for n in knobs_in(e)}
    return [k.name for k in kernel.knobs if k.name in found and min(k.domain) < kernel.knob_values[k.name]]


def _real(kernel: Kernel, names: list[str]) -> dict[str, int]:
    return {n: kernel.knob_values[n] for n in names}


def _down_to(kernel: Kernel, name: str, least: int) -> list[int]:
    """Values of a knob from the candidate's down to above the ``least``."""
    real = kernel.knob_values[name]
    found = sorted((v for v in kernel.knob(name).domain if least < v <= real), reverse=True)
    return [*found[:1], *found[1:][-MOST_TRIES + 1 :]]


def _values(kernel: Kernel, names: list[str], kept: Values) -> Iterator[dict[str, int]]:
    """Values of the knobs that satisfy the constraints, ``kept`` ones as given, the smallest first."""
    real = _real(kernel, names)
    domains = [[kept[n]] if n in kept else sorted(v for v in kernel.knob(n).domain if v <= real[n]) for n in names]
    for values in itertools.islice(itertools.product(*domains), MOST_CHOICES):
        made = dict(zip(names, values))
        if not any(evaluate(e, _with(kernel, made).environment()) in (False, 0) for e in kernel.constraints):
            yield made


def _with(kernel: Kernel, values: Values) -> Kernel:
    knobs = (dataclasses.replace(k, value=values.get(k.name, k.value)) for k in kernel.knobs)
    return kernel.with_(knobs=tuple(knobs))


def _run(job: Job, values: Values, missing: Missing) -> Job | None:
    """The candidate with other knobs against the original; None if it is not known to do the same."""
    kernel = _with(job.candidate, values)
    if check_ir(kernel):
        return None
    usual = instances(job.original, kernel, job.workload, count=COUNT)
    telling = _telling(job, kernel, missing)
    chosen = [*(i for i in usual if i not in telling), *telling]
    made = Job(job.original, kernel, job.oracle, chosen, job.workload, only=True)
    return made if telling and exact(made).status == "pass" else None


def _telling(job: Job, kernel: Kernel, missing: Missing) -> list[Instance]:
    """Instances at which the candidate with other knobs, run by itself, exercises what ``job`` has not: the cheapest
    ones, until nothing is missing."""
    maker = Maker((job.original, kernel), job.workload, LARGER * MAX_ELEMENTS)
    alone, found = Job(job.original, kernel, job.oracle, [], job.workload), []
    for instance in sorted(_growing(maker), key=lambda i: i.cost):
        before = _new(alone, job) if alone.coverage.tried else NOTHING
        try:
            args = job.oracle.inputs(instance.sizes, "exact")
            result = run(
                kernel, args, domain=job.domains[0], sanitize=False, fuel=ALONE, undefined=job.oracle.undefined
            )
        except KtcError:
            return []
        if result.ok:
            alone.coverage.note(instance, result)
            if _new(alone, job) != before:
                found.append(instance)
                if not missing(_having_learnt(job, alone)):
                    break
    return found


def _having_learnt(job: Job, run: Job) -> Job:
    """``job`` as it would be if all that ``run`` exercises counted."""
    learnt = copy.copy(job)
    learnt.coverage = dataclasses.replace(job.coverage, outcomes=dict(job.coverage.outcomes))
    learn(learnt, [run])
    return learnt


def _growing(maker: Maker) -> Iterator[Instance]:
    """Each size twice as large again and again, and a bit, the others small; where there are others, once more with so
    many of them that several tasks have a round of a few to do."""
    few = maker.few()
    some = ({n: max(v, maker.steps[n].at(least)) for n, v in few.items()} for least in SOME if len(few) > 1)
    for base in (few, *some) if few else ():
        for name in maker.names:
            value = few[name]
            while value <= maker.longest(name):
                made = maker.make({**base, name: value + BEYOND * maker.step[name]})
                if made is not None:
                    yield made
                value *= 2


def _exercises(run: Job, first: Job, job: Job) -> bool:
    """Whether a run exercises what the ``first`` one does, of what ``job`` has not."""
    return all(a <= b for a, b in zip(_new(first, job), _new(run, job)))  # type: ignore[operator]


def _new(run: Job, job: Job) -> Exercised:
    """What ``run`` exercises of what ``job`` has not."""
    mine, theirs = job.coverage, run.coverage
    outcomes = {
        (k, bit) for k, seen in theirs.outcomes.items() for bit in (1, 2) if seen & bit & ~mine.outcomes.get(k, 0)
    }
    return (
        set(mine.unreached or {}) - set(theirs.unreached or {}),
        set(mine.once or {}) - set(theirs.once or {}),
        outcomes,
        mine.axes & _several(run),
    )  # fmt: skip


def _several(run: Job) -> set[int]:
    every = (extents(run.candidate, scalars_of(run.workload, i.sizes)) for i in run.coverage.tried)
    return {k for found in every for k, n in enumerate(found) if n > 1}


def learn(job: Job, runs: list[Job]) -> None:
    """Adds what all ``runs`` exercise."""
    mine = job.coverage
    found = [_new(run, job) for run in runs]
    branches, rounds = (set.intersection(*(f[k] for f in found)) for k in (0, 1))
    outcomes, axes = set.intersection(*(f[2] for f in found)), set.intersection(*(f[3] for f in found))
    mine.unreached = {k: s for k, s in (mine.unreached or {}).items() if k not in branches}
    mine.once = {k: s for k, s in (mine.once or {}).items() if k not in rounds}
    for k, bit in outcomes:
        mine.outcomes[k] = mine.outcomes.get(k, 0) | bit
    mine.several |= axes


__all__ = ["learn", "learn_from_smaller_knobs"]
