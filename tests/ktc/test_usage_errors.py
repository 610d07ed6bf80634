"""What is wrong with a command is said at once, with what may have been meant or what to type next."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from ktc.backends.runtimes import require_package
from ktc.capture.preloaded import has_driver
from ktc.cli.app import run
from ktc.ir.diagnostics import KtcError


def error(*args: str) -> KtcError:
    with pytest.raises(KtcError) as raised:
        run(list(args))
    return raised.value


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("optimize", "k.cu", "--kernl", "scale"), "--kernel"),
        (("optimize", "k.cu", "--time_limit=5"), "--time-limit"),
        (("export", "run", "--to", "numpi"), "numpy"),
        (("profile", "--tp", "4", "--", "ls"), "--top"),
    ],
)
def test_a_word_that_is_nearly_right(args: tuple[str, ...], meant: str) -> None:
    found = error(*args)
    assert found.code == "E-USAGE" and found.exit_code == 2
    assert f"did you mean '{meant}'?" in found.hint and f"`ktc {args[0]} --help`" in found.hint


def test_a_word_that_is_like_no_other() -> None:
    found = error("optimize", "k.cu", "--zzzz")
    assert "--zzzz" in found.message and "did you mean" not in found.hint


def test_a_run_that_has_not_ended(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    for args in (("lower",), ("export",), ("replay",), ("update",)):
        found = error(*args, str(tmp_path))
        assert found.code == "E-RUN-UNFINISHED" and f"ktc report {tmp_path}" in found.hint, args


def test_a_run_that_has_not_ended_has_nothing_to_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its folder has a drafted workload, by which it could pass for a kernel that nobody tuned."""
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "run.json").write_text("{}")
    (begun / "workload.toml").write_text('[kernel]\nsource = "k.cu"\nname = "k"\n')
    assert error("export", str(begun)).code == "E-RUN-UNFINISHED"
    ended = tmp_path / "ended"
    ended.mkdir()
    (ended / "recipe.json").write_text("{}")
    error("export", str(tmp_path), "--to", "source")
    assert f"left out: the run in {begun} has not ended" in capsys.readouterr().err


def test_a_folder_of_runs_is_no_run(tmp_path: Path) -> None:
    one = tmp_path / "scale"
    one.mkdir()
    (one / "report.json").write_text("{}")
    assert str(one) in error("report", str(tmp_path)).hint
    assert "ktc optimize" in error("report", str(one / "nothing")).hint


def test_a_recipe_that_is_not_there_is_no_misspelt_kernel(tmp_path: Path) -> None:
    assert "did you mean" not in error("lower", str(tmp_path / "recipe.json")).hint


def test_a_device_that_cannot_be_opened_is_told_before_a_kernel_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "cupy" else find(name, *a))
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    for name in ("cuda", "cuda:1", "gpu"):
        with pytest.raises(KtcError, match="CuPy"):
            require_package(name)
    require_package(None)
    assert error("optimize", "no_such_file.cu", "--device", "cuda").code == "E-DEVICE-CUDA"
    assert error("optimize", "no_such_file.cu", "--device", "toaster").code == "E-DEVICE-NAME"


def test_a_profile_that_saw_nothing(tmp_path: Path) -> None:
    if has_driver():
        pytest.skip("this machine has a CUDA driver")
    folder = tmp_path / "p"
    found = error("profile", "-o", str(folder), "--", "true")
    assert found.code == "E-PROFILE-NOTHING" and "no NVIDIA driver" in found.message and "ktc optimize" in found.hint
    assert json.loads((folder / "profile.json").read_text())["command"] == ["true"]
    later = error("init", "--from", str(folder), "--source", str(tmp_path))
    assert later.code == "E-PROFILE-NOTHING" and "ktc profile" in later.hint


def test_a_capture_that_saw_nothing_can_be_repeated(tmp_path: Path) -> None:
    if has_driver():
        pytest.skip("this machine has a CUDA driver")
    for _ in range(2):
        found = error("capture", "-o", str(tmp_path / "c"), "--", "true")
        assert found.code == "E-CAPTURE-NOTHING" and "statically" not in found.message


def test_a_table_of_kernels_has_short_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files below here by their path from here, and of many parameters the first."""
    names = [f"parameter_{i}" for i in range(12)]
    taken = ", ".join(f"float* {n}" for n in names)
    (tmp_path / "k.cuh").write_text(f"__global__ void wide({taken}) {{ {names[0]}[threadIdx.x] = 0.f; }}\n")
    (tmp_path / "k.cu").write_text(f'#include "k.cuh"\nvoid f({taken}) {{ wide<<<1, 32>>>({", ".join(names)}); }}\n')
    monkeypatch.chdir(tmp_path)
    run(["kernels", "k.cu"])
    row = capsys.readouterr().out.splitlines()[1]
    assert "parameter_0, parameter_1 and 10 more  k.cuh:1:" in row and "k.cu:2:" in row
    run(["kernels", "k.cu", "--json"])
    assert json.loads(capsys.readouterr().out)[0]["parameters"] == names
