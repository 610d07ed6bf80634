"""A GPU's trial begins before its libraries are loaded here, where nothing is known to work yet."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ktc.backends.runtimes import early_trials


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    names: list[str] = []
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(early_trials, "_start", lambda name: names.append(name) or f"trial of {name}")
    monkeypatch.setattr(early_trials, "_begun", {})
    return names


@pytest.mark.parametrize("asked, tried", [("auto", "cuda"), ("cuda", "cuda"), ("cuda:1", "cuda:1")])
def test_the_trial_of_a_gpu_begins_once(started: list[str], asked: str, tried: str) -> None:
    early_trials.begin(asked)
    assert started == [tried]
    assert early_trials.trial_of(tried) == f"trial of {tried}" and started == [tried]
    early_trials.trial_of(tried)
    assert started == [tried, tried], "a second trial is another process"


@pytest.mark.parametrize("asked", ["numba", "opencl", "opencl:0"])
def test_no_other_device_is_tried_ahead(started: list[str], asked: str) -> None:
    early_trials.begin(asked)
    assert started == []


def test_nothing_begins_where_a_device_was_proved_or_the_library_is_missing(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "one.json").write_text("{}")
    early_trials.begin("cuda")
    (tmp_path / "devices" / "one.json").unlink()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    early_trials.begin("cuda")
    assert started == []
