"""The kernels of a program under one budget: in the order of what they give, until the rest is not worth it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ktc.__main__ import main
from ktc.ir.diagnostics import KtcError
from ktc.observed.launch_records import KernelRecord, ProgramRecord, loaded
from ktc.observed.whole_program import LEAST_BUDGET, optimize_program
from ktc.profiling.kernel_sources import SourceTree
from tests.ktc.observed.test_from_program import HOST, NAME, PROFILE, ROWS, _function, packed, record

MORE = "__global__ void more(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }\n"


@dataclass
class Scenario:
    name: str
    ratio: tuple[float, float, float]
    script: str = "raise"


@dataclass
class Report:
    scenarios: tuple[Scenario, ...]
    measured: int = 5

    def to_json(self) -> dict[str, Any]:
        return {}


@dataclass
class Search:
    """Makes every kernel ``faster`` without running anything, and notes what it was given."""

    faster: float = 2.0
    fail: str = ""
    budgets: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, workload, folder: Path, budget: int, seconds: float) -> Any:
        self.budgets.append((workload.kernel_name, budget))
        if workload.kernel_name == self.fail:
            raise KtcError("E-ORIGINAL", "the original is wrong")
        return Report(tuple(Scenario(s.name, (self.faster,) * 3) for s in workload.scenarios))


@pytest.fixture
def program(tmp_path) -> ProgramRecord:
    """10 s: 6 s in one kernel, 2 s in another, 0.05 s in a third."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "rows.cu").write_text(ROWS + HOST + MORE)
    rows = KernelRecord(NAME, "r", PARAMETERS, (record(64, 256),), 2.5, 6.0)
    more = KernelRecord("more(float*, int)", "m", ((0, 8), (8, 4)), (record(64, 256),), 1.25, 2.0)
    return ProgramRecord(
        tmp_path, ("./p",), "ktc profile", (rows, more, KernelRecord("tiny()", "t", (), (), 1.0, 0.05)), 10
    )


PARAMETERS = ((0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4))


def run(program: ProgramRecord, search: Search, budget: int = 80, time_limit: float = 1e9) -> Any:
    tree = SourceTree([str(program.folder / "src")])
    return optimize_program(program, program.kernels, tree, program.folder / "out", budget, time_limit, search)


def test_each_kernel_gets_its_part_and_what_is_left_over_is_the_others(program):
    search = Search()
    done = run(program, search)
    (first, most), (second, rest) = search.budgets
    assert (first, most) == ("scale_rows", 60) and (second, rest) == ("more", 74)
    assert [r.faster for r in done.runs[:2]] == [2.0, 2.0]
    assert done.faster == pytest.approx(10 / (10 - 3 - 1))
    assert done.runs[2].report is None and "cannot make the program 1.01x as fast" in done.runs[2].why


def test_a_kernel_that_fails_is_said_and_the_others_go_on(program):
    done = run(program, Search(fail="scale_rows"))
    assert done.runs[0].why == "the original is wrong [E-ORIGINAL]" and done.runs[1].faster == 2.0
    assert done.faster == pytest.approx(10 / 9)


def test_budget_and_time_end_the_work(program):
    search = Search()
    done = run(program, search, budget=LEAST_BUDGET)
    assert len(search.budgets) == 1 and done.runs[1].why == "the budget is spent"
    done = run(program, Search(), time_limit=-1.0)
    assert [r.why for r in done.runs] == ["the time is up"] * 3


def test_scenarios_count_as_the_program_weighs_them(program, tmp_path):
    def search(workload, folder, budget, seconds):
        names = [s.name for s in workload.scenarios if s.tuned]
        return Report((Scenario(names[0], (3.0,) * 3), Scenario(names[1], (0.9,) * 3, script="")))

    shapes = (record(64, 256, seconds=3), record(8, 256, seconds=1))
    k = KernelRecord(NAME, "r", PARAMETERS, shapes, 2.5, 6.0)
    one = ProgramRecord(tmp_path, ("./p",), "ktc profile", (k,), 10)
    (got,) = run(one, search).runs
    assert got.faster == pytest.approx(1 / (0.75 / 3 + 0.25))


def test_the_command_optimises_a_profile(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/rows.cu").write_text(ROWS + HOST)
    Path("p").mkdir()
    Path("p/profile.json").write_text(json.dumps({"command": ["./prog"], "status": 0, "seconds": 1.0}))
    functions = [_function(NAME, 0.5), _function("library()", 0.2)]
    Path("p/profile.1.json").write_text(json.dumps({**PROFILE, "functions": functions}))
    search = Search()

    def optimize(w, *, out_dir, budget, time_limit, **_):
        return search(w, out_dir, budget, time_limit)

    monkeypatch.setattr("ktc.agent.optimize.optimize", optimize)
    assert main(["optimize", "p", "--source", "src", "--budget", "20", "--no-memory"]) == 0
    out = capsys.readouterr()
    assert "the program: 1.00 s -> 750 ms, 1.33x, by Amdahl's law" in out.out and "ktc-out/scale_rows" in out.out
    assert "no source has the kernel library()" in out.out
    assert loaded(Path("p")).kernels[0].records[0].arguments == packed((4096, 8192, 0), 64, 1000, 1)
    assert main(["optimize", "p"]) == 2 and "--source DIR" in capsys.readouterr().err
    assert main(["optimize", "src/rows.cu", "--source", "src"]) == 2


def test_a_kernel_that_was_asked_for_is_optimised_however_little_it_gives(program):
    tree, search = SourceTree([str(program.folder / "src")]), Search()
    little = dataclasses.replace(program.kernels[1], gain=1.0, elapsed=0.001)
    one = dataclasses.replace(program, kernels=(little,))
    folder = program.folder / "out"
    (left,) = optimize_program(one, one.kernels, tree, folder, 80, 1e9, search).runs
    assert "cannot make the program" in left.why
    (asked,) = optimize_program(one, one.kernels, tree, folder, 80, 1e9, search, asked_for=True).runs
    assert asked.faster == 2.0
