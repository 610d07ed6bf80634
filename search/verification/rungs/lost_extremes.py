"""Elements that the candidate reads, and then leaves out of a maximum or a minimum.

A tree over a thousand threads that forgets one of them gives the right maximum of every row but those whose largest
element that thread had. Rows drawn at random are too few for each thread to have its turn. So both kernels run on sets
(:mod:`ktc.ir.interp.domains.subsets`): a maximum is the union of what its elements are, and each bit that few elements
have stands for a row in which these stand out. Where the unions differ, a bit that does it is looked for, and its row
of numbers is what decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from ml_dtypes import finfo

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import RunResult, compare, run
from ktc.ir.interp.domains.realmath import plain_name
from ktc.ir.interp.equivalence import Mismatch
from ktc.ir.interp.launches_at_once import apart, differing
from ktc.ir.nodes import Call
from ktc.ir.walk import all_exprs
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import Inputs
from ktc.search.verification.verdict import Failure

from .exact import mismatched

ROWS = 72
"""Rows of zeros and ones, for each row of the instance, that are looked at in all."""

DRAWS = 7
"""Sets of each element, drawn one after the other, at most."""

STANDING_OUT = 64
"""What elements that stand out are in exact arithmetic, where others are a few: products of ten of them still have an
order."""

MOST = 20_000
"""Statements of one run: loops that numbers end may go on without end where these are sets."""

ELEMENTS = 1 << 22
"""Elements of all inputs, above which an instance is left alone."""


def telling_instance(job: Job, instances: Iterable[Instance]) -> list[Instance]:
    """The first of ``instances`` on which the original comes to its end within :data:`MOST` statements, if any: nothing
    is seen of a run that is cut short."""
    domain = job.domains[0]
    return next(([i] for i in instances if job.oracle.run(i.sizes, domain, "exact", MOST).ended), [])


def lost_failure(job: Job, instance: Instance) -> Failure | None:
    """The first output that differs where elements stand out that the candidate's maxima have lost."""
    asked = {plain_name(e.fn) for e in all_exprs(job.candidate.body) if isinstance(e, Call)} & {"max", "min"}
    if not asked:
        return None
    plain = job.oracle.inputs(instance.sizes, "exact")
    inputs = job.oracle.specialised(instance.sizes)
    if not inputs or sum(x.size for x in plain.values() if isinstance(x, np.ndarray)) > ELEMENTS:
        return None
    bits = min(finfo(x.dtype).nmant + 1 for x in inputs.values())
    draws = [
        {n: _sets(x.shape, bits, draw, k) for k, (n, x) in enumerate(inputs.items())}
        for draw in range(min(DRAWS, -(-ROWS // bits)))
    ]
    every = (1 << bits) - 1
    tried = [(drawn, name == "min") for drawn in draws for name in sorted(asked)]
    sets = [_in_sets(plain, drawn, every, every * turned) for drawn, turned in tried]
    for (drawn, turned), differ in zip(tried, _which_differ(job, instance, sets)):
        if not differ:
            continue
        bit = _telling_bit(job, plain, drawn, bits, turned)
        failure = _in_numbers(job, instance, plain, drawn, bit, turned)
        if failure is not None:
            return failure
    return None


def _sets(shape: tuple[int, ...], bits: int, draw: int, number: int) -> np.ndarray:
    """A set for each element: about one of a row has a given bit."""
    rng = np.random.default_rng([draw, number, *shape])
    size, row = int(np.prod(shape)), shape[-1]
    out = np.zeros(size, np.int64)
    for bit in range(bits):
        many = max(1, size // row)
        np.bitwise_or.at(out, rng.integers(0, size, many), np.int64(1) << bit)
    return out.reshape(shape)


def _telling_bit(job: Job, plain: Inputs, drawn: Mapping[str, np.ndarray], bits: int, turned: bool) -> int:
    """A bit by which alone the two kernels differ, where they do on all of them; a minimum loses what few elements have
    not (``turned``)."""
    every = (1 << bits) - 1
    left = list(range(bits))
    while len(left) > 1:
        half = left[: len(left) // 2]
        sets = _in_sets(plain, drawn, sum(1 << b for b in half), every * turned)
        left = left[len(half) :] if _difference(job, sets, "subsets") is None else half
    return left[0]


def _in_sets(plain: Inputs, drawn: Mapping[str, np.ndarray], chosen: int, turned: int) -> Inputs:
    """Arguments that are sets of the ``chosen`` bits, without those of them that are ``turned``."""
    sets = {n: ((x & np.int64(chosen)) ^ np.int64(turned)).astype(_type(plain[n])) for n, x in drawn.items()}
    return {**plain, **sets}


def _in_numbers(
    job: Job, instance: Instance, plain: Inputs, drawn: Mapping[str, np.ndarray], bit: int, turned: bool
) -> Failure | None:
    """What is wrong where the elements that have ``bit`` stand out as numbers do."""
    by = -STANDING_OUT if turned else STANDING_OUT
    made = {n: np.where(x >> bit & 1, by, np.asarray(plain[n], np.float64)).astype(_type(plain[n]))
            for n, x in drawn.items()}  # fmt: skip
    found = _difference(job, {**plain, **made}, job.domains[0])
    return mismatched(found, instance, "wrong result where single elements stand out") if found is not None else None


def _type(x: object) -> np.dtype:
    return np.asarray(x).dtype


def _which_differ(job: Job, instance: Instance, several: list[Inputs]) -> Iterator[bool]:
    """Whether the two kernels differ, for each of several arguments; runs of a few of them are made at once, but for a
    kernel that cannot, or that finds something there."""
    kernels = job.original, job.candidate
    most = min(job.most_at_once(k, several[0], instance) for k in kernels)
    for few in (several[k : k + most] for k in range(0, len(several), most)):
        if len(few) > 1 and (pairs := _at_once(job, few)) is not None:
            yield from (compare(want, got, "subsets") is not None for want, got in pairs)
        else:
            yield from (_difference(job, args, "subsets") is not None for args in few)


def _at_once(job: Job, few: list[Inputs]) -> list[tuple[RunResult, RunResult]] | None:
    """What the two kernels leave in sets; None where something was found, or nothing may run at once."""
    made = []
    for kernel in (job.original, job.candidate):
        if differing(kernel, few) is None:
            return None
        try:
            result = run(
                kernel, few[0], domain="subsets", sanitize=False, fuel=MOST, undefined=job.oracle.undefined,
                returned=job.stored, beside=few[1:], fatal=lambda _: True,
            )  # fmt: skip
        except KtcError:
            return None
        if not result.ok:
            return None
        made.append(apart(result, len(few)))
    return list(zip(*made))


def _difference(job: Job, args: Inputs, domain: str) -> Mismatch | None:
    """Where the two kernels differ; None also where one does not end, or does what that domain has no meaning for."""
    oracle = job.oracle
    try:
        want, got = (
            run(k, args, domain=domain, sanitize=False, fuel=MOST, undefined=oracle.undefined, returned=job.stored)
            for k in (job.original, job.candidate)
        )
    except KtcError:
        return None
    return compare(want, got, domain) if want.ended and got.ended else None


__all__ = ["lost_failure", "telling_instance"]
