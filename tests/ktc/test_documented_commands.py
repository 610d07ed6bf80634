"""Every command line that the documents show is one that the command takes: its options, and their choices."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktc.cli.app import COMMANDS, command
from ktc.cli.command_parser import parser_of
from ktc.ir.diagnostics import KtcError
from tests.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?:sh|console|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(ktc [^`\n]+)`")
SHELL = re.compile(r"\s(?:&&|\|\||[|;>])\s|\s#\s")
"""What ends a command."""

PLACEHOLDER = re.compile(r"--(to|backend|device) [A-Z]+\b|\.\.\.|\[")
SENTENCES = ("the following arguments are required", "expected one argument")
"""What is missing where a sentence names a command or an option alone."""


def commands(page: Path) -> Iterator[str]:
    text = page.read_text()
    shown = [line.removeprefix("$ ").strip() for block in BLOCK.findall(text) for line in block.splitlines()]
    yield from (x for x in shown if x.startswith("ktc "))
    yield from SPAN.findall(BLOCK.sub("", text))


def words(line: str) -> list[str] | None:
    """The words of the command, up to what the shell does with it; None where they cannot be told."""
    quoted = re.sub(r"'[^']*'", "SCRIPT", line)
    return shlex.split(SHELL.split(quoted)[0], comments=True) if quoted.count('"') % 2 == 0 else None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_take_the_options_that_are_shown(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for line in commands(page):
        given = words(line)
        if given is None or PLACEHOLDER.search(line) or len(given) < 2 or given[1].startswith("-"):
            continue
        if given[1] not in COMMANDS:
            wrong.append(f"{line}: no command {given[1]}" if given[1].islower() else "")
            continue
        try:
            parser_of(f"ktc {given[1]}", command(given[1])).parse_args(given[2:])
        except SystemExit:
            capsys.readouterr()  # --help
        except KtcError as e:
            wrong += [] if any(s in e.message for s in SENTENCES) else [f"{line}: {e.message}"]
    assert not [w for w in wrong if w]
