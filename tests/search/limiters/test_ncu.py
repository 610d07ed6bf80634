"""ncu as a program: a stand-in that runs the kernel as ncu would and prints what ncu prints, or fails as it does."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from ktc.backends.base import DeviceInfo, Emitted
from ktc.driver.printing import printed
from ktc.ir.workload import Workload
from ktc.search.limiters.counters import METRICS, Launch
from ktc.search.limiters.ncu import Unavailable, command, count, find_ncu
from ktc.search.workers.worker_protocol import FromWorkload
from tests.search.limiters.recorded import FORBIDDEN, STREAM, UNKNOWN, raw_page

GPU = DeviceInfo("cuda", "a GPU", "cuda-sm90", 132, 1024, 227 << 10)
COPY = """
kernel k(out: f32*, in: f32 const*, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    out[i] = in[i]
"""
WORKLOAD = """
kernel = { source = "kernel.ktir", name = "k" }
args = [
  { name = "out", dtype = "f32", shape = ["n"], role = "out" },
  { name = "in", dtype = "f32", shape = ["n"], role = "in" },
  { name = "n", dtype = "i32", role = "scalar", value = "n" },
]
scenario = [{ name = "small", sizes = { n = 64 } }]
"""


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "cache"))


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """A program that is taken for ncu; it notes each call in ``calls``."""
    program = folder / "ncu"
    text = f"#!{sys.executable}\nimport subprocess, sys, time\nargs = sys.argv[1:]\n"
    text += f"open({str(folder / 'calls')!r}, 'a').write(' '.join(args) + '\\n')\n{body}\n"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("KTC_NCU", str(program))
    return folder / "calls"


def code_and_inputs(folder: Path) -> tuple[Emitted, FromWorkload]:
    (folder / "kernel.ktir").write_text(COPY)
    (folder / "workload.toml").write_text(WORKLOAD)
    work = Workload.load(folder / "workload.toml")
    return printed(work.load_kernel(None), "numba"), FromWorkload(str(work.path), {"n": 64})


def counted(folder: Path, deadline_s: float = 60.0) -> Launch | Unavailable:
    return count(*code_and_inputs(folder), GPU, "numba", deadline_s=deadline_s)


def test_the_kernel_runs_under_ncu_once_and_its_counters_are_kept(tmp_path, monkeypatch) -> None:
    """The stand-in runs the program that it is given: on this machine's CPU, for there is no GPU."""
    run = "done = subprocess.run(args[args.index('--metrics') + 2:])\nassert done.returncode == 0\n"
    calls = stand_in(tmp_path, monkeypatch, f"{run}print({raw_page(STREAM)!r})")
    found = counted(tmp_path)
    assert isinstance(found, Launch) and found.values[METRICS["memory"]] == pytest.approx(0.9125)
    assert counted(tmp_path) == found and len(calls.read_text().splitlines()) == 1
    said = calls.read_text()
    assert "--csv --page raw --print-units base --clock-control none --profile-from-start off" in said


def test_a_metric_that_is_not_known_is_left_out(tmp_path, monkeypatch) -> None:
    body = f"print({UNKNOWN!r} if {METRICS['matrix']!r} in ' '.join(args) else {raw_page(STREAM)!r})"
    calls = stand_in(tmp_path, monkeypatch, body)
    assert isinstance(counted(tmp_path), Launch) and len(calls.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "body, why, lasting",
    [
        (f"print({FORBIDDEN!r})", "may not read the GPU's counters", True),
        ("print('==ERROR== Failed to connect')", "ncu counted nothing: ==ERROR== Failed to connect", False),
        ("time.sleep(60)", "no answer within 0.5 s", False),
        ("", "it printed nothing", False),
    ],
)  # fmt: skip
def test_where_there_are_no_counters_it_is_said_why(tmp_path, monkeypatch, body, why, lasting) -> None:
    stand_in(tmp_path, monkeypatch, body)
    found = counted(tmp_path, 0.5 if "sleep" in body else 60.0)
    assert isinstance(found, Unavailable) and why in str(found) and found.lasting == lasting


def test_without_ncu_and_on_other_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, inputs = code_and_inputs(tmp_path)
    other = count(code, inputs, dataclasses.replace(GPU, backend="opencl"), "opencl")
    assert isinstance(other, Unavailable) and "opencl has no counters" in other.why
    monkeypatch.delenv("KTC_NCU", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("ktc.search.limiters.ncu.PLACES", (str(tmp_path / "*/ncu"),))
    missing = count(code, inputs, GPU, "cuda")
    assert find_ncu() == "" and isinstance(missing, Unavailable) and "not installed" in missing.why and missing.lasting


def test_the_command_names_no_folder_of_the_users() -> None:
    run = command("ncu", Path("/tmp/job.json"), ["a", "b"])
    assert run[0] == "ncu" and "a,b" in run and run[-1] == "/tmp/job.json" and "-P" in run
