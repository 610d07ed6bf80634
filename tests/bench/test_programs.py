"""The bench of whole programs: what it does of one without a GPU, and its table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.programs_table import table
from tests.paths import ROOT


def bench(*words: str) -> str:
    command = [sys.executable, "-m", "tests.bench.programs", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_is_built_once_rebuilt_with_what_was_exported_and_run_both_ways(tmp_path: Path) -> None:
    folder, log = tmp_path / "jacobi/exercises/jacobi/solution", tmp_path / "rows.jsonl"
    folder.mkdir(parents=True)
    (folder / "jacobi.cu").write_text("42\n")
    (tmp_path / "jacobi.export").mkdir()
    (tmp_path / "jacobi.export/jacobi.cu").write_text("43\n")
    (tmp_path / "builds.toml").write_text(
        '[jacobi]\nbuild = "cp jacobi.cu program"\nrun = "cat program; date +%N; echo {root}"\n'
    )
    words = ["--work", str(tmp_path), "--builds", str(tmp_path / "builds.toml"), "--log", str(log), "--runs", "2"]
    bench(*words, "--steps", "build", "rebuild", "run")
    rows = [json.loads(x) for x in log.read_text().splitlines()]
    assert [(r["step"], r["status"]) for r in rows] == [("build", 0), ("rebuild", 0), ("run", 0)]
    (found,) = rows[-1]["outputs"]
    assert found["status"] == "different" and "'42' became '43'" in found["text"]
    bench(*words, "--steps", "build", "rebuild", "run")
    assert len(log.read_text().splitlines()) == 3
    assert "| jacobi |" in bench("--log", str(log), "--table")


def test_half_of_the_time_must_be_faster_at_the_lower_end() -> None:
    def rows(name: str, low: float, share: float) -> list[dict]:
        kernel = {"kernel": "k(int)", "faster": 1.3, "why": "", "ratios": {"a": [1.3, low, 1.4]}}
        profiled = {"kernels": [["k(int)", share, True]], "chosen": ["k(int)"]}
        common = {"program": name, "status": 0, "said": ""}
        return [{**common, "step": "profile", **profiled}, {**common, "step": "optimize", "kernels": [kernel]}]

    text = table([*rows("a", 1.2, 0.6), *rows("b", 1.05, 0.9), *rows("c", 1.2, 0.4)], ["a", "b", "c", "d"])
    assert "1 of 3: kernels with half of the GPU's time at least 1.1x as fast (lower end): a" in text
