"""Which processes assist: idle ones, whatever questions are open, and none that a new question needs."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from pathlib import Path

import pytest

from ktc.search.workers.assistance import Assistance
from ktc.search.workers.open_questions import asked_in, open_in
from ktc.search.workers.worker_protocol import Reply

DONE = Reply("ok", {"verdict": {}})


class FakeCrew:
    """Processes that answer when the test says so; the first ``size`` requests that are open are being worked on."""

    def __init__(self, size: int) -> None:
        self.size, self.asked = size, []

    @property
    def idle(self) -> int:
        return self.size - len(self.open())

    def submit(self, request, deadline_s, failed):
        self.asked.append((dict(request), Future()))
        return self.asked[-1][1]

    def open(self, do: str = "") -> list[tuple[dict, Future]]:
        return [(r, f) for r, f in self.asked if not f.done() and do in ("", r["do"])]

    def answer(self, number: int, reply: Reply) -> None:
        self.asked[number][1].set_result(reply)


def ask(assistance: Assistance, name: str) -> Future[Reply]:
    return assistance.ask({"do": "gate", "candidate": name}, 9.0, "hang")


@pytest.fixture
def crew() -> FakeCrew:
    return FakeCrew(3)


@pytest.fixture
def assistance(crew, tmp_path) -> Assistance:
    return Assistance(crew, tmp_path / "runs")


def candidates(found: list[tuple[dict, Future]]) -> list[str]:
    return [r["candidate"] for r, _ in found]


def test_idle_processes_assist(crew, assistance):
    answer = ask(assistance, "a")
    (question, _), *assists = crew.open()
    assert question["do"] == "gate" and [r["do"] for r, _ in assists] == ["assist", "assist"]
    own, common = map(Path, question["shared"])
    assert own.is_dir() and common.is_dir()
    for request, _ in assists:
        assert open_in(Path(request["questions"])) == [own] and asked_in(own) == question
    crew.answer(0, DONE)
    assert answer.result() is DONE and not own.exists() and common.exists()


def test_an_assistant_leaves_for_a_new_question(crew, assistance):
    ask(assistance, "a")
    leaves = [Path(r["leave"]) for r, _ in crew.open("assist")]
    ask(assistance, "b")
    assert sum(p.exists() for p in leaves) == 1 and candidates(crew.open("gate")) == ["a", "b"]
    ask(assistance, "c")
    assert all(p.exists() for p in leaves)
    for number, (request, future) in enumerate(crew.asked):
        if request["do"] == "assist" and not future.done():
            crew.answer(number, Reply("ok", {"made": 1}))
    assert not any(p.exists() for p in leaves) and not crew.open("assist")


def test_open_questions_are_found_in_the_order_they_came(crew, assistance):
    for name in "abc":
        ask(assistance, name)
    assert [asked_in(own)["candidate"] for own in open_in(assistance.folder)] == ["a", "b", "c"]
    crew.answer(0, DONE)
    assert [asked_in(own)["candidate"] for own in open_in(assistance.folder)] == ["b", "c"]


def test_who_has_nothing_to_do_assists_again_while_a_question_is_open(crew, assistance):
    ask(assistance, "a"), ask(assistance, "b")
    crew.answer(1, Reply("ok", {"made": 0}))  # it left for b, which is answered by the process that it was
    assert len(crew.open("assist")) == 1
    crew.answer(0, DONE)
    assert candidates(crew.open("gate")) == ["b"] and len(crew.open("assist")) == 2


def test_who_cannot_assist_is_not_asked_again(crew, assistance):
    ask(assistance, "a")
    for number in (1, 2):
        crew.answer(number, Reply("lost", {"message": "it ended"}))
    assert not crew.open("assist") and candidates(crew.open("gate")) == ["a"]


def test_nobody_is_sent_where_there_is_nothing(crew, assistance):
    """As when somebody clears the folder of temporary files."""
    ask(assistance, "a")
    shutil.rmtree(assistance.folder)
    crew.answer(1, Reply("ok", {"made": 0}))
    assert len(crew.open("assist")) == 1


def test_one_process_shares_nothing(tmp_path):
    crew = FakeCrew(1)
    ask(Assistance(crew, tmp_path / "runs"), "a")
    assert [r for r, _ in crew.asked] == [{"do": "gate", "candidate": "a"}] and not (tmp_path / "runs").exists()


def test_nobody_assists_after_the_end(crew, assistance):
    ask(assistance, "a")
    assistance.close()
    for number in (1, 2):
        crew.answer(number, Reply("ok", {"made": 3}))
    crew.answer(0, DONE)
    assert not crew.open()
