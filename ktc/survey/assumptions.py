"""What is assumed for a name that a kernel uses and no text of the tree declares: a macro that its build gives.

The build files next to a source say most of them (``-DBLOCK=16`` in a Makefile, ``add_definitions`` in CMake), tuning
scripts the others (``tune_params["block_size_x"] = [16, 32]``); what is still missing gets a plausible value. All of it
is reported with the kernel.
"""

from __future__ import annotations

import os
import re
from functools import cached_property

from ktc.ir.diagnostics import KtcError
from ktc.project.source_trees import Tree, read_bytes

ASSUMED_VALUE, ASSUMED_TYPE = "16", "float"
"""What a macro that nothing in the tree defines is taken for, when a kernel uses it as a number or as a type."""

MAX_ASSUMED = 24
MAX_BUILD_BYTES = 1 << 20

_UNKNOWN = re.compile(r"unknown (name|type) '([A-Za-z_]\w*)'")
_CALL = re.compile(r"unknown function '([A-Za-z_]\w*)'")

_LIBRARY = re.compile(r"cuda|CU|cu[A-Z]|curand|cufft|nv|__|std|thrust|cg\b|cooperative|thread_|hip|cl_|wmma")
"""Beginnings of names that belong to a library: never taken for a macro of the project."""

_BUILD = re.compile(r"^(?:Makefile.*|makefile|GNUmakefile|CMakeLists\.txt|meson\.build|.*\.(?:mk|cmake|make|sh))$")
_GIVEN = re.compile(r"(?<![\w-])-D\s*([A-Za-z_]\w*)(?:=(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"')]+))?")
_TUNED = re.compile(
    r"""["']([A-Za-z_]\w*)["']\s*\]?\s*[=:,]\s*\[\s*(\d[\w.]*)|\b([A-Za-z_]\w*)\s*=\s*\[\s*(\d[\w.]*)"""
)
_VALUE = re.compile(r"[-\w.+*/() ]+")

_TYPE_WORD = (
    r"(?:void|bool|char|short|int|long|float|double|signed|unsigned|auto|size_t|\w+_t|half|__half|\w+[234]|const|"
    r"static|typename|class|struct|union|enum|using|typedef)"
)


class Builds:
    """What the build files and tuning scripts of a tree say about macros."""

    def __init__(self, tree: Tree) -> None:
        self._root = tree.root if os.path.isdir(tree.root) else os.path.dirname(tree.root)
        self._read: dict[str, tuple[dict[str, str], dict[str, str]]] = {}

    def value(self, name: str, path: str) -> str | None:
        """What the nearest folder above the source ``path`` that says anything gives ``name``."""
        folder = os.path.dirname(path)
        while True:
            if folder not in self._read:
                self._read[folder] = _definitions(folder)
            for known in self._read[folder]:
                if name in known:
                    return known[name]
            if folder == self._root or len(folder) <= len(self._root):
                return None
            folder = os.path.dirname(folder)


def _definitions(folder: str) -> tuple[dict[str, str], dict[str, str]]:
    """Macros of the build files of ``folder``, and values of its Python scripts; the first of several counts."""
    built: dict[str, str] = {}
    tuned: dict[str, str] = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return built, tuned
    for name in names:
        if not _BUILD.match(name) and not name.endswith(".py"):
            continue
        text = read_bytes(os.path.join(folder, name))[:MAX_BUILD_BYTES].decode("utf-8", "replace")
        if name.endswith(".py"):
            for a, x, b, y in _TUNED.findall(text):
                tuned.setdefault(a or b, x or y)
        for macro, value in _GIVEN.findall(text):
            value = value.strip("\"'") or "1"
            if _VALUE.fullmatch(value) and "$" not in value:
                built.setdefault(macro, value)
    return built, tuned


class Assumptions:
    """Macros for one translation unit."""

    def __init__(self, path: str, builds: Builds) -> None:
        self._path, self._builds = path, builds

    def for_error(self, error: KtcError, text: str, assumed: dict[str, str]) -> dict[str, str] | None:
        """Macros to define so that ``error`` may go away; None when it is not a matter of macros."""
        if len(assumed) >= MAX_ASSUMED:
            return None
        if error.code == "E-PP-DIRECTIVE":
            return self._for_directive(error, assumed)
        if m := _CALL.search(error.message):
            given = self._builds.value(m[1], self._path) if m[1] not in assumed else None
            return {m[1]: given} if given is not None else None
        m = _UNKNOWN.search(error.message)
        if m is None or m.group(2) in assumed:
            return None
        kind, name = m.groups()
        if _LIBRARY.match(name) or (kind == "type" and _declared(name, text)):
            return None
        given = self._builds.value(name, self._path)
        if given is None and _declared(name, text):
            return None
        return {name: given if given is not None else ASSUMED_VALUE if kind == "name" else ASSUMED_TYPE}

    def _for_directive(self, error: KtcError, assumed: dict[str, str]) -> dict[str, str] | None:
        """``#error``: macros of the build that the conditions before it, or its own text, name."""
        around = " ".join(self._before(error))
        found = {}
        for name in re.findall(r"[A-Za-z_]\w*", f"{error.message} {around}"):
            given = None if name in assumed else self._builds.value(name, self._path)
            if given is not None:
                found[name] = given
        return found or None

    @cached_property
    def _lines(self) -> dict[str, list[str]]:
        return {}

    def _before(self, error: KtcError) -> list[str]:
        """The conditions of the file in front of the line of ``error``."""
        if error.loc is None:
            return []
        file = error.loc.file
        if file not in self._lines:
            self._lines[file] = read_bytes(file)[:MAX_BUILD_BYTES].decode("utf-8", "replace").split("\n")
        rows = self._lines[file][: error.loc.line]
        return [r for r in rows if re.match(r"\s*#\s*(?:if|elif)", r)][-6:]


def _declared(name: str, text: str) -> bool:
    """Whether something in ``text`` declares ``name``: then it is no macro, but beyond what ktc reads."""
    typed = rf"\b{_TYPE_WORD}\b[\s*&>]*\s(?:\w+\s*,\s*)*[*&]*\s*{name}\s*[=;,)\[{{(:]"
    named = rf"\b(?:struct|class|union|enum|using|typename)\s+{name}\b|\}}\s*{name}\s*;"
    user = rf"(?:^|[;{{}}(,])\s*(?!return\b|else\b|case\b)[A-Za-z_]\w*[\s*&]+{name}\s*[=;,)\[{{(]"
    return any(re.search(p, text, re.MULTILINE) for p in (typed, named, user))
