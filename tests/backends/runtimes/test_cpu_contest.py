"""Of several ways to run kernels on the processor ``auto`` takes the one that was faster in a test, made once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktc.backends import runtimes
from ktc.backends.base import DeviceInfo, Emitted
from ktc.backends.runtimes import cpu_contest, open_device, open_runtime
from ktc.backends.runtimes.cpu_contest import COLUMNS, ROWS, TERMS, TEXTS, contest
from ktc.ir.text import parse_kernel
from tests import devices

POCL = DeviceInfo(
    "opencl", "pthread-somebody's", "opencl-cpu", 2, 1024, 32 << 10,
    extra={"platform": "Portable Computing Language", "driver": "6.0", "kind": "CPU"},
)  # fmt: skip
NUMBA = DeviceInfo("numba", "somebody's", "numba", 2, 1024, 32 << 10)
BOTH = {"opencl:0": POCL, "numba": NUMBA}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices whose speed was tested, numba being 1.6 times as fast as the other."""
    names: list[str] = []
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    monkeypatch.setattr(
        cpu_contest, "in_a_child", lambda name: names.append(name) or {"numba": 1e-3, "opencl:0": 1.6e-3}[name]
    )
    return names


def test_the_faster_one_is_taken_and_said_in_a_line(asked: list[str]) -> None:
    won = contest(BOTH)
    assert [t.name for t in won.order] == ["numba", "opencl:0"]
    assert won.line.startswith("cpu target: numba, 1.6x faster than OpenCL (PoCL 6.0) in a test of ")
    assert won.line.endswith(" s; --device opencl:0 chooses the other") and "\n" not in won.line


def test_equal_ones_are_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    monkeypatch.setattr(cpu_contest, "in_a_child", lambda name: 1.0 if name == "numba" else 1.04)
    assert "cpu target: numba, as fast as OpenCL (PoCL 6.0) in a test of " in contest(BOTH).line


def test_it_is_tested_once_for_what_is_installed(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = contest(BOTH)
    assert contest(BOTH) == first and asked == ["opencl:0", "numba"]
    monkeypatch.setenv("NUMBA_OPT", "1")  # another way to build
    contest(BOTH)
    assert len(asked) == 4
    contest({**BOTH, "opencl:0": DeviceInfo(**{**vars(POCL), "extra": {**POCL.extra, "driver": "7.0"}})})
    assert len(asked) == 6


def test_one_that_does_not_run_the_test_has_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path))
    monkeypatch.setattr(cpu_contest, "in_a_child", lambda name: None if name == "opencl:0" else 1.0)
    assert contest(BOTH).line.startswith("cpu target: numba; OpenCL (PoCL 6.0) did not run a small test of speed")


def test_a_process_that_dies_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = ["python3", "-c", "import os; print('LLVM ERROR: cannot scalarize', flush=True); os.abort()"]
    monkeypatch.setattr(cpu_contest, "python_module", lambda *args: dies)
    assert cpu_contest.in_a_child("opencl:0") is None


def test_the_choice_is_that_of_open_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whichever was faster: with the times turned round, the other one is taken."""
    if {"opencl", "numba"} - {*devices.kinds()} or not devices.working("opencl").device.is_cpu:
        pytest.skip("only one way to run kernels on the processor works here")
    name = devices.working("opencl").device.extra["opened"]
    monkeypatch.setattr(runtimes, "_candidates", lambda kind, rest: [name, "numba"])
    for k, fast in enumerate((name, "numba")):
        monkeypatch.setenv("KTC_CACHE", str(tmp_path / str(k)))
        monkeypatch.setattr("ktc.backends.runtimes.device_trial.prove", lambda runtime, name, here: None)
        monkeypatch.setattr(cpu_contest, "in_a_child", lambda n, fast=fast: 1.0 if n == fast else 2.0)
        device = open_runtime().device
        assert device.extra["opened"] == fast and "2.0x faster than" in device.extra["contest"]


def test_every_language_computes_the_same() -> None:
    found = []
    for kind in [k for k in TEXTS if k in devices.kinds()]:
        runtime = open_device(devices.working(kind).device.extra["opened"])
        if not runtime.device.is_cpu:
            continue
        exe = runtime.compile(Emitted(TEXTS[kind], "rows", kind, parse_kernel(cpu_contest.KERNEL)))
        x = np.random.default_rng(1).random(TERMS * COLUMNS, np.float32) / TERMS
        y = np.zeros(ROWS * COLUMNS, np.float32)
        args = {"y": runtime.to_device(y), "x": runtime.to_device(x), "n": ROWS}
        exe.launch(args)
        runtime.synchronize()
        found.append(runtime.to_host(args["y"], y).reshape(ROWS, COLUMNS))
    v = sum(x[np.arange(ROWS) + k, None].astype(float) * x.reshape(TERMS, COLUMNS)[k] for k in range(TERMS))
    want = np.polyval(cpu_contest.COEFFICIENTS, v)
    assert found and all(np.allclose(y, want, rtol=1e-4) for y in found)
