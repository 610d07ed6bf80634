"""A device counts when it has built and run a kernel: one that is merely listed is passed over, and it is said why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ktc.__main__ import main
from ktc.backends import check_compile, emit
from ktc.backends.base import CompileFailure
from ktc.backends.runtimes import device_trial, open_device, open_runtime, probe
from ktc.backends.runtimes.device_trial import gist, prove, run_trial, trial_code
from ktc.ir.diagnostics import KtcError
from ktc.ir.text import parse_kernel, print_kernel
from tests import devices
from tests.conftest import PLAIN


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def builds_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL's device is there and fails at every build, as on a processor that its compiler does not know."""
    platform = devices.working("opencl").device.extra["platform"]
    if platform != "Portable Computing Language":
        pytest.skip(f"{platform} has no switch that breaks its builds")
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "--no-such-flag")


def test_the_trial_runs_on_every_device_that_works(cache: Path) -> None:
    for kind in devices.kinds():
        assert run_trial(open_device(kind)) == ""


@pytest.mark.parametrize("target", device_trial.TEXTS)
def test_the_trial_is_what_ktc_prints_of_its_kernel(target: str) -> None:
    """The texts are written out, so that a fault of a printer is not taken for one of the device."""
    assert print_kernel(trial_code(target).kernel) == print_kernel(parse_kernel(device_trial.KERNEL))
    assert emit(trial_code(target).kernel, target).entry == trial_code(target).entry
    assert trial_code(target, unseen=True).text != trial_code(target, unseen=True).text


def test_what_is_proved_is_not_tried_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = open_device("numba")
    monkeypatch.setattr(device_trial, "_in_a_child", lambda name: "")
    prove(runtime, "numba")
    assert len(list((cache / "devices").glob("*.json"))) == 1
    monkeypatch.setattr(device_trial, "_in_a_child", lambda name: pytest.fail("tried again"))
    prove(runtime, "numba")
    monkeypatch.setattr(device_trial, "_in_a_child", lambda name: "it builds no kernel: why not")
    monkeypatch.setenv("NUMBA_OPT", "1")  # another way to build: another device
    with pytest.raises(KtcError, match="is listed, but it builds no kernel: why not") as e:
        prove(runtime, "numba")
    assert (e.value.code, e.value.exit_code) == ("E-DEVICE-UNUSABLE", 3)


def test_a_trial_that_kills_its_process_is_a_reason(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for a feature that a virtual machine hides is an illegal instruction."""
    dies = [
        sys.executable,
        "-c",
        "import os, sys; print('error: no AVX here', file=sys.stderr, flush=True); os.abort()",
    ]
    monkeypatch.setattr(device_trial, "python_module", lambda *args: dies)
    with pytest.raises(KtcError, match=r"ended with code -6: error: no AVX here"):
        prove(open_device("numba"), "numba")


def test_auto_passes_over_a_device_that_builds_nothing(builds_nothing: None) -> None:
    device = open_runtime().device
    assert device.backend != "opencl" and device.extra["opened"].partition(":")[0] == device.backend
    if device.backend == "numba":
        assert "opencl:0: " in device.extra["picked"] and "it builds no kernel" in device.extra["picked"]
    with pytest.raises(KtcError, match="it builds no kernel") as e:
        open_runtime("opencl")
    assert e.value.exit_code == 3


def test_the_doctor_says_that_it_is_broken(builds_nothing: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert {p.status for p in probe("opencl")} == {"broken"}
    assert main(["doctor", "--json"]) == 0
    rows = {r["name"]: r for r in json.loads(capsys.readouterr().out)}
    assert rows["OpenCL"]["status"] == "broken" and "builds no kernel" in rows["OpenCL"]["detail"]
    assert rows["default"]["status"] == "ok" and not rows["default"]["detail"].startswith("opencl")


def test_such_a_device_is_not_the_kernels_fault(builds_nothing: None) -> None:
    code = trial_code("opencl")
    with pytest.raises(KtcError) as e:
        check_compile(code)
    assert (e.value.code, e.value.exit_code) == ("E-TOOL-BROKEN", 3)
    assert "no-such-flag" in e.value.hint


def test_the_main_job_takes_another_device(builds_nothing: None, tmp_path: Path) -> None:
    """Seen: E-WORKER-START, in the command that the README begins with."""
    args = ["optimize", "silu_and_mul", "--budget", "1", "--scenario", "decode-16x4096", "--no-memory", "--json"]
    env = os.environ | PLAIN | {"KTC_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "ktc", *args], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["device"]["backend"] != "opencl"


def test_no_opencl_at_all_is_said(tmp_path: Path) -> None:
    code = "from ktc.backends.runtimes import probe; print([(p.status, bool(p.how_to_get)) for p in probe('opencl')])"
    env = os.environ | {"OCL_ICD_VENDORS": str(tmp_path / "none")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[('missing', True)]", done.stderr


def test_a_compiler_that_compiles_nothing_is_at_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvcc without a host compiler refuses every kernel."""
    from ktc.backends import compile_check

    tool = tmp_path / "nvcc"
    tool.write_text("#!/bin/sh\necho 'gcc: No such file or directory' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    compile_check._broken.cache_clear()
    try:
        with pytest.raises(KtcError, match="gcc: No such file or directory") as e:
            check_compile(trial_code("cuda"))
        assert (e.value.code, e.value.exit_code) == ("E-TOOL-BROKEN", 3)
    finally:
        compile_check._broken.cache_clear()


def test_a_kernel_that_is_wrong_stays_at_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.backends import compile_check

    tool = tmp_path / "nvcc"  # refuses what has "wrong" in it
    tool.write_text('#!/bin/sh\nfor a; do case $a in *.cu) grep -q wrong "$a" && exit 1;; esac; o=$a; done\n: > "$o"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    compile_check._broken.cache_clear()
    try:
        code = trial_code("cuda")
        with pytest.raises(CompileFailure):
            check_compile(type(code)(f"// wrong\n{code.text}", code.entry, "cuda", code.kernel))
    finally:
        compile_check._broken.cache_clear()


def test_the_gist_of_a_log() -> None:
    assert (
        gist("clBuildProgram failed\n\nerror: unknown target CPU 'generic'\n") == "error: unknown target CPU 'generic'"
    )
    assert gist("one\ntwo\n") == "two" and gist("") == "it does not say why"
