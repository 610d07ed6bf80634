"""What variables lie in and leave when they are divided, by what they begin as and by how they count.

    let x: i32 = a / 4             x is in what a / 4 is in
    for i in 0..n step 8           8 divides i, which is in 0..n + 7

Each is found when it is first asked for: most questions about a kernel concern few of its variables. What a kernel
assumes of its parameters narrows a variable where it stands for something, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktc.ir.nodes import Expr, Sym
from ktc.ir.types import Scalar

from .congruence import Congruence
from .interval import Interval
from .known_symbols import Loop
from .loop_counters import counter_interval, counter_residue

if TYPE_CHECKING:
    from .kernel_facts import Facts


class VariableRanges:
    """Of the variables of a kernel that never change, and of counters; ``facts``: what is known of its parameters."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._intervals: dict[Sym, Interval | None] = {}
        self._residues: dict[Sym, Congruence | None] = {}
        self._asked = 0

    @property
    def is_asked(self) -> bool:
        """Whether what a variable lies in is just being found."""
        return self._asked > 0

    def interval(self, s: Sym) -> Interval | None:
        """All values of ``s``; None where the program does not say."""
        if s not in self._intervals:
            self._intervals[s] = None  # while it is looked for
            self._asked += 1
            try:
                self._intervals[s] = self._interval(s)
            finally:
                self._asked -= 1
        return self._intervals[s]

    def residue(self, s: Sym) -> Congruence | None:
        """What all values of ``s`` have in common when they are divided; None where the program does not say."""
        if s not in self._residues:
            self._residues[s] = None
            self._asked += 1
            try:
                self._residues[s] = self._residue(s)
            finally:
                self._asked -= 1
        return self._residues[s]

    def _interval(self, s: Sym) -> Interval | None:
        known = self._stands_for(s)
        if isinstance(known, Loop):
            return counter_interval(known, self.facts)
        return None if known is None else self.facts.interval(known).wrapped(_scalar(s))

    def _residue(self, s: Sym) -> Congruence | None:
        known = self._stands_for(s)
        if isinstance(known, Loop):
            return counter_residue(known, self.facts)
        if known is None or not self.facts.interval(known).fits(_scalar(s)):
            return None
        return self.facts.congruence(known)

    def _stands_for(self, s: Sym) -> Expr | Loop | None:
        """What ``s`` begins as, or the loop that it counts."""
        symbols = self.facts.symbols
        return symbols.values.get(s) or symbols.loops.get(s)


def _scalar(s: Sym) -> Scalar:
    assert isinstance(s.type, Scalar)
    return s.type


__all__ = ["VariableRanges"]
