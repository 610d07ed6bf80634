"""What goes wrong at a user's desk: a killed run, kernels that hang or write out of bounds, closed folders.

Everything runs on the processor through numba, so that it runs on every machine.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

WORKLOAD = """
[kernel]
source = "kernel.cu"
name = "copy"
[[args]]
name = "y"
dtype = "f32"
shape = ["n"]
role = "out"
[[args]]
name = "x"
dtype = "f32"
shape = ["n"]
role = "in"
init = "normal"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[launch]
grid = ["cdiv(n, 256)"]
block = ["256"]
[[scenario]]
name = "small"
sizes = { n = 4096 }
[reference]
y = "x"
"""
HEAD = """__global__ void copy(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
"""
GOOD = HEAD + "  if (i < n) y[i] = x[i];\n}\n"
ENDLESS = HEAD + "  int j = 0;\n  while (j >= 0) {\n    if (x[0] > 1e30f) j = -1;\n  }\n  if (i < n) y[i] = x[i];\n}\n"
OUTSIDE = HEAD + "  if (i < n) y[i + 1] = x[i];\n}\n"


@pytest.fixture
def kernel(tmp_path: Path) -> Callable[..., str]:
    """``kernel(source)`` is a folder with that kernel and a workload; returns its name."""

    def make(source: str, workload: str = WORKLOAD) -> str:
        folder = tmp_path / "k"
        folder.mkdir()
        (folder / "kernel.cu").write_text(source)
        (folder / "workload.toml").write_text(workload)
        return "k"

    return make


def fails(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    for word in words:
        assert word in done.stderr, done.stderr


# ------------------------------------------------------------------------------------------------------ a killed run


def rows(ledger: Path) -> list[tuple[int, str, float]]:
    """Finished configurations: study, configuration, when."""
    if not ledger.exists():
        return []
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as db:
        try:
            return db.execute("SELECT study, config, created FROM outcome ORDER BY id").fetchall()
        except sqlite3.OperationalError:
            return []  # not made yet


def children(pid: int) -> list[int]:
    """Process ids of the descendants of ``pid``."""
    out = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            out += [child, *children(child)]
    return out


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds child processes through /proc")
def test_a_killed_run_continues(kernel: Callable[..., str], ktc_process: Run, tmp_path: Path) -> None:
    args = ["optimize", kernel(GOOD), "--device", "numba", "--budget", "6", "--no-memory", "--planner", "beam"]
    ledger = tmp_path / "ktc-out/k/ledger.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-m", "ktc", *args], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 60
        while len(rows(ledger)) < 3 and time.monotonic() < end and process.poll() is None:
            time.sleep(0.02)
        assert process.poll() is None, "the run ended before it could be killed"
        workers = children(process.pid)
        assert workers, "no worker process to watch"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = rows(ledger)
    assert len(before) >= 3

    end = time.monotonic() + 60
    while not all(map(gone, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert all(map(gone, workers)), "worker processes outlive the run that started them"

    done = ktc_process(*args, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    after = rows(ledger)
    assert after[: len(before)] == before, "something measured was lost, or measured again"
    assert len({(study, config) for study, config, _ in after}) == len(after), "a configuration was measured twice"
    assert len(after) == 6 + 1, "the budget counts what the killed run had measured; and the original"
    assert report["recalled"] == len(before) and report["measured"] == len(after) - len(before)

    again = json.loads(ktc_process(*args, "--json").stdout)
    assert again["measured"] == 0 and rows(ledger) == after


# ---------------------------------------------------------------------------------------------------- broken kernels


@pytest.mark.parametrize("command", ["optimize", "verify"])
def test_a_kernel_that_hangs(kernel: Callable[..., str], ktc_run: Run, command: str) -> None:
    done = ktc_run(command, kernel(ENDLESS), "--device", "numba")
    fails(done, 1, "did not end", "kernel.cu:4", "E-")


@pytest.mark.parametrize("command", ["optimize", "verify"])
def test_a_kernel_that_writes_out_of_bounds(kernel: Callable[..., str], ktc_run: Run, command: str) -> None:
    done = ktc_run(command, kernel(OUTSIDE), "--device", "numba")
    fails(done, 1, "y[1] is outside its 1 elements", "kernel.cu:3:15", "E-")


def test_a_kernel_that_hangs_only_on_the_device(
    kernel: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Sizes that the interpreter does not reach: the process that runs it is ended, and the verdict says so."""
    import ktc
    from ktc.search.workers.worker_deadlines import Deadlines

    late = ENDLESS.replace("j >= 0", "j >= 0 && n > 100000")
    kernel(late, WORKLOAD + '[[scenario]]\nname = "large"\nsizes = { n = 200000 }\n')
    monkeypatch.setattr(Deadlines.__init__, "__defaults__", (90.0, 60.0, 60.0, 3.0, 3.0, 60.0, 3.0))
    verdict = ktc.load(str(tmp_path / "k")).verify(device="numba", scenarios=("large",))
    assert verdict.status == "REJECTED" and verdict.rungs[-1].name == "device"
    assert "hang" in verdict.rungs[-1].detail


# -------------------------------------------------------------------------------------------------------- surroundings


@pytest.mark.parametrize(("name", "code"), [("abacus", 2), ("cuda:99", 3)])
@pytest.mark.parametrize("command", ["verify", "optimize", "tune", "replay"])
def test_no_such_device(
    kernel: Callable[..., str], ktc_run: Run, tmp_path: Path, command: str, name: str, code: int
) -> None:
    """A name that means nothing is a usage error, a device that is not there the environment's: for every command."""
    from ktc.search.records.recipe import Recipe, sha256

    what = kernel(GOOD)
    script = ["-p", "raise | distribute{loop=i map=[vec $V, thread.x 256, block.x]}"] if command == "tune" else []
    if command == "replay":
        source = tmp_path / "k/kernel.cu"
        what = "recipe.json"
        Recipe("copy", sha256(source.read_bytes()), "raise", {}, "numba", source=str(source)).save(tmp_path / what)
    fails(ktc_run(command, what, *script, "--device", name), code, "E-DEVICE")


@pytest.mark.parametrize("command", ["optimize", "tune"])
def test_an_unwritable_folder(kernel: Callable[..., str], ktc_run: Run, command: str) -> None:
    script = ["-p", "raise | distribute{loop=i map=[vec $V, thread.x 256, block.x]}"] if command == "tune" else []
    fails(ktc_run(command, kernel(GOOD), *script, "--out", "/proc/nowhere"), 3, "cannot write", "/proc/nowhere")


def test_a_damaged_ledger_is_kept_and_named(kernel: Callable[..., str], ktc_run: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "out/ledger.sqlite"
    ledger.parent.mkdir()
    ledger.write_bytes(b"not a database, but somebody's only copy of something" * 100)
    done = ktc_run("optimize", kernel(GOOD), "--device", "numba", "--out", "out", "--budget", "1")
    fails(done, 3, "E-LEDGER", "ledger.sqlite")
    assert ledger.read_bytes().startswith(b"not a database"), "the file was overwritten"


def test_bad_scripts_measure_nothing(kernel: Callable[..., str], ktc_run: Run, tmp_path: Path) -> None:
    what = kernel(GOOD)
    for script, code, word in (
        ("rais", 2, "did you mean"),
        ("raise |", 1, "^"),
        ("raise", 2, "no open knobs"),
        ("raise | distribute{loop=q map=[vec $V, block.x]}", 1, "E-PLACE"),
    ):
        fails(ktc_run("tune", what, "-p", script, "--device", "numba"), code, word)
    assert not (tmp_path / "ktc-out").exists()


# -------------------------------------------------------------------------------------------------------- good results


def test_a_recipe_regenerates_its_bytes(kernel: Callable[..., str], ktc_run: Run, tmp_path: Path) -> None:
    script = "raise | distribute{loop=i map=[vec $V:(1,2), thread.x 64, block.x]}"
    done = ktc_run("tune", kernel(GOOD), "-p", script, "--device", "numba", "--budget", "3", "--out", "out")
    assert done.returncode == 0, done.stderr
    done = ktc_run("replay", "out", "--no-time", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["same_text"] is True and data["source_state"] == "unchanged"
    assert data["text"] == next((tmp_path / "out").glob("kernel.out.py")).read_text()

    recipe = json.loads((tmp_path / "out/recipe.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**recipe, "script": "raise"}))
    fails(ktc_run("replay", "other.json"), 2, "E-RECIPE-HASH", "changed by hand")
    (tmp_path / "newer.json").write_text(json.dumps({**recipe, "format": 99}))
    fails(ktc_run("replay", "newer.json"), 2, "E-RECIPE-VERSION", "99")


def test_when_nothing_beats_the_original_it_is_kept(
    kernel: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ktc.agent.bench import Bench
    from ktc.agent.lab import Comparison
    from ktc.agent.optimize import optimize
    from ktc.agent.report import Timed

    def slower(self: Bench, c: object, knobs: object, scenario: object) -> Comparison:
        return Comparison(Timed(1e-4, 0.9e-4, 1.1e-4), Timed(2e-4, 1.9e-4, 2.1e-4), (0.5, 0.48, 0.52))

    monkeypatch.setattr(Bench, "compare", slower)
    kernel(GOOD)
    report = optimize(tmp_path / "k", device="numba", planner="rules", budget=2, out_dir=tmp_path / "out")
    (small,) = report.scenarios
    assert small.ratio == (1.0, 1.0, 1.0) and report.speedup == 1.0
    assert small.verdict == "the original is kept" and small.before == small.after and report.best_script == ""
