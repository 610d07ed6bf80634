"""Reading a run back, and its report: every scenario, script and rejection shows up, also of a run that has not ended;
broken folders are usage errors."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.agent.about import About
from ktc.agent.planner import Outcome
from ktc.agent.report import OptimizeReport, ScenarioResult, Timed
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.page.document import html
from ktc.page.plain_texts import configurations_csv, markdown
from ktc.page.run_report import report_of
from ktc.page.search_section import search_of
from ktc.runs import FINISHED, KILLED, RUNNING, load_run
from tests.agent.fake_lab import GPU, FakeLab
from tests.agent.test_optimize import BAD, SPLIT, WIDE, Fixed, run, seconds, work

__all__ = ["work"]

Run = Callable[..., subprocess.CompletedProcess[str]]


def timed(us: float) -> Timed:
    return Timed(us * 1e-6, us * 0.99e-6, us * 1.01e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run that found something, as ``optimize`` wrote it before there were trajectories."""
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


def test_every_form_of_the_report_shows_everything(folder: Path) -> None:
    page = report_of([load_run(folder)])
    wanted = (
        *("2.00x [1.90, 2.10]", "kept-back (held out)", "no such loop", "out of bounds", "ktc replay"),
        *("a note", "Some GPU", "50 %", "V=8"),
    )
    page_text, plain = html(page), markdown(page).replace("\\", "")
    for text in wanted:
        assert text in page_text and text in plain, text
    for text in ("before_marker", "after_marker"):
        assert f">{text}<" in page_text and f"void {text}()" in plain, "highlighted, and as it is"


def test_a_report_without_a_trajectory_has_the_best_of_each_script(folder: Path) -> None:
    run = load_run(folder)
    search = search_of(run, run.data["scenarios"][0], [])
    assert [m.number for m in search.measurements] == [2, 3, 6]
    assert [m.seconds for m in search.measurements] == [3e-6, None, 2e-6]


def test_what_was_measured_and_verified_is_read_from_the_trajectory(work: Workload, tmp_path: Path) -> None:
    report, _, _ = run(work, tmp_path, Fixed(WIDE, SPLIT, BAD), FakeLab(seconds))
    found = load_run(tmp_path / "out")
    assert (found.state, found.about and found.about.kernel) == (FINISHED, "k")
    mine = [c for c in found.configurations if c.scenario == "many"]
    assert [c.number for c in mine] == list(range(1, len(mine) + 1)) and {c.script for c in mine} >= {WIDE, SPLIT}
    steps = [s for _, s in found.verified("many")]
    assert steps == sorted(steps, reverse=True) and steps[-1] == pytest.approx(8e-3 / 8**0.5)
    assert all(0 < n <= len(mine) for n, _ in found.verified("many"))
    report_page = report_of([found])
    page = html(report_page)
    assert "par i in 0" in markdown(report_page), "what the passes did to the IR"
    for text in ("Knobs on many", "All configurations.", "Search on few.", f"{report.speedup:.2f}x"):
        assert text in page, text
    rows = list(csv.DictReader(io.StringIO(configurations_csv([found]))))
    assert len(rows) == len(found.configurations) and json.loads(rows[0]["knobs"]) == dict(
        found.configurations[0].knobs
    )


def test_trajectories_of_earlier_versions_are_read_as_far_as_they_go(folder: Path) -> None:
    old = [{"n": 0, "event": "seen"}, {"n": 1, "event": "tune", "scenario": "small", "trials": ["Trial(...)"]},
           {"n": 2, "event": "verified", "script": "raise", "knobs": {}, "status": "TESTED", "seconds": 0.1},
           {"n": 3, "event": "done", "elapsed": 2.0}]  # fmt: skip
    (folder / "trajectory.jsonl").write_text("\n".join(map(json.dumps, old)))
    found = load_run(folder)
    assert found.state == FINISHED and found.configurations == [] and "All 1 verdicts" in html(report_of([found]))


def cut(out: Path, about: About, after: str) -> None:
    """Leave of a run what a kill would after its first event of that name, in the middle of writing the next one."""
    lines = (out / "trajectory.jsonl").read_text().splitlines()
    n = next(i for i, line in enumerate(lines) if json.loads(line)["event"] == after)
    (out / "trajectory.jsonl").write_text("\n".join([*lines[: n + 1], lines[n + 1][:20]]))
    about.save(out)


def test_a_run_that_was_killed_or_goes_on_has_a_report(work: Workload, tmp_path: Path) -> None:
    run(work, tmp_path, Fixed(WIDE), FakeLab(seconds), scenarios=["many"])
    out = tmp_path / "out"
    started = About.of(work, None, "fixed", 60, float("inf"), GPU)
    gone = subprocess.Popen(["true"])
    gone.wait()
    another = {"started": "1"}  # of that number, but not that process
    for changes, state in (({"process": gone.pid}, KILLED), (another, KILLED), ({}, RUNNING)):
        cut(out, About(**{**vars(started), **changes}), "improvement")
        found = load_run(out)
        assert found.state == state
        (many,) = found.data["scenarios"]
        assert many["ratio"][0] > 1 and many["verdict"].startswith("verified, not yet timed in turns")
        page = report_of([found])
        assert page.title == f"k: {state}" and "ktc optimize" in html(page) and "ktc replay" not in html(page)


def test_runs_are_compared_side_by_side(work: Workload, folder: Path, tmp_path: Path) -> None:
    run(work, tmp_path, Fixed(WIDE), FakeLab(seconds), scenarios=["many"])
    page = report_of([load_run(folder), load_run(tmp_path / "out")])
    (table,) = [t for t in page.tables if t.title == "By scenario"]
    assert [r[:2] for r in table.rows] == [("scale small", "run"), ("scale kept-back", "run"), ("k many", "out")]
    assert page.title == "scale, k: 2 runs" and html(page).count("<h1>") == 1


def test_the_command_writes_every_format(folder: Path, ktc_run: Run) -> None:
    done = ktc_run("report", str(folder))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_text().startswith("<!doctype html>")
    assert json.loads(ktc_run("report", str(folder), "--json").stdout)["kernel"] == "scale"
    assert ktc_run("report", str(folder), str(folder), "--format", "md", "-o", "-").stdout.startswith("# scale: 2 runs")
    assert json.loads((folder / "report.json").read_text())["kernel"] == "scale", "the run's own file is left alone"


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

    def texts(**changes: object) -> list[str]:
        (folder / "report.json").write_text(json.dumps(data | changes))
        return report_of([load_run(folder)]).texts

    lost = {**data["scenarios"][0], "name": "large", "script": "", "knobs": {}, "ratio": [1.0, 1.0, 1.0],
            "verdict": "the original is kept"}  # fmt: skip
    data |= {"best_script": "", "best_knobs": {}}
    said = texts(scenarios=[data["scenarios"][0], lost])
    assert "At small: vectorize{loop=i} (V=8), 2.00x" in said
    assert "At large: nothing verified beat the original" in said
    assert not any("none: nothing" in line for line in said)
    slower = {"script": "vectorize{loop=i}", "status": "tuned"}
    assert "Script: none: nothing verified beat the original" in texts(scenarios=[lost], outcomes=[slower])
    assert "Script: none: nothing was measured against the original" in texts(scenarios=[lost], outcomes=[])
