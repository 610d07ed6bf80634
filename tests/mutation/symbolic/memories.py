"""Memory of a run on symbols: arrays and buffers as known cells on top of what is opaque, and what a run touches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load, Store, Sym
from ktc.ir.types import Array, Ptr, Vec
from tests.mutation.zeros.formats import NONE, Held

from .effort import Lost
from .symbolic_values import Active, Threads, Values
from .terms import Term, Terms

Classes = tuple[tuple[tuple[Any, ...], int], ...]
"""Residue classes of a loop's elements (:mod:`tests.mutation.maxima.progressions`), each with the first element that is
visited of it."""


COPIED = 16
"""Cells that are copied or put in order at the cost of one expression."""


@dataclass
class Memory:
    """An array or buffer: known cells on top of an opaque base. ``numbers``: all are named by numbers."""

    base: Term
    cells: dict[tuple[Term, ...], Term] = field(default_factory=dict)
    numbers: bool = True


class Memories(Values):
    """Loads and stores; ``known`` are the formats of what is opaque."""

    def __init__(self, terms: Terms, kernel: Kernel, known: dict[Sym, Held], threads: Threads) -> None:
        super().__init__(terms, kernel, threads)
        self.formats = known
        self.memory: dict[tuple[Sym, int], Memory] = {}
        self.touched: dict[Any, set[Term]] = {}
        """What is read of memory, or stored where an array may end, and under which conditions; by what
        is divided; and what cannot be followed, which may do so or never end."""
        self.classes: Classes = ()
        """For which elements of a loop the operand at hand is evaluated; none where it is not for several."""
        self.visited: dict[Any, set[tuple[int, Term]]] = {}
        """What is touched for every element of a class, from which one on and under which conditions."""

    def _rows(self, sym: Sym) -> int:
        private = isinstance(sym.type, Vec) or (isinstance(sym.type, Array) and sym.type.space != "shared")
        return self.threads.count if private else 1

    def _at(self, sym: Sym, k: int) -> tuple[tuple[Sym, int], Memory]:
        key = (sym, k if self._rows(sym) > 1 else 0)
        if key not in self.memory:
            self.memory[key] = Memory(self.t.make("memory", *key))
        return key, self.memory[key]

    def _allocate(self, sym: Sym) -> None:
        for row in range(self._rows(sym)):
            self.memory[sym, row] = Memory(self.t.make("undefined", sym))

    def _memory_state(self, sym: Sym) -> tuple:
        return tuple(self._state_of(self._at(sym, row)[1]) for row in range(self._rows(sym)))

    def _state_of(self, m: Memory) -> tuple:
        self.t.effort.spend(len(m.cells) // COPIED)
        return m.base, tuple(sorted(m.cells.items()))

    def load(self, e: Load, k: int, act: Active) -> Term:
        if e.width != 1 or isinstance(e.buffer.type, Vec):
            raise Lost
        index = tuple(self.of(i, k, act) for i in e.index)
        self._access(e.buffer, index, act[k])
        _, m = self._at(e.buffer, k)
        if index in m.cells:
            return m.cells[index]
        if m.cells and not self._apart(index, m):
            raise Lost
        return self.t.opaque(self.formats.get(e.buffer, NONE), "load", m.base, index)

    def _access(self, sym: Sym, index: tuple[Term, ...], condition: Term) -> None:
        """Remembers it. No cell beyond an array is followed: what is there is somebody else's."""
        shape = sym.type.shape if isinstance(sym.type, Array) else (None,)
        extents = [evaluate(n, self.kernel.knob_values) if n is not None else None for n in shape]
        places = [(self.number(i), n) for i, n in zip(index, extents)]
        if len(index) == len(shape) and all(i is not None and n is not None and 0 <= i < n for i, n in places):
            return
        self.note((sym, index), condition)
        if any(i is not None and n is not None and not 0 <= i < n for i, n in places):
            raise Lost

    def note(self, what: Any, condition: Term) -> None:
        for decided in self.path:
            condition = self.t.choose(condition, decided, self.t.const(False, "bool"))
        self.t.effort.spend(len(self.classes))
        for which, first in self.classes:
            self.visited.setdefault((what, which), set()).add((first, condition))
        if not self.classes:
            self.touched.setdefault(what, set()).add(condition)

    def touches_no_more_than(self, other: Memories) -> bool:
        """Whether whatever this run reads, or stores in arrays, ``other`` does: what is there once is there."""
        return all(
            self.t.implies_any(c, other.touched.get(access, set()))
            for access, found in self.touched.items()
            for c in found
        ) and all(
            self.t.implies_any(c, {d for at, d in other.visited.get(access, ()) if at <= first})
            for access, found in self.visited.items()
            for first, c in found
        )

    def _apart(self, index: tuple[Term, ...], m: Memory) -> bool:
        """Whether ``index`` is no cell that is known: all are numbers."""
        return m.numbers and self._numbers(index)

    def _numbers(self, index: tuple[Term, ...]) -> bool:
        return all(self.t.node(i)[0] == "const" for i in index)

    def _store(self, s: Store, act: Active) -> None:
        if s.width != 1 or isinstance(s.buffer.type, Vec):
            raise Lost
        writes = {k: (tuple(self.of(i, k, act) for i in s.index), self.of(s.value, k, act)) for k in act}
        if isinstance(s.buffer.type, Ptr):
            key, m = self._at(s.buffer, 0)
            done = self.t.make("stored", m.base, tuple(sorted({(act[k], *w) for k, w in writes.items()})))
            self.memory[key] = Memory(done)
            return
        fresh: dict[tuple[Sym, int], Memory] = {}
        for k, (index, value) in writes.items():
            self._access(s.buffer, index, act[k])
            key, m = self._at(s.buffer, k)
            if m.cells and index not in m.cells and not self._apart(index, m):
                raise Lost
            if key not in fresh:
                self.t.effort.spend(len(m.cells) // COPIED)
                fresh[key] = Memory(m.base, dict(m.cells), m.numbers)
            new = fresh[key]
            new.numbers = new.numbers and self._numbers(index)
            old = new.cells.get(index)
            if old is None:
                old = self.t.opaque(self.formats.get(s.buffer, NONE), "load", m.base, index)
            new.cells[index] = self.t.choose(act[k], value, old)
        self.memory.update(fresh)


__all__ = ["Memories", "Memory"]
