"""Slow tests take turns: each has one, quick ones run always, and the list of them is of tests that exist."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import rotation
from tests.paths import ROOT

SLOW = frozenset({"tests/a.py::test_slow"})
CASES = [f"tests/a.py::test_slow[{i}]" for i in range(200)] + ["tests/a.py::test_slow"]


def test_every_case_has_its_turn() -> None:
    turns = [{c for c in CASES if rotation.is_due(c, SLOW, turn)} for turn in range(rotation.PARTS)]
    assert set.union(*turns) == set(CASES) and sum(map(len, turns)) == len(CASES)
    assert min(map(len, turns)) > len(CASES) // rotation.PARTS // 2
    assert {c for c in CASES if rotation.is_due(c, SLOW, rotation.PARTS + 1)} == turns[1]


@pytest.mark.parametrize("name", ["tests/a.py::test_slow_too", "tests/b.py::test_slow", "tests/a.py::test_new[slow]"])
def test_what_is_not_known_to_be_slow_always_runs(name: str) -> None:
    assert all(rotation.is_due(name, SLOW, turn) for turn in range(rotation.PARTS))


def test_the_list_follows_from_what_was_timed() -> None:
    log = """
============================= slowest durations ==============================
36.33s call     tests/a.py::test_one[a-b: c]
0.05s call     tests/a.py::test_two
9.10s teardown tests/a.py::test_two
0.71s setup    tests/b.py::test_three
2 passed in 46.00s (0:00:46)
"""
    assert rotation.found_slow(log.splitlines(keepends=True)) == ["tests/a.py::test_one", "tests/b.py::test_three"]


def test_the_list_names_tests_that_exist() -> None:
    listed = [name.split("::") for name in rotation.slow_tests()]
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path, *_ in listed}
    assert [name for path, *name in listed if f"def {name[-1]}(" not in texts[path]] == []


@pytest.mark.parametrize(
    ("args", "all_of_them"), [([], False), (["tests/long"], True), (["-k", "slow_long"], True), (["-m", "not x"], True)]
)
def test_runs_that_select_tests_have_all_that_they_select(tmp_path, args: list[str], all_of_them: bool) -> None:
    """A small tree with this conftest.py and one slow test of forty cases."""
    folder = tmp_path / "tests"
    (folder / "long").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\ntestpaths=['tests']\naddopts=\"-q -m 'not campaign'\"\n"
    )
    (folder / "long" / "test_x.py").write_text(
        "import pytest\n@pytest.mark.parametrize('i', range(40))\ndef test_slow_long(i): pass\n"
    )
    plugin = (
        "from tests import conftest, rotation; rotation.slow_tests = lambda: {'tests/long/test_x.py::test_slow_long'}"
    )
    plugin += "".join(f"; {h} = conftest.{h}" for h in ("pytest_configure", "pytest_collection_modifyitems"))
    (tmp_path / "turns.py").write_text(plugin)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))}
    command = [sys.executable, "-m", "pytest", "-p", "turns", "-p", "no:cacheprovider", "--collect-only", *args]
    told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert (told.stdout.count("test_slow_long[") == 40) == all_of_them
