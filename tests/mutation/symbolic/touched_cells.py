"""Who has touched which cells of which arrays since a barrier, and who of them may meet another thread there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ktc.ir.nodes import Sym

from .terms import Term

Bases = tuple[Term | None, ...]
Numbers = tuple[int, ...]
Cell = tuple[Bases, Numbers]
"""Subscripts: numbers, each counted from a term, or from zero."""
ANY: Cell = (), ()


@dataclass
class Open:
    """What has been touched since a barrier: by array and cell, the threads that did, and whether they wrote."""

    cells: dict[Sym | None, dict[Bases, dict[Numbers, set[tuple[int, bool]]]]] = field(default_factory=dict)

    def add(self, sym: Sym | None, cell: Cell, touched: set[tuple[int, bool]]) -> None:
        bases, numbers = cell
        self.cells.setdefault(sym, {}).setdefault(bases, {}).setdefault(numbers, set()).update(touched)

    def copy(self) -> Open:
        other = Open()
        other.update(self)
        return other

    def update(self, other: Open) -> None:
        for sym, groups in other.cells.items():
            for bases, cells in groups.items():
                for numbers, touched in cells.items():
                    self.add(sym, (bases, numbers), touched)

    def meeting(self, sym: Sym | None, cell: Cell) -> Iterator[tuple[int, bool]]:
        """Who may have touched that cell. No array: who touched anything."""
        bases, numbers = cell
        for other, groups in self.cells.items():
            if sym is None or other is None or other == sym:
                for theirs, cells in groups.items():
                    alike = theirs == bases != () and sym is not None
                    for touched in [cells.get(numbers, set())] if alike else cells.values():
                        yield from touched


__all__ = ["ANY", "Cell", "Open"]
