"""The import rule of the architecture: contracts in pyproject.toml, checked on the packages as they install."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest


@pytest.fixture
def installed_tree(root: Path, tmp_path: Path) -> Path:
    """A folder in which every package of pyproject.toml lies where a wheel would put it."""
    mapping = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    (tmp_path / "ktc").mkdir()
    for entry in (root / mapping.pop("ktc")).iterdir():
        (tmp_path / "ktc" / entry.name).symlink_to(entry)
    for package, folder in mapping.items():
        (tmp_path / Path(*package.split("."))).symlink_to(root / folder)
    return tmp_path


def lint(tree: Path, root: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("importlinter")
    code = (
        "import sys; from importlinter.cli import lint_imports;"
        "sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(root / "pyproject.toml")],
        capture_output=True,
        text=True,
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "NO_COLOR": "1"},
    )


def test_every_contract_is_kept(installed_tree: Path, root: Path) -> None:
    done = lint(installed_tree, root)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "0 broken" in done.stdout


def test_a_forbidden_import_is_caught(installed_tree: Path, root: Path) -> None:
    ir = installed_tree / "ktc" / "ir"
    source = ir.resolve()
    ir.unlink()
    ir.mkdir()
    for entry in source.iterdir():
        (ir / entry.name).symlink_to(entry)
    (ir / "intruder.py").write_text("import ktc.passes.core.base\n")
    done = lint(installed_tree, root)
    assert done.returncode != 0
    assert "ktc.ir is not allowed to import ktc.passes" in done.stdout


def test_every_package_folder_is_listed(root: Path) -> None:
    """A new sub-package that pyproject.toml does not list would be missing from wheels."""
    setup = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = set()
    for package, folder in setup["package-dir"].items():
        for init in (root / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(root / folder).parts
            if package != "ktc" or folder == "ktc":
                found.add(".".join([package, *parts]))
    assert found == set(setup["packages"])
