"""The README is true: its console blocks are what the commands print, its Python runs, its test line is what CI runs.

``pytest tests/ktc/test_readme.py --update-goldens`` makes the output of the console blocks anew. Blocks of other kinds
(measured times) are samples.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.S | re.M)


def sessions() -> list[tuple[str, str]]:
    """(command, expected output) pairs of the console blocks; a command may span lines that end in a backslash."""
    return [pair for block in blocks("console") for pair in parts(block)]


def parts(block: str) -> list[tuple[str, str]]:
    found = []
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        m = re.match(r"((?:.*\\\n)*.*)\n?", part)
        assert m
        found.append((m[1], part[m.end() :]))
    return found


def run(command: str) -> str:
    """What a reader sees who types ``command`` in the repository's root."""
    bin_folder = str(Path(sys.executable).parent)
    env = os.environ | {"PATH": bin_folder + os.pathsep + os.environ["PATH"], "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    return done.stdout


def updated(text: str) -> str:
    """``text`` with the output of every console block made anew."""

    def remake(m: re.Match[str]) -> str:
        return "```console\n" + "".join(f"$ {c}\n{run(c)}" for c, _ in parts(m[1])) + "```"

    return re.sub(r"^```console\n(.*?)^```$", remake, text, flags=re.S | re.M)


def test_there_is_something_to_check() -> None:
    assert len(sessions()) >= 4 and blocks("python")


@pytest.mark.parametrize(("command", "expected"), sessions(), ids=lambda v: v.split("\n")[0][:60])
def test_console_blocks_are_what_the_commands_print(
    command: str, expected: str, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--update-goldens"):
        (ROOT / "README.md").write_text(updated(TEXT), encoding="utf-8")
        pytest.skip("README.md rewritten")
    assert run(command) == expected


def test_python_blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    parser = doctest.DocTestParser()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for n, block in enumerate(blocks("python")):
        runner.run(parser.get_doctest(block, {}, f"README block {n}", "README.md", 0))
    assert runner.summarize().failed == 0


def test_ci_runs_the_readmes_test_command() -> None:
    lines = [b.strip() for b in blocks("sh")]
    (command,) = [line for line in lines if line.endswith("python -m pytest -n 2")]
    assert f"readme_test='{command}'" in (ROOT / ".ci/run").read_text()


def test_every_command_of_the_table_exists() -> None:
    from ktc.cli.app import COMMANDS

    known = set(COMMANDS)
    assert set(re.findall(r"`ktc ([a-z]+)", TEXT)) <= known | {"COMMAND"}
    assert known <= set(re.findall(r"ktc ([a-z]+)", TEXT))
