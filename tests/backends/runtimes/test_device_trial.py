"""A device counts when it has built and run a kernel: one that is merely listed is passed over, and it is said why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktc.backends import check_compile, emit
from ktc.backends.base import CompileFailure
from ktc.backends.runtimes import device_trial, early_trials, open_device, open_runtime
from ktc.backends.runtimes.device_trial import gist, prove, run_trial, trial_code
from ktc.ir.diagnostics import KtcError
from ktc.ir.text import parse_kernel, print_kernel
from tests import devices
from tests.conftest import PLAIN


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def its_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the first test finds nothing."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def builds_nothing(tmp_path: Path, its_cache: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python in a process in which PoCL's device is there and fails at every build, as on a processor that its
    compiler does not know. (PoCL reads the switch once a process: set here, it would break the tests that follow.)"""
    platform = devices.working("opencl").device.extra["platform"]
    if platform != "Portable Computing Language":
        pytest.skip(f"{platform} has no switch that breaks its builds")
    env = os.environ | PLAIN | {"KTC_CACHE": str(its_cache), "POCL_EXTRA_BUILD_FLAGS": "--no-such-flag"}

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *args]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_the_trial_runs_on_every_device_that_works(cache: Path) -> None:
    for kind in devices.kinds():
        assert run_trial(open_device(kind)) == ""


KERNEL = """
kernel trial(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = x[i] * 3.0 + 1.0
"""


@pytest.mark.parametrize("target", device_trial.TEXTS)
def test_the_trial_is_what_ktc_prints_of_its_kernel(target: str) -> None:
    """The texts are written out, so that a fault of a printer is not taken for one of the device."""
    assert print_kernel(trial_code(target).kernel) == print_kernel(parse_kernel(KERNEL))
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


def test_what_failed_is_not_tried_again_by_the_same_process(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen on a slow machine: a device "broken" in one row of the doctor and the default in the next."""
    runtime = open_device("numba")
    monkeypatch.setattr(device_trial, "_in_a_child", lambda name: "a kernel of one line did not end")
    with pytest.raises(KtcError, match="did not end"):
        prove(runtime, "numba")
    monkeypatch.setattr(device_trial, "_in_a_child", lambda name: "")
    with pytest.raises(KtcError, match="did not end"):
        prove(runtime, "numba")


def test_a_trial_that_kills_its_process_is_a_reason(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for a feature that a virtual machine hides is an illegal instruction."""
    dies = [
        sys.executable,
        "-c",
        "import os, sys; print('error: no AVX here', file=sys.stderr, flush=True); os.abort()",
    ]
    monkeypatch.setattr(early_trials, "python_module", lambda *args: dies)
    with pytest.raises(KtcError, match=r"ended with code -6: error: no AVX here"):
        prove(open_device("numba"), "numba")


def test_a_process_that_may_die_tries_numba_itself(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of its own loads numba once more, for a second and a half."""
    monkeypatch.setattr(device_trial, "_in_a_child", lambda name: "in a child")
    with pytest.raises(KtcError, match="in a child"):
        open_runtime("numba")
    monkeypatch.setattr(device_trial, "_failed", {})
    assert open_runtime("numba", expendable=True).device.backend == "numba"
    assert len(list((cache / "devices").glob("*.json"))) == 1
    monkeypatch.setattr(device_trial, "run_trial", lambda runtime, unseen=True: "it computes wrong results")
    monkeypatch.setenv("NUMBA_OPT", "1")
    with pytest.raises(KtcError, match="wrong results"):
        open_runtime("numba", expendable=True)


BROKEN = """
import json
from ktc.backends import check_compile
from ktc.backends.runtimes import open_runtime, probe
from ktc.backends.runtimes.device_trial import trial_code
from ktc.ir.diagnostics import KtcError

def refusal(work):
    try:
        work()
    except KtcError as e:
        return [e.code, e.exit_code, e.message + " " + e.hint]

device = open_runtime().device
print(json.dumps({
    "backend": device.backend, "picked": device.extra["picked"], "probe": [p.status for p in probe("opencl")],
    "opened": refusal(lambda: open_runtime("opencl")), "check": refusal(lambda: check_compile(trial_code("opencl"))),
}))
"""


def test_a_device_that_builds_nothing_is_passed_over_and_not_the_kernels_fault(builds_nothing: Any) -> None:
    said = json.loads(builds_nothing("-c", BROKEN).stdout)
    assert said["backend"] != "opencl" and {*said["probe"]} == {"broken"}
    if said["backend"] == "numba":
        assert "opencl:0: " in said["picked"] and "it builds no kernel" in said["picked"]
    assert said["opened"][:2] == ["E-DEVICE-UNUSABLE", 3] and "it builds no kernel" in said["opened"][2]
    assert said["check"][:2] == ["E-TOOL-BROKEN", 3] and "no-such-flag" in said["check"][2]


def test_the_doctor_and_the_main_job_take_another_device(builds_nothing: Any) -> None:
    """Seen: "OpenCL ok" and the default, then E-WORKER-START in the command that the README begins with."""
    rows = {r["name"]: r for r in json.loads(builds_nothing("-m", "ktc", "doctor", "--json").stdout)}
    assert rows["OpenCL"]["status"] == "broken" and "builds no kernel" in rows["OpenCL"]["detail"]
    assert rows["OpenCL"]["remedy"] == "", "it is installed: that it is not would be no help"
    assert rows["default"]["status"] == "ok" and not rows["default"]["detail"].startswith("opencl")
    args = ["optimize", "silu_and_mul", "--budget", "1", "--scenario", "decode-16x4096", "--no-memory", "--json"]
    assert json.loads(builds_nothing("-m", "ktc", *args).stdout)["device"]["backend"] != "opencl"


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
