"""Scalars for which a workload has one number, with other numbers: a launcher passes whatever its caller does, another
mode, another factor, rows that lie further apart than they are long. What a candidate does with these is compared with
what the original does on a few of the instances that the exact rung has been through: in exact arithmetic, and on
special values where the original tells the number from others (``beta == 0 ? a : a + beta * y`` is another thing than
``a + beta * y`` where ``y`` is NaN).

Only where the original means something with them, in longer buffers if need be, and is what the workload's reference
says; and no number that either kernel assumes something of, or that decides the launch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from ktc.ir.analysis.compared_numbers import compared_numbers
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import compare
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Sym
from ktc.ir.sequences import launch_extents
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar
from ktc.ir.walk import used
from ktc.ir.workload import ArgSpec, Workload
from ktc.ir.workload.size_expressions import evaluate
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.instances.sizes import runnable
from ktc.search.verification.job import Job, Outcome
from ktc.search.verification.oracle import TOLERATED, Numbers, Oracle
from ktc.search.verification.original_reference import other_than_reference
from ktc.search.verification.verdict import Failure

from .exact import STEPS, defect, mismatched, told
from .special_rung import special_failure

MOST = 3
"""Other numbers of one scalar."""

CALLS = 8
"""Most sets of numbers that are tried."""

INSTANCES = 2
"""Instances that each is tried on."""

SHARE = STEPS // 4
"""Statements of the candidate over all of them, foreseen from what the exact rung took."""


Number = int | float | str
"""What a scalar is; a text is computed from the sizes."""

Call = tuple[tuple[str, Number], ...]
"""What scalars are in one call, by name."""

USUAL = 1 << 12
"""Elements and threads below which a statement takes as long as on few."""


def scalar_values(job: Job) -> Outcome:
    """No defect, and the original's bits in the exact domains, with other numbers for scalars; ``skip`` where there are
    none."""
    tried: dict[str, None] = {}
    left = SHARE
    for wanted in _calls(job):
        for call, room in product(dict.fromkeys((wanted, wanted[:1])), (False, True)):
            chosen = [(i, _oracle(job, call, room, i)) for i in cheap_instances(job, left)]
            if not chosen or not all(means_something(job, oracle, i) for i, oracle in chosen):
                continue
            if job.workload.formulas and any(other_than_reference(oracle) for _, oracle in chosen):
                continue
            for instance, oracle in chosen:
                one = Job(job.original, job.candidate, oracle, [], oracle.workload)
                left -= len(job.domains) * statements_of(job, instance)
                failure = compared(one, instance)
                if failure is None and _tells(job.original, *call[0]):
                    failure = special_failure(one, [instance])
                if failure is not None:
                    return told(replace(failure, sizes={**instance.sizes, **dict(_numbers(call, instance))}))
            tried |= dict.fromkeys(f"{name}={n if isinstance(n, str) else f'{n:g}'}" for name, n in call)
            break
    return Outcome("pass", f"also with {', '.join(tried)}") if tried else Outcome("skip", "no scalar has other numbers")


def _oracle(job: Job, call: Call, room: bool, instance: Instance) -> Oracle:
    return job.oracle.with_numbers(_numbers(call, instance), room)


def _numbers(call: Call, instance: Instance) -> Numbers:
    """What the scalars of ``call`` are at the sizes of ``instance``."""
    return tuple((name, evaluate(n, instance.sizes) if isinstance(n, str) else n) for name, n in call)


def _calls(job: Job) -> list[Call]:
    """What scalars are in each call: first the one for whose sake it is made, then others at random; each that is tied
    to the sizes comes in one of its own."""
    numbers = other_numbers(job.original, job.candidate, job.workload)
    most = max(map(len, numbers.values()), default=0)
    mine = [(name, found[k]) for k in range(most) for name, found in numbers.items() if k < len(found)]
    calls = []
    for k, (name, n) in enumerate(mine[:CALLS]):
        draw = random.Random(k)
        beside = ((other, draw.choice((None, *found))) for other, found in numbers.items() if other != name)
        calls.append(((name, n), *((other, x) for other, x in beside if x is not None)))
    return calls + [((name, text),) for name, text in untied(job.original, job.candidate, job.workload).items()]


def cheap_instances(job: Job, left: int) -> list[Instance]:
    """The longest and largest that the exact rung has been through and that are cheap enough: no more than ``left``
    statements on :data:`USUAL` elements."""
    most = min(SHARE // (CALLS * INSTANCES), left // INSTANCES) // len(job.domains)
    cheap = [i for i in job.coverage.tried if 0 < statements_of(job, i) <= most]
    return sorted(cheap, key=lambda i: (statements_of(job, i), i.cost), reverse=True)[:INSTANCES]


def statements_of(job: Job, instance: Instance) -> int:
    """What the candidate takes for an instance, in statements on :data:`USUAL` elements or fewer."""
    return job.steps.get(id(instance), 0) * max(instance.cost, USUAL) // USUAL


def means_something(job: Job, oracle: Oracle, instance: Instance) -> bool:
    """Whether the original is defined with these numbers, as with the workload's, and both kernels are for them."""
    if not all(runnable(k, oracle.workload, instance.sizes) for k in (job.original, job.candidate)):
        return False
    try:
        want = oracle.run(instance.sizes, job.domains[0], "exact", STEPS)
    except KtcError:
        return False
    usual = {(f.kind, f.buffer) for f in job.defects_for(instance.sizes)}
    races = any(f.kind == "race" and (f.kind, f.buffer) not in usual for f in want.findings)
    return want.ended and not races and all(f.kind in TOLERATED for f in want.findings)


def _tells(kernel: Kernel, name: str, n: Number) -> bool:
    """Whether ``kernel`` does something of its own where the scalar ``name`` is ``n``."""
    return not isinstance(n, str) and any(
        n in compared_numbers(p.sym, kernel) for p in kernel.params if p.sym.name == name
    )


def compared(job: Job, instance: Instance) -> Failure | None:
    """What is wrong with the candidate for ``instance``: a defect, or other bits than the original's."""
    for domain in job.domains:
        try:
            want = job.oracle.run(instance.sizes, domain, "exact", STEPS)
            first = domain == job.domains[0]
            got = job.run(instance, "exact", domain, want, sanitize=first)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            continue
        failure = defect(want.findings, got, instance, domain) if first else None
        failure = failure or mismatched(compare(want, got, domain), instance)
        if failure is not None:
            return failure
    return None


def other_numbers(original: Kernel, candidate: Kernel, workload: Workload) -> Mapping[str, tuple[int | float, ...]]:
    """Numbers that scalars might be instead of the workload's, by name."""
    found = {a.name: _others(a, p, original) for a, p in _open(original, candidate, workload)}
    return {name: numbers for name, numbers in found.items() if numbers}


def untied(original: Kernel, candidate: Kernel, workload: Workload) -> Mapping[str, str]:
    """Formulas of what integers might be instead that the workload computes from its sizes, by name: the stride of rows
    that a draft takes for their length. Of several that are one size, one is that size itself, and varied with it."""
    named = [a for a in workload.args if isinstance(a.value, str) and a.value.isidentifier()]
    likely = sorted(named, key=lambda a: (a.name != a.value, a.range is None))
    sizes = {str(a.value): a.name for a in reversed(likely)}
    tied = ((a, p) for a, p in _open(original, candidate, workload) if isinstance(a.value, str))
    return {
        a.name: f"{a.value} + 1"
        for a, p in tied
        if isinstance(p.type, Scalar) and p.type.is_int and sizes.get(str(a.value)) != a.name
    }


def _open(original: Kernel, candidate: Kernel, workload: Workload) -> list[tuple[ArgSpec, Sym]]:
    """The scalars of which nothing is promised, assumed or needed to launch."""
    fixed = {s.name for k in (original, candidate) for a in k.assumptions for s in used(a.expr)}
    fixed |= {s.name for k in (original, candidate) for e in launch_extents(k) for s in used(e)}
    params = {p.sym.name: p.sym for p in original.params if p.sym.name not in fixed}
    free = (a for a in workload.args if a.name in params and a.range is None and a.divisible_by == 1)
    return [(a, params[a.name]) for a in free if a.role == "scalar"]


@by_identity(64, subjects=3)
def _others(a: ArgSpec, param: Sym, kernel: Kernel) -> tuple[int | float, ...]:
    """Numbers that the scalar might be instead: first those from which ``kernel`` tells it. Whole ones, which exact
    domains have."""
    t = param.type
    if not isinstance(t, Scalar) or not isinstance(a.value, int | float | str):
        return ()
    if isinstance(a.value, str) and not t.is_float:
        return ()  # a size, or tied to some (:func:`untied`)
    truth, number = t.kind == "bool", 1 if isinstance(a.value, str) else a.value
    usual = int(not a.value) if truth else (round(number) or 1) + 1 or 2
    likely = (n for n in dict.fromkeys((*compared_numbers(param, kernel), usual)) if n == round(n) and n != a.value)
    fitting = [n for n in likely if (n in (0, 1) if truth else n >= 0 or t.is_float or t.is_signed)]
    return tuple(float(n) if t.is_float else int(n) for n in fitting[:MOST])


__all__ = [
    "cheap_instances",
    "compared",
    "means_something",
    "other_numbers",
    "scalar_values",
    "statements_of",
    "untied",
]
