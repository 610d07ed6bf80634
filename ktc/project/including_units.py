"""The translation units that include a source, looked for near it: what a build compiles in its place.

A file of kernels often uses types and macros that the program's main file defines before ``#include "kernels.cu"``, and
only that file launches the kernels.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import PurePath

from ktc.ir.frontend.preprocess.preprocessor import USUAL_FOLDERS
from ktc.project.source_trees import HEADERS, UNITS, Tree, has_launch, is_header, read_bytes

from .project_roots import is_within

FOLDERS_UP = 2
"""How many folders above a source's own a unit that includes it may be."""

MOST_FILES = 400
"""Files of a folder that are looked at; of a larger one, none."""

MOST_UNITS = 3
"""Units that are tried."""


class Surroundings(Tree):
    """The sources in a file's folder, in those above it and in their usual folders for sources, as far as they are in
    the project ``root``; where that is '', those in the file's folder and the one above."""

    def __init__(self, file: str, root: str) -> None:
        super().__init__(os.path.dirname(os.path.abspath(file)))
        self._project = root

    @cached_property
    def files(self) -> list[str]:
        folders = [self.root]
        for _ in range(FOLDERS_UP if self._project else 1):
            folders.append(os.path.dirname(folders[-1]))
        inside = [d for d in folders if not self._project or is_within(self._project, d)]
        usual = USUAL_FOLDERS if self._project else ("",)
        places = dict.fromkeys(os.path.normpath(os.path.join(d, name)) for d in inside for name in usual)
        return sorted(f for d in places for f in sources_in(d))


def sources_in(folder: str) -> list[str]:
    try:
        names = [n for n in os.listdir(folder) if PurePath(n).suffix.lower() in UNITS | HEADERS]
    except OSError:
        return []
    own = os.path.realpath(folder)
    found = [os.path.join(folder, n) for n in names] if len(names) <= MOST_FILES else []
    return [f for f in found if is_within(own, f)]


def units_including(file: str, root: str, name: str = "") -> list[str]:
    """Units near ``file`` that include a file of its name, through others too: first what mentions the kernel ``name``,
    which a header may only declare, of those what no other unit includes, and of these what launches kernels."""
    near = Surroundings(file, root)
    own = os.path.realpath(file)
    found = [f for f in near.including(os.path.basename(own)) if not is_header(f) and os.path.realpath(f) != own]
    parts = {f for f in found if any(u in found and u != f for u in near.including(os.path.basename(f)))}
    return sorted(found, key=lambda f: (not _mentions(f, name), f in parts, not has_launch(f), f))[:MOST_UNITS]


def units_defining(file: str, root: str, name: str) -> list[str]:
    """Units near ``file``, which only declares the kernel ``name``, that define it."""
    if not name or not _mentions(file, name):
        return []
    own = os.path.realpath(file)
    body = re.compile(rb"\b__global__\b[^;{}]*\b%b\s*\([^;{}]*\)\s*\{" % re.escape(name.encode()))
    if body.search(read_bytes(file)):
        return []
    units = (f for f in Surroundings(file, root).files if not is_header(f) and os.path.realpath(f) != own)
    return [f for f in units if body.search(read_bytes(f))][:MOST_UNITS]


def _mentions(file: str, name: str) -> bool:
    return re.search(rb"\b%b\b" % re.escape(name.encode()), read_bytes(file)) is not None


__all__ = ["sources_in", "units_defining", "units_including"]
