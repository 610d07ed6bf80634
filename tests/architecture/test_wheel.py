"""The wheel holds everything that is not Python too: grammars, tables, headers, prompts, the kernel library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest


def test_every_data_file_is_in_the_wheel(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    source = tmp_path / "source"
    mapping = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, source / name)
    wanted = set()
    for package, folder in mapping.items():
        shutil.copytree(root / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (source / folder).rglob("*"):
            if path.is_file():
                wanted.add(f"{package.replace('.', '/')}/{path.relative_to(source / folder).as_posix()}")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        ".",
    ]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        found = set(wheel.namelist())
    assert {f for f in wanted if not f.endswith(".md")} <= found
    assert "ktc/py.typed" in found
    strangers = {f.split("/")[0] for f in found} - {"ktc"} - {f.split("/")[0] for f in found if ".dist-info" in f}
    assert strangers == set(), "nothing but ktc may land at the top of site-packages"
    equipment = re.compile(r"(^|[/_])(tests?|mutations?|conftest)([/_.]|$)")
    assert [f for f in found if equipment.search(f)] == [], "test equipment stays out of the wheel"
