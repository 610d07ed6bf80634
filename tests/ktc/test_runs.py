"""Reading a run back, and its page: every scenario, script and rejection shows up; broken folders are usage errors."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.agent.planner import Outcome
from ktc.agent.report import OptimizeReport, ScenarioResult, Timed
from ktc.ir.diagnostics import KtcError
from ktc.page import render
from ktc.runs import load_run, page_of

Run = Callable[..., subprocess.CompletedProcess[str]]


def timed(us: float) -> Timed:
    return Timed(us * 1e-6, us * 0.99e-6, us * 1.01e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run that found something, as ``optimize`` writes it."""
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "k.cu").write_text("__global__ void before_marker() {}\n")
    (run / "kernel.out.cu").write_text("__global__ void after_marker() {}\n")
    small = ScenarioResult(
        "small", {"n": 8}, False, timed(4), timed(2), (2.0, 1.9, 2.1), "vectorize{loop=i}", {"V": 8}, "TESTED", 64, 1e-6
    )
    kept_back = ScenarioResult(
        "kept-back", {"n": 9}, True, timed(5), timed(4), (1.25, 1.2, 1.3), "vectorize{loop=i}", {"V": 8}, "TESTED"
    )
    history = (
        {"scenario": "small", "script": "a", "spent": 2, "best": 3e-6},
        {"scenario": "small", "script": "b", "spent": 3, "best": None},
        {"scenario": "small", "script": "a", "spent": 6, "best": 2e-6},
    )
    report = OptimizeReport(
        kernel="scale",
        source=str(tmp_path / "k.cu"),
        variant="",
        planner="rules",
        scenarios=(small, kept_back),
        device={"backend": "cuda", "name": "Some GPU", "profile": "cuda-sm90"},
        outcomes=(Outcome("tile{loop=i}", "refused", "no such loop"),),
        best_script="vectorize{loop=i}",
        best_knobs={"V": 8},
        measured=8,
        rejected=({"script": "unroll{loop=i}", "knobs": {"U": 2}, "verdict": "REJECTED: out of bounds"},),
        history=history,
        files={"kernel": str(run / "kernel.out.cu")},
        notes=("a note",),
    )
    (run / "report.json").write_text(report.dumps())
    return run


def test_the_page_shows_everything(folder: Path) -> None:
    html = render(page_of(load_run(folder)))
    wanted = (
        *("2.00x [1.90, 2.10]", "kept-back (held out)", "no such loop", "out of bounds"),
        *("before_marker", "after_marker", "a note", "Some GPU", "50 %", "V=8"),
    )
    for text in wanted:
        assert text in html, text


def test_the_trajectory_counts_measurements_over_scripts(folder: Path) -> None:
    (chart,) = page_of(load_run(folder)).charts
    assert [p.number for p in chart.points] == [0, 2, 3, 6]
    assert [p.seconds for p in chart.points] == [4e-6, 3e-6, None, 2e-6]


def test_the_command_writes_the_page(folder: Path, ktc_run: Run) -> None:
    done = ktc_run("report", str(folder))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_text().startswith("<!doctype html>")
    assert json.loads(ktc_run("report", str(folder), "--json").stdout)["kernel"] == "scale"


@pytest.mark.parametrize("content", [None, "{", "[]", '{"kernel": "k"}'])
def test_what_is_no_run_is_a_usage_error(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "report.json").write_text(content)
    with pytest.raises(KtcError) as e:
        load_run(tmp_path)
    assert e.value.exit_code == 2


def test_a_recipe_must_be_one(tmp_path: Path, ktc_run: Run) -> None:
    (tmp_path / "recipe.json").write_text("{}")
    done = ktc_run("replay", "recipe.json")
    assert done.returncode == 2 and "is not a recipe" in done.stderr


def test_what_beat_the_original_at_one_size_alone_is_said(folder: Path) -> None:
    """The page said that nothing did, beside a table with 2.00x in it."""
    data = json.loads((folder / "report.json").read_text())
    lost = {**data["scenarios"][0], "name": "large", "script": "", "knobs": {}, "ratio": [1.0, 1.0, 1.0],
            "verdict": "the original is kept"}  # fmt: skip
    data |= {"best_script": "", "best_knobs": {}, "scenarios": [data["scenarios"][0], lost]}
    (folder / "report.json").write_text(json.dumps(data))
    summary = page_of(load_run(folder)).summary
    assert "At small: vectorize{loop=i} (V=8), 2.00x" in summary
    assert "At large: nothing verified beat the original" in summary
    assert not any("none: nothing" in line for line in summary)
    data["scenarios"], slower = [lost], {"script": "vectorize{loop=i}", "status": "tuned"}
    data["outcomes"] = [slower]
    (folder / "report.json").write_text(json.dumps(data))
    assert "Script: none: nothing verified beat the original" in page_of(load_run(folder)).summary
    (folder / "report.json").write_text(json.dumps(data | {"outcomes": []}))
    assert "Script: none: nothing was measured against the original" in page_of(load_run(folder)).summary
