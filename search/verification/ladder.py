"""Climbing the ladder: cheap rungs first, the first failure decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.support.memo import by_identity
from ktc.ir.text import canonical, print_expr, print_stmt
from ktc.ir.types import BOOL
from ktc.ir.verifier.launch_rules import launch_exprs
from ktc.ir.walk import used
from ktc.ir.workload import Workload
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.raising.normalise.whole_quotients import in_integers
from ktc.search.verification.device.repeated_launches import in_step
from ktc.search.verification.instances.coverage import SECOND_ROUND
from ktc.search.verification.instances.instances import (
    LARGER,
    MAX_ELEMENTS,
    Maker,
    axis_name,
    instances,
    launched_always,
    single_axes,
    with_large_buffers,
)
from ktc.search.verification.instances.optional_pointers import with_optional_pointers
from ktc.search.verification.instances.outcomes import is_quotient, one_sided
from ktc.search.verification.instances.reach import unexplained
from ktc.search.verification.members.family import bound_by
from ktc.search.verification.members.knob_members import learn_from_smaller_knobs
from ktc.search.verification.members.literal_sizes import (
    General,
    LiteralSizes,
    generalised,
    of_literal_sizes,
    oracle_of,
    takes_long,
)
from ktc.search.verification.members.member_runs import MemberRuns
from ktc.search.verification.members.wider_data import learn_from_wider_data
from ktc.search.verification.rungs.atomic_order import atomic_order
from ktc.search.verification.rungs.exact import announce_first
from ktc.search.verification.rungs.float_rungs import float_runs
from ktc.search.verification.rungs.in_place import in_place
from ktc.search.verification.rungs.layers import LAYERS
from ktc.search.verification.rungs.scalar_values import scalar_values

from . import verdict_cache
from .job import Job, Outcome
from .oracle import oracle_for, text_of
from .original_reference import other_than_reference
from .rungs import fewer_blocks
from .rungs.passed_blocks import PassedBlocks, passed_blocks
from .rungs.small_launch_limits import SmallLaunches, small_launches
from .sharing.shared_runs import GENERAL, SharedRuns
from .verdict import Failure, Rung, Verdict

INSTANCES = 24
"""Most instances of the exact rung."""

FEW = 8
"""Instances beyond the usual limit, of a launch that is too large for it, or has a second block nowhere within it."""


BESIDE = {"order": atomic_order, "scalars": scalar_values, "in place": in_place}
"""The rungs after the exact one, wherever that is climbed: another order of what nobody orders, and other calls of the
kernel than the workload describes."""


def verify(
    original: Kernel,
    candidate: Kernel,
    workload: Workload,
    *,
    layers: Sequence[str] = tuple(LAYERS),
    variant: str | None = None,
    seed: int = 0,
    count: int = INSTANCES,
    cache_dir: str | Path | None = None,
    shared: SharedRuns | None = None,
) -> Verdict:
    """Check ``candidate`` (lowered SPMD, or parallel form) against ``original`` without a device.

    Args:
        original: as ``workload.load_kernel(variant)`` gives it.
        candidate: its rewrite, knobs bound (open ones count with their defaults). Parallel form is lowered first: the
            thread program is what will run, and its derived barriers are part of what is checked.
        layers: which rungs to climb, of ``verifier``, ``static``, ``exact`` and ``float``, in that order.
        count: most instances of the exact rung.
        cache_dir: where verdicts are kept by content; None keeps none.
        shared: where other processes, which :func:`assistant` is for, leave some of the runs.

    Returns:
        PROVED for the same program, TESTED if every rung passed, REJECTED with the smallest failing instance, UNKNOWN
        if nothing could be run, or the candidate cannot be lowered. Only PROVED and TESTED are ``ok``.
    """
    if cache_dir is None:
        return _climb(original, candidate, workload, layers, variant, seed, count, shared)
    key = verdict_key(original, candidate, workload, layers=layers, variant=variant, seed=seed, count=count)
    verdict = verdict_cache.recall(Path(cache_dir), key)
    if verdict is None:
        verdict = _climb(original, candidate, workload, layers, variant, seed, count, shared)
        verdict_cache.remember(Path(cache_dir), key, verdict)
    return verdict


def verdict_key(
    original: Kernel,
    candidate: Kernel,
    workload: Workload,
    *,
    layers: Sequence[str] = tuple(LAYERS),
    variant: str | None = None,
    seed: int = 0,
    count: int = INSTANCES,
) -> str:
    """What the verdict of :func:`verify` on these arguments is kept under."""
    parts = (text_of(original), text_of(candidate), repr(workload), str(variant), str(seed), str(count))
    return verdict_cache.key_of(*parts, *layers)


@by_identity(8)
def _canonical(original: Kernel) -> Kernel:
    return canonical(original)


def not_exercised(job: Job) -> str:
    """Which code of the candidate no instance has shown to be right: '' if there is none."""
    once = job.coverage.never_twice()
    twice = fewer_blocks.settled(job, once)
    for found, what in (
        (unexplained(job.coverage, job.theirs), "branches were never entered, the first before"),
        ([s for s in once if id(s) not in twice], "loops never went round twice, the first"),
    ):
        if found:
            return f"{len(found)} {what} '{print_stmt(found[0]).strip().splitlines()[0]}'{_needed(job, what)}"
    open_ = [e for _, e in one_sided(job.coverage, job.theirs)]
    small = small_launches(job, open_) if job.instances else SmallLaunches()
    if small.differs:
        return small.differs
    open_ = [e for e in open_ if id(e) not in small.settled]
    other = passed_blocks(job, open_) if job.instances else PassedBlocks()
    if other.differs:
        return other.differs
    for e in (e for e in open_ if id(e) not in other.settled):
        how = "true" if job.coverage.outcomes[id(e)] == 1 else "false"
        if is_quotient(e):
            return f"'{print_expr(e)}' was zero in every run"
        choice = "kept its first operand" if how == "true" else "never kept its first operand"
        return f"'{print_expr(e)}' {f'was {how}' if e.type == BOOL else choice} in every run"
    if small.unmet:
        return f"'{small.unmet}' of the launch came out one way in every run"
    axes = ", ".join(axis_name(job.candidate, k) for k in sorted(job.coverage.axes))
    return f"no instance had a second {axes}" if axes else ""


def _needed(job: Job, what: str) -> str:
    """The sizes at which a loop would go round twice, where these cost more than an instance may."""
    if not what.startswith("loops"):
        return ""
    wide = Maker((job.original, job.candidate), job.workload, SECOND_ROUND * MAX_ELEMENTS)
    made = next(job.coverage.sizes_for_loops(wide), None)
    if made is None:
        return "; no size within the limits of the check makes it: give [launch] a smaller grid, if any grid will do"
    sizes = " ".join(f"{n}={v}" for n, v in made.sizes.items())
    return f"; that takes {sizes}, which is longer than the check may run: give [launch] a smaller grid, if any will do"


def _climb(
    original: Kernel,
    candidate: Kernel,
    workload: Workload,
    layers: Sequence[str],
    variant: str | None,
    seed: int,
    count: int,
    shared: SharedRuns | None = None,
) -> Verdict:
    began = time.perf_counter()
    if _canonical(original) == canonical(candidate) and original.knob_values == candidate.knob_values:
        rung = Rung("identity", "pass", "the same program")
        return Verdict("PROVED", "identity", "the same program as the original", (rung,), time.perf_counter() - began)
    try:
        candidate = materialise(candidate)
    except LoweringError as e:
        rung = Rung("lowering", "unknown", str(e.message), time.perf_counter() - began)
        return Verdict("UNKNOWN", "lowering", e.message, (rung,), time.perf_counter() - began)
    if needs := _unknown_at_launch(candidate):
        return Verdict("UNKNOWN", "lowering", needs, (Rung("lowering", "unknown", needs),))
    original, candidate = in_integers(original), in_integers(candidate)  # exact domains do not round
    same = in_step(original, candidate)
    if same is None:
        reason = f"a launch of the candidate does {candidate.sweeps} sweeps, one of the original {original.sweeps}"
        apart = Failure("sweeps", f"{reason}, and nothing says that the host repeats it")
        return Verdict("REJECTED", "sweeps", reason, (Rung("sweeps", "fail", reason),), 0.0, apart)
    original = same
    workload = with_optional_pointers(workload, original, variant, seed)
    oracle = oracle_for(original, workload, variant, seed)
    oracle.shared = shared
    original = oracle.original  # the same program: what its runs have shown is kept by its own expressions
    if wrong := other_than_reference(oracle):
        reason = f"the original is not what its reference says: {wrong}"
        return Verdict("REJECTED", "original", reason, (Rung("original", "fail", reason),), _since(began), wrong)
    chosen = instances(original, candidate, workload, count=count)
    if not chosen or single_axes(candidate, workload, chosen):  # a launch, or a block, that is large
        larger = instances(original, candidate, workload, count=FEW, limit=LARGER * MAX_ELEMENTS)
        chosen += [i for i in larger if i not in chosen]
    if not chosen and (idle := launched_always((original, candidate), workload)) > LARGER * MAX_ELEMENTS:
        chosen = instances(original, candidate, workload, count=FEW, limit=idle + MAX_ELEMENTS)
    ahead = float_runs if "float" in layers else None
    job = Job(original, candidate, oracle, chosen, workload, shared=shared, next_rung=ahead)
    short = bool(chosen) and not all(takes_long(original, workload, i.sizes) for i in chosen)
    if "exact" in layers and short:
        announce_first(job)
    judged, in_its_place = (job, {}) if short else _by_members(job)
    climbed = {**LAYERS, **in_its_place, **BESIDE}
    rungs: list[Rung] = []
    failure: Failure | None = None
    for name in _with_other_calls(layers):
        start = time.perf_counter()
        outcome = climbed[name](job)
        if name not in BESIDE or outcome.status != "skip":
            rungs.append(Rung(name, outcome.status, outcome.detail, time.perf_counter() - start, outcome.ratio))
        failure = outcome.failure
        if outcome.status == "fail" or (name, outcome.status) == ("exact", "unknown"):
            break
    seconds = time.perf_counter() - began
    last = rungs[-1]
    if last.status == "fail":
        return Verdict("REJECTED", last.name, last.detail, tuple(rungs), seconds, failure)
    if any(r.name == "exact" and r.status == "pass" for r in rungs):
        missing = not_exercised(judged)
        for learn in (learn_from_smaller_knobs, learn_from_wider_data):
            if missing and judged.instances and learn(judged, not_exercised):
                missing = not_exercised(judged)
        rungs += [Rung("coverage", "unknown", missing)] if missing else []
    unknown = next((r for r in rungs if r.status == "unknown"), None)
    if unknown is not None:
        return Verdict("UNKNOWN", unknown.name, unknown.detail, tuple(rungs), seconds)
    passed = [r for r in rungs if r.status == "pass"]
    decisive = passed[-1] if passed else last
    return Verdict("TESTED", decisive.name, "; ".join(r.detail for r in passed), tuple(rungs), seconds)


def _with_other_calls(layers: Sequence[str]) -> list[str]:
    return [name for layer in layers for name in ((layer, *BESIDE) if layer == "exact" else (layer,))]


def assistant(
    original: Kernel, candidate: Kernel, workload: Workload, *, variant: str | None, seed: int, shared: SharedRuns
) -> bool:
    """Have ``shared`` make runs for the verdict of another process on these arguments; whether it can."""
    try:
        candidate = materialise(candidate)
    except LoweringError:
        return False
    original, candidate = in_integers(original), in_integers(candidate)  # exact domains do not round
    same = in_step(original, candidate)
    if same is None:
        return False
    workload = with_optional_pointers(workload, same, variant, seed)
    oracle = oracle_for(same, workload, variant, seed)
    oracle.shared = shared
    job = Job(oracle.original, candidate, oracle, [], workload, shared=shared)
    shared.join = lambda name: _join(job, name)
    return True


def _join(job: Job, name: str) -> None:
    """Know a member that the process which leads has named."""
    assert job.shared is not None
    original, work, oracle = job.original, job.workload, job.oracle
    try:
        if name.startswith(GENERAL):
            general = generalised(original, work, oracle.variant, oracle.seed)
            if not isinstance(general, General):
                return
            original, work, oracle = general.original, general.workload, oracle_of(general, oracle)
        Job(original, job.shared.member_of(name), oracle, [], work, shared=job.shared, name=name)
    except (KtcError, OSError):
        return  # the verdict is there, and its folder gone


def _by_members(job: Job) -> tuple[Job, dict[str, Callable[[Job], Outcome]]]:
    """The rungs that run the candidate, where it binds sizes, or its source has sizes, for which that takes too long;
    and the job of which they learn what has been exercised. Where neither is so, few threads may work on large
    buffers."""
    bound = bound_by(job.original, job.candidate, job.workload)
    literal = of_literal_sizes(job) if bound is None else ""
    if isinstance(literal, LiteralSizes):
        runs = MemberRuns(literal.job, literal.bound, literal.family, literal.said, literal.foreseen)
    elif bound is not None:
        runs = MemberRuns(job, bound)
    elif job.instances:
        return job, {}
    elif large := with_large_buffers(job.original, job.candidate, job.workload, FEW):
        job.instances += large
        return job, {}
    else:
        return job, {"exact": lambda job: Outcome("unknown", f"{LAYERS['exact'](job).detail}; {literal}")}
    return runs.job, {"exact": lambda _: runs.exact(), "float": lambda _: runs.floats()}


def _since(began: float) -> float:
    return time.perf_counter() - began


def _unknown_at_launch(k: Kernel) -> str:
    """What of the launch depends on more than what the launcher knows; '' if nothing does."""
    params = {p.sym for p in k.params}
    found = next((e for e in launch_exprs(k) if used(e) - params), None)
    return "" if found is None else f"the launch needs {print_expr(found)}, which is not known before it runs"
