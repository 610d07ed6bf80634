"""The mutation harness: its operators break programs, its proofs hold, and a sample finds no hole in the ladder."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from ktc.__main__ import main as ktc
from ktc.ir.kernel import bind
from ktc.ir.text import canonical, parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from tests.mutation import Plan, campaign, run_campaign, tally
from tests.mutation.__main__ import main
from tests.mutation.campaign import OPERATORS, trials
from tests.mutation.operators.operators import apply, places
from tests.mutation.operators.text_operators import C_LIKE
from tests.mutation.proofs.proofs import equivalent
from tests.mutation.subjects import Subject, _loaded

TREE = """
kernel k(out: f32*, x: f32 const*, n: i32 range 1..1000)
  launch grid(1) block(64)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  var sum: f32 = x[tid]
  for offset = 16; offset > 0; offset / 2
    sum += shfl_xor(sum, offset)
  if tid % 32 == 0
    out[tid / 32] = sum
"""


def test_there_are_operators_enough_and_half_are_blind() -> None:
    blind = [op.blind for op in (*OPERATORS, *C_LIKE)]
    assert len(blind) >= 30 and 0.4 < sum(blind) / len(blind) < 0.6
    assert len({op.name for op in (*OPERATORS, *C_LIKE)}) == len(blind)


def proof(old: str, new: str, text: str = TREE) -> str:
    assert old in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))


def test_lanes_that_are_read_decide() -> None:
    assert "symbolic threads" in proof("sum, offset)", "sum, offset + 1)")
    assert "not asked for" in proof("shfl_xor", "shfl_down")
    assert not proof("shfl_xor", "shfl_up")
    assert not proof("shfl_xor", "shfl_down", TREE.replace("% 32 == 0", "% 32 == 1"))
    assert not proof("offset / 2", "offset / 4")
    assert not proof("sum, offset)", "sum, offset + 1)", TREE.replace("  flags reassociates\n", ""))


def test_any_lane_may_write_what_all_hold() -> None:
    assert "symbolic threads" in proof("tid % 32 == 0", "tid % 33 == 0")
    assert not proof("tid % 32 == 0", "tid % 64 == 0")
    assert not proof("shfl_xor(sum, offset)", "shfl_xor(sum, offset) + sum")


PEAK = """
kernel k(out: f32*, x: f16 const*, n: i32 range 1..1000)
  launch grid(1) block(64)
  array warp: shared f32[2]
  let tid: i32 = i32(threadIdx.x)
  var m: f32 = -inf
  for i = tid; i < n; i + 64
    m = max(m, abs(f32(x[i])))
  for offset = 16; offset > 0; offset / 2
    m = max(m, shfl_xor(m, offset))
  if tid % 32 == 0
    warp[tid / 32] = m
  barrier
  m = max(warp[0], warp[1])
  m = max(0.0, m)
  if tid == 0
    out[0] = m
"""


def test_idempotent_and_covered_maxima() -> None:
    step = "    m = max(m, shfl_xor(m, offset))\n"
    assert "terms" in proof(step, step + step, PEAK)
    assert "later max" in proof("= -inf", "= 0.0", PEAK)
    assert not proof("= -inf", "= 1.0", PEAK)
    assert not proof("= -inf", "= 0.0", PEAK.replace("  m = max(0.0, m)\n", ""))
    assert not proof("= -inf", "= 0.0", PEAK.replace("max(m, abs(f32(x[i])))", "m + abs(f32(x[i]))"))


def test_a_half_stays_a_half() -> None:
    assert "terms" in proof("= max(warp[0], warp[1])", "= max(f32(f16(warp[0])), warp[1])", PEAK)
    single = PEAK.replace("x: f16", "x: f32").replace("abs(f32(x[i]))", "abs(x[i])")
    assert not proof("= max(warp[0], warp[1])", "= max(f32(f16(warp[0])), warp[1])", single)


SWEEP = """
kernel k(out: f32*, x: f32 const*, n: i32 range 1..1000)
  launch grid(cdiv(n, 64)) block(64)
  let b: i32 = i32(blockIdx.x) * 64
  for u = 0; u < 4; u + 1
    let i: i32 = b + u * 16 + i32(threadIdx.x)
    if i < n && i32(threadIdx.x) < 16
      out[i] = x[i]
"""


def test_what_has_no_effect_may_go() -> None:
    assert "left out do nothing" in proof("block(64)", "block(32)", SWEEP)
    assert not proof("block(64)", "block(8)", SWEEP)
    assert not proof("u < 4", "u <= 4", SWEEP)
    halves = SWEEP.replace("u * 16", "u * 1000")
    assert "do nothing" in proof("u < 4", "u < 2", halves)
    assert not proof("u < 4", "u < 1", SWEEP)


STAGES = """
kernel k(out: f32*, x: f32 const*, n: i32 range 1..1000)
  launch grid(1) block(64)
  array a: shared f32[64]
  array b: shared f32[64]
  let tid: i32 = i32(threadIdx.x)
  for r = 0; r < n; r + 1
    a[tid] = x[tid]
    barrier
    let y: f32 = a[63 - tid]
    barrier
    b[tid] = y
    barrier
    out[tid] = b[63 - tid]
    barrier
"""


def test_a_barrier_between_other_barriers() -> None:
    middle = "    let y: f32 = a[63 - tid]\n    barrier\n"
    assert "no two accesses" in proof(middle, middle.replace("    barrier\n", ""), STAGES)
    first = "    a[tid] = x[tid]\n    barrier\n"
    assert not proof(first, first.replace("    barrier\n", ""), STAGES)
    again = STAGES.replace("b[tid] = y", "a[tid] = y").replace("b[63 - tid]", "a[63 - tid]")
    assert not proof(middle, middle.replace("    barrier\n", ""), again)


def test_guards_are_compared_under_what_holds_there() -> None:
    text = """
kernel k(out: f32*, n: i32 range 8..4096 div 8)
  launch grid(cdiv(n, 256)) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < n
    if i >= 0
      out[i] = 1.0
"""
    text = text.replace(" div 8", "")
    assert "z3" in proof("i >= 0", "i > 0 - 1", text)
    assert not proof("i >= 0", "i > 0", text)
    assert not proof("i < n", "i <= n", text)


def test_an_operator_changes_one_place() -> None:
    k = parse_kernel(TREE)
    op = next(op for op in OPERATORS if op.name == "drop-shuffle")
    assert places(k, op) == 1 and apply(k, op, 0) != k


SCRIPTS = {
    "dense/saxpy": "raise",
    "dense/transpose": "raise",
    "serving/silu_and_mul": "raise | distribute{loop=idx map=[vec 2, thread.x 64, seq]}",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_mutants_of_a_fixed_script_are_accepted_nowhere(name: str) -> None:
    original, workload = _loaded(name, None)
    done = apply_script(original, parse_script(SCRIPTS[name]))
    assert done.refused is None
    made = Subject(name, None, workload, original, materialise(bind(done.kernel, {})))
    found = Counter(t.status for t in trials(made, 0, Plan(seed=0, per_subject=30)))
    assert found["killed"] > 20 and not found["accepted"]


def test_a_log_is_not_run_again(tmp_path: Path) -> None:
    plan, log = Plan(seed=1, subjects=2, only="drop-store", kernel="saxpy"), tmp_path / "log.jsonl"
    found = tally(run_campaign(plan, log=log))
    lines = log.read_text()
    assert tally(run_campaign(plan, log=log)).status == found.status and log.read_text() == lines


def test_a_slow_subject_keeps_no_other_out_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"

    def one(plan: Plan, number: int) -> list[dict[str, object]]:
        end = time.monotonic() + 30
        while number == 0 and not log.exists() and time.monotonic() < end:
            time.sleep(0.01)
        return [{"type": "subject", "subject": number, "status": "none"}]

    monkeypatch.setattr(campaign, "one_subject", one)
    records = run_campaign(Plan(subjects=4), jobs=2, log=log)
    assert [r["subject"] for r in records] == [0, 1, 2, 3]
    assert json.loads(log.read_text().splitlines()[0])["subject"] != 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_told_to_stop_it_says_what_it_has_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    """A time limit's SIGTERM ended a campaign without a word; the log was all there was, and no verdict on it."""
    log = tmp_path / "runs.jsonl"

    def endless(plan: Plan, number: int) -> list[dict]:
        if number == 2:
            while not log.exists() or len(log.read_text().splitlines()) < 2:
                time.sleep(0.01)
            os.kill(os.getppid() if jobs > 1 else os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return [{"type": "subject", "subject": number, "status": "TESTED"}]

    monkeypatch.setattr(campaign, "one_subject", endless)
    start = time.perf_counter()
    found = run_campaign(Plan(subjects=9), jobs, log)
    assert time.perf_counter() - start < 30
    assert {r["subject"] for r in found} >= {0, 1} and 2 not in {r["subject"] for r in found}
    monkeypatch.setattr(
        campaign, "one_subject", lambda plan, n: [{"type": "subject", "subject": n, "status": "TESTED"}]
    )
    assert {r["subject"] for r in run_campaign(Plan(subjects=9), 1, log)} == set(range(9))


def test_the_command_reports_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--sample", "2", "--seed", "5", "--only", "drop-store", "--json"])
    out = json.loads(capsys.readouterr().out)
    assert code == 0 and out["accepted"] == 0
    assert out["mutants"] == sum(out["by_layer"].values()) >= 1


def test_the_command_is_no_part_of_ktc(capsys: pytest.CaptureFixture[str]) -> None:
    assert ktc(["mutate", "--sample", "2"]) == 2
    assert "no command 'mutate'" in capsys.readouterr().err
