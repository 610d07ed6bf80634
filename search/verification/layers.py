"""The rungs that need no device: IR verifier, sanitizer and exact domains, floats within their bound.

Each layer is a function ``(job) -> Outcome``: a rung, and a failure when the candidate is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import FUEL, Finding, Mismatch, RunResult, compare, run
from ktc.ir.interp.equivalence import bits_differ
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Reduce, Stmt
from ktc.ir.text import print_stmt
from ktc.ir.types import scalar_of
from ktc.ir.verifier import verify as check_ir
from ktc.ir.walk import walk
from ktc.ir.workload import Workload

from .accuracy import is_float, lost_accuracy, outside_bound
from .instances import MAX_ELEMENTS, Instance, larger_instances
from .oracle import Oracle
from .verdict import Failure

LARGER = 8
"""How much costlier an extra instance may be than a usual one."""


@dataclass
class Job:
    """One candidate against its original."""

    original: Kernel
    candidate: Kernel
    oracle: Oracle
    instances: list[Instance]
    workload: Workload
    domains: tuple[str, ...] = ("int", "field")

    def all_instances(self) -> Iterator[Instance]:
        """The usual ones, then larger ones for code that none of those enters."""
        yield from self.instances
        yield from larger_instances(self.original, self.candidate, self.workload, limit=LARGER * MAX_ELEMENTS)


@dataclass(frozen=True)
class Outcome:
    """pass | fail | skip | unknown, with one line, and the failure of a ``fail``."""

    status: str
    detail: str
    failure: Failure | None = None


def verifier(job: Job) -> Outcome:
    """L1: the candidate is well-formed IR."""
    problems = check_ir(job.candidate)
    if not problems:
        return Outcome("pass", "well-formed")
    first = problems[0]
    failure = Failure(first.code, first.message, loc=str(first.loc or ""))
    return Outcome("fail", f"{len(problems)} problems: {first}", failure)


def exact(job: Job) -> Outcome:
    """L2 and L3: no defect in the sanitizer, and the original's bits in the exact domains, on every instance.

    If a branch or loop of the candidate was never entered, a few larger instances are tried for its sake.
    """
    if not job.instances:
        return Outcome("unknown", "no instance satisfies the assumptions and guards within the size limit")
    tried = 0
    unreached: dict[int, Stmt] | None = None
    skipped: set[str] = set()
    for instance in job.all_instances():
        if tried >= len(job.instances) and not unreached:
            break
        failure, missed = _exact_once(job, instance, skipped)
        if failure:
            return Outcome("fail", str(failure), failure)
        if len(skipped) >= len(job.domains):
            return _sanitized(job, "; ".join(sorted(skipped)))
        tried += 1
        unreached = missed if unreached is None else {k: s for k, s in unreached.items() if k in missed}
    largest = max(job.instances, key=lambda i: i.cost)
    detail = f"{tried} instances up to {_sizes(largest.sizes)}, domains {', '.join(job.domains)}"
    if skipped:
        detail += f" (not {'; '.join(sorted(skipped))})"
    if unreached:
        first = print_stmt(next(iter(unreached.values()))).strip().splitlines()[0]
        detail += f"; {len(unreached)} branches never entered, the first before '{first}'"
    return Outcome("pass", detail)


def _exact_once(job: Job, instance: Instance, skipped: set[str]) -> tuple[Failure | None, dict[int, Stmt]]:
    """One instance in every exact domain: a failure, and what the candidate did not enter."""
    args = job.oracle.inputs(instance.sizes, exact=True)
    missed: dict[int, Stmt] = {}
    for number, domain in enumerate(job.domains):
        try:
            want = job.oracle.run(instance.sizes, domain, exact=True)
            got = _run(job, args, domain, number == 0, want)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            skipped.add(f"{domain}: {e.message}")
            continue
        failure = _defect(want, got, instance, domain) if number == 0 else None
        failure = failure or _mismatch(compare(want, got, domain), instance)
        if failure:
            return failure, missed
        missed = {id(s): s for s in got.unreached}
    return None, missed


def _sanitized(job: Job, why: str) -> Outcome:
    """L2 alone, on ordinary floats, for programs the exact domains cannot follow (they look at bit patterns)."""
    for instance in job.instances:
        args = job.oracle.inputs(instance.sizes, exact=True)
        try:
            want = job.oracle.run(instance.sizes, "float", exact=True)
            got = _run(job, args, "float", True, want)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            return Outcome("unknown", e.message)
        failure = _defect(want, got, instance, "float")
        if failure:
            return Outcome("fail", str(failure), failure)
    return Outcome("pass", f"{len(job.instances)} instances without a defect, but no exact domain ({why})")


def floats(job: Job) -> Outcome:
    """L3 in floating point: within the candidate's error bound, or bit-identical where rounding order cannot change."""
    chosen = _telling(job.instances)
    identical = not may_round_differently(job.original, job.candidate)
    for instance in chosen:
        args = job.oracle.inputs(instance.sizes, exact=False)
        try:
            want = job.oracle.run(instance.sizes, "float", exact=False)
            got = _run(job, args, "float", False, want)
            failure = _bits(want, got, instance) if identical else _bounded(job, args, want, got, instance)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            return Outcome("skip", e.message)
        if failure:
            return Outcome("fail", str(failure), failure)
    how = "bit-identical" if identical else "within the error bound, no less accurate than the original"
    return Outcome("pass", f"{len(chosen)} instances {how}")


def _telling(found: list[Instance]) -> list[Instance]:
    """The smallest (empty lanes meet infinities there), and those where each size is largest (roundings add up)."""
    names = list(found[0].sizes) if found else []
    longest = [max(found, key=lambda i: (i.sizes[n], i.cost)) for n in names]
    return list({id(i): i for i in (*found[:3], *longest, *found[-1:])}.values())


LAYERS: dict[str, Callable[[Job], Outcome]] = {"verifier": verifier, "exact": exact, "float": floats}
"""The rungs in order, by the name that ``verify(layers=...)`` uses."""


def may_round_differently(original: Kernel, candidate: Kernel) -> bool:
    """Whether float results may legally differ: declared by a pass, or a combining order nobody promised."""
    if (candidate.flags | original.flags) & {"reassociates", "fast_math"}:
        return True
    return any(
        isinstance(s, Reduce) or (isinstance(s, Atomic) and scalar_of(s.buffer.type).is_float)
        for k in (original, candidate)
        for s in walk(k.body)
    )


def _run(job: Job, args: Mapping, domain: str, sanitize: bool, want: RunResult) -> RunResult:
    fuel = max(FUEL // 10, 30 * want.steps)
    return run(job.candidate, args, domain=domain, sanitize=sanitize, fuel=fuel, undefined=job.oracle.undefined)


def _defect(want: RunResult, got: RunResult, instance: Instance, domain: str) -> Failure | None:
    """A sanitizer finding that the original does not share."""
    known = {(f.kind, f.buffer) for f in want.findings}
    new = next((f for f in got.findings if (f.kind, f.buffer) not in known), None)
    return _from_finding(new, instance, domain) if new else None


def _from_finding(f: Finding, instance: Instance, domain: str) -> Failure:
    index = () if f.index is None else (f.index,)
    loc, stmt = str(f.loc or ""), _listing(f)
    return Failure(f.kind, f.message, dict(instance.sizes), domain, f.buffer, index, loc=loc, statement=stmt)


def _listing(f: Finding) -> str:
    return "" if f.statement is None else print_stmt(f.statement).strip().splitlines()[0]


def _mismatch(m: Mismatch | None, instance: Instance) -> Failure | None:
    if m is None:
        return None
    message = f"wrong result: {m}"
    return Failure("mismatch", message, dict(instance.sizes), m.domain, m.buffer, m.index, str(m.expected), str(m.got))


def _bits(want: RunResult, got: RunResult, instance: Instance) -> Failure | None:
    for name, x in want.outputs.items():
        stored = want.written.get(name, np.ones(x.shape, bool))
        differs = bits_differ(x, got.outputs[name]) & stored
        if is_float(x.dtype):
            differs &= ~(np.isnan(x.astype(np.float64)) & np.isnan(got.outputs[name].astype(np.float64)))
        if differs.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
            a, b = str(x[at]), str(got.outputs[name][at])
            message = f"{name}{list(at)} is {b}, expected {a} to the bit: nothing here may change rounding"
            return Failure("mismatch", message, dict(instance.sizes), "float", name, at, a, b)
    return None


def _bounded(job: Job, args: Mapping, want: RunResult, got: RunResult, instance: Instance) -> Failure | None:
    exact_values = job.oracle.run(instance.sizes, "float64", exact=False)
    bounds = run(job.candidate, args, domain="bound", sanitize=False, undefined=job.oracle.undefined)
    for name, x in want.outputs.items():
        h = got.outputs[name]
        stored = want.written.get(name, np.ones(x.shape, bool))
        if not is_float(x.dtype):
            differs = bits_differ(x, h) & stored
            if differs.any():
                at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
                message = f"{name}{list(at)} is {h[at]}, expected {x[at]}"
                return Failure("mismatch", message, dict(instance.sizes), "float", name, at, str(x[at]), str(h[at]))
            continue
        y, e = exact_values.outputs[name], np.imag(bounds.outputs[name])
        y, e, h0, x0 = (np.where(stored, v, 0) for v in (y, e, h.astype(np.float64), x.astype(np.float64)))
        bad = outside_bound(h0.astype(h.dtype), y, e)
        if bad is None and "fast_math" not in job.candidate.flags:
            bad = lost_accuracy(h0.astype(h.dtype), x0.astype(x.dtype), y)
        if bad:
            message = f"{name}{list(bad.index) if bad.index else ''}: {bad}"
            return Failure(
                "inaccurate",
                message,
                dict(instance.sizes),
                "float",
                name,
                bad.index,
                f"{bad.expected!r}",
                f"{bad.got!r}",
            )
    return None


def _sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{k}={v}" for k, v in sizes.items())
