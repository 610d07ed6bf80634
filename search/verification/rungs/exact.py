"""L2 and L3: the sanitizer, and the original's bits in the exact domains, over a budget of instances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import FUEL, Finding, Mismatch, RunResult, compare
from ktc.ir.nodes import Stmt
from ktc.ir.text import print_stmt
from ktc.ir.workload.scenario_facts import is_launched, scalars_of
from ktc.search.verification.instances.coverage import SECOND_ROUND, Coverage, missing_instances
from ktc.search.verification.instances.empty_sizes import without_any
from ktc.search.verification.instances.instances import (
    IDLE,
    LARGER,
    LAUNCHED,
    MAX_ELEMENTS,
    Instance,
    Maker,
    extents,
    larger_instances,
    launched_always,
)
from ktc.search.verification.instances.outcome_sizes import sizes_for_outcomes
from ktc.search.verification.instances.outcomes import hangs_on_data, open_to_sizes
from ktc.search.verification.instances.reach import leave_out_dead
from ktc.search.verification.job import Job, Outcome, Planned
from ktc.search.verification.verdict import Failure

STEPS = 16_000
"""Statements of the candidate over all instances, foreseen from the original's: about a second in two domains."""

LEAST = 4
"""Instances that are run whatever they cost."""

MORE_STEPS = 4 * STEPS
"""Statements of the candidate in one extra instance that shows something new; beyond, it is as if it had not been
tried. Those that are only longer than others may take ``STEPS``."""

SECOND_ROUND_STEPS = 12 * STEPS
"""Statements of the original in an extra instance, where a loop has not gone round twice yet that does at usual sizes,
or no second block has come along an axis: one thread may do by itself what a tile of the candidate holds."""


WASTED = 4 * MORE_STEPS
"""What extra instances that came to no end may cost altogether, in statements of few threads; others may then cost no
more than usual ones."""


@dataclass
class _Progress:
    """What the instances run so far have cost, and shown."""

    coverage: Coverage
    spent: int = 0
    ratio: float = 1.0
    unsupported: dict[str, str] = field(default_factory=dict)
    has_order: bool = False
    """Sizes at which the original's results hang on the order of threads, or on what memory held, are none for it."""
    larger: bool = False
    """Extra instances are being tried, as far as they are not too long for the original already."""
    one_sided: bool = False
    """Some condition has not come out both ways yet that other sizes may turn."""
    most: int = MORE_STEPS
    """Statements of the candidate in the extra instance that is tried."""
    wasted: float = 0.0
    """The statements of extra instances that came to no end, by what as many of few threads cost."""
    extra: dict[tuple[int, ...], tuple[float, ...]] = field(default_factory=dict)
    """What the extra instances of these sizes were given; with as much, or less, another shows nothing more."""
    lengths: dict[int, int] = field(default_factory=dict)
    """Statements of the original, as far as they are worth counting, by the ``id`` of a usual instance."""

    def fuel(self) -> int:
        """Statements of the original beyond which an instance is not worth running: what is foreseen for it then costs
        more than is left."""
        if self.larger and self.coverage.lacks_a_second:
            return SECOND_ROUND_STEPS
        if self.larger:
            return MORE_STEPS if self.coverage.unreached_by_sizes or self.one_sided else STEPS
        return FUEL if len(self.coverage.tried) < LEAST else max(int((STEPS - self.spent) / self.ratio), 0) + 1

    def cost(self) -> float:
        """What the original may cost, in statements of few threads: one of a large launch takes as long as a hundred.
        Not limited where an instance is usual."""
        if not self.larger:
            return math.inf
        return self.fuel() if self.wasted < WASTED else min(self.fuel(), STEPS)

    def has_shown(self, instance: Instance) -> bool:
        """Whether these sizes have shown what they show for what there is for the extra instance that is tried."""
        sizes, given = tuple(instance.sizes.values()), (self.most, self.fuel(), self.cost())
        known = self.extra.get(sizes)
        if known is not None and all(now <= then for now, then in zip(given, known)):
            return True
        self.extra[sizes] = given
        return any(tuple(i.sizes.values()) == sizes for i in self.coverage.tried)

    def affordable(self, foreseen: int) -> bool:
        return self.larger or len(self.coverage.tried) < LEAST or self.spent + foreseen * self.ratio <= STEPS

    def note(self, instance: Instance, original_steps: int, got: RunResult) -> None:
        self.coverage.note(instance, got)
        self.spent += got.steps
        self.ratio = max(self.ratio, got.steps / max(original_steps, 1))


def exact(job: Job) -> Outcome:
    """No defect in the sanitizer, and the original's bits in the exact domains, on every instance the budget allows.

    The sanitizer and the first domain go over all usual instances before the second domain does: nearly all that is
    wrong shows in the first. A few more instances are tried for the sake of what those do not exercise
    (:mod:`ktc.search.verification.instances.coverage`).
    """
    if not job.instances:
        always = IDLE * launched_always((job.original, job.candidate), job.workload)
        if always > LAUNCHED:
            what = f"the launch has about {always} threads at all sizes, and the interpreter takes {LAUNCHED}"
            return Outcome("unknown", f"{what}: give [launch] a smaller grid, if any grid does the same work")
        return Outcome("unknown", "no instance satisfies the assumptions and guards within the size limit")
    progress = _Progress(job.coverage)
    for failure in _failures(job, progress):
        if failure:
            return told(failure)
        if len(progress.unsupported) == len(job.domains):
            return _sanitized(job, "; ".join(f"{d}: {why}" for d, why in sorted(progress.unsupported.items())))
    return Outcome("pass", _summary(job, progress))


def announce_first(job: Job) -> None:
    """Say what :func:`exact` will need first, before what each run takes is known; by that runs come in turn."""
    cheapest = sorted(job.instances, key=lambda i: i.cost)
    originals = (job.planned("original", i, job.domains[0], "exact", fuel=STEPS) for i in cheapest)
    job.announce([*originals, *(() if job.remembers else _likely(job, cheapest, _sanitized_runs))])


def told(failure: Failure) -> Outcome:
    """What a failure says: nothing, if a larger budget might have shown that there is none."""
    return Outcome("fail", str(failure), failure) if failure.certain else Outcome("unknown", str(failure))


def _failures(job: Job, progress: _Progress) -> Iterator[Failure | None]:
    """What each run comes to: the usual instances, then those for what they leave out.

    Shortest first, by the original's statements: one long loop must not use up what many short instances cost.
    """
    done = {}
    job.announce(job.planned("original", i, job.domains[0], "exact", fuel=STEPS) for i in job.instances)
    progress.has_order = _leave_out_meaningless(job)
    lengths = progress.lengths = {id(i): _length(job, i) for i in job.instances}
    shortest = sorted(job.instances, key=lambda i: lengths[id(i)])
    likely = [i for n, i in enumerate(shortest) if n < LEAST or lengths[id(i)] <= STEPS]
    job.announce([*_likely(job, likely, _sanitized_runs), *_likely(job, likely, _other_runs)])
    for instance in shortest:
        failure, rest = _first(job, instance, progress)
        done[id(instance)] = instance, rest
        yield failure
    leave_out_dead(job.coverage)
    job.unsure = _unsure(job)
    extra = list(_extra_usual(job))
    beside = [p for i, most in extra for p in (*_sanitized_runs(job, [i], most), *_other_runs(job, [i], most))]
    later = list(job.foreseen())
    job.announce([*_other_runs(job, [i for i, rest in done.values() if rest], STEPS), *beside, *later])
    for instance, rest in done.values():
        yield _others(job, instance, () if job.large else rest, progress)
    for instance, most in () if job.only else _extra(job, progress):
        progress.spent, progress.larger, progress.most = 0, True, most
        progress.one_sided = job.candidate.is_spmd and bool(open_to_sizes(job.coverage, job.theirs))
        if progress.has_shown(instance):
            continue
        if (instance, most) not in extra:
            job.announce([*_sanitized_runs(job, [instance], most), *_other_runs(job, [instance], most), *later])
        failure, rest = _first(job, instance, progress)
        yield failure or _others(job, instance, rest, progress)
        if job.coverage.tried[-1] is instance and instance not in job.instances and 0 not in instance.sizes.values():
            job.instances.append(instance)  # kinds of data are for what has elements
    job.unsure = _unsure(job)


def _leave_out_meaningless(job: Job) -> bool:
    """Leave out instances that no caller asks for: those that the host asserts against and on which the original has a
    defect; and those on which nothing says what its results are, where something does on most others, some at least as
    large: two threads write one element because sizes do not belong together (a stride, and how far apart rows lie), or
    a last warp that is not whole reads a partial sum that nobody wrote. The latter is what is returned: whether that is
    a matter of sizes.

    The original is followed no further than for its length (:func:`_followed`): what it does after that is seen where
    an instance is run after all (:func:`_try`)."""
    seen = [(i, _followed(job, i)) for i in job.instances]
    meant = [(i, run) for i, run in seen if run is None or not _is_asserted_against(job, i, _defects(run))]
    seen = meant or seen
    undefined = [i for i, run in seen if run is not None and _is_undefined(run.findings)]
    clean = [i for i, run in seen if i not in undefined and (run is None or run.ended)]
    job.instances = [i for i, _ in seen]
    if not undefined or len(clean) < len(undefined) or max(i.cost for i in clean) < min(i.cost for i in undefined):
        return False
    job.instances = [i for i in job.instances if i not in undefined]
    for run in (run for i, run in seen if run is not None and i in undefined):
        job.theirs.note_meaningless(run)
    return True


def _defects(result: RunResult) -> list[Finding]:
    """What was found in a run, but for that it was cut short."""
    return [f for f in result.findings if f.kind != "fuel" or f.certain]


def _is_asserted_against(job: Job, instance: Instance, findings: Iterable[Finding]) -> bool:
    return any(findings) and not is_launched(job.original, job.workload, instance.sizes)


def _is_undefined(findings: Iterable[Finding]) -> bool:
    """Whether nothing says what a run's results are: they hang on the order of threads, or on what memory held."""
    return any(f.kind in ("race", "uninitialised") for f in findings)


def _likely(
    job: Job, shortest: list[Instance], runs: Callable[[Job, list[Instance], int | None], Iterator[Planned]]
) -> list[Planned]:
    """The runs of instances that will be run if what there is for all of them suffices: none then takes more than that.
    The longest come first, for the process that leads begins with the shortest; what comes in turn has its order."""
    found = [*runs(job, shortest[:LEAST], None), *runs(job, shortest[LEAST:], STEPS)]
    return found if job.remembers else found[::-1]


def _sanitized_runs(job: Job, chosen: list[Instance], most: int | None = None) -> Iterator[Planned]:
    """Of what remembers its launches, each is made twice."""
    again = (True, False) if job.remembers else (True,)
    return (job.planned("candidate", i, job.domains[0], "exact", look, STEPS, most) for i in chosen for look in again)


def _other_runs(job: Job, chosen: list[Instance], most: int | None = None) -> Iterator[Planned]:
    domains = () if job.large else job.domains[1:]
    return (job.planned("candidate", i, d, "exact", job.unsure, STEPS, most) for i in chosen for d in domains)


def _extra(job: Job, progress: _Progress) -> Iterator[tuple[Instance, int]]:
    """Instances beyond the budget, with the statements that each may take: usual ones, and what may show what has not
    been seen."""
    yield from _extra_usual(job)
    yield from ((i, MORE_STEPS) for i in _missing(job, progress))


def _extra_usual(job: Job) -> Iterator[tuple[Instance, int]]:
    """Those that alone fill blocks, and the longest of each size."""
    tried = job.coverage.tried
    yield from [(i, MORE_STEPS) for i in job.instances if i.full and i not in tried]
    for name in job.instances[0].sizes:
        longest = max(job.instances, key=lambda i, n=name: i.sizes[n])  # type: ignore[misc]
        if all(longest.sizes[name] > i.sizes[name] for i in tried):
            yield longest, STEPS


def _missing(job: Job, progress: _Progress) -> Iterator[Instance]:
    yield from without_any(job)
    yield from missing_instances(job.coverage, job.original)
    if job.original.is_spmd:  # a loop that the candidate has no longer, or shares out in another way
        wide = Maker((job.original, job.candidate), job.workload, SECOND_ROUND * MAX_ELEMENTS)
        yield from job.theirs.sizes_for_loops(wide)
    if job.candidate.is_spmd and open_to_sizes(job.coverage, job.theirs):
        kernels = job.original, job.candidate
        wide = Maker(kernels, job.workload, SECOND_ROUND * MAX_ELEMENTS)
        progress.wasted = 0.0  # what loops wanted in vain is no reason to leave conditions open
        yield from sizes_for_outcomes(job.coverage, job.theirs, wide)
        maker = Maker(kernels, job.workload, LARGER * MAX_ELEMENTS)
        yield from itertools.takewhile(lambda _: open_to_sizes(job.coverage, job.theirs), larger_instances(maker))


def _unsure(job: Job) -> bool:
    return job.coverage.unreached_by_sizes or hangs_on_data(job.coverage)


def _followed(job: Job, instance: Instance) -> RunResult | None:
    """The original's run, as far as its statements are worth counting; None where the domain does not have it."""
    try:
        return job.oracle.run(instance.sizes, job.domains[0], "exact", STEPS)
    except KtcError:
        return None  # said when the instance is run


def _length(job: Job, instance: Instance) -> int:
    """Statements of the original, as far as they are worth counting."""
    followed = _followed(job, instance)
    return 0 if followed is None else followed.steps


@dataclass(frozen=True)
class _Tried:
    """One instance in one domain: whether the domain is ``supported``, whether it ``ran`` (it may be too long)."""

    supported: bool = True
    ran: bool = True
    failure: Failure | None = None


def _first(job: Job, instance: Instance, progress: _Progress) -> tuple[Failure | None, tuple[str, ...]]:
    """One instance, sanitized, in the first exact domain that is supported; and the domains that are left to try."""
    for k, domain in enumerate(job.domains):
        tried = _try(job, instance, domain, progress, first=True)
        if tried.supported:
            return tried.failure, job.domains[k + 1 :] if tried.ran else ()
    return None, ()


def _others(job: Job, instance: Instance, domains: tuple[str, ...], progress: _Progress) -> Failure | None:
    """One instance in the other exact domains."""
    for domain in domains:
        tried = _try(job, instance, domain, progress)
        if tried.failure or not tried.ran:
            return tried.failure
    return None


def _try(job: Job, instance: Instance, domain: str, progress: _Progress, *, first: bool = False) -> _Tried:
    if first and not progress.affordable(progress.lengths.get(id(instance), 0)):
        return _Tried(ran=False)
    try:
        fuel = progress.fuel() if first or progress.larger else FUEL
        want = job.oracle.run(instance.sizes, domain, "exact", fuel, progress.cost())
        if progress.larger and endless(want):
            progress.wasted += progress.cost()
            return _Tried(ran=False)
        if progress.has_order and _is_undefined(want.findings):
            return _Tried(ran=False)
        if _is_asserted_against(job, instance, want.findings):
            return _Tried(ran=False)
        if first and not progress.affordable(want.steps):
            return _Tried(ran=False)
        most = progress.most if progress.larger else None
        known: list[Finding] = []
        if job.unsure and not first:
            got, known = job.looked_at(instance, "exact", domain, want, most)
        else:
            got = job.run(instance, "exact", domain, want, sanitize=first, most=most)
        if cut_short(got) and (progress.larger or _is_long(job, instance, want, got)):
            return _Tried(ran=False)
    except KtcError as e:
        if e.code == "E-INTERP-TYPE":
            return _Tried(failure=Failure(e.code, e.message, dict(instance.sizes), domain, loc=str(e.loc or "")))
        if e.code != "E-INTERP-UNSUPPORTED":
            raise
        progress.unsupported[domain] = e.message
        return _Tried(supported=False)
    looked = first or job.unsure or endless(got)
    failure = defect((*want.findings, *known), got, instance, domain) if looked else None
    failure = failure or mismatched(compare(want, got, domain), instance)
    if not failure and first and job.remembers:  # the same sizes again, on what the first launch left
        got = job.run(instance, "exact", domain, want, most=most)
        second = mismatched(compare(want, got, domain), instance, "wrong result of a second launch")
        failure = defect(want.findings, got, instance, domain) or second
    if first and failure is None:
        progress.note(instance, want.steps, got)
    open_ = next((f for f in want.findings if _is_undefined([f])), None)
    if failure is not None and failure.kind == "mismatch" and open_ is not None:
        failure = replace(failure, undefined=f"{open_.kind}: {open_.message} at {open_.loc}")
    return _Tried(failure=failure)


def _is_long(job: Job, instance: Instance, want: RunResult, got: RunResult) -> bool:
    """Whether the candidate's run may have been cut short because each of its threads does one after another what many
    of the original's do at once: it has not taken longer than all of them together."""
    if not (job.original.is_spmd and job.candidate.is_spmd) or job.original.is_sequence or not want.ended:
        return False
    scalars = scalars_of(job.workload, instance.sizes)
    theirs, mine = (math.prod(extents(k, scalars)) for k in (job.original, job.candidate))
    return mine < theirs and got.steps * mine <= want.steps * theirs


def endless(result: RunResult, certainly: bool = False) -> bool:
    """Whether a run did not end; ``certainly``: whether it never would have, instead of being cut short."""
    return any(f.kind == "fuel" and (f.certain or not certainly) for f in result.findings)


def cut_short(result: RunResult) -> bool:
    """Whether a run took more statements than it had: it might have ended."""
    return endless(result) and not endless(result, certainly=True)


def _summary(job: Job, progress: _Progress) -> str:
    tried = job.coverage.tried
    largest = max(tried, key=lambda i: i.cost)
    sizes = " ".join(f"{k}={v}" for k, v in largest.sizes.items())
    domains = [d for d in job.domains if d not in progress.unsupported]
    which = f"{len(tried)} instances up to {sizes}" if sizes else "the source's own sizes"
    detail = f"{which}, domains {', '.join(domains)}"
    detail += "".join(f" (not {d}: {why})" for d, why in progress.unsupported.items())
    return detail


def _sanitized(job: Job, why: str) -> Outcome:
    """L2 alone, on ordinary floats, for programs the exact domains cannot follow (they look at bit patterns)."""
    for instance in job.instances:
        try:
            want = job.oracle.run(instance.sizes, "float", "exact")
            got = job.run(instance, "exact", "float", want, sanitize=True)
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            return Outcome("unknown", e.message)
        failure = defect(want.findings, got, instance, "float")
        if failure:
            return told(failure)
    return Outcome("pass", f"{len(job.instances)} instances without a defect, but no exact domain ({why})")


def defect(theirs: Iterable[Finding], got: RunResult, instance: Instance, domain: str) -> Failure | None:
    """A sanitizer finding that is not among the original's."""
    known = {(f.kind, f.buffer) for f in theirs}
    found = [f for f in got.findings if (f.kind, f.buffer) not in known]
    new = next((f for f in found if f.certain), found[0] if found else None)
    return from_finding(new, instance, domain) if new else None


STOPS = frozenset({"out-of-bounds", "null-pointer", "trap"})
"""What is looked for in every run, also in those that are not sanitized."""


def stopped(want: RunResult, got: RunResult, instance: Instance, domain: str) -> Failure | None:
    """What the candidate may not do for data for which the original does nothing of the kind."""
    if any(f.kind in STOPS for f in want.findings):
        return None
    found = next((f for f in got.findings if f.kind in STOPS), None)
    return from_finding(found, instance, domain) if found is not None else None


def from_finding(f: Finding, instance: Instance, domain: str) -> Failure:
    """A sanitizer's finding as the reason why a program is wrong."""
    index = () if f.index is None else (f.index,)
    loc, stmt = str(f.loc or ""), "" if f.statement is None else _listing(f.statement)
    sizes = dict(instance.sizes)
    return Failure(f.kind, f.message, sizes, domain, f.buffer, index, loc=loc, statement=stmt, certain=f.certain)


def _listing(stmt: Stmt) -> str:
    return print_stmt(stmt).strip().splitlines()[0]


def mismatched(m: Mismatch | None, instance: Instance, what: str = "wrong result") -> Failure | None:
    """A difference of two results as the reason why a program is wrong."""
    if m is None:
        return None
    message = f"{what}: {m}"
    return Failure("mismatch", message, dict(instance.sizes), m.domain, m.buffer, m.index, str(m.expected), str(m.got))
