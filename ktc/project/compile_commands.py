"""``compile_commands.json``: how a build compiles each of its sources, as CMake, Meson, Ninja and Bear write it.

    cmake -B build -DCMAKE_EXPORT_COMPILE_COMMANDS=ON

What functions and generators of a CMakeLists.txt compute stands here as plain options. Nothing is run.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ktc.ir.support.kept_results import kept
from ktc.project.source_trees import read_bytes

from .project_roots import is_within

NAME = "compile_commands.json"

BUILDS = ("build*", "cmake-build-*", "out", "out/*")
"""Folders, beside the one of the project itself, in which people build."""

_FOLDER_FLAGS = ("-isystem=", "-isystem", "-I")
"""How a folder for headers is given, the longer spelling of two first."""


@dataclass(frozen=True)
class Entry:
    """How the build compiles ``file``: its ``-I`` and ``-D`` options, folders as absolute paths."""

    file: str
    flags: tuple[str, ...]


def flags_of(source: str, root: str) -> tuple[str, list[str]]:
    """The compilation database of the project ``root`` and the options by which it compiles ``source``; of a header,
    all those by which it compiles the sources of the nearest folder. ``("", [])`` where no database says anything.
    """
    for file in _databases(root):
        entries = kept(("compile commands", file, os.stat(file).st_mtime_ns), functools.partial(_entries, file))
        real = os.path.realpath(source)
        own = [e for e in entries if e.file == real] or _nearest(entries, os.path.dirname(real), root)
        words = [flag for e in own for flag in e.flags]
        if words:
            return file, words
    return "", []


def _databases(root: str) -> Iterator[str]:
    """The databases of a project, the latest first."""
    if not root:
        return
    found = [Path(root) / NAME, *(f / NAME for pattern in BUILDS for f in sorted(Path(root).glob(pattern)))]
    there = [str(f) for f in found if f.is_file() and is_within(root, str(f))]
    yield from sorted(there, key=lambda f: -os.stat(f).st_mtime_ns)


def _nearest(entries: list[Entry], folder: str, root: str) -> list[Entry]:
    """The entries of sources in ``folder``, or else below the first folder above that has any."""
    while is_within(root, folder):
        below = [e for e in entries if os.path.dirname(e.file) == folder] or [
            e for e in entries if e.file.startswith(f"{folder}{os.sep}")
        ]
        if below:
            return below
        folder = os.path.dirname(folder)
    return []


def _entries(file: str) -> list[Entry]:
    """What a database holds; nothing where it cannot be read."""
    try:
        rows = json.loads(read_bytes(file))
        return [_entry(r, os.path.dirname(file)) for r in rows]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _entry(row: dict[str, object], beside: str) -> Entry:
    here = os.path.join(beside, str(row.get("directory", "")))
    given = row["arguments"] if "arguments" in row else shlex.split(str(row["command"]))
    words = [str(w) for w in given] if isinstance(given, list) else []
    return Entry(os.path.realpath(os.path.join(here, str(row["file"]))), tuple(_flags(words, here)))


def _flags(words: list[str], here: str) -> Iterator[str]:
    following = iter(words)
    for word in following:
        if word.startswith("-D"):
            yield f"-D{word[2:] or next(following, '')}"
            continue
        spelled = next((f for f in _FOLDER_FLAGS if word.startswith(f)), None)
        if spelled is not None:
            folder = word.removeprefix(spelled) or next(following, "")
            yield f"-I{os.path.normpath(os.path.join(here, folder))}"


__all__ = ["NAME", "flags_of"]
