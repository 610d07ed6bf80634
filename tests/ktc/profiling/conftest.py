"""A program, and a driver without a GPU that it runs on, built once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")


@pytest.fixture(autouse=True)
def few_rows(monkeypatch) -> None:
    """Programs here launch hundreds of times, not thousands."""
    monkeypatch.setenv("KTC_PROFILE_ROWS", "256")


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """A folder with the fake driver and a program that reaches it, found at run time or linked to it."""
    if COMPILER is None:
        pytest.skip("the profiler is compiled by g++: there is none here")
    folder = tmp_path_factory.mktemp("profiled")
    shared = [COMPILER, "-shared", "-fPIC", "-std=c++17"]
    program = [COMPILER, "-std=c++17", HERE / "program.cpp", f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed"]
    libraries = [folder / "libshadow.so", folder / "libbehind.so"]
    for command in (
        [*shared, HERE / "fake_cuda.cpp", "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1"],
        [*shared, "-DBEHIND", HERE / "shadow.cpp", "-o", folder / "libbehind.so"],
        [*shared, HERE / "shadow.cpp", "-o", folder / "libshadow.so"],
        [*program, *libraries, "-ldl", "-o", folder / "program"],
        [*program, "-DLINKED", *libraries, folder / "libcuda.so.1", "-ldl", "-o", folder / "linked"],
    ):
        subprocess.run([str(c) for c in command], check=True, capture_output=True)
    return folder
