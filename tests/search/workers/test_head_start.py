"""A measuring process that was started early: taken by who opens its device, else ended without a trace."""

from __future__ import annotations

import pytest

from ktc.search.workers import early_compiles
from ktc.search.workers import head_start as module
from ktc.search.workers.executor import LocalExecutor
from ktc.search.workers.head_start import CANARY, EXPECT, HeadStart, head_start


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "cache"))


def test_the_executor_goes_on_with_what_was_started(cache):
    with head_start("numba") as ahead:
        assert ahead is not None and ahead._worker is not None
        pid = ahead._worker.process.pid
        with LocalExecutor("numba", ahead=ahead) as ex:
            assert ex._worker is not None and ex._worker.process.pid == pid and ex.folder == ahead.folder
            assert ahead.take() is None and ex.device.backend == "numba"
    assert not ahead.folder.exists()


def test_what_nobody_took_ends(cache):
    with head_start("numba") as ahead:
        assert ahead is not None and ahead._worker is not None
        process = ahead._worker.process
    assert process.poll() is not None and not ahead.folder.exists()


@pytest.mark.parametrize("ended", [False, True])
def test_a_process_for_another_device_or_one_that_ended_is_left_alone(cache, ended):
    with head_start("numba" if ended else "opencl:nothing") as ahead:
        assert ahead is not None and ahead._worker is not None
        if ended:
            ahead._worker.end()
            ahead._worker.process.wait()
        with LocalExecutor("numba", ahead=ahead) as ex:
            assert ex.folder != ahead.folder and ex.device.backend == "numba"
    assert not ahead.folder.exists()


def test_nothing_is_started_where_nothing_can_be(monkeypatch):
    def full(prefix: str) -> str:
        raise OSError("no space left on device")

    monkeypatch.setattr(module.tempfile, "mkdtemp", full)
    with head_start(None) as ahead:
        assert ahead is None


def test_a_worker_answers_what_was_begun_in_its_order_and_no_other_request(cache):
    ahead = HeadStart("numba")
    try:
        worker = ahead.take()
        assert worker is not None
        assert worker.ask(EXPECT, 60.0) == {"status": "ok", "device": None}  # a processor's is known once it is open
        assert worker.ask(CANARY, 60.0)["status"] == "ok"
        assert worker.ask({"do": "hello"}, 60.0)["status"] == "ok"
    finally:
        if worker is not None:
            worker.kill()


def test_another_request_than_the_one_begun_is_a_mistake(cache):
    ahead = HeadStart("numba")
    worker = ahead.take()
    assert worker is not None
    try:
        with pytest.raises(AssertionError, match="another request was begun"):
            worker.ask({"do": "hello"}, 60.0)
    finally:
        worker.kill()


def test_what_every_process_reads_is_made_once_and_early(tmp_path, monkeypatch):
    """A process of its own builds the tables of the kernels' grammar where nothing is in caches."""
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    monkeypatch.setattr(early_compiles.early_trials, "untried_gpu", lambda name: name)
    monkeypatch.setattr(early_compiles, "_begun", begun := [])
    early_compiles.begin("numba")
    assert begun[0].wait(60) == 0 and len(list((tmp_path / "grammars").glob("ktir-kernel-*.tables"))) == 1


@pytest.mark.parametrize("name", ["numba", "opencl"])
def test_nothing_is_made_early_for_other_devices(monkeypatch, name):
    monkeypatch.setattr(early_compiles, "_begun", begun := [])
    early_compiles.begin(name)
    assert not begun
