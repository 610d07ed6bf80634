"""Lessons on the next kernel: what is true comes first, what is wrong costs at most two measurements and its record."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.agent.embedded.rules import Rules
from ktc.agent.learnt_rules import LearntRule, LearntRules
from ktc.agent.loop_roles import Roles
from ktc.agent.memory import Lesson, Memory, features
from ktc.agent.optimize import optimize
from ktc.agent.planner import Observation, Proposal
from ktc.ir.analysis.planner_facts import KernelFacts, facts
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.agent.agent_kernels import ROWS
from tests.agent.fake_lab import GPU, FakeLab
from tests.agent.seeded_run import WORKLOAD

GOOD = "raise | distribute{loop=i map=[vec $V, thread.x $T, seq]}"
WRONG = "raise | distribute{loop=i map=[thread.x $T:(32,64,128,256,512), seq]} | unroll{loop=i factor=$U:2,4,8}"


def seen(d: int = 4096) -> KernelFacts:
    done = apply_script(parse_kernel(ROWS), parse_script("raise"))
    return facts(done.kernel, {"n": 4096, "d": d})


def seconds(script, knobs, scenario):
    """The wrong script is slower than the original, however its knobs are set."""
    if not script:
        return 4e-3
    return 5e-3 if "unroll{" in script and "vec" not in script else 2e-3 / knobs.get("V", 1) ** 0.5


def lesson(script: str, gain: float, d: int = 2048, **knobs: int) -> Lesson:
    return Lesson("cuda", GPU.name, features(seen(d)), Roles.of(seen(d)).abstract(script), knobs, gain)


class Suggesting:
    """What was remembered, then one idea of its own."""

    name = "suggesting"

    def propose(self, o: Observation, k: int) -> list[Proposal]:
        known = {h.script for h in o.history}
        own = [Proposal(GOOD, "own idea", 1.5, self.name)]
        return [p for p in (*o.remembered, *own) if p.script not in known]


def run(folder: Path, memory: Memory | None, planner=None, budget: int = 24):
    folder.mkdir(exist_ok=True)
    (folder / "kernel.ktir").write_text(ROWS)
    (folder / "workload.toml").write_text(WORKLOAD)
    lab = FakeLab(seconds)
    report = optimize(
        folder / "workload.toml", planner=planner or Suggesting(), lab=lab, out_dir=folder / "out", budget=budget,
        memory=memory,
    )  # fmt: skip
    return report, lab


def spent_on(lab: FakeLab, report, script: str) -> int:
    """Measurements that a script got, by the key of its template."""
    wrong = [key for key, _, knobs in lab.measured if dict(knobs).keys() == {"T", "U"}]
    return len(wrong) if script == WRONG else len(lab.measured) - len(wrong)


@pytest.mark.parametrize("planner", [Suggesting(), "rules"])
def test_a_wrong_lesson_costs_at_most_two_measurements(tmp_path, planner) -> None:
    memory = Memory(":memory:")
    memory.add(lesson(WRONG, 9.0, T=512, U=8))
    report, lab = run(tmp_path, memory, planner)
    assert 1 <= spent_on(lab, report, WRONG) <= 2
    assert report.scenarios[0].script and "unroll{" not in report.scenarios[0].script
    without, _ = run(tmp_path / "without", None, planner)
    assert report.scenarios[0].ratio[0] >= 0.99 * without.scenarios[0].ratio[0]


def test_a_lesson_that_missed_more_often_than_it_won_is_not_suggested(tmp_path) -> None:
    memory = Memory(":memory:")
    memory.add(lesson(WRONG, 9.0, T=512, U=8))
    for n in range(3):
        _, lab = run(tmp_path / str(n), memory)
        assert bool(spent_on(lab, None, WRONG)) == (n < 2)
    (kept,) = [x for x in memory.lessons() if "unroll" in x.script]
    assert (kept.tries, kept.misses) == (1, 2)


def test_a_lesson_that_holds_is_measured_at_its_knobs_and_raced(tmp_path) -> None:
    memory = Memory(":memory:")
    memory.add(lesson(GOOD, 2.5, V=2, T=1024))
    report, lab = run(tmp_path, memory)
    assert lab.measured[2][2] == (("T", 1024), ("V", 2)), "after the original and the defaults"
    assert spent_on(lab, report, GOOD) > 10 and not memory.lessons()[0].misses


def test_what_planners_think_of_as_well_is_raced_though_its_lesson_is_wrong(tmp_path) -> None:
    memory = Memory(":memory:")
    memory.add(lesson(GOOD, 90.0, V=1, T=32))
    report, lab = run(tmp_path, memory)
    assert spent_on(lab, report, GOOD) > 10 and report.scenarios[0].script == GOOD


def test_conditions_of_other_sizes_do_not_count(tmp_path) -> None:
    memory = Memory(":memory:")
    memory.add(lesson(f"{GOOD} | where V * T < 64", 2.5, d=2048))
    noted: list[Observation] = []

    class Noting(Suggesting):
        def propose(self, o: Observation, k: int) -> list[Proposal]:
            noted.append(o)
            return super().propose(o, k)

    run(tmp_path, memory, Noting(), budget=3)
    assert [p.script for p in noted[0].remembered] == [GOOD]


def test_rules_of_thumb_are_tested_on_the_next_kernels_and_dropped_by_their_record(tmp_path) -> None:
    memory = Memory(":memory:")
    learnt = LearntRules(memory)
    true, false = LearntRule("rows want wide accesses", ("distribute",)), LearntRule("tile rows", ("stage-shared",))
    for rule in (true, false, true):
        learnt.add(seen(), rule)
    noted: list[Observation] = []

    class Noting(Suggesting):
        def propose(self, o: Observation, k: int) -> list[Proposal]:
            noted.append(o)
            return super().propose(o, k)

    for n in range(3):
        run(tmp_path / str(n), memory, Noting(), budget=6)
    assert "rows want wide accesses (held on 0 of 0 kernels)" in noted[0].rules and len(noted[0].rules) == 2
    assert noted[-1].rules == ("rows want wide accesses (held on 2 of 2 kernels)",)
    records = {rule.text: (rule.held, rule.missed) for _, rule in learnt.all()}
    assert records == {true.text: (3, 0), false.text: (0, 2)}


def test_what_is_remembered_and_an_idea_of_the_rules_is_an_idea_of_the_rules() -> None:
    from tests.agent.embedded.test_rules import SIZES, observe

    own = Rules().propose(observe(ROWS, SIZES["rows"])[1], 1)[0]
    again = Proposal(own.script, "won before", 2.0, "memory")
    found = Rules().propose(observe(ROWS, SIZES["rows"], remembered=[again])[1], 2)
    assert [p.planner for p in found if p.script == own.script] == ["memory", "rules"]


def test_a_file_of_an_earlier_version_is_read(tmp_path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        db.execute(
            "CREATE TABLE lesson (id INTEGER PRIMARY KEY, backend TEXT NOT NULL, device TEXT NOT NULL, "
            "features TEXT NOT NULL, script TEXT NOT NULL, knobs TEXT NOT NULL, gain REAL NOT NULL, "
            "tries INTEGER NOT NULL DEFAULT 1, UNIQUE (device, features, script)) STRICT"
        )
        db.execute(
            "INSERT INTO lesson (backend, device, features, script, knobs, gain) VALUES (?, ?, '{}', 'raise', '{}', 2)",
            ("cuda", "H"),
        )
    (found,) = Memory(tmp_path / "memory.sqlite").lessons()
    assert (found.script, found.misses) == ("raise", 0)


def test_what_is_remembered_and_ideas_take_turns() -> None:
    from tests.agent.embedded.test_rules import SIZES, observe

    alone = [p.script for p in Rules().propose(observe(ROWS, SIZES["rows"])[1], 4)]
    won = [Proposal(f"raise | unroll{{loop=i factor={n}}}", "won before", 2.0, "memory") for n in (2, 4, 8)]
    found = Rules().propose(observe(ROWS, SIZES["rows"], remembered=won)[1], 4)
    assert [p.script for p in found] == [won[0].script, alone[0], won[1].script, alone[1]]
