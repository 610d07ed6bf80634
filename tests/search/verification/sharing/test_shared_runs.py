"""Runs that processes share: the same result from a file as from the interpreter, each run made once, none waited for
in vain."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading

import numpy as np
import pytest

from ktc.ir.interp import FUEL, RunResult, run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import SharedRuns, assistant, verify
from ktc.search.verification.floats.special_values import SpecialRows
from ktc.search.verification.instances.instances import instances
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import Oracle, oracle_for
from ktc.search.verification.rungs.layers import LAYERS
from ktc.search.verification.sharing import run_files, shared_runs
from ktc.search.verification.sharing.shared_runs import PLAN, TURN, Planned, planned
from tests.ir.interp.interp_samples import ROWS_TREE, kernel
from tests.search.verification.gate_samples import ROWS
from tests.search.verification.members import test_literal_sizes as literals

RACY = """
kernel racy(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(1) block(64)
  let t: i32 = threadIdx.x as i32
  if n > 3
    y[t / 2] = x[t] + x[n + t]
"""
STATIC = LAYERS["static"]
DOMAINS = ("float", "float64", "int", "field", "bound", "terms", "roundings")


def same(a: RunResult, b: RunResult) -> bool:
    fields = [f.name for f in dataclasses.fields(RunResult) if f.name not in ("outputs", "written")]
    alike = all(getattr(a, f) == getattr(b, f) for f in fields)
    return alike and all(_equal(getattr(a, w), getattr(b, w)) for w in ("outputs", "written"))


def _equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(
        x.dtype == b[n].dtype and x.shape == b[n].shape and x.tobytes() == b[n].tobytes() for n, x in a.items()
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_result_in_a_file_is_the_result(tmp_path, domain):
    k = parse_kernel(print_kernel(parse_kernel(RACY)))
    args = {"y": np.zeros(32, np.float32), "x": np.arange(60, dtype=np.float32), "n": 5}
    result = run(k, args, domain=domain, undefined=("y",))
    assert {f.kind for f in result.findings} >= {"race", "out-of-bounds"}
    run_files.save(tmp_path / "x", k, result, 7)
    got, fuel = run_files.load(tmp_path / "x", k)
    assert fuel == 7 and same(result, got)
    assert [f.statement for f in got.findings] == [f.statement for f in result.findings]
    other = parse_kernel(print_kernel(k))
    there, _ = run_files.load(tmp_path / "x", other)
    own = {id(s) for s in there.unreached} | set(there.outcomes)
    assert _equal(there.outputs, result.outputs) and not own & (
        set(result.outcomes) | {id(s) for s in result.unreached}
    )
    assert same(there, run(other, args, domain=domain, undefined=("y",)))


def test_small_floats_keep_their_type(tmp_path):
    k = parse_kernel("kernel k(y: bf16* restrict)\n  launch grid(1) block(32)\n  y[threadIdx.x as i32] = 1.5 as bf16\n")
    result = run(k, {"y": np.zeros(32, run_files.SMALL_FLOATS["bfloat16"])})
    run_files.save(tmp_path / "x", k, result, FUEL)
    assert same(run_files.load(tmp_path / "x", k)[0], result)


def test_what_is_no_part_of_the_kernel_is_not_written(tmp_path):
    k, other = kernel(ROWS_TREE), kernel(ROWS_TREE)
    result = run(
        k, {"y": np.zeros(3, np.float32), "x": np.ones((3, 7), np.float32), "w": np.ones(7, np.float32), "n": 3, "d": 7}
    )
    run_files.save(tmp_path / "x", other, result, FUEL)
    assert run_files.load(tmp_path / "x", k) is None


NAMED = (
    "  let r: f32 = rsqrt(s[0] / f32(d) + 1e-06)",
    "  let q: f32 = s[0] / f32(d)\n  let r: f32 = rsqrt(q + 1e-06)",
)
"""The same program, in one more statement."""

WHAT = planned("candidate", {"n": 3, "d": 5}, "float", SpecialRows(("inf", "nan"), 2, "x"), True, 99)
K = kernel(ROWS_TREE)
RESULT = RunResult({"y": np.arange(3.0)}, steps=40)


def pair(folder) -> tuple[SharedRuns, SharedRuns]:
    for name in ("own", "common"):
        (folder / name).mkdir()
    leader, helper = (SharedRuns(folder / "own", folder / "common", leads) for leads in (True, False))
    helper.performers[""] = lambda what: helper.run(what, "key", K, FUEL, lambda: RESULT) and None
    leader.performers[""] = lambda what: None
    return leader, helper


def refuse() -> RunResult:
    raise AssertionError("somebody else has done that")


def test_a_planned_run_travels_as_it_is():
    back = Planned.from_json(WHAT.to_json())
    assert back == WHAT and back.fuel == WHAT.fuel and back.name == WHAT.name
    assert Planned.from_json(dataclasses.replace(WHAT, most=9).to_json()).most == 9
    assert dataclasses.replace(WHAT, fuel=5).name == WHAT.name != dataclasses.replace(WHAT, sanitize=False).name


def test_the_leader_takes_what_an_assistant_has_done(tmp_path):
    leader, helper = pair(tmp_path)
    leader.announce([WHAT])
    assert helper.assist() and not helper.assist()
    got = leader.run(WHAT, "key", K, FUEL, refuse)
    assert same(got, RESULT)
    assert leader.run(WHAT, "key", K, 30, lambda: RunResult({}, steps=31)).steps == 31  # fewer statements than it took


def test_each_run_is_begun_once(tmp_path):
    leader, helper = pair(tmp_path)
    leader.announce([WHAT])
    assert leader.run(WHAT, "key", K, FUEL, lambda: RESULT) is RESULT
    assert not helper.assist()


def test_what_an_assistant_has_dropped_is_done_by_the_leader(tmp_path):
    leader, helper = pair(tmp_path)
    leader.announce([WHAT])
    helper._read_plan()
    os.close(next(helper._unbegun())[1])  # as when its process ends
    assert leader.run(WHAT, "key", K, FUEL, lambda: RESULT) is RESULT


def test_the_leader_waits_for_what_is_being_done_and_does_the_rest_meanwhile(tmp_path):
    leader, helper = pair(tmp_path)
    later = dataclasses.replace(WHAT, domain="int")
    leader.announce([WHAT, later])
    begun, done, ahead = threading.Event(), threading.Event(), []

    def slow(what: Planned) -> None:
        begun.set()
        assert done.wait(60)
        helper.run(what, "key", K, FUEL, lambda: RESULT)

    def meanwhile(what: Planned) -> None:
        ahead.append(what)
        leader.run(what, "later", K, FUEL, lambda: RESULT)
        done.set()

    helper.performers[""], leader.performers[""] = slow, meanwhile
    assisting = threading.Thread(target=helper.assist)
    assisting.start()
    assert begun.wait(60)
    assert same(leader.run(WHAT, "key", K, FUEL, refuse), RESULT)
    assert ahead == [later] and leader.run(later, "later", K, FUEL, refuse) is RESULT
    assisting.join()


def test_nothing_is_left_to_assist_when_the_verdict_is_there(tmp_path):
    leader, helper = pair(tmp_path)
    leader.announce([WHAT])
    assert helper.is_planned()
    shutil.rmtree(tmp_path / "own")
    assert not helper.is_planned() and not helper.assist()


def test_an_assistant_takes_what_is_announced_later(tmp_path):
    leader, helper = pair(tmp_path)
    leader.announce([WHAT])
    assert helper.assist() and not helper.assist()
    leader.announce([WHAT, dataclasses.replace(WHAT, domain="int")])
    assert helper.assist() and not helper.assist()


def test_runs_of_an_original_are_there_for_others(tmp_path):
    one, two = pair(tmp_path)
    assert one.known("a", K, 100, lambda: RESULT) is RESULT
    assert same(two.known("a", K, 40, refuse), RESULT)
    assert two.known("a", K, 39, lambda: RunResult({}, steps=1)).steps == 1


def test_a_run_of_an_original_that_another_process_is_at_is_waited_for(tmp_path):
    one, two = pair(tmp_path)
    begun, done = threading.Event(), threading.Event()

    def slow() -> RunResult:
        begun.set()
        assert done.wait(60)
        return RESULT

    first = threading.Thread(target=lambda: one.known("a", K, 100, slow))
    first.start()
    assert begun.wait(60) and two.is_at("a") and not two.is_at("b")
    threading.Timer(0.05, done.set).start()
    assert same(two.known("a", K, 100, refuse), RESULT) and not two.is_at("a")
    first.join()


@pytest.mark.parametrize("wrong", [False, True])
def test_a_candidate_does_not_wait_for_a_run_of_the_original(tmp_path, wrong):
    """What is run as if the original had no defect is taken where that is so, and made again where it is not."""
    leader, helper = pair(tmp_path)
    rows = kernel(ROWS_TREE, ("rsqrt(s[0] / f32(d) + 1e-06)", "s[0]"), *([(" = acc\n  barrier", " = acc")] * wrong))
    oracle = Oracle(rows, ROWS, None, 0)
    instance = instances(rows, rows, ROWS, count=1)[0]
    candidate = rows.with_(name="same")
    oracle.shared = helper
    job = Job(rows, candidate, oracle, [instance], ROWS, shared=helper)
    what = job.planned("candidate", instance, "int", "exact", True)
    held = helper._lock_of(oracle._name((tuple(instance.sizes.items()), "int", "exact")))
    with shared_runs._alone(held):
        job.perform(what)
    leader.announce([what])
    leader._claim(what)
    want = oracle.run(instance.sizes, "int", "exact")
    mine = Job(rows, candidate, oracle, [instance], ROWS, shared=leader)
    made: list[int] = []
    mine._spread = lambda what, fuel, compute, theirs, spread=mine._spread: spread(
        what, fuel, lambda: (made.append(1), compute())[1], theirs
    )
    mine.run(instance, "exact", "int", want, sanitize=True)
    assert bool(made) == bool(want.findings) == wrong


def test_an_assistant_cuts_a_run_short_where_the_leader_would(tmp_path):
    leader, helper = pair(tmp_path)
    rows = kernel(ROWS_TREE)
    oracle, job = oracle_for(rows, ROWS, None, 0), None
    instance = instances(rows, rows, ROWS, count=1)[0]
    for shared in (helper, leader):
        job = Job(rows, rows.with_(name="same"), oracle, [instance], ROWS, shared=shared)
        what = job.planned("candidate", instance, "int", "exact", True, most=20)
        if shared is helper:
            leader.announce([what])
            assert helper.assist()
    leader.announce([what])
    job._spread = lambda what, fuel, compute, theirs, spread=job._spread: spread(what, fuel, refuse, theirs)
    want = oracle.run(instance.sizes, "int", "exact")
    got = job.run(instance, "exact", "int", want, sanitize=True, most=20)
    assert any(f.kind == "fuel" for f in got.findings)


def named_step() -> tuple[Kernel, Kernel, Workload]:
    return kernel(ROWS_TREE), kernel(ROWS_TREE.replace(*NAMED)), ROWS


def literal_sizes() -> tuple[Kernel, Kernel, Workload]:
    original = parse_kernel(literals.ROWS)
    return original, parse_kernel(print_kernel(literals.made(original))), literals.workload()


@pytest.mark.parametrize("case", [named_step, literal_sizes])
def test_a_verdict_is_the_same_with_runs_of_others(tmp_path, case):
    """What an assistant leaves of all that was ever announced changes nothing in the verdict but who did the work."""
    leader, helper = pair(tmp_path)
    original, candidate, workload = case()
    plans: dict[Planned, None] = {}
    announce = leader.announce

    def noted(runs) -> None:
        announce(runs)
        plans.update(leader._plan)

    leader.announce = noted
    alone = verify(original, candidate, workload, shared=leader)
    assert plans and (tmp_path / "own" / PLAN).exists() and alone.ok
    assert any(p.kernel for p in plans) == (case is literal_sizes)
    for mark in (tmp_path / "own").glob("*.begun"):
        mark.unlink()
    announce(plans)
    assert assistant(original, candidate, workload, variant=None, seed=0, shared=helper)
    assert sum(iter(helper.assist, False)) == len(plans)
    second = SharedRuns(leader.own, leader.common, True)
    asked: list[Planned] = []
    run_it = second.run

    def watched(what, key, k, fuel, compute) -> RunResult:
        return run_it(what, key, k, fuel, lambda: (asked.append(what), compute())[1])

    second.run = watched
    again = verify(original, candidate, workload, shared=second)
    assert _without_times(again) == _without_times(alone) and not asked


COUNTED = (
    ("host n: i32)", "host n: i32, seen: u32* scratch(1))"),
    ("  let r: f32", "  if tid == 0 && i32(blockIdx.x) == 0\n    seen[0] = seen[0] + u32(1)\n  let r: f32"),
)
"""Counts its launches."""

FORGETFUL = (*COUNTED, ("let r: f32 = rsqrt(", "let r: f32 = f32(i32(seen[0] < u32(40))) * rsqrt("))
"""Goes wrong at its fortieth launch."""


def watched_plans(leader: SharedRuns) -> dict[Planned, None]:
    """All that the leader will ever announce."""
    plans: dict[Planned, None] = {}
    announce = leader.announce

    def noted(runs) -> None:
        announce(runs)
        plans.update(leader._plan)

    leader.announce = noted
    return plans


@pytest.mark.parametrize("changes", [COUNTED, FORGETFUL])
def test_what_remembers_its_launches_has_the_same_verdict_with_runs_of_others(tmp_path, changes):
    leader, helper = pair(tmp_path)
    original, candidate = kernel(ROWS_TREE), kernel(ROWS_TREE, *changes)
    plans = watched_plans(leader)
    alone = verify(original, candidate, ROWS, shared=leader)
    assert _without_times(alone) == _without_times(verify(original, candidate, ROWS)) and alone.ok == (
        changes is COUNTED
    )
    assert {p.who for p in plans} >= {"original", TURN} and "candidate" not in {p.who for p in plans}
    for path in (*(tmp_path / "own").iterdir(), *(tmp_path / "common").iterdir()):
        path.unlink()
    planner, second = (SharedRuns(leader.own, leader.common, True) for _ in range(2))
    planner.announce(plans)
    assert assistant(original, candidate, ROWS, variant=None, seed=0, shared=helper)
    assert sum(iter(helper.assist, False))
    asked: list[Planned] = []
    in_turn = second.in_turn

    def watched(what, key, k, fuel, compute, memory) -> RunResult:
        return in_turn(what, key, k, fuel, lambda: (asked.append(what), compute())[1], memory)

    second.in_turn = watched
    assert _without_times(verify(original, candidate, ROWS, shared=second)) == _without_times(alone)
    assert not [p for p in asked if p.domain == "int"] and len(asked) < len(plans) / 4


def turns(count: int) -> list[Planned]:
    return [planned(TURN, {"n": n}, "int", "exact") for n in range(count)]


def test_runs_that_come_in_turn_are_begun_together(tmp_path):
    leader, helper = pair(tmp_path)
    made = []
    helper.performers[""] = made.append
    leader.announce(turns(4))
    assert helper.assist() and not helper.assist() and made == turns(1)


def test_the_leader_goes_on_from_where_the_turns_of_others_end(tmp_path):
    """It has the memory that the last of them left; runs in another order than was said find what came before them."""
    leader, helper = pair(tmp_path)
    leader.announce(turns(3))

    def counted(shared: SharedRuns, n: int, memory: dict) -> float:
        def compute() -> RunResult:
            memory["seen", 1] = memory.get(("seen", 1), np.zeros(1)) + 1
            return RunResult({"y": memory["seen", 1]}, steps=1)

        return float(shared.in_turn(turns(n + 1)[n], f"key{n}", K, FUEL, compute, memory).outputs["y"][0])

    theirs: dict = {}
    helper.performers[""] = lambda what: [counted(helper, n, theirs) for n in range(2)]
    assert helper.assist()
    mine: dict = {}
    assert [counted(leader, n, mine) for n in (0, 1, 2, 0)] == [1, 2, 3, 4]
    assert mine["seen", 1] == 4 and theirs["seen", 1] == 2
    other: dict = {}
    another = SharedRuns(leader.own, leader.common, True)
    another.announce(turns(3))
    assert counted(another, 1, other) == 1


def test_memory_in_a_file_is_the_memory(tmp_path):
    memory = {("a", 3): np.arange(3, dtype=np.uint32), ("b", 2): np.ones(2, run_files.SMALL_FLOATS["bfloat16"])}
    assert run_files.save_memory(tmp_path / "x", memory)
    back = run_files.load_memory(tmp_path / "x")
    assert _equal(back, memory) and all(x.flags.writeable for x in back.values())
    assert not run_files.save_memory(tmp_path / "y", {("c", 1): np.array([None])})
    assert run_files.load_memory(tmp_path / "y") is None


def test_the_first_runs_are_announced_before_anything_is_looked_at(tmp_path, monkeypatch):
    leader, _ = pair(tmp_path)
    seen = []
    monkeypatch.setitem(LAYERS, "static", lambda job: (seen.append({p.who for p in leader._plan}), STATIC(job))[1])
    assert verify(kernel(ROWS_TREE), kernel(ROWS_TREE.replace(*NAMED)), ROWS, shared=leader).ok
    assert seen == [{"original", "candidate"}]


def test_what_the_floats_need_is_announced_before_the_exact_rung_ends(tmp_path):
    leader, _ = pair(tmp_path)
    original, candidate = kernel(ROWS_TREE), kernel(ROWS_TREE.replace(*NAMED))
    plans: list[set[Planned]] = []
    announce = leader.announce

    def noted(runs) -> None:
        announce(runs)
        plans.append(set(leader._plan))

    leader.announce = noted
    assert verify(original, candidate, ROWS, shared=leader).ok
    exact_only = verify(original, candidate, ROWS, layers=("verifier", "static", "exact"), shared=leader)
    assert exact_only.ok
    floats = next(plan for plan in plans[1:] if {p.domain for p in plan} <= {"float", "float64", "bound", "terms"})
    before = plans[: plans.index(floats)]
    assert len(floats) > 9 and floats <= set().union(*before) and not floats & set().union(*plans[len(before) + 1 :])


def _without_times(verdict) -> object:
    rungs = tuple(dataclasses.replace(r, seconds=0.0) for r in verdict.rungs)
    return dataclasses.replace(verdict, rungs=rungs, seconds=0.0)
