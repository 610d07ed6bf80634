"""Loops that never end, found by what their rounds change rather than by waiting for the budget of statements.

Execution is deterministic: a round that leaves alone all that decides how the loop goes on is followed by its like,
whatever else it computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ktc.ir.interp.execution.frames import Active, Frame
from ktc.ir.interp.execution.run_state import OutOfFuel, State
from ktc.ir.nodes import Break, Continue, For, Return, Stmt, Sym, While
from ktc.ir.walk import assigned, declared, stmt_exprs, used, walk

FIRST = 64
"""Rounds before a loop is looked at; then whenever their number has doubled."""


class Rounds:
    """The rounds of one run of the loop ``s`` under ``frame``."""

    def __init__(self, state: State, s: For | While, frame: Frame) -> None:
        self.state, self.loop, self.frame = state, s, frame
        self.number = 0
        self._before: tuple[int, Active, list[Any]] | None = None

    def begin(self, live: Active) -> None:
        """A round starts for the lanes ``live``.

        Raises:
            OutOfFuel: the round before has changed nothing that matters.
        """
        if self._before is not None:
            stores, lanes, values = self._before
            self._before = None
            unchanged = _same(lanes, live) and all(map(_same, values, self._values()))
            if unchanged and (stores == self.state.stores or not self._reads_what_it_stores()):
                raise OutOfFuel("as a round of this loop changes nothing that could end it", certain=True)
        if self.number >= FIRST and self.number & (self.number - 1) == 0:
            self._before = self.state.stores, live, self._values()
        self.number += 1

    def _values(self) -> list[Any]:
        """Of the variables that decide, in the frames that hold them: they are replaced, never altered in place."""
        out, frame = [], self.frame
        while frame is not None:
            out += [frame.values.get(sym) for sym in self._deciding()]
            frame = frame.parent  # type: ignore[assignment]
        return out

    def _deciding(self) -> tuple[Sym, ...]:
        known = self.state.deciding.get(id(self.loop))
        if known is None:
            known = self.state.deciding[id(self.loop)] = tuple(deciding(self.loop))
        return known

    def _reads_what_it_stores(self) -> bool:
        return not assigned(self.loop.body).isdisjoint(b for b in self._deciding() if b in self.state.buffers)


def deciding(loop: For | While) -> set[Sym]:
    """Variables and buffers that say how often ``loop`` runs: its condition's, and whatever those are computed from."""
    out = used(loop.cond)
    if isinstance(loop, For):
        out |= {loop.var} | used(loop.step)
    inside = [(s, _defines(s), _uses(s)) for s in walk(loop.body)]
    size = -1
    while len(out) != size:
        size = len(out)
        for s, defines, uses in inside:
            if not defines.isdisjoint(out) or any(isinstance(x, Break | Continue | Return) for x in walk((s,))):
                out |= uses
    return out


def _defines(s: Stmt) -> set[Sym]:
    return assigned((s,)) | set(declared((s,)))


def _uses(s: Stmt) -> set[Sym]:
    """What the expressions of ``s`` itself mention; those inside it have an entry of their own."""
    out: set[Sym] = set()
    for e in stmt_exprs(s):
        out |= used(e)
    return out


def _same(a: Any, b: Any) -> bool:
    """Bit for bit."""
    if a is b:
        return True
    if a is None or b is None:
        return False
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
