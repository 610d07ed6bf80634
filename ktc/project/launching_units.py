"""Units that launch a kernel which another file defines: ``ops.cu`` has the launches of what ``kernels.cu`` defines.

Such a unit only declares the kernel, most often in a header of both. The two are read one after the other, as a unity
build compiles them: then the launch, what leads to it and what it passes are those of any launch in the kernel's file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .as_built import completed
from .including_units import Surroundings, sources_in
from .project_roots import is_within, project_root
from .source_trees import has_launch, is_header, read_bytes

if TYPE_CHECKING:
    from ktc.sources import SourceSpec

MOST_UNITS = 3
"""Units that are tried."""

MOST_FOLDERS = 24
"""Folders beside a kernel's that are looked into; of more, none."""


@dataclass(frozen=True)
class Joined:
    """A kernel's file behind ``unit``, which launches its kernel, as one ``text``, and the folders for the headers of
    both; ``shown``: the unit as the user would write it."""

    text: str
    unit: str
    shown: str
    include_dirs: tuple[str, ...]
    defines: dict[str, str]


def launching_units(spec: SourceSpec) -> Iterator[Joined]:
    """The kernel of ``spec`` read with each unit near its file that launches it; none where the file itself does."""
    own = os.path.realpath(spec.kernel)
    if not spec.name or not os.path.isfile(own) or _launches(own, spec.name):
        return
    root = project_root(spec.kernel)
    files = dict.fromkeys([*Surroundings(spec.kernel, root).files, *_beside(own, root)])
    near = (f for f in files if os.path.realpath(f) != own)
    units = [f for f in near if not is_header(f) and has_launch(f) and _launches(f, spec.name)]
    for unit in units[:MOST_UNITS]:
        way = completed(spec, unit)
        yield Joined(
            f'#include "{os.path.abspath(unit)}"\n#include "{own}"\n',
            unit,
            os.path.relpath(unit),
            (*spec.include_dirs, *way.folders, os.path.dirname(own), os.path.dirname(os.path.abspath(unit))),
            {**dict(way.macros), **spec.defines},
        )


def _beside(file: str, root: str) -> list[str]:
    """The sources in the folders beside that of ``file``, as far as they are in the project ``root``: ``torch/ops.cpp``
    launches what ``common/kernels.cu`` defines."""
    above = os.path.dirname(os.path.dirname(file))
    if not root or not is_within(root, above):
        return []
    folders = sorted(e.path for e in os.scandir(above) if e.is_dir(follow_symlinks=False) and e.name[0] != ".")
    return [f for d in folders for f in sources_in(d)] if len(folders) <= MOST_FOLDERS else []


def _launches(file: str, kernel: str) -> bool:
    """Whether the text of ``file`` launches a kernel of this name, or hands it to what launches kernels."""
    text = read_bytes(file).decode("latin-1")
    name = re.escape(kernel.rpartition("::")[2].partition("<")[0].partition("(")[0].strip())
    ways = (
        rf"\b{name}\s*(<[^;{{}}]*?>\s*)?<<\s*<",
        rf"\b(cuda|hip)?Launch\w*Kernel\w*\s*\([^;]*\b{name}\b",
        rf"\(\s*(const\s+)?void\s*\*\s*\)\s*&?\s*{name}\b",  # as an entry of a table, for such a function
    )
    return any(re.search(way, text) for way in ways)


__all__ = ["Joined", "launching_units"]
