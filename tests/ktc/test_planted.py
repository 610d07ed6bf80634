"""A folder of somebody else's may hold files named like the modules that ktc imports: none of them ever runs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from ktc.ir.support.child_python import leave_current_folder, python_environment
from tests.architecture.imports import modules
from tests.conftest import PLAIN
from tests.paths import ROOT

KERNEL = """__global__ void scale(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
void run(float* y, const float* x, int n) { scale<<<(n + 255) / 256, 256>>>(y, x, n); }
"""
SCRIPT = "raise | distribute{loop=i map=[thread.x $T, block.x]}"
COMMANDS = {
    "optimize": ["optimize", "k/scale.cu", "--device", "numba", "--budget", "2", "--planner", "rules", "--no-memory"],
    "tune": ["tune", "k/scale.cu", "-p", SCRIPT, "--device", "numba", "--budget", "2"],
    "verify": ["verify", "k/scale.cu", "-p", "raise", "--device", "numba"],
    "parse": ["parse", "--stats", "k"],
    "doctor": ["doctor"],
    "lower": ["lower", "k/scale.cu", "-p", "raise"],
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder, and a kernel's folder in it, with a file for every module and package that Python could look for."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "k").mkdir()
    (folder / "k" / "scale.cu").write_text(KERNEL)
    trap = f"with open({str(folder / 'ran')!r}, 'a') as f:\n    f.write(__name__ + chr(10))\n"
    names = {*sys.stdlib_module_names, *packages_distributions(), "lextab", "yacctab", "parsetab", "sitecustomize"}
    for place in (folder, folder / "k"):
        for name in filter(str.isidentifier, names - {"ktc"}):
            (place / f"{name}.py").write_text(trap)
        (place / "ktc").mkdir()
        for name in ("__init__", "__main__", "api"):
            (place / "ktc" / f"{name}.py").write_text(trap)
        entry = place / "evil-1.0.dist-info"  # a plug-in pass is found by what is on the path
        entry.mkdir()
        (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        (entry / "entry_points.txt").write_text("[ktc.passes]\nevil = numpy:Evil\n")
    yield folder


def run(folder: Path, start: list[str], args: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "ran").unlink(missing_ok=True)
    return subprocess.run(
        [*start, *args], cwd=folder, capture_output=True, text=True, timeout=200, env=os.environ | PLAIN | env
    )


def ran(folder: Path) -> str:
    """The planted files that ran."""
    return (folder / "ran").read_text() if (folder / "ran").exists() else ""


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_imports_from_the_current_folder(planted: Path, name: str) -> None:
    done = run(planted, [str(Path(sys.executable).with_name("ktc"))], COMMANDS[name])
    assert ran(planted) == ""
    assert done.returncode == 0, done.stdout + done.stderr
    assert "E-CRASH" not in done.stdout


def test_a_relative_python_path_is_the_current_folder_too(planted: Path) -> None:
    (planted / "clean").mkdir(exist_ok=True)
    (planted / "clean" / "json.py").write_text((planted / "json.py").read_text())
    (planted / "clean" / "scale.cu").write_text(KERNEL)
    (planted / "ran").unlink(missing_ok=True)
    here = [sys.executable, "-P", "-m", "ktc"]
    done = run(planted / "clean", here, ["parse", "--stats", "."], PYTHONPATH=f".{os.pathsep}")
    assert (ran(planted), done.returncode) == ("", 0), done.stderr


def test_started_as_a_module(tmp_path: Path) -> None:
    """``python -m ktc`` starts with the current folder on the path: it is off before anything of ktc's is loaded."""
    marker = tmp_path / "ran"
    for name in ("numpy", "json", "typing", "argparse", "tomllib"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write(__name__)\n")
    (tmp_path / "scale.cu").write_text(KERNEL)
    done = run(tmp_path, [sys.executable, "-m", "ktc"], ["parse", "--stats", "."])
    assert not marker.exists(), marker.read_text()
    assert done.returncode == 0, done.stderr


def test_the_path_of_children_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(tmp_path), ".", "src"]))
    assert python_environment()["PYTHONPATH"] == str(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep)
    assert "PYTHONPATH" not in python_environment()


def test_threads_of_our_processes_rest_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")
    env = python_environment()
    assert (env["OMP_WAIT_POLICY"], env["OPENBLAS_THREAD_TIMEOUT"]) == ("PASSIVE", "20")


def test_only_what_is_relative_leaves_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["first", str(tmp_path / "a"), str(tmp_path), str(ROOT)])
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'a'}{os.pathsep}")
    leave_current_folder(as_module=False)
    assert sys.path == ["first", str(tmp_path / "a"), str(ROOT)]
    monkeypatch.delenv("PYTHONPATH")
    leave_current_folder(as_module=True)
    assert sys.path == [str(tmp_path / "a"), str(ROOT)]


def test_every_process_of_ours_is_started_one_way() -> None:
    """``sys.executable`` is named by the module that starts processes, and by the one that only prints it."""
    named = set[str]()
    for m in modules().values():
        tree = ast.parse(m.path.read_text())
        if any(isinstance(n, ast.Attribute) and n.attr == "executable" for n in ast.walk(tree)):
            named.add(m.name)
    assert named <= {"ktc.ir.support.child_python", "ktc.health"}
