"""Verdicts by other processes: the same as here, kept by content, and none where a process fails."""

import time
from concurrent.futures import Future

import pytest

from ktc.agent.gate import Gate
from ktc.agent.stopping import TimeShares
from ktc.ir.fold import is_const
from ktc.ir.text import canonical
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification import verify
from ktc.search.workers.executor import LocalExecutor, Reply
from tests.agent.agent_kernels import STREAM
from tests.agent.test_bench import WORKLOAD
from tests.paths import KERNELS


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gate")
    (folder / "kernel.ktir").write_text(STREAM)
    (folder / "workload.toml").write_text(WORKLOAD)
    return Workload.load(folder)


@pytest.fixture(scope="module")
def lab():
    with LocalExecutor("numba", gates=2) as executor:
        yield executor


def asking(lab, work):
    return lambda original, candidate: lab.gate(original, candidate, str(work.path), variant=None, seed=0)


def test_another_process_says_what_this_one_would(lab, work, tmp_path):
    original = work.load_kernel()
    lab.expect(str(work.path), None)
    gate = Gate(work, original, None, 0, tmp_path, asking(lab, work))
    wide = apply_script(original, parse_script("raise | distribute{loop=i map=[vec 2, thread.x 32, block.x]}")).kernel
    wrong = original.with_(body=original.body[:-1])
    asked = [gate(k) for k in (wide, wrong, original)]  # the first two at once
    for kernel, verdict in zip((wide, wrong, original), asked):
        here, there = verify(original, kernel, work), verdict.result(300)
        assert (there.status, there.layer, there.reason) == (here.status, here.layer, here.reason)
    assert [v.result().status for v in asked] == ["TESTED", "REJECTED", "PROVED"] and asked[1].result().failure
    again = gate(wide)
    assert again.done() and again.result().cached and not asked[0].result().cached


def test_a_verdict_that_all_else_waits_for_ends_with_the_time(work, tmp_path):
    """What was seen by then is no answer, and none is kept for those who have more time."""
    original = work.load_kernel()
    wide = apply_script(original, parse_script("raise | distribute{loop=i map=[vec 2, thread.x 32, block.x]}")).kernel
    over = TimeShares(time.monotonic() - 60, 30.0)
    late = Gate(work, original, None, 0, tmp_path, None, shares=over)(wide).result()
    assert (late.status, late.layer, late.ok) == ("UNKNOWN", "time", False)
    assert Gate(work, original, None, 0, tmp_path, None)(wide).result().status == "TESTED"


def test_where_loops_are_printed_as_they_stand_what_is_verified_is_tasks_of_one_thread():
    """A schedule by threads that none of them could run on their own is one thread's loop there; reductions keep the
    order that their threads give them."""
    work = Workload.load(KERNELS / "dense/saxpy")
    original = work.load_kernel()
    threads = apply_script(original, parse_script("raise | distribute{loop=i map=[thread.x 64, block.x]}")).kernel
    seen = []

    def gate(kernel, as_loops):
        def ask(source, candidate):
            seen.append(candidate)
            return Future()

        Gate(work, original, None, 0, None, ask, as_loops)(kernel)
        return seen[-1]

    tasks, alike = materialise(gate(threads, True)), materialise(gate(threads, False))
    assert all(is_const(n, 1) for n in tasks.launch.block) and is_const(alike.launch.block[0], 64)
    assert verify(original, tasks, work).status == "TESTED"
    rows = Workload.load(KERNELS / "training/softmax").load_kernel()
    raised = apply_script(rows, parse_script("raise")).kernel
    assert canonical(gate(raised, True)) == canonical(raised)


def test_a_process_that_fails_accepts_nothing(work):
    def failing(original, candidate):
        answer = Future()
        answer.set_result(Reply("hang", {"message": "the process that was to gate did not finish"}))
        return answer

    verdict = Gate(work, work.load_kernel(), None, 0, None, failing)(work.load_kernel()).result()
    assert verdict.status == "UNKNOWN" and not verdict.ok and "did not finish" in verdict.reason


def test_a_source_that_changed_meanwhile_is_no_original(lab, work, tmp_path):
    other = work.load_kernel().with_(name="other")
    gate = Gate(work, other, None, 0, None, asking(lab, work))
    verdict = gate(other.with_(body=other.body[:-1])).result(300)
    assert verdict.status == "UNKNOWN" and "has changed meanwhile" in verdict.reason
