"""What limits the fastest so far: who is asked, who hears of it, and which steps come first for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from ktc.agent.embedded.rules import REFINING, Rules
from ktc.agent.exploring.moves import Moves
from ktc.agent.optimize import optimize
from ktc.agent.planner import Observation, Proposal
from ktc.agent.profiler import Profiler
from ktc.agent.relief import RELIEF, urgency
from ktc.ir.text import parse_kernel
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.language import parse_script
from ktc.search.limiters.counters import Launch, parse
from ktc.search.limiters.limiter import KINDS, Limiter, Profile
from ktc.search.limiters.ncu import Unavailable
from tests.agent.agent_kernels import ROWS, STREAM
from tests.agent.exploring.test_exploring import on_h100, tuned
from tests.agent.fake_lab import FakeLab
from tests.agent.seeded_run import H100, WORKLOAD
from tests.search.limiters.recorded import STREAM as COUNTED
from tests.search.limiters.recorded import raw_page

SIZES = {"n": 4096, "d": 4096}


def limited_by(o: Observation, *names: str, leader: str = "") -> Observation:
    found = Profile("estimate", tuple(Limiter(n, 0.9 - 0.1 * i) for i, n in enumerate(names)))
    return dataclasses.replace(o, profile=found, leader=leader)


def test_the_table_names_passes_and_limiters_that_there_are() -> None:
    assert {p for row in RELIEF.values() for p in row} <= PASSES.keys()
    assert RELIEF.keys() == KINDS.keys() - {"unexplained"}
    order = sorted(["licm", "pad-shared", "swizzle-shared"], key=lambda n: urgency(n, ["bank conflicts", "special"]))
    assert order == ["swizzle-shared", "pad-shared", "licm"] and urgency("licm", ()) == urgency("pad-shared", ()) == 0


def test_refinements_of_the_leader_begin_with_what_addresses_its_limiter() -> None:
    leader = next(p.script for p in Rules().propose(on_h100(STREAM), 1))
    o = on_h100(STREAM, (tuned(leader, 2.0),))

    def refined(o: Observation) -> list[str]:
        steps = [parse_script(p.script).steps for p in Rules()._refinements(o, 0, REFINING)]
        return [s[-1].name for s in steps]

    before = refined(o)
    after = refined(limited_by(o, "latency", leader=leader))
    assert sorted(before) == sorted(after) and before.index("unroll") > 0 == after.index("unroll")
    assert refined(limited_by(o, "latency", leader="another")) == before


def test_moves_begin_with_what_addresses_the_limiter() -> None:
    o = limited_by(on_h100(STREAM), "latency", leader="raise")
    first = [parse_script(s).steps[-1].name for s in Moves(o, np.random.default_rng(0)).after("raise")]
    ranks = [urgency(name, ("latency",)) for name in first]
    assert ranks == sorted(ranks) and len(set(ranks)) > 1


def test_counters_are_asked_for_until_there_are_none_on_this_machine() -> None:
    asked: list[str] = []
    answers: list[Launch | Unavailable] = [
        parse(raw_page(COUNTED))[0], Unavailable("too slow", lasting=False), Unavailable("forbidden"),
    ]  # fmt: skip

    def count(kernel, sizes):
        asked.append(kernel.name)
        return answers[len(asked) - 1]

    profiler = Profiler(H100, count)
    found = [profiler.of(parse_kernel(ROWS), {}, SIZES, SIZES) for _ in range(4)]
    assert [p.source for p in found if p is not None] == ["counters", *["estimate"] * 3] and len(asked) == 3
    assert [p.why for p in found if p is not None] == ["", "too slow", "forbidden", "forbidden"]


def test_the_planner_the_report_and_the_trajectory_hear_of_it(tmp_path: Path) -> None:
    class Watching:
        name = "watching"
        seen: list[Observation] = []  # noqa: RUF012

        def propose(self, o: Observation, k: int) -> list[Proposal]:
            self.seen.append(o)
            return [Proposal(s, "") for s in ("raise", WIDE) if s not in {h.script for h in o.history}]

    WIDE = "raise | distribute{loop=i map=[vec $V, thread.x $T, seq]}"
    (tmp_path / "kernel.ktir").write_text(ROWS)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    lab = FakeLab(lambda script, knobs, at: 1e-4 if "vec" in script else 2e-4, device=H100)
    events: list = []
    planner = Watching()
    report = optimize(
        tmp_path / "workload.toml", planner=planner, lab=lab, out_dir=tmp_path / "out", budget=9, progress=events.append
    )
    first, *_, last = planner.seen
    assert first.leader == "" and last.leader == WIDE and last.limiters and first.profile != last.profile
    (result,) = report.scenarios
    assert result.limited[-1].startswith("by an estimate from counts (100 µs measured, ")
    assert any(n.startswith("many: limited by ") for n in report.notes)
    told = [e["script"] for e in events if e["event"] == "profile"]
    assert told[0] == "" and WIDE in told
    assert '"event": "profile"' in (tmp_path / "out" / "trajectory.jsonl").read_text()
