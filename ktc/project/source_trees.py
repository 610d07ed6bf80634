"""The sources of a tree: translation units, headers, and where a header that is included by a bare name lies."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePath

MAX_SCAN_BYTES = 8 << 20

HEADERS = frozenset({".h", ".hpp", ".hh", ".hxx", ".cuh", ".inl", ".inc", ".cuhpp"})
UNITS = frozenset({".cu", ".cl", ".ocl", ".hip", ".cpp", ".cc", ".cxx", ".c++", ".c"})
SKIPPED_FOLDERS = frozenset({".git", ".svn", ".hg", "__pycache__", "node_modules"})

RESULTS = ("recipe.json", "report.json", "trajectory.jsonl")
"""Beside ``run.json``, what tells the folder of a run, whose kernels are tuned ones of the sources', called alike."""

_KERNEL = re.compile(rb"\b(__global__|__kernel|kernel\s+void)\b")
_CUDA = re.compile(rb"\b__global__\b")
INCLUDE_FOLDERS = ("include", "includes", "inc")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
_LAUNCH = re.compile(rb"<<\s*<|\b(?:cuda|hip)Launch(?:Cooperative)?Kernel(?:Ex|GGL)?\b")


def _is_skipped(folder: str, name: str) -> bool:
    """Whether the folder ``name`` of ``folder`` holds no sources of a program."""
    there = os.path.join(folder, name)
    is_run = os.path.isfile(os.path.join(there, "run.json")) and any(
        os.path.isfile(os.path.join(there, f)) for f in RESULTS
    )
    return is_run or name in SKIPPED_FOLDERS


class Tree:
    """The source files below ``root``, in sorted order; symbolic links are not followed."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    @cached_property
    def files(self) -> list[str]:
        """Absolute paths of everything that has a source's or a header's suffix."""
        if os.path.isfile(self.root):
            return [self.root]
        return sorted(self._walk())

    def _walk(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(f for f in folders if not _is_skipped(folder, f))
            for name in names:
                if PurePath(name).suffix.lower() in UNITS | HEADERS:
                    yield os.path.join(folder, name)

    @cached_property
    def with_kernels(self) -> list[str]:
        """Files that define or declare a kernel, units that launch one, and units that include one of those: a kernel
        may use what its includer defined before. Units first, then headers."""
        found = {f for f in self.files if _has_kernel(f)}
        found |= {f for f in self._includers({os.path.basename(f) for f in found}) if not is_header(f)}
        return sorted(found, key=lambda f: (is_header(f), f))

    def around(self, headers: set[str]) -> list[str]:
        """For each of ``headers`` a header without kernels that includes it, if there is one: what it uses may be
        declared there."""
        first: dict[str, str] = {}
        known = set(self.with_kernels)
        for f in [f for f in self.files if is_header(f) and f not in known] if headers else ():
            for name in _included(f):
                first.setdefault(name, f)
        return sorted({first[n] for n in map(os.path.basename, headers) if n in first})

    def _includers(self, names: set[str]) -> set[str]:
        """Files that include, through others too, a file of one of these names."""
        found: set[str] = set()
        while more := {f for f, named in self._includes.items() if f not in found and named & names}:
            found |= more
            names = {os.path.basename(f) for f in more}
        return found

    @cached_property
    def _includes(self) -> dict[str, set[str]]:
        """The names of the files that each file includes."""
        return {f: _included(f) for f in self.files}

    def including(self, name: str) -> list[str]:
        """Files that include a file called ``name``, through others too."""
        return sorted(self._includers({name}))

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = defaultdict(list)
        root = self.root if os.path.isdir(self.root) else os.path.dirname(self.root)
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if not _is_skipped(folder, f))
            for name in sorted(names):
                index[name].append(os.path.join(folder, name))
        return index

    def only(self, include: str) -> str | None:
        """The folder to which ``include`` is relative, where there is just one."""
        parts = PurePath(include).parts
        if not parts or ".." in parts:
            return None
        found = [Path(p).parts for p in self._by_name.get(parts[-1], ())]
        folders = [there[: -len(parts)] for there in found if there[-len(parts) :] == parts]
        return os.path.join(*folders[0]) if len(folders) == 1 else None

    def find(self, include: str, including: str) -> str | None:
        """The folder to which ``include`` is relative, looked up in all of the tree by the end of the path.

        Of several, the nearest to ``including``: the fewest folders up from it and down again, where a folder that is
        called ``include`` is no way down, as it is what a build would name; then the longest common beginning.
        """
        parts = tuple(p for p in PurePath(include).parts if p not in (".", ".."))
        if not parts:
            return None
        here = Path(including).parts[:-1]
        best: tuple[int, int, int, str] | None = None
        for path in self._by_name.get(parts[-1], ()):
            there = Path(path).parts
            if there[-len(parts) :] != parts:
                continue
            there = there[: -len(parts)]
            common = next((i for i, (a, b) in enumerate(zip(here, there)) if a != b), min(len(here), len(there)))
            down = sum(folder not in INCLUDE_FOLDERS for folder in there[common:])
            rank = (len(here) - common + down, -common, len(there), path)
            if best is None or rank < best:
                best = rank
        if best is None:
            return None
        folder = os.path.join(*Path(best[3]).parts[: -len(parts)])
        ups = len(PurePath(include).parts) - len(parts)
        return os.path.join(folder, *(["_"] * ups)) if ups else folder


def is_header(path: str) -> bool:
    return PurePath(path).suffix.lower() in HEADERS


def read_bytes(path: str) -> bytes:
    """At most ``MAX_SCAN_BYTES`` of a regular file; nothing of anything else (a FIFO would hang)."""
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as f:
            return f.read(MAX_SCAN_BYTES)
    except OSError:
        return b""


def _included(path: str) -> set[str]:
    """The names, without folders, of the project's headers that a file includes."""
    return {os.path.basename(n) for n in _INCLUDE.findall(read_bytes(path).decode("latin-1"))}


def has_launch(path: str) -> bool:
    """Whether a file launches kernels, by its text."""
    return bool(_LAUNCH.search(read_bytes(path)))


def _has_kernel(path: str) -> bool:
    data = read_bytes(path)
    if PurePath(path).suffix.lower() in (".cl", ".ocl"):
        return bool(_KERNEL.search(data))
    return bool(_CUDA.search(data)) or (not is_header(path) and has_launch(path))
