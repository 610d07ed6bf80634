"""Where the sources of launched kernels are: by the names that a program's binaries give them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import Unit, deep_recursion, parse_unit
from ktc.ir.frontend.host.captured import Instance, instance, spelled

from .profile_format import Geometry

if TYPE_CHECKING:
    from ktc.project.source_trees import Tree


MOST_OTHERS = 4
"""Other definitions of a kernel's name that are read, to say that one was chosen."""

MOST_INCLUDING = 3
"""Units that include a file and are tried, where it cannot be read by itself."""


@dataclass(frozen=True)
class Place:
    """A kernel's definition. ``units``: the files to read it by, in order: its own and those that include it."""

    file: str
    line: int
    units: tuple[str, ...]


@dataclass
class SourceTree:
    """The sources below ``folders`` (or single files), read as a build would with these options."""

    folders: Sequence[str]
    defines: Mapping[str, str] = field(default_factory=dict)
    include_dirs: Sequence[str] = ()
    found_in: set[str] = field(default_factory=set)
    """Folders that headers were found in, which a build would name with -I."""
    _units: dict[str, Unit | KtcError] = field(default_factory=dict)
    _places: dict[str, list[Place]] | None = None

    def places(self, kernel: str) -> list[Place]:
        """Definitions of kernels of the (demangled) name; [] where none is, or the name is no C++ name.

        Raises:
            KtcError: E-FILE, a folder of the sources is not there.
        """
        index = self._index()
        try:
            return index.get(spelled(kernel).name, [])
        except KtcError:
            return []

    def _index(self) -> Mapping[str, list[Place]]:
        if self._places is None:
            self._places = _indexed(self.folders)
        return self._places

    def instance(
        self, kernel: str, parameters: Sequence[tuple[int, int]], g: Geometry
    ) -> tuple[Place, Instance] | None:
        """The kernel as it was launched, with its place and the one unit that it was read by; None if no source has it.

        Raises:
            KtcError: why no source that has a kernel of the name can be read, or none of them is this kernel's.
        """
        trouble: KtcError | None = None
        for place in self.places(kernel):
            found = self._read(place, kernel, parameters, g)
            if not isinstance(found, KtcError):
                return found
            trouble = trouble or found
        if trouble is not None:
            raise trouble
        return None

    def others(self, taken: Place, kernel: str, parameters: Sequence[tuple[int, int]], g: Geometry) -> list[str]:
        """Other files with a kernel that could be the one that was launched: of the same name and parameters."""
        places = [p for p in self.places(kernel) if p.file != taken.file][:MOST_OTHERS]
        return [p.file for p in places if not isinstance(self._read(p, kernel, parameters, g), KtcError)]

    def _read(
        self, place: Place, kernel: str, parameters: Sequence[tuple[int, int]], g: Geometry
    ) -> tuple[Place, Instance] | KtcError:
        """The kernel at ``place`` as it was launched, with the unit that it was read by; or why none reads it."""
        trouble: KtcError | None = None
        for file in place.units:
            try:
                with deep_recursion(file):
                    found = instance(self.unit(file), kernel, parameters, g.grid, g.block, g.shared)
                return replace(place, units=(file,)), found
            except KtcError as e:
                trouble = trouble or e
            except RecursionError:
                trouble = trouble or KtcError("E-PARSE-DEPTH", f"{file} nests too deep")
        return trouble or KtcError("E-FILE", f"nothing reads {place.file}")

    def _find(self, include: str, including: str) -> str | None:
        """The folder that ``include`` is relative to, looked for in all of the tree."""
        from ktc.project.source_trees import Tree

        for folder in self.folders:
            found = Tree(folder).find(include, including)
            if found is not None:
                self.found_in.add(_named_by_a_build(found, include, including))
                return found
        return None

    def unit(self, file: str) -> Unit:
        """``file``, parsed.

        Raises:
            KtcError: what the front-end raises.
        """
        if file not in self._units:
            try:
                self._units[file] = parse_unit(file, None, dict(self.defines), tuple(self.include_dirs), self._find)
            except KtcError as e:
                self._units[file] = e
        found = self._units[file]
        if isinstance(found, KtcError):
            raise found
        return found


def _named_by_a_build(found: str, include: str, including: str) -> str:
    """The folder with which -I lets ``including`` be read by itself: of a header that lies where ``include`` says, seen
    from there (``../../common/x.h``), its own; else ``found``, which ``include`` is relative to."""
    beside = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(including)), include))
    return os.path.dirname(beside) if os.path.isfile(beside) else found


def _indexed(folders: Iterable[str]) -> dict[str, list[Place]]:
    from ktc.project.source_trees import Tree, read_bytes
    from ktc.survey.kernel_scan import kernels_in

    found: dict[str, list[Place]] = {}
    for folder in folders:
        if not Path(folder).exists():
            raise KtcError("E-FILE", f"no such file or folder: '{folder}'", exit_code=2)
        tree = Tree(folder)
        for file in tree.with_kernels:
            text = read_bytes(file).decode("utf-8", "replace")
            for k in kernels_in(text, file):
                units = tuple(_readers(tree, file))
                found.setdefault(k.name, []).append(Place(file, k.line, units))
    return found


def _readers(tree: Tree, file: str) -> list[str]:
    """Files by which the kernels of ``file`` are read: itself and units that include it. Those come first for a header,
    and where only they launch kernels: what is read by such a unit shows its launch too."""
    from ktc.project.source_trees import has_launch, is_header

    including = [f for f in tree.including(Path(file).name) if not is_header(f) and f != file]
    including = sorted(including, key=lambda f: not has_launch(f))[:MOST_INCLUDING]
    if is_header(file):
        return [*including, file]
    first = 0 if has_launch(file) else sum(map(has_launch, including))
    return [*including[:first], file, *including[first:]]
