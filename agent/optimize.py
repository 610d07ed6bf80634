"""``optimize``: observe, propose, build, verify, tune, compare, and write down what was found.

Everything but the planner is deterministic for a seed, and every measurement goes through the ledger: a run that was
killed continues where it was, because running it again asks the ledger first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ktc.agent.embedded.rounds import TOO_SLOW, begin_ahead, facts_at, hand_on, observe, search
from ktc.driver.printing import prints_loops
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import While
from ktc.ir.support import time_limits
from ktc.ir.walk import walk
from ktc.ir.workload import Scenario, Workload
from ktc.search.verification import check_original
from ktc.search.verification.defects import LONG
from ktc.search.workers.head_start import HeadStart

from .about import About
from .bench import Bench
from .build import Builder, Candidate
from .finals import held_out, overall, shoot_out
from .lab import Lab
from .lessons import keep_rule, remember
from .memory import Memory
from .planner import Planner, Proposal
from .planners import make_planner
from .report import OptimizeReport, ScenarioResult
from .state import RAISED, Finalist, Progress, Run
from .station import Opening
from .stopping import NOT_CHECKED, TimeShares
from .trajectory import NAME as TRAJECTORY
from .trajectory import Trajectory

CPU_BYTES = 64 << 20
"""On a CPU, scenarios that move more than this are left out (and the report says so): they would take minutes."""

LEDGER = "ledger.sqlite"
LIMITERS_SHOWN = 2

OVER = "the time limit was over (--time-limit)"
"""Why nothing was begun on a scenario."""


def optimize(
    workload: Workload | str | Path,
    *,
    device: str | None = None,
    planner: str | Planner = "auto",
    budget: int = 100,
    time_limit: float = math.inf,
    out_dir: str | Path = "ktc-out",
    progress: Progress | None = None,
    seed: int = 0,
    resume: bool = True,
    variant: str | None = None,
    scenarios: Sequence[str] | None = None,
    memory: Memory | None = None,
    intent: str = "",
    counters: bool = False,
    llm_limits: str = "",
    lab: Lab | None = None,
    ahead: HeadStart | None = None,
    spent: float = 0.0,
) -> OptimizeReport:
    """Find a faster, verified kernel.

    Args:
        workload: a :class:`Workload`, or the path of its file or folder.
        device: ``cuda | opencl | numba``; None picks the best one there is.
        planner: ``auto`` (an LLM with the rules when one is configured, else the rules), ``rules``, ``llm``,
            ``ensemble``, or a planner object.
        budget: most configurations measured, over all tuned scenarios (the original and the finals not counted).
        time_limit: seconds after which nothing new is begun; what was found by then is compared and written down, and
            verdicts on what is faster than the best are waited for, a fifth as long again and at least two seconds
            (as long again while nothing is accepted). Once it is over, scenarios that were not begun are left
            out, and after twice the time held-out ones, too.
        out_dir: where the recipe, the kernels, the report, the ledger and the trajectory (:mod:`.trajectory`) go.
        progress: called with events as they happen: begin, original, bound, profile, propose, refused, verify,
            verified, rejected, tune, rung, improvement, withdrawn (an improvement that is none), finals, held_out,
            compare, left_out, result, done.
        seed: of inputs, of knob values that are drawn, and of what the planner draws: two runs with one seed differ in
            times, and in what follows from times, alone.
        resume: False starts a new ledger and keeps the old one under another name.
        scenarios: names of scenarios to tune for; None takes every tuned one.
        intent: what matters to the user, in words ("small batches matter most"): an LLM that plans is told.
        counters: read hardware counters of the fastest kernels (by Nsight Compute, some seconds each), for the planner
            and the report; without, and where that may not be, what limits them is estimated.
        llm_limits: what an LLM may cost: ``calls=10 tokens=20000 seconds=60 usd=0.5``, each of which may be left out.
        memory: a knowledge base to learn from and to add to; None uses none.
        ahead: a process that is opening ``device`` already.
        spent: seconds of ``time_limit`` that are over: reading the source, and drafting its workload, take some.

    Raises:
        KtcError: what the user can act on (no device, unwritable folder, an original that does not run).
    """
    shares = TimeShares.from_now(time_limit, spent)
    began = shares.started
    work = workload if isinstance(workload, Workload) else Workload.load(workload)
    if budget < 1 or not time_limit > 0:
        what = f"{budget} measurements" if budget < 1 else f"{time_limit:g} seconds"
        raise KtcError("E-BUDGET", f"a budget of {what}", hint="give more than that", exit_code=2)
    out = _folder(Path(out_dir), resume)
    opening = Opening(device, work, variant, ahead, early=True) if lab is None else None
    try:
        original = work.load_kernel(variant)
        doubts = _checked(original, work, variant, seed, shares)
        chosen, mind, said = (
            make_planner(planner, out, intent, seed, budget, llm_limits)
            if isinstance(planner, str)
            else (planner.name, planner, "")
        )
        sizes = [work.scalars(s.sizes) for s in work.scenarios if s.tuned or s.heldout]
        builder = Builder(original, sizes=sizes, shares=shares)
        builder.build(RAISED)
    except BaseException:
        if opening is not None:
            opening.abandon()
        raise
    trajectory = Trajectory(out / TRAJECTORY, progress or _silent)

    def begun_on(lab: Lab, builder: Builder) -> tuple[Run, list[Scenario]]:
        """The run and the scenarios to tune for, with all prepared that needs no device."""
        builder.as_loops = prints_loops(lab.device.profile)
        About.of(work, variant, chosen, budget, time_limit, lab.device).save(out)
        run = Run(
            work, original, lab, mind, budget, trajectory, memory, builder,
            time_limit=time_limit, started=began,
        )  # fmt: skip
        chosen_by = [lab.device.extra[k] for k in ("contest", "instead") if k in lab.device.extra]
        run.notes += [*([said] if said else []), *doubts, *chosen_by]
        run.raise_kernel()
        trajectory.saw(work, run.raised or run.original, {"backend": lab.device.backend, "name": lab.device.name})
        tuned = _tuned(run, scenarios, variant)
        _tell_begin(run, tuned, 0 if scenarios else sum(s.heldout for s in work.scenarios))
        begin_ahead(run, _in_turn(run, tuned, variant)[0])
        return run, tuned

    def bench(opening: Opening | None) -> Bench:
        ledger = out / LEDGER
        return Bench(
            work, original, variant=variant, device=device, ledger=ledger, seed=seed, opening=opening,
            counters=counters, shares=shares,
        )  # fmt: skip

    lab = lab or bench(opening)
    try:
        run, tuned = begun_on(lab, builder)
        if isinstance(lab, Bench) and not lab.is_as_expected():
            lab.close()
            lab = bench(None)
            run, tuned = begun_on(lab, Builder(original, sizes=sizes, shares=shares))
        results = _every_scenario(run, tuned, _in_turn(run, tuned, variant), bool(scenarios))
        report = _report(run, results, chosen, variant)
    finally:
        lab.close()
    from .results import write

    report = write(report, out, run.builder, work)
    run.tell("done", speedup=report.speedup, seconds=report.seconds)
    return report


def _checked(original: Kernel, work: Workload, variant: str | None, seed: int, shares: TimeShares) -> list[str]:
    """Notes on what is wrong with the original, or that nobody knows. One that may never end, as its loops show, has to
    be seen to end first, for which there is all the time: a device is waited for much longer.

    Raises:
        KtcError: as :func:`check_original`; E-ORIGINAL-BUDGET for one that was not seen to end.
    """
    endless = next((s for s in walk(original.body) if isinstance(s, While)), None)
    try:
        with time_limits.until(shares.until("checked" if endless is None else "planned")):
            return check_original(original, work, variant, seed)
    except time_limits.OutOfTime:
        if endless is None:
            return [NOT_CHECKED]
    what = f"the original kernel is not checked: it did not end within {shares.limit:g} s in the interpreter"
    raise KtcError("E-ORIGINAL-BUDGET", f"{what} (--time-limit)", endless.loc, LONG)


def _tuned(run: Run, names: Sequence[str] | None, variant: str | None) -> list[Scenario]:
    """The scenarios to tune for: those of these ``names``, else all with a weight that this device can afford.

    Raises:
        KtcError: E-WORKLOAD-SCENARIO: there is none.
    """
    wanted = [run.work.scenario(n) for n in names or ()]
    tuned = _with_room(run, wanted or [s for s in run.work.scenarios if s.tuned], variant, bool(wanted))
    tuned = wanted or _affordable(run, tuned, at_least=1)
    if not tuned:
        hint = "give one a positive weight"
        raise KtcError("E-WORKLOAD-SCENARIO", f"no scenario to tune for in {run.work.path}", hint=hint)
    return tuned


def _with_room(run: Run, scenarios: Sequence[Scenario], variant: str | None, all_of_them: bool) -> list[Scenario]:
    """Those whose arguments the device's memory has room for.

    Raises:
        KtcError: E-WORKLOAD-ROOM: none of them, or not ``all_of_them``.
    """
    needed = {s.name: run.work.call_bytes(s.sizes, variant) for s in scenarios}
    room = run.lab.device.global_bytes or math.inf
    large = {name: f"{n / 1e9:.1f} GB" for name, n in needed.items() if n > room}
    if large and (all_of_them or len(large) == len(needed)):
        name, bytes_ = next(iter(large.items()))
        message = f"the arguments at '{name}' take {bytes_}, and {run.lab.device.name} has {room / 1e9:.1f} GB"
        hint = f"give the scenario smaller sizes, or arguments smaller shapes, in {run.work.path}"
        raise KtcError("E-WORKLOAD-ROOM", message, hint=hint, exit_code=2)
    if large:
        listed = ", ".join(f"{name} ({bytes_})" for name, bytes_ in large.items())
        run.notes.append(f"scenarios that the device's memory has no room for are left out: {listed}")
    return [s for s in scenarios if s.name not in large]


def _tell_begin(run: Run, tuned: Sequence[Scenario], held_out: int) -> None:
    d, limit = run.lab.device, run.time_limit if run.time_limit < math.inf else None
    what = {"kernel": run.work.kernel_name, "device": {"backend": d.backend, "name": d.name}}
    run.tell("begin", at=time.time(), **what, planner=run.planner.name, budget=run.budget, time_limit=limit,
             scenarios=[s.name for s in tuned], held_out=held_out)  # fmt: skip


def _in_turn(run: Run, tuned: Sequence[Scenario], variant: str | None) -> list[Scenario]:
    """``tuned`` in the order in which they are searched. Within a time limit those with the most to gain come first,
    by their arrays and weights: what is begun last may have no time, and verdicts that are waited for hold for all."""
    if run.time_limit == math.inf:
        return list(tuned)
    return sorted(tuned, key=lambda s: -(s.weight or 1.0) * run.work.call_bytes(s.sizes, variant))


def _every_scenario(
    run: Run, tuned: Sequence[Scenario], in_turn: Sequence[Scenario], named: bool
) -> list[ScenarioResult]:
    """Tune each scenario, ``in_turn``, for its share of the budget, then the finals, then the held-out scenarios;
    ``named``: the user chose these scenarios, and wants no other."""
    weight = sum(s.weight or 1.0 for s in tuned)
    for s in in_turn:
        if run.finalists and run.seconds_left <= 0:
            run.notes.append(f"{s.name} is left out: {OVER}")
            continue
        part = (s.weight or 1.0) / weight
        share, now = (run.budget - run.spent) * part, time.monotonic()
        deadline = now + max(0.0, run.seconds_left) * part
        weight -= s.weight or 1.0
        try:
            search(run, s, max(0, round(share)), deadline)
        except KtcError as error:
            if error.code != TOO_SLOW or named or (s is in_turn[-1] and not run.finalists):
                raise
            run.notes.append(f"{s.name} is left out: {error.message}")
    tuned = [s for s in tuned if s.name in run.finalists]
    for s in tuned:
        hand_on(run, s)
    results = [shoot_out(run, s) for s in tuned]
    for s in tuned:
        remember(run, s, facts_at(run, s))
    unseen = _affordable(run, [s for s in run.work.scenarios if s.heldout]) if not named else []
    return results + held_out(run, unseen, tuned, results)


def _affordable(run: Run, scenarios: Sequence[Scenario], at_least: int = 0) -> list[Scenario]:
    """All of them on a GPU; on a CPU those of bounded size, and ``at_least`` so many of the smallest."""
    if not run.lab.device.is_cpu:
        return list(scenarios)
    small = [s for s in scenarios if run.lab.traffic(s) <= CPU_BYTES]
    small = small or sorted(scenarios, key=run.lab.traffic)[:at_least]
    large = [s.name for s in scenarios if s not in small]
    if large:
        run.notes.append(f"on a CPU, scenarios above {CPU_BYTES >> 20} MiB are left out: {', '.join(large)}")
    return small


def _report(run: Run, results: Sequence[ScenarioResult], planner: str, variant: str | None) -> OptimizeReport:
    script, knobs = overall(run, results)
    d = run.lab.device
    learn = getattr(run.planner, "learn", None)
    seen = observe(run, run.work.scenario(results[0].name)) if learn is not None and script else None
    if learn is not None and seen is not None and (rule := learn(seen)) is not None:
        run.notes.append(f"learnt: {rule.text}")
        keep_rule(run, seen.facts[0], rule)
    run.notes += dict.fromkeys(getattr(run.planner, "notes", []))
    results = [_with_limiters(run, r) for r in results]
    run.notes += [f"{r.name}: limited by {'; '.join(r.limited)}" for r in results if r.limited]
    spending = getattr(run.planner, "spending", "")
    run.notes += [f"spent on {spending}"] if spending else []
    originals, failures = len(run.finalists), run.failures()
    tried = run.spent + originals
    failed = sum(map(len, run.failed.values()))
    measured = run.measured - run.failed_now
    return OptimizeReport(
        kernel=run.work.kernel_name,
        source=str(run.work.source),
        workload=str(run.work.path),
        variant=variant or "",
        device={"backend": d.backend, "name": d.name, "profile": d.profile, "compute_units": d.compute_units},
        planner=planner,
        scenarios=tuple(results),
        outcomes=tuple(run.outcomes.values()),
        best_script=script,
        best_knobs=knobs,
        measured=measured,
        recalled=max(0, tried - failed - measured),
        failed=failed,
        failures=failures,
        budget=run.budget,
        seconds=time.monotonic() - run.started,
        first_improvement=run.first_improvement,
        notes=tuple(run.notes),
        rejected=tuple(run.rejected),
        history=tuple(run.history),
    )


def _with_limiters(run: Run, r: ScenarioResult) -> ScenarioResult:
    """What limits a tuned scenario's winner, or the original that nothing beat."""
    built = run.builder.build(Proposal(r.script, ""))
    if r.heldout or not isinstance(built, Candidate):
        return r
    found = run.profile(Finalist(built, r.knobs, r.after.median), run.work.scenario(r.name))
    return replace(r, limited=tuple(found.lines(LIMITERS_SHOWN))) if found is not None else r


def _folder(out: Path, resume: bool) -> Path:
    """``out``, made and shown to be writable; without ``resume`` an old ledger is moved aside, never deleted."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.write_text("")
        probe.unlink()
        if not resume:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            for old in out.glob(f"{LEDGER}*"):
                old.rename(out / f"old-{stamp}-{old.name}")
    except OSError as e:
        hint = "choose another folder for the results"
        raise KtcError("E-OUT-DIR", f"cannot write to {out}: {e.strerror}", hint=hint, exit_code=3) from None
    return out


def _silent(event: Mapping[str, object]) -> None:
    pass
