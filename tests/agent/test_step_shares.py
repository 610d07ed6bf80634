"""Winners without the steps that do nothing for them, and what the others are worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktc.agent.report import StepShare
from ktc.ir.workload import Workload
from ktc.page.run_report import report_of
from ktc.runs import load_run
from tests.agent.agent_kernels import ROWS
from tests.agent.fake_lab import FakeLab
from tests.agent.test_optimize import WIDE, WORKLOAD, Fixed, run, work

__all__ = ["work"]

HINTS = "cache-hints{loads=none stores=out}"
BOUNDED = f"{WIDE} | launch-bounds{{blocks=2}} | {HINTS}"


def seconds(script, knobs, scenario):
    """Wide accesses are worth twofold, bounds a half; hints nothing."""
    return 8e-3 / (2 if "vec" in script else 1) / (1.5 if "launch-bounds" in script else 1)


def only(work: Workload, tmp_path, lab=None, **changes):
    report, lab, events = run(
        work, tmp_path, Fixed(BOUNDED), lab or FakeLab(seconds), scenarios=["many"], **{"budget": 3, **changes}
    )
    return report, lab, events


def test_a_step_without_effect_is_dropped_and_the_others_have_their_share(work, tmp_path):
    report, lab, events = only(work, tmp_path)
    (many,) = report.scenarios
    assert many.script == BOUNDED.removesuffix(f" | {HINTS}") and report.best_script == many.script
    assert many.ratio[0] == pytest.approx(3.0) and many.verdict == "TESTED"
    wide, bounds = many.shares
    assert wide.step.startswith("distribute{") and wide.factor == pytest.approx(2.0)
    assert bounds.step == "launch-bounds{blocks=2}" and bounds.factor == pytest.approx(1.5)
    assert [e["step"] for e in events if e["event"] == "left_out"] == [HINTS, bounds.step, wide.step]
    assert any("as fast without it" in n and HINTS in n for n in report.notes)
    assert any(not any("cache-hints" in t for t in k.trace) for k in lab.gated), "what is left was verified itself"


class Noisy(FakeLab):
    def compare(self, c, knobs, scenario, rival=None):
        found = super().compare(c, knobs, scenario, rival)
        spread = (0.8, 1.2) if rival is not None else (0.99, 1.01)
        return replace(found, ratio=(found.ratio[0], *(found.ratio[0] * x for x in spread)))


@pytest.mark.parametrize(("gain", "kept"), [(1.0, False), (1.1, True)])
def test_an_approximation_has_to_show_in_a_noisy_duel_that_it_is_worth_it(tmp_path, gain, kept):
    (tmp_path / "kernel.ktir").write_text(ROWS.replace("= in[", "= exp(in[row] as f32) as f16 * in["))
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    script = f"{WIDE} | fast-math{{fns=exp}}"
    lab = Noisy(lambda script, *given: seconds(script, *given) / (gain if "fast-math" in script else 1))
    work = Workload.load(tmp_path / "workload.toml")
    report, _, _ = run(work, tmp_path, Fixed(script), lab, scenarios=["many"], budget=3)
    assert report.best_script == (script if kept else WIDE)


def test_a_noisy_duel_drops_nothing(work, tmp_path):
    report, _, _ = only(work, tmp_path, Noisy(seconds))
    (many,) = report.scenarios
    assert many.script == BOUNDED and many.shares[-1].factor == pytest.approx(1.0)


def test_what_is_left_must_be_accepted(work, tmp_path):
    """Bounds do nothing here; but what is left without them is wrong, and so the winner keeps them."""
    lab = FakeLab(
        lambda script, knobs, scenario: 8e-3 / (2 if "vec" in script else 1) / (1.5 if "cache-hints" in script else 1),
        rejects=lambda kernel: "cache-hints" in kernel.trace[-1] and not any("bounds" in t for t in kernel.trace),
    )
    report, _, _ = only(work, tmp_path, lab)
    (many,) = report.scenarios
    assert many.script == BOUNDED and [x.factor for x in many.shares] == pytest.approx([2.0, 1.0, 1.5])


def test_a_winner_falls_with_the_script_that_it_is_built_on(work, tmp_path):
    lab = FakeLab(seconds, rejects=lambda kernel: bool(kernel.trace) and "cache-hints" not in kernel.trace[-1])
    report, _, _ = only(work, tmp_path, lab)
    assert report.best_script == "" and report.scenarios[0].verdict.startswith("the original is kept")


def test_a_step_that_others_stand_on_has_no_share_of_its_own(work, tmp_path):
    tiled = "raise | tile{loops=i sizes=1024} | distribute{loop=i map=[vec $V, thread.x 128]}"
    script = f"{tiled} | distribute{{loop=i_tile map=[block.y]}}"
    lab = FakeLab(lambda script, *_: 8e-3 / (2 if "vec" in script else 1) / (2 if "block.y" in script else 1))
    report, _, _ = run(work, tmp_path, Fixed(script), lab, scenarios=["many"], budget=3)
    tile, *_ = report.scenarios[0].shares
    assert tile == StepShare("tile{loops=i sizes=1024}", None, "others stand on it")


def test_a_script_that_was_asked_for_keeps_its_steps(work, tmp_path):
    class Asked(Fixed):
        def propose(self, observation, k):
            return [replace(p, whole=True) for p in super().propose(observation, k)]

    report, _, events = run(work, tmp_path, Asked(BOUNDED), FakeLab(seconds), scenarios=["many"], budget=3)
    assert report.best_script == BOUNDED and not [e for e in events if e["event"] == "left_out"]


def test_nothing_is_left_out_once_the_time_is_over(work, tmp_path, monkeypatch):
    monkeypatch.setattr("ktc.agent.state.Run.is_late", lambda self, scenario: True)
    report, _, events = only(work, tmp_path)
    assert {(x.factor, x.why) for x in report.scenarios[0].shares} <= {(None, "no time was left")}
    assert not [e for e in events if e["event"] == "left_out"]


def test_the_page_shows_the_shares(work, tmp_path):
    only(work, tmp_path)
    tables = {t.title: t for t in report_of([load_run(tmp_path / "out")]).tables}
    assert ("many", "launch-bounds{blocks=2}", "1.50x as long") in tables["What each step is worth"].rows
