"""The accesses of one buffer by a launch: what of it is read from memory, and what is written.

An element is read from memory if the kernel reads it before it writes it. Which comes first is taken from the order of
the text and from the serial loops around both accesses; where that leaves it open, the element counts as written first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ktc.ir.nodes import Expr, Sym

from .element_sets import Runs, covered_bytes


@dataclass(frozen=True)
class Access:
    """One access of a buffer in one set of iterations. ``place``: its place in the text; ``loops``: the serial loops
    around it."""

    runs: Runs
    index: Expr
    place: int
    loops: tuple[Sym, ...]


@dataclass
class Accesses:
    """All accesses of one buffer; ``element``: bytes of an element."""

    element: int
    reads: list[Access] = field(default_factory=list)
    writes: list[Access] = field(default_factory=list)

    def written(self, granule: int) -> tuple[int, bool]:
        """Bytes written, in whole granules, and whether all of them were looked at."""
        return covered_bytes((w.runs for w in self.writes), self.element, granule)

    def read(self, granule: int) -> tuple[int, bool]:
        """Bytes read before the kernel itself writes them, in whole granules, and whether all were looked at."""
        first = [a for a in self.reads if not any(_may_come_first(w, a) for w in self.writes)]
        later = [a for a in self.reads if any(_may_come_first(w, a) for w in self.writes)]
        covered, whole = covered_bytes((a.runs for a in first), self.element, granule)
        if not later:
            return covered, whole
        before = [w for w in self.writes if any(_may_come_first(w, a) for a in later)]
        apart, whole_apart = covered_bytes([a.runs for a in (*first, *before)], self.element, granule)
        together, whole_together = covered_bytes([a.runs for a in (*first, *later, *before)], self.element, granule)
        return covered + max(0, together - apart), whole and whole_apart and whole_together


def _may_come_first(write: Access, read: Access) -> bool:
    """Whether ``write`` may have changed what ``read`` sees.

    In a serial loop it may have, in an earlier iteration, unless it goes to the very element that is read first.
    """
    if write.place < read.place:
        return True
    shared = any(loop in read.loops for loop in write.loops)
    return shared and write.index != read.index
