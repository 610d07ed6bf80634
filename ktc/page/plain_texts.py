"""A page as Markdown, and all that was measured as CSV: for issues, pull requests and spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ktc.runs import Run

from .blocks import (
    Beside,
    Block,
    Code,
    Commands,
    Difference,
    Figure,
    Folded,
    Page,
    Paragraph,
    Table,
    is_empty,
)
from .differences import difference

_FENCES = {"cuda": "cpp", "hip": "cpp", "opencl": "c", "numba": "python", "ir": "text"}

COLUMNS = ("run", "scenario", "measurement", "script", "knobs", "status", "seconds", "low", "high", "error")


def markdown(page: Page) -> str:
    """``page`` in GitHub's Markdown; figures are left out, for their data are in the tables and in the CSV."""
    parts = [f"# {_plain(page.title)}", *map(_plain, page.facts)]
    for s in page.sections:
        said = _all(s.blocks)
        parts += [f"## {_plain(s.title)}", *said] if said else []
    return "\n\n".join(parts) + "\n"


def configurations_csv(runs: Sequence[Run]) -> str:
    """One row a measured configuration; times in seconds, knobs as a JSON object."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    for run in runs:
        for c in run.configurations:
            low, high = c.interval or ("", "")
            seconds = "" if c.seconds is None else repr(c.seconds)
            knobs = json.dumps(dict(c.knobs))
            rows.writerow((run.folder, c.scenario, c.number, c.script, knobs, c.status, seconds, low, high, c.error))
    return out.getvalue()


def _all(blocks: Iterable[Block]) -> list[str]:
    return [text for b in blocks if not is_empty(b) for text in _WRITERS[type(b)](b)]


def _plain(text: str) -> str:
    """Text in which nothing is markup."""
    for c in "\\`*_{}[]<>#|":
        text = text.replace(c, f"\\{c}")
    return text.replace("\n", " ")


def _literal(text: str) -> str:
    """Text as code, within a line."""
    text = text.replace("\n", " ").replace("|", "\\|")
    tick = "``" if "`" in text else "`"
    return f"{tick}{text}{tick}" if text else ""


def _table(t: Table) -> list[str]:
    rows = [[_literal(x) if i in t.code else _plain(x) for i, x in enumerate(r)] for r in t.rows]
    lines = [list(map(_plain, t.headers)), ["---"] * len(t.headers), *rows]
    title = [f"**{_plain(t.title)}**"] if t.title else []
    return [*title, "\n".join(f"| {' | '.join(line)} |" for line in lines), *([_plain(t.about)] if t.about else [])]


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _difference(d: Difference) -> list[str]:
    before, after = d.before.split("\n"), d.after.split("\n")
    lines = []
    for line in difference(before, after):
        text = "" if line.sign == "@" else before[line.before] if line.before is not None else after[line.after or 0]
        lines.append("@@ ... @@" if line.sign == "@" else f"{line.sign}{text}")
    return [*([f"**{_plain(d.title)}**"] if d.title else []), _fenced("\n".join(lines), "diff")]


def _commands(c: Commands) -> list[str]:
    return [_fenced("\n".join(f"{line}  # {what}" for line, what in c.lines), "sh")]


_WRITERS: Mapping[type, Callable[[Any], list[str]]] = {
    Paragraph: lambda p: [" ".join(filter(None, (_plain(p.text), _literal(p.code))))],
    Table: _table,
    Figure: lambda f: [],
    Code: lambda c: [*([f"**{_plain(c.title)}**"] if c.title else []), _fenced(c.text, _FENCES.get(c.language, ""))],
    Difference: _difference,
    Commands: _commands,
    Folded: lambda f: [f"**{_plain(f.title)}**", *_all(f.blocks)] if f.printed else [],
    Beside: lambda b: _all(b.blocks),
}


__all__ = ["configurations_csv", "markdown"]
