"""The text of a workload file and its tables: what is in them, and errors that point into the text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError, Loc

KEYS: dict[str, tuple[str, ...]] = {
    "": ("kernel", "sequence", "variants", "args", "launch", "assume", "scenario", "reference", "check", "repeat"),
    "kernel": ("source", "name", "template", "defines", "include"),
    "sequence": ("source", "name", "template", "defines", "include"),
    "args": (
        "name",
        "dtype",
        "shape",
        "role",
        "init",
        "value",
        "range",
        "align",
        "divisible_by",
        "noalias",
        "mark",
        "null",
        "guessed",
        "observed",
    ),
    "launch": ("grid", "block", "shared"),
    "launches": ("source", "kernel", "template", "args", "grid", "block", "shared"),
    "assume": ("facts", "guessed"),
    "repeat": ("swap",),
    "scenario": ("name", "sizes", "weight", "heldout"),
}
"""The keys of each table."""


class TomlFile:
    """One file's text, for errors that point into it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    def fail(self, message: str, table: str = "", index: int = 0, key: str = "", hint: str = "") -> KtcError:
        """An error at ``key`` of the ``index``-th ``[table]``."""
        return KtcError("E-WORKLOAD-SCHEMA", message, self.loc(table, index, key), hint, source=self.text)

    def has_table(self, name: str) -> bool:
        return re.search(rf"(?m)^\s*\[\s*{re.escape(name)}\s*\]", self.text) is not None

    def loc(self, table: str, index: int, key: str) -> Loc:
        lines = self.text.splitlines()
        start = 0
        if table:
            head = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\s*\]\]?")
            heads = [i for i, line in enumerate(lines) if head.match(line)]
            start = heads[index] if index < len(heads) else 0
        for i in range(start, len(lines)):
            if i > start and lines[i].lstrip().startswith("["):
                break
            if key and (m := re.match(rf"\s*([\"']?){re.escape(key)}\1\s*=", lines[i])):
                return Loc(str(self.path), i + 1, m.end() - len(m.group().lstrip()) + 1)
        return Loc(str(self.path), start + 1, 1)

    def inside(self, table: str, index: int, key: str, item: int, value: str, offset: int | None) -> Loc:
        """The place of a character of ``value``, the ``item``-th text of a key; of the key where that is not clear."""
        loc = self.loc(table, index, key)
        lines = self.text.splitlines(keepends=True)
        start = sum(map(len, lines[: loc.line - 1])) + loc.col - 1
        for m in itertools.islice(_TOML_TEXT.finditer(self.text, start), item, item + 1):
            raw = next(g for g in m.groups() if g is not None)
            if raw == value and offset is not None:
                at = m.end() - len(m[0]) + m[0].index(raw) + min(offset, len(raw))
                before = self.text[:at]
                return Loc(str(self.path), before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)
        return loc


_TOML_TEXT = re.compile(r'"""\n?(.*?)"""|\'\'\'\n?(.*?)\'\'\'|"([^"\\\n]*)"|\'([^\'\n]*)\'', re.DOTALL)
"""A text of TOML without escapes, and what is in it."""


def only(f: TomlFile, given: Mapping[str, Any], kind: str, index: int = 0, known: str = "") -> None:
    """Refuse a key that a table of this kind (or of the one that :data:`KEYS` calls ``known``) does not have."""
    keys = KEYS[known or kind]
    for key in given:
        if key not in keys:
            where = f"[{kind}]" if kind else "a workload file"
            raise f.fail(f"unknown key '{key}' in {where}", kind, index, key, hint=f"known: {', '.join(keys)}")


def table(f: TomlFile, doc: Mapping[str, Any], key: str, optional: bool = False) -> dict[str, Any]:
    """The table of that name; of an optional one that is not there, an empty one."""
    value = doc.get(key, {} if optional else None)
    if not isinstance(value, dict):
        raise f.fail(f"a workload needs a [{key}] table", key)
    return value


def tables(f: TomlFile, doc: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """All tables ``[[key]]``."""
    value = doc.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise f.fail(f"{key} are [[{key}]] tables", key)
    return value


def text_at(f: TomlFile, table: Mapping[str, Any], key: str, kind: str, index: int = 0) -> str:
    """The text of a key that has to be there."""
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise f.fail(f'[{kind}] needs {key} = "..."', kind, index, key)
    return value


def texts_at(f: TomlFile, value: Any, kind: str, index: int, key: str) -> tuple[str, ...]:
    """A list of expressions."""
    if not isinstance(value, list) or not all(isinstance(v, str | int) for v in value):
        raise f.fail(f"{key} is a list of expressions", kind, index, key, hint='shape = ["n", "2 * d"]')
    return tuple(str(v) for v in value)


def strings_at(f: TomlFile, table: Any, kind: str, key: str) -> dict[str, str]:
    """A table of strings."""
    if not isinstance(table, dict):
        raise f.fail(f"{key} is a table of strings", kind, 0, key)
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in table.items()}
