"""L3 in floating point: bit-identical where nothing may change rounding, else within the error bound.

Instances are run on several kinds of data (:data:`ktc.search.verification.oracle.DATA`), and in the domain that counts
roundings: an output may not be rounded to a narrower type more often than the original rounds it, be it by arithmetic
in that type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import Finding, RunResult, run
from ktc.ir.interp.domains.roundings import STEPPED, counts
from ktc.ir.interp.domains.terms import errors
from ktc.ir.interp.equivalence import bits_differ
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Cast, Reduce
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import all_exprs, walk
from ktc.ir.whole_powers import whole_power
from ktc.search.verification.floats.accuracy import (
    DRAWS,
    Excess,
    is_float,
    lost_accuracy,
    no_looser,
    outside_bound,
    worst_ratio,
)
from ktc.search.verification.floats.larger_floats import decides
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.instances.wide_rows import wide_rows
from ktc.search.verification.job import Job, Outcome, Planned
from ktc.search.verification.oracle import INTEGERS
from ktc.search.verification.verdict import Failure

from .exact import defect, endless, stopped, told
from .float_bits import without_bounds
from .lost_extremes import lost_failure, telling_instance
from .special_rung import special_failure, special_runs
from .unread_peaks import unread_failure

STEPS = 12_000
"""Statements of the candidate over the instances of this layer, as far as the exact layer has counted them."""

COUNTED = 4
"""Instances on which roundings are counted, at most."""

ENDS = {
    "masked": "for rows with infinities", "sunken": "far below zero", "raised": "far above zero",
    "deep": "below -1e30", "high": "above 1e30",
}  # fmt: skip
"""Data at the ends of a type: what is asked is where infinities and numbers come out."""

NUMBERS = ("deep", "high")
"""Those of which numbers are asked for, too: they overflow nothing."""

DISTANT = 1 / 16
"""Differences of such numbers, as a part of the largest one of a buffer, that no order of operations makes."""


ONE_SIDED = ("sunken", "raised", "deep", "high", "negative", "positive", "below", "above")
"""Data of one sign, for kernels in which it matters which of two numbers is larger."""


@dataclass
class _Sweep:
    """One candidate's runs; ``ratio`` is the largest share of an error bound that an element has used so far."""

    job: Job
    identical: bool
    ratio: float = 0.0

    def failure(self, instance: Instance, data: str) -> Failure | None:
        want = self.job.oracle.run(instance.sizes, "float", data)
        theirs: list[Finding] = []
        if self.job.unsure:
            got, theirs = self.job.looked_at(instance, data, "float", want)
        else:
            got = self.job.run(instance, data, "float", want)
        looked = self.job.unsure or endless(got)
        wrong = defect((*want.findings, *theirs), got, instance, "float") if looked else None
        wrong = wrong or stopped(want, got, instance, "float")
        if wrong or not want.ended:
            return wrong  # what a run leaves that was cut short is no result
        if data in ENDS:
            return _other_infinities(want, got, instance, ENDS[data], data in NUMBERS)
        if self.identical or data in INTEGERS:
            return _bits(want, got, instance, floats=self.identical)
        return self._bounded(want, got, instance, data)

    def _bounded(self, want: RunResult, got: RunResult, instance: Instance, data: str) -> Failure | None:
        job = self.job
        exact_values = job.oracle.run(instance.sizes, "float64", data)
        bounds = job.alone(instance, data, "bound")
        for name, x in want.outputs.items():
            h = got.outputs[name]
            stored = want.written.get(name, np.ones(x.shape, bool))
            if not is_float(x.dtype):
                wrong = _first(bits_differ(x, h) & stored, x, h, name, "", instance)
                if wrong:
                    return wrong
                continue
            y, e = exact_values.outputs[name], np.imag(bounds.outputs[name])
            y, e, h0, x0 = (np.where(stored, v, 0) for v in (y, e, h.astype(np.float64), x.astype(np.float64)))
            y = np.where(bits_differ(x, h), y, h0)  # what has the original's bits is right, whatever they were made of
            if not job.candidate.may_lose_accuracy:
                theirs = job.oracle.run(instance.sizes, "terms", data).outputs[name]
                e = no_looser(e, np.where(stored, errors(theirs), 0), y, h.dtype)
            bad = outside_bound(h0.astype(h.dtype), y, e)
            if bad is None and data != "peaks" and not job.candidate.may_lose_accuracy:
                bad = lost_accuracy(h0.astype(h.dtype), x0.astype(x.dtype), y)
                bad = bad if bad and all(self._lost(instance, data, name, k) for k in range(1, DRAWS)) else None
            if bad:
                message = f"{name}{list(bad.index) if bad.index else ''}: {bad}"
                a, b = f"{bad.expected!r}", f"{bad.got!r}"
                return Failure("inaccurate", message, dict(instance.sizes), "float", name, bad.index, a, b)
            self.ratio = max(self.ratio, worst_ratio(h0.astype(h.dtype), y, e))
        return None

    def _lost(self, instance: Instance, data: str, name: str, draw: int) -> Excess | None:
        """Whether accuracy is lost on other inputs of these sizes too."""
        oracle = self.job.oracle.draw(draw)
        want, y = (oracle.run(instance.sizes, domain, data) for domain in ("float", "float64"))
        args = oracle.inputs(instance.sizes, data)
        got = run(self.job.candidate, args, domain="float", sanitize=False, undefined=oracle.undefined)
        x = want.outputs[name]
        stored = want.written.get(name, np.ones(x.shape, bool))
        h, g, exact = (np.where(stored, r.outputs[name].astype(np.float64), 0) for r in (got, want, y))
        return lost_accuracy(h.astype(x.dtype), g.astype(x.dtype), exact)

    def rounded_more(self, instance: Instance) -> Failure | None:
        """An output that was rounded to a narrower type more often than in the original."""
        job, sizes = self.job, instance.sizes
        try:
            want = job.oracle.run(sizes, "roundings", "plain")
            got = job.run(instance, "plain", "roundings", want)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            return None
        for name, x in want.outputs.items():
            if not np.iscomplexobj(x):
                continue
            mine, theirs = counts(got.outputs[name]), counts(x)
            more = (mine > theirs) & want.written.get(name, np.ones(x.shape, bool))
            if more.any():
                more &= self._rounded_in_steps(instance, name)
            if more.any():
                at = tuple(int(i) for i in np.unravel_index(int(np.argmax(more)), more.shape))
                a, b = str(int(theirs[at])), str(int(mine[at]))
                message = (
                    f"{name}{list(at)} is rounded to a narrower type {b} times on its way, {a} times in the original"
                )
                return Failure("inaccurate", message, dict(sizes), "roundings", name, at, a, b)
        return None

    def _rounded_in_steps(self, instance: Instance, name: str) -> np.ndarray | bool:
        """Where the candidate rounds more often to the one type that it narrows to, half precision, arithmetic in it
        counted, too: a sum in 32 bits that is rounded where it ends stands against one that was rounded at each step.
        """
        to = {scalar_of(e.to).name for e in _narrowing(self.job.candidate)}
        if len(to) != 1 or (domain := STEPPED.get(to.pop())) is None:
            return True
        want = self.job.oracle.run(instance.sizes, domain, "plain")
        got = self.job.run(instance, "plain", domain, want)
        return counts(got.outputs[name]) > counts(want.outputs[name])


def floats(job: Job) -> Outcome:
    """L3 in floating point: within the candidate's error bound, or bit-identical where rounding order cannot change."""
    chosen = _telling(job)
    sweep = _Sweep(job, not may_round_differently(job.original, job.candidate))
    try:
        runs = list(_runs(job, chosen, sweep.identical))
        special = _for_special(job, chosen) if _spreadable(job) else []
        job.announce(float_runs(job))
        for instance, data in runs:
            failure = sweep.failure(instance, data)
            if failure:
                return told(failure)
        failure = special_failure(job, special)
        if failure:
            return told(failure)
        if _spreadable(job) and decides(job.original):
            unread = (unread_failure(job, i) for i in _longest_rows(job))
            rows = [*_wide_rows(job)[:1], *sorted(_longest_rows(job), key=lambda i: -i.cost)]
            lost = (lost_failure(job, i) for i in telling_instance(job, rows))
            failure = next(filter(None, chain(unread, lost)), None)
            if failure:
                return told(failure)
    except KtcError as e:
        if e.code != "E-INTERP-UNSUPPORTED":
            raise
        return without_bounds(job, chosen, e.message)
    for instance in _counted(job, chosen):
        failure = sweep.rounded_more(instance)
        if failure:
            return Outcome("fail", str(failure), failure)
    if sweep.identical:
        return Outcome("pass", f"{len(chosen)} instances bit-identical")
    how = f"within {sweep.ratio:.2f} of the error bound, no less accurate than the original"
    return Outcome("pass", f"{len(chosen)} instances {how}", ratio=round(sweep.ratio, 4))


def float_runs(job: Job) -> Iterator[Planned]:
    """What :func:`floats` asks for, once the exact layer is through; before, most of that."""
    chosen, identical = _telling(job), not may_round_differently(job.original, job.candidate)
    yield from _planned(job, list(_runs(job, chosen, identical)), identical)
    yield from special_runs(job, _for_special(job, chosen) if _spreadable(job) else [])
    yield from _rounding_runs(job, chosen)


def _counted(job: Job, chosen: list[Instance]) -> list[Instance]:
    """Those on which roundings are counted."""
    most = sorted(chosen, key=lambda i: -i.cost)[:1]  # where every thread has something to round
    counted = _distinct(*most, *_broadest(chosen), *_longest(chosen), *chosen)[:COUNTED]
    return counted if any(_narrowing(job.candidate)) else []


def _planned(job: Job, runs: list[tuple[Instance, str]], identical: bool) -> Iterator[Planned]:
    """What the runs of a sweep need, as :meth:`_Sweep.failure` asks for it."""
    for instance, data in runs:
        yield job.planned("candidate", instance, "float", data, job.unsure)
        if not (identical or data in ENDS or data in INTEGERS):
            yield job.planned("alone", instance, "bound", data)
            domains = ("float64",) if job.candidate.may_lose_accuracy else ("float64", "terms")
            yield from (job.planned("original", instance, d, data) for d in domains)


def _rounding_runs(job: Job, chosen: list[Instance]) -> Iterator[Planned]:
    return (job.planned("candidate", i, "roundings", "plain") for i in _counted(job, chosen))


def _runs(job: Job, chosen: list[Instance], identical: bool) -> Iterator[tuple[Instance, str]]:
    """Instances, and the kinds of data for each."""
    two = _distinct(*chosen[:1], *sorted(chosen, key=lambda i: -i.cost)[:1])
    short = [i for i in _found(job) if job.steps.get(id(i), 0) <= STEPS]
    yield from ((i, "plain") for i in _distinct(*chosen, *_busiest(job, short)[:1]))
    if _spreadable(job):
        some = _distinct(*chosen[: 1 + len(chosen) // 2], *_broadest(chosen), *_longest(chosen))
        yield from ((i, "wild") for i in some)
        if identical:
            yield from ((i, "special") for i in two)
    if job.oracle.integers:
        yield from ((i, data) for data in INTEGERS for i in two if job.oracle.has_meaning_for(i.sizes, data))
    if _spreadable(job) and decides(job.original):
        wide = _wide_rows(job)
        yield from ((i, data) for i in wide for data in ("peaks", "plain"))
        yield from ((i, "peaks") for i in chosen[:1])
        yield from ((i, data) for data in ONE_SIDED for i in chosen[:1])
        yield from ((i, "masked") for i in (*chosen[:1], *(wide[:1] or chosen[-1:])))


def _for_special(job: Job, chosen: list[Instance]) -> list[Instance]:
    """The smallest instance, and one with many rows."""
    wide = _wide_rows(job)[:1] if decides(job.original) else []
    return _distinct(*chosen[:1], *(wide or _broadest(chosen)))


def _wide_rows(job: Job) -> list[Instance]:
    """Instances of long rows, where the candidate is for any."""
    return [] if job.only else wide_rows(job.original, job.candidate, job.workload)


def _narrowing(kernel: Kernel) -> Iterator[Cast]:
    """The conversions of floats to narrower types."""
    for e in all_exprs(kernel.body):
        if (
            isinstance(e, Cast)
            and _float(e.to)
            and _float(e.x.type)
            and scalar_of(e.to).bits < scalar_of(e.x.type).bits
        ):
            yield e


def _float(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_float


def _spreadable(job: Job) -> bool:
    """Whether float inputs may take any magnitude, and only the float types' own limits matter."""
    floats = ("f16", "bf16", "f32", "f64")
    return any(
        a.role in ("in", "inout") and a.range is None and job.workload.dtype(a, job.oracle.variant) in floats
        for a in job.workload.args
    )


def _telling(job: Job) -> list[Instance]:
    """The busiest of those that take no more than half of what there is for all (guards let something through there),
    the smallest (empty lanes meet infinities there), and those where each size is largest (roundings add up)."""
    found = _found(job)
    busiest = _busiest(job, [i for i in found if 2 * job.steps.get(id(i), 0) <= STEPS] or found[:1])
    chosen = _distinct(*busiest[:1], *found[:3], *_broadest(found), *found[-1:], *busiest[:2], *_longest(found))
    total = 0
    kept: list[Instance] = []
    for i in chosen:
        total += job.steps.get(id(i), 0)
        if total <= STEPS or len(kept) < 3:
            kept.append(i)
    return kept


def _found(job: Job) -> list[Instance]:
    """The instances that the exact layer ran; all if it ran none of them."""
    return [i for i in job.instances if id(i) in job.steps] or job.instances


def _busiest(job: Job, found: list[Instance]) -> list[Instance]:
    """Those whose threads do most come first; of such as do about as much, the cheapest."""
    executed = {id(i): job.executed.get(id(i), 0) for i in found}
    most = max(executed.values(), default=0)
    if not most:
        return sorted(found, key=lambda i: -i.cost)
    return sorted(found, key=lambda i: (-(executed[id(i)] // (most // 8 + 1)), i.cost))


def _longest(found: list[Instance]) -> list[Instance]:
    """For each size, where it is largest."""
    names = list(found[0].sizes) if found else []
    return [max(found, key=lambda i: (i.sizes[n], i.cost)) for n in names]


def _broadest(found: list[Instance]) -> list[Instance]:
    """Where the least size is largest: what only later rows do, with long ones, shows there."""
    return [max(found, key=lambda i: (min(i.sizes.values(), default=0), i.cost))] if found else []


def _longest_rows(job: Job) -> list[Instance]:
    """Of the instances that the exact layer ran, those that take most, and where each size is largest."""
    found = _found(job)
    return _distinct(*_busiest(job, found)[:1], *_longest(found))


def _distinct(*found: Instance) -> list[Instance]:
    return list({id(i): i for i in found}.values())


def may_round_differently(original: Kernel, candidate: Kernel) -> bool:
    """Whether float results may legally differ: declared by a pass, or a combining order nobody promised."""
    if (candidate.flags | original.flags) & {"reassociates", "fast_math"}:
        return True
    if any(map(whole_power, all_exprs(original.body))):
        return True  # lowered as products
    return any(
        isinstance(s, Reduce) or (isinstance(s, Atomic) and scalar_of(s.buffer.type).is_float)
        for k in (original, candidate)
        for s in walk(k.body)
    )


def _bits(want: RunResult, got: RunResult, instance: Instance, floats: bool = True) -> Failure | None:
    for name, x in want.outputs.items():
        if is_float(x.dtype) and not floats:
            continue
        stored = want.written.get(name, np.ones(x.shape, bool))
        differs = bits_differ(x, got.outputs[name]) & stored
        if is_float(x.dtype):
            differs &= ~(np.isnan(x.astype(np.float64)) & np.isnan(got.outputs[name].astype(np.float64)))
        why = " to the bit: nothing here may change rounding"
        wrong = _first(differs, x, got.outputs[name], name, why, instance)
        if wrong:
            return wrong
    return None


def _other_infinities(want: RunResult, got: RunResult, instance: Instance, where: str, numbers: bool) -> Failure | None:
    """Where the original leaves a number or an infinity the candidate leaves one too; how exact, other data say.
    ``numbers``: it is not an altogether different number."""
    for name, x in want.outputs.items():
        if not is_float(x.dtype):
            continue
        a, b = x.astype(np.float64), got.outputs[name].astype(np.float64)
        other = np.isnan(b) | (np.isinf(a) != np.isinf(b)) | (np.isinf(a) & (a != b))
        stored = want.written.get(name, np.ones(x.shape, bool))
        if numbers:
            known = stored & np.isfinite(a) & np.isfinite(b)
            largest = np.max(np.abs(np.where(known, a, 0)), initial=0)
            other |= known & (np.abs(np.where(known, b - np.where(known, a, 0), 0)) > DISTANT * largest)
        differs = other & ~np.isnan(a) & stored
        wrong = _first(differs, x, got.outputs[name], name, f" {where}", instance)
        if wrong:
            return wrong
    return None


def _first(
    differs: np.ndarray, want: np.ndarray, got: np.ndarray, name: str, why: str, instance: Instance
) -> Failure | None:
    if not differs.any():
        return None
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
    a, b = str(want[at]), str(got[at])
    message = f"{name}{list(at)} is {b}, expected {a}{why}"
    return Failure("mismatch", message, dict(instance.sizes), "float", name, at, a, b)
