"""What a project's compilation database, Makefile, CMakeLists.txt or setup.py says of how its sources are compiled:
include folders and macros.

Read as text, nothing is run. What stands under a condition that cannot be told, is computed by a function, or is said
in two ways is left out.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ktc.ir.support.kept_results import kept
from ktc.project.source_trees import read_bytes

from .cmake_files import commands
from .compile_commands import flags_of
from .project_roots import is_within
from .python_builds import python_macros

CMAKE = "CMakeLists.txt"

MAX_HOPS = 8
"""Variables inside variables that are followed."""

_ASSIGNED = re.compile(r"^\s*(?:override\s+|export\s+)?([\w.]+)\s*(\+?=|:{1,3}=|\?=)\s*(.*?)\s*$")
_CONDITION = re.compile(r"^\s*(ifn?eq|ifn?def)\b")
_END = re.compile(r"^\s*endif\b")
_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_FLAG = re.compile(r"-([DI])(.*)", re.S)
_MACRO = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class BuildFlags:
    """``folders`` and ``macros`` that the build ``file`` gives every source: absolute paths, and values as text."""

    file: str = ""
    folders: tuple[str, ...] = ()
    macros: Mapping[str, str] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Of macros whose value is a default that whoever builds may give otherwise, what says so."""


def build_flags(source: str, root: str) -> BuildFlags:
    """What the project's compilation database says of ``source`` (:mod:`.compile_commands`), or else the nearest build
    file above it, in the project ``root``; a Makefile that says nothing, as one
    that only includes what a configuration writes, leaves it to a CMakeLists.txt that adds its folder to a build.
    Where none of these says anything, Python files that build extensions do (:mod:`.python_builds`). Folders outside
    the project are left out."""
    database, words = flags_of(source, root)
    flags = _flags(database, root, words) if database else BuildFlags()
    if not flags.folders and not flags.macros:
        flags = _of_makefiles(source, root)
    if flags.folders or flags.macros or not root:
        return flags
    key = ("python macros", source, root)
    file, words, chosen = kept(key, lambda: python_macros(os.path.realpath(source), root))
    return replace(_flags(file, root, words), chosen=chosen) if file else flags


def _of_makefiles(source: str, root: str) -> BuildFlags:
    """What the nearest Makefile or CMakeLists.txt above ``source`` says."""
    silent: Path | None = None
    for folder in Path(os.path.realpath(source)).parents:
        if not is_within(root, str(folder)):
            break
        for name, read in READERS.items():
            file = folder / name
            if not file.is_file() or not is_within(root, str(file)) or not _is_about(file, silent):
                continue
            flags = _flags(str(file), root, [*read(_text(file))])
            if name == CMAKE:
                return _inherited(flags, folder, root)
            if flags.folders or flags.macros:
                return flags
            silent = folder
    return BuildFlags()


def _is_about(file: Path, folder: Path | None) -> bool:
    """Whether a build file is about ``folder``, of which another one of it or below has said nothing."""
    if folder is None or file.parent == folder:
        return True
    return file.name == CMAKE and folder in _added(file.parent, _text(file))


def _inherited(flags: BuildFlags, folder: Path, root: str) -> BuildFlags:
    """``flags`` of the CMakeLists.txt in ``folder`` with those of the files above that add it to their build, directly
    or by another."""
    child = folder
    for above in folder.parents:
        file = above / CMAKE
        if not is_within(root, str(above)):
            break
        if not file.is_file() or not is_within(root, str(file)) or child not in _added(above, _text(file)):
            continue
        more = _flags(str(file), root, [*_of_cmake(_text(file))])
        folders = tuple(dict.fromkeys((*flags.folders, *more.folders)))
        flags, child = replace(flags, folders=folders, macros={**more.macros, **flags.macros}), above
    return flags


def _added(folder: Path, text: str) -> set[Path]:
    """The folders that the CMakeLists.txt of ``folder`` adds to its build."""
    named = (words[0] for command, words in commands(text) if command == "add_subdirectory" and words)
    return {Path(os.path.normpath(folder / name)) for name in named}


def _text(file: Path) -> str:
    return read_bytes(str(file)).decode("utf-8", "replace")


def _flags(file: str, root: str, words: list[str]) -> BuildFlags:
    here = os.path.dirname(file)
    folders: dict[str, None] = {}
    macros = defaultdict[str, set[str]](set)
    for word in words:
        if (m := _FLAG.fullmatch(word)) is None or "$" in word or not m[2]:
            continue
        if m[1] == "I":
            folder = os.path.normpath(os.path.join(here, m[2]))
            if os.path.isdir(folder) and is_within(root, folder):
                folders[folder] = None
            continue
        name, given, value = m[2].partition("=")
        if _MACRO.match(name):
            macros[name].add(value if given else "1")
    return BuildFlags(file, tuple(folders), {n: v.pop() for n, v in macros.items() if len(v) == 1})


def _of_make(text: str) -> Iterator[str]:
    """The words of a Makefile's lines that stand under no condition, with its variables put in, flags and what follows
    them as one word."""
    lines: list[str] = []
    depth = 0
    for line in re.sub(r"\\\n", " ", text).splitlines():
        line = re.sub(r"(?<!\\)#.*", "", line)
        if _CONDITION.match(line):
            depth += 1
        elif _END.match(line):
            depth = max(0, depth - 1)
        elif not depth:
            lines.append(line)
    values = defaultdict[str, list[str]](list)
    for m in filter(None, map(_ASSIGNED.match, lines)):
        if m[2] == "+=":
            values[m[1]].append(m[3])
        else:
            values[m[1]] = [m[3]]
    for line in lines:
        assigned = _ASSIGNED.match(line)
        yield from _joined(_split(_put_in(assigned[3] if assigned else line, values)))


def _put_in(text: str, values: Mapping[str, list[str]]) -> str:
    for _ in range(MAX_HOPS):
        if not _VARIABLE.search(text) or len(text) > 1 << 16:
            break
        text = _VARIABLE.sub(lambda m: " ".join(values[m[1]]) if m[1] in values else f"$_{m[1]}", text)
    return text


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quotation mark without its other
        return line.split()


def _joined(words: list[str]) -> Iterator[str]:
    for word, after in zip(words, [*words[1:], ""]):
        yield word + after if word in ("-I", "-D") else word


_MODES = frozenset({"PRIVATE", "PUBLIC", "INTERFACE", "SYSTEM", "BEFORE", "AFTER"})
_FOLDERS = {"include_directories": 0, "target_include_directories": 1}
_MACROS = {"add_definitions": 0, "add_compile_definitions": 0, "target_compile_definitions": 1}
"""Commands of CMake with how many of their arguments, a target's name, come first."""

_OPTIONS = frozenset({"add_compile_options", "target_compile_options", "CMAKE_CXX_FLAGS", "CMAKE_CUDA_FLAGS",
                      "CUDA_NVCC_FLAGS"})  # fmt: skip
"""Commands and variables of CMake that hold options of a compiler."""


def _of_cmake(text: str) -> Iterator[str]:
    """The include folders and macros of a CMakeLists.txt as flags."""
    for command, words in commands(text):
        for table, flag in ((_FOLDERS, "-I"), (_MACROS, "-D")):
            for word in words[table[command] :] if command in table else ():
                if word not in _MODES:
                    yield flag + word.removeprefix("-D")
        if not _OPTIONS.isdisjoint((command, *words[:2])):
            yield from (f for word in words for f in _joined(_split(word)) if f.startswith(("-D", "-I")))


READERS: dict[str, Callable[[str], Iterator[str]]] = {
    "Makefile": _of_make, "makefile": _of_make, "GNUmakefile": _of_make, CMAKE: _of_cmake,
}  # fmt: skip
"""Build files by name, the first that a folder has is read, with what takes flags out of their text."""


__all__ = ["BuildFlags", "build_flags"]
