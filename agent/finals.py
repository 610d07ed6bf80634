"""The finals: the fastest configurations meet the original, interleaved in one process; then sizes nobody tuned for."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from math import prod

from ktc.agent.embedded.rounds import measure_original
from ktc.ir.diagnostics import KtcError
from ktc.ir.support.quantities import duration
from ktc.ir.workload import Scenario

from .lab import Comparison, Timed
from .planner import Outcome, Proposal
from .report import ScenarioResult, StepShare
from .scripts import unconditional
from .state import FINALISTS, LONG_S, Finalist, Run
from .step_shares import Winner, without_idle_steps
from .stopping import Stopping

FITTED = 4096
"""Knob tuples of a script, at most, that are looked through for the nearest that fits."""

LAST_RESORT = 1.0
"""Time limits, after the end of the first, that verdicts are waited for while nothing was accepted: who gave a limit
has an answer by twice as long, if it is that there is none."""

LEAST_GRACE_S, GRACE = 2.0, 0.2
"""Once the time is over and something was accepted, verdicts on what is faster are waited for so many seconds, or this
share of what the run took so far, if that is more; duels go on meanwhile."""

CLOSE = 1.1
"""What the search timed at more than so many times the fastest that has met the original does not become faster in a
duel."""

DUEL_LAUNCHES = 12
"""Launches that a duel makes at least: five pairs that are timed, and those whose results are compared."""

NOTHING_FASTER = "nothing was faster when the time limit was over (--time-limit)"
TOO_LATE = "a duel would take longer than twice the time limit (--time-limit)"

LOOKS_S = 0.1
"""Who waits for several verdicts looks for so long at one."""


def shoot_out(run: Run, scenario: Scenario) -> ScenarioResult:
    """The winner of ``scenario``: the largest ratio among the verified finalists, or the original itself.

    Faster means that the whole 95 % interval of the ratio lies above 1. Where the first leaves nothing to gain, no
    other is looked at.
    """
    run.tell("finals", scenario=scenario.name)
    original, *rest = run.finalists[scenario.name]
    met: list[Winner] = []
    faster: list[Finalist] = []  # than the best, in a duel
    beaten = 0  # by the best
    over = max(time.monotonic(), run.deadline(scenario))
    until = over + max(LEAST_GRACE_S, GRACE * (over - run.started))
    while beaten < FINALISTS and (f := _next(run, scenario, rest, met, faster, until)) is not None:
        if not run.was_decided(f):
            if _may_win(run, f, scenario, met):
                faster.append(f)
            else:
                rest.remove(f)
                beaten += 1
            continue
        rest.remove(f)
        seconds = run.patience(scenario, LAST_RESORT)
        verdict = run.gate_final(f.candidate, f.knobs, seconds) if not run.is_withdrawn(f.candidate) else ""
        if verdict and f not in faster and _is_long(run, met) and not _may_win(run, f, scenario, met):
            beaten += 1
        elif verdict and (found := compare(run, f, scenario)) is not None:
            met.append(Winner(f, found, verdict))
    late = [f for f in _contenders(run, rest, met) if run.verdicts.asked(f.candidate) and not run.was_decided(f)]
    for f in late:
        run.notes.append(f"{scenario.name}: not verified in time: {f.candidate.label} ({duration(f.seconds)})")
    while (best := _fastest(run, met)) is not None:
        won = without_idle_steps(run, scenario, best)
        if not run.is_withdrawn(won.finalist.candidate):  # as it is where what is left of it is wrong
            return _result(run, scenario, won.finalist, won.found, won.verdict, won.shares)
    why = "" if met else ": no candidate ran" if not rest else ": no candidate passed the finals"
    why = _unheard(original, late) or why
    return _result(run, scenario, original, _unchanged(run, scenario, original), f"the original is kept{why}")


def _unheard(original: Finalist, late: Sequence[Finalist]) -> str:
    """What a longer search is worth, where candidates that it timed as faster had no verdict; '' where none were."""
    faster = [f for f in late if f.seconds < original.seconds]
    if not faster:
        return ""
    gain = original.seconds / min(f.seconds for f in faster)
    return f": {len(faster)} faster, up to {gain:.3g}x, had no verdict in time (--time-limit)"


def _may_win(run: Run, f: Finalist, scenario: Scenario, met: Sequence[Winner]) -> bool:
    """Whether ``f`` is faster than the best that has ``met`` the original, by a duel of these two."""
    best = _fastest(run, met)
    if best is None:
        return True
    run.clean_device()
    try:
        found = run.lab.compare(f.candidate, f.knobs, scenario, (best.finalist.candidate, best.finalist.knobs))
    except KtcError:
        return True  # the duel with the original says what is the matter
    return found.verdict != "ok" or found.ratio[0] > 1.0


def _is_long(run: Run, met: Sequence[Winner]) -> bool:
    """Whether a launch of the original takes so long that only what beats the best of ``met`` is to meet it."""
    best = _fastest(run, met)
    return best is not None and best.found.before.median >= LONG_S


def _next(
    run: Run,
    scenario: Scenario,
    field: Sequence[Finalist],
    met: Sequence[Winner],
    faster: Sequence[Finalist],
    until: float,
) -> Finalist | None:
    """The one of ``field`` that meets the original next, with a verdict; or, where nobody verifies beside the search,
    the best of ``met``, before it has one, unless it is of those that were ``faster`` in that duel. None once no other
    can win, or is known to be right in time.

    The fastest comes first, and its verdict is waited for. Once the time of ``scenario`` is over, those that have
    theirs come first; verdicts on what is faster are then waited for ``until`` (of :func:`time.monotonic`), and while
    nothing at all is accepted, another time limit (:data:`LAST_RESORT`). What was accepted itself, and is built on
    something that has no verdict by then, is waited for no longer.
    """
    if any(run.stopping.get(scenario.name, Stopping()).is_near(m.found.after.median) for m in met):
        return None
    while close := _contenders(run, field, met):
        late = run.is_late(scenario)
        decided = [f for f in close if run.was_decided(f) and (run.is_verified(f) or not late)]
        if decided and (late or decided[0] is close[0]):
            return decided[0]
        open_ = [f for f in close if not run.was_decided(f)]
        if late and met:  # a verdict that nobody works on beside the duels is not begun any more
            begun = (f for f in open_ if run.lab.gates or run.verdicts.of(f.candidate, f.knobs) is not None)
            open_ = [f for f in begun if f.seconds < _least(met)]
        left = until - time.monotonic() if late and met else run.patience(scenario, LAST_RESORT if late else 1.0)
        if not open_ or left <= 0:
            own = next((f for f in close if not run.was_decided(f) and run.stands_alone(f)), None)
            if own is not None:
                run.release(own.candidate)
            return own
        if not run.lab.gates and open_[0] not in faster and _fastest(run, met) is not None:
            return open_[0]  # a duel takes half a second, and its verdict many
        each = {f.candidate.key: f for f in reversed(open_)}  # the fastest of each template: they fail together
        asked = sorted(each.values(), key=lambda f: f.seconds)[: FINALISTS if run.lab.gates else 1]
        for f in asked:
            run.verdicts.begin(f.candidate, f.knobs)
        for f in asked:
            run.is_decided(f, min(left, LOOKS_S))
    return None


def _contenders(run: Run, field: Sequence[Finalist], met: Sequence[Winner]) -> list[Finalist]:
    """Those of ``field`` that may be faster than what has ``met`` the original, the fastest first."""
    least = _least(met)

    def may_be_faster(f: Finalist) -> bool:
        return f.seconds < least or (len(met) < FINALISTS and (f.interval or (f.seconds,))[0] < CLOSE * least)

    return [f for f in field if may_be_faster(f) and not run.is_withdrawn(f.candidate)]


def _least(met: Sequence[Winner]) -> float:
    """What the search timed the fastest at of those that have met the original, in seconds."""
    return min((m.finalist.seconds for m in met), default=math.inf)


def _unchanged(run: Run, scenario: Scenario, original: Finalist) -> Comparison:
    """The original against itself. Where it takes longer than a duel may, the time that the search began with: what
    other scenarios have won is no less for that."""
    why = TOO_LATE
    if _may_duel(run, scenario):
        try:
            return kept(run.lab.compare(original.candidate, {}, scenario))
        except KtcError as error:
            why = error.message
    run.notes.append(f"{scenario.name}: the original is timed once: {why}")
    low, high = original.interval or (original.seconds, original.seconds)
    once = Timed(original.seconds, low, high)
    return Comparison(once, once, (1.0, 1.0, 1.0))


def _may_duel(run: Run, scenario: Scenario) -> bool:
    """Whether a duel of ``scenario``, where launches take what the original's do, ends within twice the time limit."""
    return DUEL_LAUNCHES * run.finalists[scenario.name][0].seconds <= run.seconds_left + run.time_limit


def _fastest(run: Run, met: Sequence[Winner]) -> Winner | None:
    """The best of those that are faster than the original beyond doubt, and were not withdrawn since they met it."""
    faster = (m for m in met if m.found.ratio[1] > 1.0 and not run.is_withdrawn(m.finalist.candidate))
    return max(faster, key=lambda m: m.found.ratio[0], default=None)


def kept(duel: Comparison) -> Comparison:
    """The original against itself: one kernel has one time, and what a duel makes of it is noise."""
    return replace(duel, after=duel.before, ratio=(1.0, 1.0, 1.0))


def compare(run: Run, f: Finalist, scenario: Scenario) -> Comparison | None:
    """One duel with the original; None when the finalist fails or its timed outputs are wrong (then it is rejected)."""
    run.clean_device()
    try:
        found = run.lab.compare(f.candidate, f.knobs, scenario)
    except KtcError as e:
        run.reject(f.candidate, f.knobs, e.message, scenario.name)
        run.tell_leaders()
        return None
    if not f.candidate.script:
        found = kept(found)
    if found.verdict != "ok":
        run.reject(f.candidate, f.knobs, found.verdict, scenario.name)
        run.tell_leaders()
        return None
    duel = {"before": found.before.median, "after": found.after.median, "ratio": found.ratio}
    run.tell("compare", scenario=scenario.name, script=f.candidate.script, knobs=dict(f.knobs), **duel)
    return found


def held_out(
    run: Run, scenarios: Sequence[Scenario], tuned: Sequence[Scenario], results: Sequence[ScenarioResult]
) -> list[ScenarioResult]:
    """Each of ``scenarios`` with what won the tuned scenario nearest in bytes.

    Where the winner's knobs do not fit, the nearest ones of its script that do take their place, unmeasured; where
    there are none, the next of that scenario's finalists that may run.
    """
    out = []
    for s in scenarios:
        left = _left_for_others(run)
        if left <= 0:
            run.notes.append(f"{s.name} is not compared: the time limit was over twice (--time-limit)")
            continue
        if run.seconds_left <= 0 and not any(r.script for r in results):
            run.notes.append(f"{s.name} is not compared: {NOTHING_FASTER}")
            continue
        run.tell("held_out", scenario=s.name)
        try:
            measure_original(run, s, left)
        except KtcError as error:  # the sizes that were tuned for have their result
            run.notes.append(f"{s.name} is left out: {error.message}")
            continue
        if not _may_duel(run, s):
            run.notes.append(f"{s.name} is not compared: {TOO_LATE}")
            continue

        def apart(pair: tuple[Scenario, ScenarioResult], s: Scenario = s) -> float:
            return abs(math.log(max(1, run.lab.traffic(pair[0])) / max(1, run.lab.traffic(s))))

        for t, r in sorted(zip(tuned, results), key=apart):
            f, verdict = _next_best(run, winner(run, r), r.verdict, t, s)
            found = compare(run, f, s) if f is not None else None
            if f is not None and found is not None:
                out.append(_result(run, s, f, found, f"{verdict}, as tuned for {t.name}"))
                break
        else:
            original = run.finalists[s.name][0]
            try:
                found = kept(run.lab.compare(original.candidate, {}, s))
            except KtcError as error:
                run.notes.append(f"{s.name} is left out: {error.message}")
                continue
            out.append(_result(run, s, original, found, "the original is kept: no winner may run here"))
    return out


def _next_best(run: Run, best: Finalist, verdict: str, t: Scenario, s: Scenario) -> tuple[Finalist | None, str]:
    """The winner ``best`` of ``t`` if it may run on ``s``, else its script with knobs that fit, else the fastest
    verified finalist of ``t`` that may."""
    if run.lab.feasible(best.candidate, best.knobs, s):
        return best, verdict
    near = fitted(run, best, s)
    if near is not None and (found := run.gate_final(near.candidate, near.knobs, _left_for_others(run))):
        return near, f"{found}, knobs fitted"
    for f in (f for f in run.finalists[t.name][1:] if run.lab.feasible(f.candidate, f.knobs, s)):
        if found := run.gate_final(f.candidate, f.knobs, _left_for_others(run)):
            return f, found
    return None, ""


def _left_for_others(run: Run) -> float:
    """Seconds left for scenarios that were held out: the time limit once more, for verdicts and duels took some."""
    return max(0.0, run.seconds_left + run.time_limit)


def fitted(run: Run, best: Finalist, s: Scenario) -> Finalist | None:
    """``best``'s script at the knobs nearest its own that may run on ``s``: rows of 128 elements taken by 16 threads
    become rows of 256 taken by 32.

    The preferences (``where``) that were stated for the tuned sizes do not count. Distance is the sum of the doublings
    between two tuples; among equals, the larger knobs.
    """
    script = unconditional(best.candidate.script)
    built = run.builder.build(Proposal(script, "knobs fitted to sizes that nobody tuned for"))
    if isinstance(built, Outcome) or prod(len(k.domain) for k in built.kernel.knobs) > FITTED:
        return None

    def apart(knobs: Mapping[str, int]) -> tuple[float, int]:
        pairs = [(v, best.knobs.get(n, v)) for n, v in knobs.items()]
        return sum(abs(math.log2(max(v, 1) / max(w, 1))) for v, w in pairs), -sum(knobs.values())

    names = [k.name for k in built.kernel.knobs]
    domains = [k.domain if k.value is None else (k.value,) for k in built.kernel.knobs]
    tuples = (dict(zip(names, values)) for values in product(*domains))
    for knobs in sorted(tuples, key=apart):
        if run.lab.feasible(built, knobs, s):
            return Finalist(built, knobs, best.seconds)
    return None


def winner(run: Run, r: ScenarioResult) -> Finalist:
    """The finalist that a result describes."""
    return next(f for f in run.finalists[r.name] if f.candidate.script == r.script and dict(f.knobs) == dict(r.knobs))


def overall(run: Run, results: Sequence[ScenarioResult]) -> tuple[str, Mapping[str, int]]:
    """The winner that may run on the most scenarios; among equals, that of the scenario that moves the most bytes."""
    tuned = [r for r in results if not r.heldout]

    def reach(r: ScenarioResult) -> tuple[int, int]:
        f = winner(run, r)
        return sum(run.lab.feasible(f.candidate, f.knobs, run.work.scenario(o.name)) for o in tuned), r.bytes

    best = max(tuned, key=reach)
    return best.script, best.knobs


def _result(
    run: Run, s: Scenario, f: Finalist, found: Comparison, verdict: str, shares: tuple[StepShare, ...] = ()
) -> ScenarioResult:
    limit = run.lab.bound(s, found.after.median)
    alarm = limit.alarm(found.after.median) if limit else ""
    if alarm:
        run.notes.append(f"{s.name}: {alarm}")
    result = ScenarioResult(
        name=s.name,
        sizes=dict(s.sizes),
        heldout=s.heldout,
        before=found.before,
        after=found.after,
        ratio=found.ratio,
        script=f.candidate.script,
        knobs=dict(f.knobs),
        verdict=verdict,
        bytes=run.lab.traffic(s),
        bound=limit.seconds if limit else 0.0,
        limiter=limit.limiter if limit else "",
        shares=shares,
        terms=dict(limit.terms) if limit else {},
        amounts=dict(limit.amounts) if limit else {},
        in_search=(run.finalists[s.name][0].seconds, 0.0 if s.heldout else f.seconds),
    )
    run.tell("result", scenario=s.name, **{k: v for k, v in asdict(result).items() if k != "name"})
    return result
