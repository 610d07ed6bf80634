"""``ktc tune`` on recorded spaces, and the files it exchanges with Kernel Tuner."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]

CACHE = {
    "device_name": "A100",
    "kernel_name": "conv",
    "tune_params_keys": ["x", "y"],
    "tune_params": {"x": [16, 32], "y": [1, 2]},
    "cache": {
        "16,1": {"x": 16, "y": 1, "time": 4.0},
        "16,2": {"x": 16, "y": 2, "time": "RuntimeFailedConfig"},
        "32,1": {"x": 32, "y": 1, "time": 2.0},
        "32,2": {"x": 32, "y": 2, "time": 3.0},
    },
}


def test_tuning_on_a_recorded_space_and_its_exports(ktc_run: Run, tmp_path: Path) -> None:
    (tmp_path / "cache.json").write_text(json.dumps(CACHE))
    done = ktc_run(
        "tune", "--replay", "cache.json", "--budget", "4", "--json", "--export-t4", "t4.json", "--export-t1", "t1.json"
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["best"] == {"knobs": {"x": 32, "y": 1}, "seconds": 2e-3} and data["recorded_best"] == 2e-3
    assert data["measured"] == 4 and data["failures"] == {"crash": 1} and len(data["trajectory"]) == 4
    again = json.loads(ktc_run("tune", "--replay", "t4.json", "--budget", "9", "--json").stdout)
    assert again["best"] == data["best"] and again["space"] == 4
    t1 = json.loads((tmp_path / "t1.json").read_text())["ConfigurationSpace"]["TuningParameters"]
    assert {p["Name"]: p["Values"] for p in t1} == {"x": "[16, 32]", "y": "[1, 2]"}


def test_what_is_no_recorded_space(ktc_run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "good.json").write_text(json.dumps(CACHE))
    for args, word in (
        (["--replay", "nothing.json"], "E-REPLAY-READ"),
        (["--replay", "bad.json"], "no recorded space"),
        (["--replay", "good.json", "--sampler", "magic"], "E-SAMPLER-UNKNOWN"),
        (["saxpy", "--replay", "good.json"], "no kernel"),
        ([], "KERNEL"),
    ):
        done = ktc_run("tune", *args)
        assert done.returncode == 2 and word in done.stderr, done.stderr


def test_measurements_of_a_real_run_as_t4(ktc_run: Run, tmp_path: Path) -> None:
    script = "raise | distribute{loop=i map=[vec $V:(1,2), thread.x 64, block.x]}"
    files = ("--export-t1", "t1.json", "--export-t4", "t4.json")
    done = ktc_run("tune", "saxpy", "-p", script, "--device", "numba", "--budget", "2", *files)
    assert done.returncode == 0, done.stderr
    rows_ = json.loads((tmp_path / "t4.json").read_text())["results"]
    assert sorted(r["configuration"]["V"] for r in rows_) == [1, 2]
    assert all(r["invalidity"] == "correct" and r["times"]["runtimes"][0] > 0 for r in rows_)
    assert json.loads((tmp_path / "t1.json").read_text())["ConfigurationSpace"]["TuningParameters"][0]["Name"] == "V"
