"""One scenario's search: propose, build, race; then once more with what was learnt.

What is measured is checked on the device, on small awkward sizes, and no more. The ladder follows: it is asked about
the fastest, beside the measurements where there are processors for it, and what it rejects is withdrawn
(:meth:`.state.Run.hear`). Nothing is a result, a reason to stop or a lesson before it was accepted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ktc.agent.build import Candidate
from ktc.agent.failures import INTERNAL, WHAT_TO_SEND
from ktc.agent.lessons import MEMORY, is_remembered, is_wrong, knobs_of, precedents, recalled, remembered, rules
from ktc.agent.planner import Observation, Outcome, Proposal, Score, enough, foreseen, proposals, reads_bound
from ktc.agent.state import Finalist, Run
from ktc.agent.stopping import Stopping
from ktc.ir.analysis.planner_facts import KernelFacts, facts
from ktc.ir.diagnostics import KtcError
from ktc.ir.support.time_limits import in_time
from ktc.ir.workload import Scenario
from ktc.search.limiters.limiter import Profile

from .race import Standing, race

PER_ROUND = 6
"""Scripts asked of the planner per round."""

IDEAS_AHEAD = 2
"""Scripts whose first configuration is being compiled while another one is measured: a product takes longer to compile
than to measure."""

NEAR = 1.5
"""A template races with the fastest once its own best takes at most so many times as long. One that is further off at
its first configuration rarely comes in front at another, and all its measurements were the leader's: of 31 that a
tridiagonal solver had in 11 s, 14 went to templates that are 3 to 45 times slower."""

ROUNDS = (0.5, 0.8, 1.0)
"""The share of a scenario's budget that is spent after each round: on the planner's first ideas, then twice on ideas
that follow from what won."""


EXIT_BUG = 70
"""The exit code where ktc itself is at fault."""

THE_ORIGINAL = Proposal("", "the original")

FIRST_LOOK_S = 10.0
"""Seconds that the original has at each sizes, however little time there is for all."""

TOO_SLOW = "E-ORIGINAL-SLOW"
"""The code of the error about an original that gives no answer in time."""


BEYOND = (
    "an index goes beyond what a buffer has, at these sizes or at those that were run before: correct the shapes, "
    "sizes, range and init of {workload}"
)
"""What a device's complaint about an address comes from, as a rule: sizes that do not belong together."""

_FAULTS = {
    INTERNAL: (
        "E-INTERNAL",
        "was not measured, because ktc itself failed",
        f"{WHAT_TO_SEND} ({{workload}})",
    ),
    "hang": (TOO_SLOW, "takes too long", "make {scenario} smaller in {workload}, or choose others with --scenario"),
    "wrong": (
        "E-ORIGINAL",
        "gives other results than expected",
        'a race in the source (indices that stores go to must differ: init = "distinct" in {workload}), indices beyond '
        "what a buffer has there (shapes, range and init), an index that is rounded from floats (contracted products "
        "and sums round otherwise), a wrong [reference], or a fault in the compiler of {device}: try "
        "another --device",
    ),
}
"""By the status of its outcome: what is the matter with an original, and what may help."""


HANDED_ON = 3
"""Scripts that a scenario takes over from others once the time is over."""


def search(run: Run, scenario: Scenario, budget: int, deadline: float = math.inf) -> None:
    """Spend ``budget`` measurements on ``scenario``; results are in ``run.outcomes`` and ``run.finalists``.

    Nothing new is begun once ``deadline`` (of :func:`time.monotonic`) is over, or the best is near the speed of light.
    """
    if budget > 0:
        begin_ahead(run, scenario)
    measure_original(run, scenario, run.seconds_left)
    if budget < 1:
        return
    run.stopping[scenario.name] = Stopping(deadline)
    if run.lab.knows_rates() or reads_bound(run.planner):
        _learn_bound(run, scenario)
    _search(run, scenario, budget)
    if why := run.why_stop(scenario):
        run.notes.append(f"{scenario.name}: {why}")


def begin_ahead(run: Run, scenario: Scenario) -> None:
    """Have the original compiled, and what the planner comes to first compiled and verified, by processors that have
    nothing to do while the device is opened and the original is measured; once for each scenario."""
    if not run.lab.gates or scenario.name in run.begun:
        return
    run.begun.add(scenario.name)
    original = run.builder.build(THE_ORIGINAL)
    if isinstance(original, Candidate):
        run.lab.prepare(original, scenario)
    first_ideas = _variants(run, foreseen(run.planner, _plain_view(run, scenario), PER_ROUND))
    for p in in_time(first_ideas, run.started + run.time_limit):
        built = run.builder.build(p)
        if isinstance(built, Candidate) and (first := run.lab.prepare(built, scenario)) is not None:
            run.foresee(built, first)
            return


def _variants(run: Run, found: Iterator[Proposal]) -> Iterator[Proposal]:
    """What is tried of each proposal, one after another."""
    return chain.from_iterable(map(run.builder.variants, found))


def _learn_bound(run: Run, scenario: Scenario) -> None:
    """Get to know the least time of ``scenario``, unless it is known. That may measure the device for seconds, which a
    first gain need not wait for."""
    stopping = run.stopping[scenario.name]
    if stopping.asked:
        return
    bound = run.lab.bound(scenario)
    run.stopping[scenario.name] = replace(stopping, bound=bound, asked=True)
    if bound is not None:
        run.tell("bound", scenario=scenario.name, seconds=bound.seconds, limiter=bound.limiter)


def _search(run: Run, scenario: Scenario, budget: int) -> None:
    field: dict[str, Candidate] = {}
    spent = 0
    for part in ROUNDS:
        if run.why_stop(scenario):
            return
        seen = observe(run, scenario, budget, budget - spent)
        if why := enough(run.planner, seen):
            run.notes.append(f"{scenario.name}: stopped: {why}")
            return
        fresh = propose(run, scenario, field, int(budget * part + 0.5) - spent, seen)
        _learn_bound(run, scenario)
        field |= {c.key: c for c in fresh}
        spent += sum(_measured(run, scenario, c, 0) for c in fresh)
        left = int(budget * part + 0.5) - spent
        racers = [c for c in fresh or list(field.values()) if not is_wrong(run, scenario, c)]
        if left > 0 and racers:
            spent += _race(run, scenario, racers, left)
    found = (field.get(f.candidate.key, f.candidate) for f in run.finalists[scenario.name][1:])
    leaders = [c for c in found if not is_wrong(run, scenario, c)]
    if spent < budget and leaders:  # a small space was exhausted: its share goes to the others
        spent += _race(run, scenario, list({c.key: c for c in leaders}.values()), budget - spent)


def _measured(run: Run, scenario: Scenario, c: Candidate, total: int, seeds: Sequence[Mapping[str, int]] = ()) -> int:
    """Measurements of ``c`` once it has had ``total``, ``seeds`` after its defaults, booked where they are new. What
    the ledger has from an earlier run counts, and is not made again."""
    tuned = run.lab.tune(c, scenario, total, seeds)
    if tuned.spent > run.totals.get((scenario.name, c.key), 0):
        run.account(c, scenario, tuned)
    return tuned.spent


def hand_on(run: Run, scenario: Scenario) -> None:
    """What had no turn at ``scenario`` before the time was over, and is worth more at others than anything is here:
    the fastest there, with its knobs."""
    here = run.finalists.get(scenario.name, [])
    if not here:
        return
    gained = here[0].seconds / min(f.seconds for f in here)
    found: dict[str, tuple[float, Finalist]] = {}
    for original, *rest in run.finalists.values():
        for f in rest:
            gain, key = original.seconds / f.seconds, f.candidate.key
            if gain <= gained or run.is_withdrawn(f.candidate) or run.totals.get((scenario.name, key), 0):
                continue
            if key not in found or gain > found[key][0]:
                found[key] = gain, f
    for _, f in sorted(found.values(), key=lambda x: (not run.is_verified(x[1]), -x[0]))[:HANDED_ON]:
        _measured(run, scenario, f.candidate, 2, [f.knobs])


def _race(run: Run, scenario: Scenario, racers: list[Candidate], budget: int) -> int:
    """Race from where each racer stands now; the measurements it took. Those far behind, and those of which nothing
    that was measured is right, run once the others have nothing left to try."""
    near, far = _by_distance(run, scenario, racers)
    spent = _raced(run, scenario, near, budget)
    return spent + (_raced(run, scenario, far, budget - spent) if far and spent < budget else 0)


def _by_distance(run: Run, scenario: Scenario, racers: list[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """``racers`` that may be the fastest, as far as their measurements say, and the others; both the fastest first, and
    before them what was not measured."""
    best: dict[str, float] = {}
    for f in run.finalists[scenario.name]:
        best[f.candidate.key] = min(f.seconds, best.get(f.candidate.key, math.inf))
    times = [best.get(c.key, math.inf if run.totals.get((scenario.name, c.key), 0) else 0.0) for c in racers]
    limit = NEAR * min((t for t in times if 0 < t < math.inf), default=math.inf)
    in_order = sorted(zip(times, racers, strict=True), key=lambda standing: standing[0])
    return [c for t, c in in_order if t <= limit], [c for t, c in in_order if t > limit]


def _raced(run: Run, scenario: Scenario, racers: list[Candidate], budget: int) -> int:
    """A race of its own; the measurements it took."""
    starts = {c.key: run.totals.get((scenario.name, c.key), 0) for c in racers}

    def step(c: Candidate, more: int) -> Standing[Candidate]:
        if run.is_withdrawn(c):
            return Standing(c, math.inf, run.totals.get((scenario.name, c.key), 0) - starts[c.key], done=True)
        over = bool(run.why_stop(scenario))
        total = starts[c.key] + (0 if over else more)
        left = run.stopping[scenario.name].seconds_left
        tuned = run.lab.tune(c, scenario, total, () if over else _seeds(run, c, scenario), left)
        if tuned.spent:
            run.account(c, scenario, tuned)
        best = tuned.ranked[0][1] if tuned.ranked else float("inf")
        return Standing(c, best, max(0, tuned.spent - starts[c.key]), tuned.exhausted or tuned.spent < total)

    def rung(standings: list[Standing[Candidate]]) -> None:
        order = [{"script": s.racer.script, "best": s.best, "spent": s.spent} for s in standings]
        run.tell("rung", scenario=scenario.name, order=order)

    return sum(s.spent for s in race(racers, budget, step, on_rung=rung))


def _untried(run: Run, c: Candidate, scenario: Scenario) -> list[Mapping[str, int]]:
    """Knobs that won before with ``c``, or with its schedule on another kernel, may run here and were not measured."""
    if run.memory is None:
        return []
    seen = [dict(f.knobs) for f in run.finalists[scenario.name] if f.candidate.key == c.key]
    found = [k for k in knobs_of(run, scenario, facts_at(run, scenario), c) if dict(k) not in seen]
    return [k for k in found if run.lab.feasible(c, k, scenario)]


def _seeds(run: Run, c: Candidate, scenario: Scenario) -> list[Mapping[str, int]]:
    """What won with this template on other scenarios, and on similar kernels before."""
    names = {k.name for k in c.kernel.knobs}
    found = [f.knobs for at, fs in run.finalists.items() if at != scenario.name for f in fs if f.candidate.key == c.key]
    found += knobs_of(run, scenario, facts_at(run, scenario), c)
    return [k for k in found if set(k) == names]


def fault_of(status: str, why: str) -> tuple[str, str, str]:
    """The code of an original that was not timed, what it does, and what its owner can do about it."""
    beyond = any(word in why.lower() for word in ("illegal", "misaligned", "invalid address"))
    hint = BEYOND if beyond else "another --device may run it"
    return _FAULTS.get(status, ("E-ORIGINAL", "does not run", hint))


def measure_original(run: Run, scenario: Scenario, seconds: float = math.inf) -> None:
    """The time to beat: the original, printed by the same backend, as the first finalist; ``seconds``: how many there
    are for that (few are not too few for a first look).

    Raises:
        KtcError: the original cannot be lowered for this backend, does not run, or (E-ORIGINAL-SLOW) takes too long.
    """
    identity = run.builder.build(THE_ORIGINAL)
    if isinstance(identity, Outcome):
        raise KtcError(identity.code, f"the kernel itself cannot be lowered: {identity.detail}")
    tuned = run.lab.tune(identity, scenario, 1, (), max(seconds, FIRST_LOOK_S))
    if not tuned.ranked:
        _, status, why = tuned.failures[0] if tuned.failures else ({}, "", tuned.why_empty)
        code, what, hint = fault_of(status, why)
        where = {"scenario": scenario.name, "workload": run.work.path, "device": run.lab.device.name}
        message = f"the original kernel {what} on {scenario.name}: {why}"
        raise KtcError(code, message, hint=hint.format_map(where), exit_code=EXIT_BUG if status == INTERNAL else 1)
    run.finalists[scenario.name] = [Finalist(identity, {}, tuned.ranked[0][1])]
    run.measured += tuned.fresh
    run.history.append({"scenario": scenario.name, "script": "", "spent": run.spent, "best": tuned.ranked[0][1]})
    timed = tuned.trials[-1].outcome.interval.get(scenario.name) if tuned.trials else None
    run.tell("original", scenario=scenario.name, seconds=tuned.ranked[0][1], interval=timed)


# ------------------------------------------------------------------------------------------------------- proposing


def observe(run: Run, scenario: Scenario, budget: int = 0, left: int = 0) -> Observation:
    """What the planner sees before a round on ``scenario``; ``left`` of ``budget`` measurements may still be made."""
    leader = min(run.finalists[scenario.name], key=lambda f: f.seconds)
    return replace(
        _plain_view(run, scenario),
        history=tuple(o for (at, _), o in run.outcomes.items() if at in ("", scenario.name)),
        profile=run.profile(leader, scenario),
        leader=leader.candidate.script,
        score=_score(run, scenario, budget, left),
        profile_of=lambda script: _profile_of(run, script, scenario),
    )


def _plain_view(run: Run, scenario: Scenario) -> Observation:
    """What there is to see of ``scenario`` before anything is measured."""
    from ktc.passes.core.pipeline import sites

    seen = facts_at(run, scenario)
    known = precedents(run, seen)
    return Observation(
        kernel=run.original,
        raised=run.raised,
        facts=(seen,),
        device=run.lab.device,
        find_sites=lambda: tuple(s for group in sites(run.raised or run.original).values() for s in group),
        remembered=remembered(recalled(run, scenario, seen)),
        attempt=run.builder.attempt,
        built=run.builder.kernel,
        runs=lambda script: _runs(run, script, scenario),
        rules=tuple(map(str, rules(run, seen))),
        precedent=known.place if known else None,
        scenario=_in_words(run, scenario),
        elsewhere=tuple(_elsewhere(run, scenario)),
        extents=run.work.extents(scenario.sizes),
    )


def _in_words(run: Run, scenario: Scenario) -> str:
    """The scenario that is planned for, and the other tuned ones, with their sizes."""
    others = [s for s in run.work.scenarios if s.tuned and s.name != scenario.name]
    beside = f" Tuned for as well: {'; '.join(map(_sized, others))}." if others else ""
    return f"Planned for now: {_sized(scenario)}.{beside}"


def _sized(s: Scenario) -> str:
    return f"{s.name} ({', '.join(f'{k}={v}' for k, v in s.sizes.items())})" if s.sizes else s.name


def _elsewhere(run: Run, scenario: Scenario) -> Iterator[str]:
    """The fastest script of each other scenario that was searched before."""
    for at, (original, *rest) in run.finalists.items():
        if at != scenario.name and rest:
            f = rest[0]
            yield f"on {at}: {f.candidate.script} -> {original.seconds / f.seconds:.3f}x with {dict(f.knobs)}"


def _score(run: Run, scenario: Scenario, budget: int, left: int) -> Score:
    original, *rest = run.finalists[scenario.name]
    best = min((f.seconds for f in rest if run.is_verified(f)), default=original.seconds)
    bound = run.stopping.get(scenario.name, Stopping()).bound
    least, unit = (bound.seconds, bound.unit) if bound is not None else (0.0, "")
    return Score(original.seconds, min(best, original.seconds), least, unit, left, budget)


def _profile_of(run: Run, script: str, scenario: Scenario) -> Profile | None:
    """What limits the fastest configuration of ``script``; None where it was not measured."""
    found = next((f for f in run.finalists[scenario.name] if f.candidate.script == script), None)
    return run.profile(found, scenario) if found is not None else None


def _runs(run: Run, script: str, scenario: Scenario) -> bool:
    """Whether some configuration of ``script`` suits the scenario, if it can be built at all: why not is told later."""
    built = run.builder.build(Proposal(script, ""))
    return isinstance(built, Outcome) or run.lab.runs(built, scenario)


def facts_at(run: Run, scenario: Scenario) -> KernelFacts:
    """The facts of the kernel that scripts apply to, at the sizes of a scenario."""
    return facts(run.raised or run.original, scalars(run, scenario))


def scalars(run: Run, scenario: Scenario) -> dict[str, int | float]:
    """Values of the scalar parameters, host ones too, in a scenario."""
    return run.work.scalars(scenario.sizes)


def propose(
    run: Run, scenario: Scenario, field: Mapping[str, Candidate], budget: int, seen: Observation
) -> list[Candidate]:
    """New, distinct candidates; everything else becomes an outcome.

    Each is measured once as soon as it is built, where the ``budget`` of measurements has room: the ladder begins with
    the fastest while the others are measured, and the search ends once nothing is left to gain. While one is measured,
    the next one is compiled.
    """
    fresh: dict[str, Candidate] = {}
    for p, built in _built_ahead(run, scenario, seen):
        run.hear()
        if run.is_late(scenario):  # also where nothing may be measured before its verdict, and none came
            break
        if fresh:
            _learn_bound(run, scenario)
            if run.why_stop(scenario):
                break
        if isinstance(built, Outcome):
            if ("", p.script) not in run.outcomes:
                run.tell("refused", script=p.script, planner=p.planner, code=built.code, why=built.detail)
            run.outcomes["", p.script] = built
        elif field.get(built.key) is not None and field[built.key].script == p.script:
            fresh[built.key] = built  # proposed again because the budget did not reach it
        elif built.key in fresh and is_remembered(fresh[built.key]) and p.planner != MEMORY:
            fresh[built.key] = replace(fresh[built.key], proposal=p)  # somebody's own idea as well
        elif built.key in field or built.key in fresh:
            twin = field.get(built.key) or fresh[built.key]
            run.settle(built, "duplicate", f"the same code as: {twin.label}", scenario.name)
        elif why := run.why_futile(built):
            run.settle(built, "withdrawn", why)
        elif why := run.why_hopeless(p, scenario):
            run.settle(built, "withdrawn", why, scenario.name)
        elif run.is_withdrawn(built):
            if ("", built.script) not in run.outcomes:  # else it was rejected itself
                run.settle(built, "withdrawn", "built on what was rejected")
        elif run.may_be_measured(built, run.stopping.get(scenario.name, Stopping()).seconds_left):
            c = fresh[built.key] = replace(built, proposal=p)
            spent = _measured(run, scenario, c, 1) if budget > 0 else 0
            if spent == 1 < budget and (knobs := _untried(run, c, scenario)):
                spent = _measured(run, scenario, c, 2, knobs)
            budget -= spent
    return [c for c in fresh.values() if not run.is_withdrawn(c)]


def _built_ahead(run: Run, scenario: Scenario, seen: Observation) -> Iterator[tuple[Proposal, Candidate | Outcome]]:
    """The planner's proposals, built; when one is given out, the :data:`IDEAS_AHEAD` next are being compiled, and one
    is being verified."""
    scripts: list[str] = []
    said: list[Mapping[str, object]] = []
    waiting: deque[tuple[Proposal, Candidate | Outcome]] = deque()
    for p in in_time(_variants(run, proposals(run.planner, seen, PER_ROUND)), run.deadline(scenario)):
        scripts.append(p.script)
        said.append({"script": p.script, "planner": p.planner, "reason": p.reason, "predicted": p.predicted})
        built = run.builder.build(p)
        if isinstance(built, Candidate) and (first := run.lab.prepare(built, scenario)) is not None:
            run.foresee(built, first)
        waiting.append((p, built))
        if len(waiting) > IDEAS_AHEAD:
            yield waiting.popleft()
    run.tell("propose", scenario=scenario.name, planner=run.planner.name, scripts=scripts, proposals=said)
    yield from waiting
