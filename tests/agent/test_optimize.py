"""The loop itself, on a made-up device: budgets, refusals, wrong candidates, winners, files, resuming."""

import dataclasses
import json
import math
import threading
import time
from concurrent.futures import Future

import pytest

from ktc.agent.embedded.rules import Rules
from ktc.agent.learnt_rules import LearntRule, LearntRules
from ktc.agent.memory import Memory
from ktc.agent.optimize import optimize
from ktc.agent.planner import Proposal
from ktc.agent.planners import Ensemble
from ktc.agent.report import Timed, table, with_interval
from ktc.agent.state import Run
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.search.bounds.speed_of_light import Bound
from ktc.search.verification import Verdict
from tests.agent.agent_kernels import ROWS
from tests.agent.fake_lab import FakeLab, LateLab
from tests.paths import KERNELS

WORKLOAD = """
[kernel]
source = "kernel.ktir"
name = "k"
[[args]]
name = "out"
dtype = "f16"
shape = ["n", "d"]
role = "out"
align = 16
[[args]]
name = "in"
dtype = "f16"
shape = ["n", "2 * d"]
role = "in"
align = 16
[[args]]
name = "d"
dtype = "i32"
role = "scalar"
value = "d"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "few"
sizes = { n = 4, d = 8192 }
[[scenario]]
name = "many"
sizes = { n = 4096, d = 4096 }
[[scenario]]
name = "odd"
sizes = { n = 7, d = 111 }
weight = 0.0
[[scenario]]
name = "unseen"
sizes = { n = 2048, d = 4096 }
heldout = true
"""


@pytest.fixture
def work(tmp_path):
    (tmp_path / "kernel.ktir").write_text(ROWS)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return Workload.load(tmp_path / "workload.toml")


class Fixed:
    """A planner that always says the same."""

    name = "fixed"

    def __init__(self, *scripts):
        self.scripts, self.observations = scripts, []

    def propose(self, observation, k):
        self.observations.append(observation)
        known = {o.script for o in observation.history}
        return [Proposal(s, "fixed", planner=self.name) for s in self.scripts if s not in known]


GOOD = Verdict("TESTED", "fake", "because")
WIDE = "raise | distribute{loop=i map=[vec $V, thread.x $T, seq]}"
SPLIT = "raise | distribute{loop=i map=[vec $V, thread.x $T, block.y]}"
BAD = "raise | distribute{loop=nope map=[thread.x 64, seq]}"


def by_role(script):
    """As a script is remembered: the only loop over threads, which moves with unit stride."""
    return script.replace("loop=i ", "loop=_unit_0_0 ")


def seconds(script, knobs, scenario):
    """The original takes 8 ms; width helps, 256 threads are best, splitting helps when there are few rows."""
    base = 8e-3 if scenario.name != "unseen" else 4e-3
    if not script or script == "raise":
        return base
    wrong_place = ("block.y" in script) != (scenario.name == "few")
    return base / knobs.get("V", 1) ** 0.5 * (1 + abs(knobs.get("T", 256) - 256) / 1000) * (1.5 if wrong_place else 1.0)


def run(work, tmp_path, planner=None, lab=None, **changes):
    lab = lab or FakeLab(seconds)
    events = []
    report = optimize(
        work, planner=planner or Fixed(WIDE, SPLIT, BAD), lab=lab, out_dir=tmp_path / "out", progress=events.append,
        **{"budget": 60, **changes},
    )  # fmt: skip
    return report, lab, events


def test_each_scenario_gets_its_own_winner(work, tmp_path):
    report, lab, _ = run(work, tmp_path)
    few, many, unseen = report.scenarios
    assert (few.script, few.knobs["V"], few.knobs["T"]) == (SPLIT, 8, 256)
    assert (many.script, many.knobs["V"], many.knobs["T"]) == (WIDE, 8, 256)
    assert few.ratio[0] == pytest.approx(8**0.5) and few.verdict == "TESTED"
    assert unseen.heldout and unseen.script == WIDE and "tuned for many" in unseen.verdict
    assert report.speedup == pytest.approx(8**0.5)
    assert lab.closed


@pytest.mark.parametrize("bar", ["", "| "])
def test_knobs_are_fitted_to_sizes_that_the_winner_does_not_cover(tmp_path, bar):
    """One vector a thread covers rows of 4096 with 512 threads; rows of 8192 need 1024 of them, not another script."""
    (tmp_path / "kernel.ktir").write_text(ROWS)
    text = WORKLOAD.replace("{ n = 2048, d = 4096 }", "{ n = 4096, d = 8192 }")
    (tmp_path / "workload.toml").write_text(text.replace("{ n = 4, d = 8192 }", "{ n = 4, d = 4096 }"))
    steps = "raise | distribute{loop=i map=[vec $V, thread.x $T]}"
    once = f"{steps} {bar}where V * T <= 4096"

    def seconds(script, knobs, scenario):
        return 8e-3 / (4 if script.startswith(steps) else 2 if script else 1)

    report, lab, _ = run(Workload.load(tmp_path / "workload.toml"), tmp_path, Fixed(once, WIDE), FakeLab(seconds))
    *_, unseen = report.scenarios
    assert unseen.script == steps and unseen.verdict.startswith("TESTED, knobs fitted, as tuned")
    assert unseen.knobs["V"] * unseen.knobs["T"] == 8192
    assert (unseen.script, "unseen") not in [(s, at) for s, at, _ in lab.measured], "fitting measures nothing"


@pytest.mark.parametrize("budget", [1, 5, 17, 60])
def test_the_budget_bounds_the_measurements(work, tmp_path, budget):
    report, lab, _ = run(work, tmp_path, planner="rules", budget=budget)
    originals = 3  # two tuned scenarios and the held-out one
    assert len(lab.measured) == report.measured <= budget + originals
    assert len(set(lab.measured)) == len(lab.measured), "something was measured twice"


def measurements(events):
    """How often each script was measured."""
    return {e["script"]: len(e["trials"]) for e in events if e["event"] == "tune"}


def test_what_is_far_behind_is_tried_again_once_nothing_near_is_left(work, tmp_path):
    def device(script, knobs, scenario):
        return seconds(script, knobs, scenario) * (9 if script == WIDE else 1)

    at = {"scenarios": ("few",), "planner": Fixed(WIDE, SPLIT)}
    _, _, events = run(work, tmp_path / "few", lab=FakeLab(device), budget=22, **at)
    assert measurements(events) == {WIDE: 1, SPLIT: 21}
    _, _, events = run(work, tmp_path / "many", lab=FakeLab(device), budget=60, **at)
    assert measurements(events)[WIDE] > 1


@pytest.mark.parametrize("order", [(WIDE, SPLIT), (SPLIT, WIDE)])
def test_a_template_that_was_wrong_does_not_race_with_those_that_are_right(work, tmp_path, order):
    def device(script, knobs, scenario):
        return "wrong" if script == WIDE else seconds(script, knobs, scenario)

    _, _, events = run(work, tmp_path, lab=FakeLab(device), scenarios=("few",), budget=12, planner=Fixed(*order))
    assert measurements(events) == {WIDE: 1, SPLIT: 11}


APPROXIMATES = "fast-math{fns=exp}"


@pytest.mark.parametrize(("status", "tried"), [("wrong", False), ("crash", True)])
def test_approximations_that_made_a_right_script_wrong_are_not_tried_on_others(tmp_path, status, tried):
    (tmp_path / "kernel.ktir").write_text(ROWS.replace("= in[", "= exp(in[row] as f32) as f16 * in["))
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    work = Workload.load(tmp_path / "workload.toml")

    def device(script, knobs, scenario):
        return status if APPROXIMATES in script else seconds(script, knobs, scenario)

    scripts = [f"{SPLIT} | {APPROXIMATES}", SPLIT, WIDE, f"{WIDE} | {APPROXIMATES}"]
    report, _, events = run(work, tmp_path, lab=FakeLab(device), scenarios=("few",), budget=16, planner=Fixed(*scripts))
    measured = measurements(events)
    assert {SPLIT, WIDE, scripts[0]} <= set(measured) and (scripts[3] in measured) == tried
    why = [o.detail for o in report.outcomes if o.script == scripts[3] and o.status == "withdrawn"]
    assert why == [] if tried else why == [f"its last step made a script wrong that is right without it: {scripts[0]}"]


def test_nothing_new_is_begun_after_the_time_limit(work, tmp_path):
    lab = FakeLab(seconds)
    report, _, _ = run(work, tmp_path, lab=lab, time_limit=1e-9, scenarios=["many"])
    assert any(n == "many: stopped at the time limit" for n in report.notes)
    assert len({key for key, _, _ in lab.measured}) == 1 and len(report.scenarios) == 1  # the original's
    with pytest.raises(KtcError, match="0 seconds"):
        run(work, tmp_path, time_limit=0.0)


def test_once_the_time_limit_is_over_scenarios_with_less_to_gain_are_left_out(work, tmp_path):
    lab = FakeLab(seconds)
    report, _, _ = run(work, tmp_path, lab=lab, time_limit=1e-9)
    assert [r.name for r in report.scenarios] == ["many"] and {at for _, at, _ in lab.measured} == {"many"}
    assert "few is left out: the time limit was over (--time-limit)" in report.notes
    assert any(n.startswith("unseen is not compared: the time limit was over twice") for n in report.notes)


def test_where_no_script_had_its_turn_what_won_elsewhere_is_compared(work, tmp_path):
    class Few(Fixed):
        """Has ideas for few rows alone."""

        def propose(self, observation, k):
            return super().propose(observation, k) if observation.facts[0].sizes["n"] < 1000 else []

    report, lab, _ = run(work, tmp_path, Few(SPLIT), time_limit=100.0)
    few, many = (next(r for r in report.scenarios if r.name == name) for name in ("few", "many"))
    assert few.script == many.script == SPLIT and many.verdict == "TESTED"
    assert {key for key, at, _ in lab.measured if at == "many"} == {key for key, at, _ in lab.measured if at == "few"}


@pytest.mark.parametrize("found", [False, True])
def test_sizes_nobody_tuned_for_wait_for_a_gain_once_the_time_is_over(work, tmp_path, monkeypatch, found):
    """``over`` after the first scenario's search."""
    over = []
    monkeypatch.setattr(Run, "seconds_left", property(lambda self: -1.0 if over else 100.0))

    def device(script, knobs, scenario):
        over.extend([1] * bool(script))
        return 1e-3 if script and found else 2e-3

    report, _, _ = run(work, tmp_path, Fixed(WIDE), FakeLab(device), time_limit=100.0, budget=2)
    assert ("unseen" in [r.name for r in report.scenarios]) == found
    said = "unseen is not compared: nothing was faster when the time limit was over (--time-limit)"
    assert (said in report.notes) != found


@pytest.mark.parametrize("time_limit", [60.0, math.inf])
def test_launches_that_a_duel_has_no_time_for_make_none(work, tmp_path, time_limit):
    """20 s a launch of the original, where nothing is faster."""
    lab = FakeLab(lambda script, knobs, scenario: 20.0)
    report, _, _ = run(work, tmp_path, Fixed(WIDE), lab, time_limit=time_limit)
    late = time_limit < math.inf
    assert [r.name for r in report.scenarios] == ["few", "many"] + ["unseen"] * (not late)
    assert all(r.before.median == 20.0 for r in report.scenarios)
    assert ({at for script, at in lab.compared if not script} == set()) == late
    said = "a duel would take longer than twice the time limit (--time-limit)"
    assert (f"many: the original is timed once: {said}" in report.notes) == late
    assert (f"unseen is not compared: {said}" in report.notes) == late


def test_an_original_has_the_seconds_that_the_time_limit_leaves(work, tmp_path):
    given = []

    class Asked(FakeLab):
        def tune(self, c, scenario, total, seeds, left=math.inf):
            given.append((scenario.name, c.script, left))
            return super().tune(c, scenario, total, seeds, left)

    run(work, tmp_path, Fixed(WIDE), Asked(seconds), time_limit=200.0)
    left = [s for _, script, s in given if not script]
    assert len(left) == 3 and all(100 < s <= 200 for s in left[:2]) and 300 < left[2] <= 400


def test_the_fastest_is_verified_as_soon_as_it_is_measured(work, tmp_path):
    _, _, events = run(work, tmp_path, scenarios=["many"])
    steps = [e["event"] for e in events if e["event"] in ("verified", "tune", "improvement")]
    assert steps[:4] == ["tune", "verified", "improvement", "tune"]


def test_a_search_ends_near_the_speed_of_light_and_says_so(work, tmp_path):
    class Bounded(FakeLab):
        def bound(self, scenario, beaten_by=0.0):
            return Bound(0.98 * fastest, "memory", {})

    everything = FakeLab(seconds)
    full, _, _ = run(work, tmp_path / "full", lab=everything, scenarios=["many"])
    fastest = full.scenarios[0].after.median
    lab = Bounded(seconds)
    report, _, _ = run(work, tmp_path / "near", lab=lab, scenarios=["many"])
    assert report.scenarios[0].after.median == fastest and len(lab.measured) < len(everything.measured)
    assert "many: stopped at 98 % of the least time that the memory allows" in report.notes
    duels = [c for c in lab.compared if len(c) == 2]
    assert duels == [(report.scenarios[0].script, "many")], "what leaves nothing to gain meets the original alone"


@pytest.mark.parametrize("reads", [False, True])
def test_a_first_gain_does_not_wait_for_rates_that_nobody_has_measured(work, tmp_path, reads):
    class Unknown(FakeLab):
        def knows_rates(self):
            return False

    planner = Fixed(WIDE)
    planner.reads_bound = reads
    report, _, events = run(work, tmp_path, planner, lab=Unknown(seconds), scenarios=["many"])
    steps = [e["event"] for e in events if e["event"] in ("bound", "improvement")]
    assert steps[:2] == (["bound", "improvement"] if reads else ["improvement", "bound"])
    assert steps.count("bound") == 1 and report.scenarios[0].bound


def test_a_time_that_cannot_be_is_said(work, tmp_path):
    class Faster(FakeLab):
        def bound(self, scenario, beaten_by=0.0):
            return Bound(1.0, "memory", {})

    report, _, _ = run(work, tmp_path, lab=Faster(seconds), scenarios=["many"])
    assert any("cannot be: the memory needs 1.00 s" in n for n in report.notes)


def test_refusals_are_data_and_reach_the_planner(work, tmp_path):
    planner = Fixed(WIDE, BAD)
    report, _, events = run(work, tmp_path, planner)
    (refused,) = [o for o in report.outcomes if o.status == "refused"]
    assert refused.script == BAD and refused.code == "E-PLACE" and "nope" in refused.detail
    assert any(o.script == BAD for o in planner.observations[1].history)
    assert sum(e["event"] == "refused" for e in events) == 1


def test_scripts_that_lower_to_the_same_code_are_measured_once(work, tmp_path):
    report, lab, _ = run(work, tmp_path, Fixed(WIDE, WIDE + " | simplify"))
    assert [o.status for o in report.outcomes if o.script.endswith("simplify")] == ["duplicate"] * 2
    assert len({key for key, _, _ in lab.measured}) == 2  # the original and one template


def test_a_template_that_fails_the_gate_is_withdrawn(work, tmp_path):
    lab = FakeLab(seconds, rejects=lambda k: any("block.y" in t for t in k.trace))
    report, lab, events = run(work, tmp_path, lab=lab)
    assert all(s.script != SPLIT for s in report.scenarios)
    assert SPLIT in [r["script"] for r in report.rejected]
    assert [o.status for o in report.outcomes if o.script == SPLIT] == ["rejected"]
    assert any(e["event"] == "rejected" for e in events) and lab.renewed


@pytest.mark.parametrize("condition", ["", " where V < 8", " | where V < 8"])
def test_what_was_built_on_a_rejected_script_is_withdrawn_with_it(work, tmp_path, condition):
    """The verdict comes last: until then the planted script leads, and what grows on it is faster still."""
    planted, grown = SPLIT + condition, f"{SPLIT} | cache-hints{condition}"

    def rejects(kernel):
        return any("block.y" in t for t in kernel.trace) and not any("cache-hints" in t for t in kernel.trace)

    def device(script, knobs, scenario):
        return 1e-4 if script == grown else 2e-4 if script == planted else seconds(script, knobs, scenario)

    lab = LateLab(device, rejects=rejects)
    memory, planner = Memory(":memory:"), Fixed(WIDE, planted, grown)
    report, lab, events = run(work, tmp_path, planner, lab, memory=memory, scenarios=["many"], budget=30)
    (many,) = report.scenarios
    assert many.script == WIDE and many.verdict == "TESTED" and report.best_script == WIDE
    assert {o.script: o.status for o in report.outcomes} == {WIDE: "tuned", planted: "rejected", grown: "withdrawn"}
    assert {x.script for x in memory.lessons()} == {by_role(WIDE)}
    assert {e["script"] for e in events if e["event"] in ("improvement", "compare")} == {WIDE}
    assert "block.y" not in "".join(p.read_text() for p in (tmp_path / "out").glob("kernel.*.cu")) and lab.renewed


def test_what_is_verified_wins_when_the_verdict_on_something_faster_does_not_come_in_time(work, tmp_path):
    class Open(LateLab):
        def gate(self, kernel):
            return Future() if any("block.y" in t for t in kernel.trace) else super().gate(kernel)

    began = time.monotonic()
    lab = Open(lambda script, knobs, at: 1e-4 if script == SPLIT else seconds(script, knobs, at))
    report, _, _ = run(work, tmp_path, Fixed(WIDE, SPLIT), lab, scenarios=["many"], time_limit=4.0)
    assert report.scenarios[0].script == WIDE and time.monotonic() - began < 30
    assert any("not verified in time" in n and SPLIT in n for n in report.notes)


def test_what_is_verified_itself_does_not_wait_for_ever_for_what_it_is_built_on(work, tmp_path):
    grown = f"{SPLIT} | cache-hints"

    class Open(LateLab):
        def gate(self, kernel):
            parent = any("block.y" in t for t in kernel.trace) and not any("cache-hints" in t for t in kernel.trace)
            return Future() if parent else super().gate(kernel)

    def device(script, knobs, at):
        return 1e-4 if script == grown else 2e-4 if script == SPLIT else seconds(script, knobs, at)

    planner = Fixed(WIDE, SPLIT, grown)
    report, _, _ = run(work, tmp_path, planner, Open(device), scenarios=["many"], time_limit=4.0)
    assert report.scenarios[0].script == grown and report.scenarios[0].verdict == "TESTED"


def test_the_next_idea_is_compiled_while_one_is_measured(work, tmp_path):
    class Watched(FakeLab):
        def tune(self, c, scenario, *rest):
            if c.script in self.prepared and c.script not in seen:
                seen[c.script] = len(self.prepared)
            return super().tune(c, scenario, *rest)

    class Late(Fixed):
        """Comes to its second idea while the first one is being compiled, and no sooner."""

        def ideas(self, o, k):
            for p in self.propose(o, k):
                came_to.append((p.script, list(lab.prepared)))
                yield p

    seen: dict[str, int] = {}
    came_to: list[tuple[str, list[str]]] = []
    lab = Watched(seconds)
    run(work, tmp_path, Late(WIDE, SPLIT), lab, scenarios=["many"])
    assert seen == {WIDE: 2, SPLIT: 2} and came_to[:2] == [(WIDE, []), (SPLIT, [WIDE])]


def test_the_first_idea_is_on_trial_before_it_is_measured(work, tmp_path):
    """What the ladder rejects before it is measured is rejected, and is never measured."""
    _, _, events = run(work, tmp_path, Fixed(WIDE, SPLIT), LateLab(seconds), scenarios=["many"])
    kinds = [(e["event"], e.get("script")) for e in events]
    assert kinds.index(("verify", WIDE)) < kinds.index(("tune", WIDE))

    class Hasty(LateLab):
        """Has each verdict at once."""

        def gate(self, kernel):
            return FakeLab.gate(self, kernel)

    lab = Hasty(seconds, rejects=lambda k: any("block.y" in t for t in k.trace))
    report, _, _ = run(work, tmp_path, Fixed(SPLIT, WIDE), lab, scenarios=["many"])
    said = {o.script: o.status for o in report.outcomes}
    assert said[SPLIT] == "rejected" and report.scenarios[0].script == WIDE
    assert len({key for key, _, _ in lab.measured}) == 2  # the original's and that of what was accepted


def test_the_rules_first_idea_is_on_trial_before_the_original_was_timed(work, tmp_path):
    """Whoever verifies has nothing to do then. Whoever measures and verifies in turn begins with the original."""
    for lab, ahead in ((LateLab(seconds), True), (FakeLab(seconds), False)):
        _, _, events = run(work, tmp_path / str(ahead), Rules(), lab, scenarios=["many"])
        kinds = [e["event"] for e in events]
        assert (kinds.index("verify") < kinds.index("original")) is ahead
        first = next(e["script"] for e in events if e["event"] == "verify")
        assert first in (e["script"] for e in events if e["event"] == "tune")


def test_verdicts_are_heard_between_the_measurements_of_one_script(work, tmp_path):
    class Prompt(LateLab):
        """Has each verdict before the second measurement of a script."""

        def __init__(self, seconds):
            self.asked = []
            super().__init__(seconds)

        def gate(self, kernel):
            self.asked.append(super().gate(kernel))
            return self.asked[-1]

        def between(self):
            for answer in self.asked:
                answer.result()

        def __setattr__(self, name, value):
            if name == "between":  # what is set by the run, after what is done here
                own = self.between
                super().__setattr__(name, lambda: (own(), value()))
            else:
                super().__setattr__(name, value)

    _, _, events = run(work, tmp_path, Fixed(WIDE), Prompt(seconds), scenarios=["many"], budget=20)
    kinds = [e["event"] for e in events]
    assert kinds.index("improvement") < len(kinds) - 1 - kinds[::-1].index("tune")


def test_the_fastest_is_not_passed_over_while_what_it_was_built_on_is_on_trial(work, tmp_path):
    """The verdict on the shorter script comes last, and it is accepted."""
    grown = f"{SPLIT} | cache-hints"

    class Late(LateLab):
        def gate(self, kernel):
            trace = " ".join(kernel.trace)
            if "block.y" not in trace or "cache-hints" in trace:
                return super().gate(kernel)
            answer = Future()
            threading.Timer(2.0, answer.set_result, [Verdict("TESTED", "fake", "because")]).start()
            return answer

    def device(script, knobs, scenario):
        return 1e-4 if script == grown else seconds(script, knobs, scenario)

    planner = Fixed(SPLIT, WIDE, grown)
    report, _, _ = run(work, tmp_path, planner, Late(device), scenarios=["many"], time_limit=8.0)
    assert report.scenarios[0].script == grown


def test_what_is_verified_while_slower_ones_meet_the_original_is_not_passed_over(work, tmp_path):
    """The fastest is known to be right when the time is over and three others have met the original."""

    class Late(LateLab):
        def __init__(self, seconds):
            super().__init__(seconds)
            self.answer = Future()

        def gate(self, kernel):
            return self.answer if any("block.y" in t for t in kernel.trace) else super().gate(kernel)

        def compare(self, c, *rest):
            if len(self.compared) == 2:
                self.answer.set_result(Verdict("TESTED", "fake", "because"))
            return super().compare(c, *rest)

    def device(script, knobs, scenario):
        return 1e-4 if script == SPLIT else 1.2e-4 + 1e-9 * sum(knobs.values()) if script else 8e-3

    lab = Late(device)
    report, _, _ = run(work, tmp_path, Fixed(WIDE, SPLIT), lab, scenarios=["many"], time_limit=2.0)
    assert report.scenarios[0].script == SPLIT


def test_a_verdict_that_was_asked_for_before_the_time_was_over_has_as_long_as_any(work, tmp_path):
    """The finals begin early, the measurements being spent; the verdict comes when the time was over for a second."""

    class Late(LateLab):
        def gate(self, kernel):
            if not any("block.y" in t for t in kernel.trace):
                return super().gate(kernel)
            answer = Future()
            threading.Timer(began + 3.0 - time.monotonic(), answer.set_result, [GOOD]).start()
            return answer

    def device(script, knobs, scenario):
        return 1e-4 if script == SPLIT else seconds(script, knobs, scenario)

    began = time.monotonic()
    planner = Fixed(WIDE, SPLIT)
    report, _, _ = run(work, tmp_path, planner, Late(device), scenarios=["many"], budget=4, time_limit=2.0)
    assert report.scenarios[0].script == SPLIT


def test_the_verdict_on_what_became_the_fastest_does_not_wait_behind_those_that_it_has_beaten(work, tmp_path):
    scripts = [*(f"raise | distribute{{loop=i map=[vec $V, thread.x {t}, seq]}}" for t in (32, 64, 128)), SPLIT]

    class Open(LateLab):
        gates = 8

        def gate(self, kernel):
            self.gated.append(kernel)
            return Future()

    def device(script, knobs, scenario):
        return {s: 4e-4 / (n + 1) for n, s in enumerate(scripts)}.get(script, 8e-3)

    _, _, events = run(work, tmp_path, Fixed(*scripts), Open(device), scenarios=["many"], budget=4, time_limit=1.0)
    told = [(e["event"], e.get("script")) for e in events]
    before = [script for event, script in told[: told.index(("finals", None))] if event == "verify"]
    assert before == scripts


def test_what_is_far_slower_does_not_meet_the_original(work, tmp_path):
    """The search has timed it, and a duel of a long kernel takes seconds."""

    def device(script, knobs, scenario):
        return 8e-3 if not script else 1e-3 if script == WIDE and knobs["T"] == 256 else 1.2e-3

    report, lab, _ = run(work, tmp_path, Fixed(WIDE, SPLIT), FakeLab(device), scenarios=["many"])
    assert report.scenarios[0].script == WIDE
    met = [c for c in lab.compared if len(c) == 2]
    assert met and all(script == WIDE for script, _ in met)


@pytest.mark.parametrize(("seconds", "gates", "meet"), [(8e-3, 2, 3), (8.0, 2, 1), (8e-3, 0, 1)])
def test_only_what_beats_the_best_meets_an_original_that_is_long_or_is_verified_without_help(
    work, tmp_path, seconds, gates, meet
):
    """A duel of the two takes half a second; a launch of the original, or a verdict that the search has to make itself,
    takes longer."""

    def device(script, knobs, scenario):
        return seconds * (1.0 if not script else 1e-3 if script == WIDE else 1.05e-3)

    lab = FakeLab(device)
    lab.gates = gates
    report, *_ = run(work, tmp_path, Fixed(WIDE, SPLIT), lab, scenarios=["many"])
    assert report.scenarios[0].script == WIDE
    met = [c[0] for c in lab.compared if len(c) == 2]
    assert [s for s in met if s == WIDE] == met and len(met) == meet
    assert gates or len(lab.gated) < 4


@pytest.mark.parametrize(("seconds", "predicted", "tried"), [(8.0, 2.0, False), (8e-3, 2.0, True), (8.0, None, True)])
def test_what_is_expected_to_take_long_is_not_tried_where_something_is_far_faster(
    work, tmp_path, seconds, predicted, tried
):
    def device(script, knobs, scenario):
        return seconds * (1.0 if not script else 1e-3 if script == WIDE else 0.5)

    class Expecting(Fixed):
        def propose(self, observation, k):
            found = super().propose(observation, k)
            return [dataclasses.replace(p, predicted=predicted) if p.script == SPLIT else p for p in found]

    report, *_ = run(work, tmp_path, Expecting(WIDE, SPLIT), FakeLab(device), scenarios=["many"])
    assert report.scenarios[0].script == WIDE
    found = next(o for o in report.outcomes if o.script == SPLIT)
    assert (found.status == "tuned") == tried and ("expected to take 4" in found.detail) != tried


def test_a_run_ends_where_no_verdict_comes_at_all(work, tmp_path):
    class Open(LateLab):
        def gate(self, kernel):
            return Future()

    run(work, tmp_path, Fixed(WIDE, SPLIT), scenarios=["many"])  # modules and forms are ready: the limit is the run's
    began = time.monotonic()
    report, _, _ = run(work, tmp_path, Fixed(WIDE, SPLIT), Open(seconds), scenarios=["many"], time_limit=1.0)
    assert report.scenarios[0].script == "" and time.monotonic() - began < 20
    assert any("not verified in time" in n for n in report.notes)
    assert "had no verdict in time (--time-limit)" in report.scenarios[0].verdict


def test_measurements_go_on_while_the_ladder_is_climbed(work, tmp_path):
    _, _, events = run(work, tmp_path, lab=LateLab(seconds), scenarios=["many"])
    kinds = [e["event"] for e in events]
    assert (
        kinds.index("verify") < kinds.index("verified")
        and "tune" in kinds[kinds.index("verify") : kinds.index("verified")]
    )


def test_a_search_does_not_stop_near_the_bound_on_the_word_of_a_kernel_that_is_wrong(work, tmp_path):
    class Bounded(LateLab):
        def bound(self, scenario, beaten_by=0.0):
            return Bound(2e-4, "memory", {})

    wrong = Bounded(
        lambda script, knobs, at: 2.01e-4 if script == SPLIT else seconds(script, knobs, at),
        rejects=lambda k: any("block.y" in t for t in k.trace),
    )
    report, _, _ = run(work, tmp_path, Fixed(SPLIT, WIDE), wrong, scenarios=["many"])
    assert report.scenarios[0].script == WIDE and not any("stopped at" in n for n in report.notes)


def test_a_configuration_that_fails_the_gate_at_the_end_does_not_win(work, tmp_path):
    lab = FakeLab(seconds, rejects=lambda k: any(x.name == "V" and x.value == 8 for x in k.knobs))
    report, _, _ = run(work, tmp_path, lab=lab)
    assert [s.knobs["V"] for s in report.scenarios] == [4, 4, 4]
    assert any(r["knobs"].get("V") == 8 for r in report.rejected)


@pytest.mark.parametrize("status", ["wrong", "crash", "hang"])
def test_wrong_configurations_never_win_and_are_reported(work, tmp_path, status):
    def device(script, knobs, scenario):
        return status if knobs.get("V") == 8 else seconds(script, knobs, scenario)

    report, _, _ = run(work, tmp_path, lab=FakeLab(device))
    assert all(s.knobs.get("V") != 8 for s in report.scenarios)
    assert any(status in r["verdict"] for r in report.rejected)


def test_when_nothing_is_faster_the_original_stays(work, tmp_path):
    slow = FakeLab(lambda script, knobs, scenario: 2e-3 if script else 1e-3)
    report, _, _ = run(work, tmp_path, lab=slow)
    assert {s.script for s in report.scenarios} == {""} and report.speedup == 1.0
    assert all(s.verdict.startswith("the original") for s in report.scenarios)
    assert (tmp_path / "out" / "kernel.out.cu").exists()


def test_an_original_that_does_not_run_is_an_error(work, tmp_path):
    lab = FakeLab(lambda script, knobs, scenario: "crash")
    with pytest.raises(KtcError) as e:
        run(work, tmp_path, lab=lab)
    assert e.value.code == "E-ORIGINAL" and lab.closed
    with pytest.raises(KtcError, match="gives other results than expected") as e:
        run(work, tmp_path, lab=FakeLab(lambda script, knobs, scenario: "wrong"))
    assert "a GPU" in e.value.hint


def test_a_scenario_whose_original_takes_too_long_is_left_out(work, tmp_path):
    slow = work.scenarios[-1].name if not work.scenarios[-1].heldout else work.scenarios[0].name
    lab = FakeLab(lambda script, knobs, scenario: "hang" if scenario.name == slow else 2e-3 if not script else 1e-3)
    report, _, _ = run(work, tmp_path, lab=lab)
    assert report.scenarios and slow not in {s.name for s in report.scenarios}
    assert any(n.startswith(f"{slow} is left out: the original kernel takes too long") for n in report.notes)
    with pytest.raises(KtcError) as e:
        run(work, tmp_path, lab=FakeLab(lambda script, knobs, scenario: "hang"))
    assert e.value.code == "E-ORIGINAL-SLOW" and "--scenario" in e.value.hint


@pytest.mark.parametrize("status", ["hang", "wrong", "crash"])
def test_sizes_nobody_tuned_for_do_not_cost_the_result(work, tmp_path, status):
    lab = FakeLab(lambda script, knobs, s: status if s.heldout else 2e-3 if not script else 1e-3)
    report, _, _ = run(work, tmp_path, lab=lab)
    assert report.speedup > 1.9 and [s.name for s in report.scenarios] == ["few", "many"]
    assert any(n.startswith("unseen is left out: the original kernel") for n in report.notes)


def test_an_original_that_cannot_meet_itself_on_such_sizes_is_a_note(work, tmp_path):
    lab = FakeLab(lambda script, knobs, s: 2e-3 if not script else 1e-3)
    meet, feasible = lab.compare, lab.feasible

    def compare(c, knobs, scenario, rival=None):
        if scenario.heldout:
            raise KtcError("E-DUEL", "wrong: the results change from one launch to the next")
        return meet(c, knobs, scenario)

    lab.compare = compare
    report, _, _ = run(work, tmp_path, lab=lab)
    assert feasible and [s.name for s in report.scenarios] == ["few", "many"]
    assert any(n == "unseen is left out: wrong: the results change from one launch to the next" for n in report.notes)


def test_what_a_planner_has_learnt_is_a_note(work, tmp_path):
    class Wise(Fixed):
        def learn(self, observation):
            return LearntRule(f"after {len([h for h in observation.history if h.gain])} measured scripts", ("raise",))

    planner, memory = Ensemble(Fixed(SPLIT), Wise(WIDE)), Memory(":memory:")
    report, _, _ = run(work, tmp_path, planner=planner, memory=memory)
    assert "learnt: after 2 measured scripts" in report.notes
    assert [rule.text for _, rule in LearntRules(memory).all()] == ["after 2 measured scripts"]


def test_a_run_is_a_trajectory(work, tmp_path):
    """One line a step: what was seen, proposed, verified and measured, numbered, without a path of this machine."""
    run(work, tmp_path)
    text = (tmp_path / "out" / "trajectory.jsonl").read_text()
    steps = [json.loads(line) for line in text.splitlines()]
    assert [s["n"] for s in steps] == list(range(len(steps)))
    assert (
        steps[0]["event"] == "seen" and "par i in 0..d" in steps[0]["ir"] and set(steps[0]["facts"]) == {"few", "many"}
    )
    kinds = [s["event"] for s in steps]
    assert {"propose", "verified", "tune"} <= set(kinds) and kinds[-1] == "done"
    proposed = [p for s in steps if s["event"] == "propose" for p in s["proposals"]]
    assert all(set(p) == {"script", "planner", "reason", "predicted"} and p["reason"] for p in proposed)
    assert all(s["trials"] or s["best"] is None for s in steps if s["event"] == "tune"), "a step measures something"
    assert str(tmp_path) not in text


def test_the_report_says_what_was_expected_of_the_winner(work, tmp_path):
    _, lab, _ = run(work, tmp_path)
    device = dataclasses.replace(lab.device, name="NVIDIA H100 80GB HBM3")
    known, _, _ = run(work, tmp_path / "known", lab=FakeLab(lab.seconds, device=device))
    unknown, _, _ = run(work, tmp_path / "unknown", lab=FakeLab(lab.seconds))
    said = next(n for n in known.notes if n.startswith("many: limited by "))
    assert "by an estimate from counts (" in said and " measured, " in said and " expected)" in said
    assert not any(" expected)" in n for n in unknown.notes)


def test_checks_are_told_before_and_after(work, tmp_path):
    _, lab, events = run(work, tmp_path)
    kinds = [e["event"] for e in events]
    assert kinds.count("verify") == kinds.count("verified") == len(lab.gated)
    told = next(e for e in events if e["event"] == "verified")
    assert told["script"] == WIDE and told["status"] == "TESTED" and told["seconds"] >= 0


def test_files_hold_what_the_report_says(work, tmp_path):
    report, _, _ = run(work, tmp_path)
    out = tmp_path / "out"
    recipe = json.loads((out / "recipe.json").read_text())
    assert recipe["script"] == report.best_script and recipe["knobs"] == dict(report.best_knobs)
    data = json.loads((out / "report.json").read_text())
    assert data["scenarios"][0]["knobs"] == {"V": 8, "T": 256} and data["speedup"] == report.speedup
    assert "__global__" in (out / "kernel.out.cu").read_text()
    assert {p.name for p in out.glob("kernel.*.cu")} >= {"kernel.few.cu", "kernel.many.cu"}
    space = json.loads((out / "space.json").read_text())
    assert set(space["knobs"]) == {"V", "T"} and not list(out.glob("*.part"))
    rows = table(report)
    assert rows[0][0] == "scenario" and rows[1][:3] == ("few", "8.00 ms (once)", "2.83 ms (once)")


@pytest.mark.parametrize("dies_after", [1, 4, 11, 20])
def test_a_killed_run_continues_and_measures_nothing_twice(work, tmp_path, dies_after):
    ledger = tmp_path / "ledger.sqlite"
    whole, reference, _ = run(work, tmp_path / "whole", budget=30)
    first = FakeLab(seconds, ledger=ledger, dies_after=dies_after)
    with pytest.raises(KeyboardInterrupt):
        run(work, tmp_path, lab=first, budget=30)
    second = FakeLab(seconds, ledger=ledger)
    report, _, _ = run(work, tmp_path, lab=second, budget=30)
    assert not set(first.measured) & set(second.measured)
    assert len(first.measured) + len(second.measured) <= len(reference.measured)
    assert report.speedup >= 0.9 * whole.speedup
    assert report.recalled >= dies_after - 3


def test_a_finished_run_again_measures_nothing(work, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    first, _, _ = run(work, tmp_path, "rules", FakeLab(seconds, ledger=ledger))
    again, lab, _ = run(work, tmp_path, "rules", FakeLab(seconds, ledger=ledger))
    assert lab.measured == [] and again.measured == 0
    assert [s.ratio for s in again.scenarios] == [s.ratio for s in first.scenarios]


def test_memory_learns_and_then_suggests(work, tmp_path):
    memory = Memory(":memory:")
    run(work, tmp_path, memory=memory)
    assert {x.script for x in memory.lessons()} == {by_role(WIDE), by_role(SPLIT)}
    planner = Fixed(WIDE)
    run(work, tmp_path / "later", planner, memory=memory)
    assert planner.observations[0].remembered[0].script in (WIDE, SPLIT)


def test_scenarios_can_be_named(work, tmp_path):
    report, _, _ = run(work, tmp_path, scenarios=["odd"])
    assert [s.name for s in report.scenarios] == ["odd"]
    with pytest.raises(KtcError) as e:
        run(work, tmp_path, scenarios=["none"])
    assert e.value.code == "E-WORKLOAD-SCENARIO"


def test_usage_and_environment_errors(work, tmp_path):
    with pytest.raises(KtcError) as e:
        run(work, tmp_path, budget=0)
    assert e.value.exit_code == 2
    (tmp_path / "file").write_text("")
    with pytest.raises(KtcError) as e:
        optimize(work, lab=FakeLab(seconds), out_dir=tmp_path / "file")
    assert (e.value.code, e.value.exit_code) == ("E-OUT-DIR", 3)


def test_starting_over_keeps_the_old_ledger(work, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ledger.sqlite").write_text("old")
    run(work, tmp_path, resume=False)
    assert [p.read_text() for p in (tmp_path / "out").glob("old-*ledger.sqlite")] == ["old"]


def test_long_times_are_not_spelled_as_powers_of_ten() -> None:
    assert with_interval(Timed(0.067764, 0.067, 0.068)) == "67.8 ms ±0.7 %"
    assert with_interval(Timed(1.23456e-5, 1.2e-5, 1.3e-5)) == "12.3 µs ±4.1 %"


def test_a_winner_that_does_several_launches_says_how_to_launch_it(tmp_path):
    class Temporal:
        name = "temporal"

        def propose(self, o, k):
            return [] if o.history else [Proposal("raise | temporal-block{steps=3 tile=16,32}", "", 2.0, self.name)]

    lab = FakeLab(lambda script, knobs, scenario: 1e-3 if "temporal" in script else 2e-3)
    report = optimize(
        KERNELS / "stencil" / "jacobi2d", planner=Temporal(), lab=lab, out_dir=tmp_path, budget=3,
        scenarios=["small-512"],
    )  # fmt: skip
    (said,) = [n for n in report.notes if n.startswith("a launch of the winner does 3 launches of the source")]
    assert "launch it 1/3 as often, and swap a and b after each" in said


def test_an_original_that_takes_longer_than_a_duel_costs_no_result(work, tmp_path):
    lab = FakeLab(lambda script, knobs, s: 2e-3 if not script or s.name == "many" else 1e-3)
    meet = lab.compare

    def compare(c, knobs, scenario, rival=None):
        if scenario.name == "many":
            raise KtcError("E-DUEL", "hang: no answer within 47.4 s")
        return meet(c, knobs, scenario)

    lab.compare = compare
    report, _, _ = run(work, tmp_path, lab=lab)
    few, many = (next(s for s in report.scenarios if s.name == name) for name in ("few", "many"))
    assert few.ratio[0] > 1.9 and many.ratio == (1.0, 1.0, 1.0) and many.script == ""
    assert "many: the original is timed once: hang: no answer within 47.4 s" in report.notes
