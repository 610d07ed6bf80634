"""A process that verifies: what it does for the questions of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.kernel_json import kernel_to_json
from ktc.ir.text import print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import SharedRuns
from ktc.search.verification.sharing.shared_runs import planned
from ktc.search.workers import worker_gate
from ktc.search.workers.open_questions import folder_of, post
from tests.paths import KERNELS

AXPBY = KERNELS / "basic" / "axpby"


@pytest.fixture
def questions(tmp_path) -> Path:
    (tmp_path / "originals").mkdir()
    return tmp_path


def ask(questions: Path, number: int, **other: str) -> SharedRuns:
    """An open question; of the process that leads, its shared runs."""
    kernel = Workload.load(AXPBY).load_kernel(None)
    own = folder_of(number, questions)
    shared = [str(own), str(questions / "originals")]
    kernels = {"original": print_kernel(kernel), "candidate": kernel_to_json(kernel)}
    post(own, {"workload": str(AXPBY), "variant": None, "seed": 0, **kernels, "shared": shared, **other})
    return SharedRuns(own, questions / "originals", leads=True)


def assisted(questions: Path, monkeypatch) -> int:
    """How many runs a process makes before it has nothing to do."""
    leave = questions / "leave"
    monkeypatch.setattr(worker_gate.time, "sleep", lambda seconds: leave.touch())
    made = worker_gate.Gate().assist({"questions": str(questions), "leave": str(leave)})["made"]
    leave.unlink(missing_ok=True)
    return made


def run_of(n: int):
    return planned("candidate", {"n": n}, "int", "exact")


def test_a_question_that_has_nothing_to_do_yet_keeps_nobody_from_the_next(questions, monkeypatch):
    ask(questions, 0)
    ask(questions, 2).announce([run_of(5), run_of(7)])
    assert assisted(questions, monkeypatch) == 2
    assert len(list(folder_of(2, questions).glob("*.run"))) == 2


def test_the_oldest_question_comes_first(questions, monkeypatch):
    first, second = ask(questions, 0), ask(questions, 10)
    second.announce([run_of(5)])
    first.announce([run_of(3), run_of(4)])
    order = []
    perform = SharedRuns.perform
    monkeypatch.setattr(SharedRuns, "perform", lambda self, p: (order.append(dict(p.sizes)), perform(self, p)))
    assert assisted(questions, monkeypatch) == 3
    assert order == [{"n": 3}, {"n": 4}, {"n": 5}]


def test_a_question_that_nobody_can_assist_keeps_nobody_from_the_next(questions, monkeypatch):
    ask(questions, 0, original="another text").announce([run_of(3)])
    ask(questions, 1).announce([run_of(5)])
    assert assisted(questions, monkeypatch) == 1


def test_nobody_stays_where_no_question_is_open(questions):
    assert worker_gate.Gate().assist({"questions": str(questions), "leave": str(questions / "leave")}) == {"made": 0}
