"""What a project's Makefile runs its program with: sizes that the author measured it at.

    run: $(program)
        $(LAUNCHER) ./$(program) 8192 8192 100          8192, 8192, 100

Read as text, nothing is run.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from ktc.project.source_trees import read_bytes

from .project_roots import is_within

MAKEFILES = ("Makefile", "makefile", "GNUmakefile")

FOLDERS_UP = 2
"""How many folders above a source its Makefile may be."""

_RECIPE = re.compile(r"^run[ \t]*:[^=\n]*\n((?:\t.*(?:\n|\Z))+)", re.M)
_PROGRAM = re.compile(r"(\./|\$[({](program|PROGRAM|TARGET|EXE\w*)[)}]).*")


def run_arguments(source: str, root: str) -> list[str]:
    """The words behind the program's name in the target ``run`` of the nearest Makefile above ``source``, in the
    project ``root``; none where it has no such target."""
    folder = Path(os.path.realpath(source)).parent
    for above in (folder, *folder.parents[:FOLDERS_UP]):
        for file in (above / name for name in MAKEFILES):
            if file.is_file() and is_within(root, str(file)):
                return _arguments(read_bytes(str(file)).decode("utf-8", "replace"))
    return []


def _arguments(text: str) -> list[str]:
    recipe = _RECIPE.search(re.sub(r"\\\n[ \t]*", " ", text))
    for line in recipe[1].splitlines() if recipe is not None else ():
        try:
            words = shlex.split(line)
        except ValueError:  # a quotation mark without its other
            continue
        for k, word in enumerate(words):
            if _PROGRAM.fullmatch(word):
                return words[k + 1 :]
    return []


__all__ = ["run_arguments"]
