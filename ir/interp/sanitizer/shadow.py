"""Shadow memory: who touched each scalar of a buffer last, and what is reported when an access is not ordered after it.

For every scalar it remembers two writers and two readers (:mod:`.witnesses`).
"""

from __future__ import annotations

import numpy as np

from ktc.ir.interp.execution.frames import Frame
from ktc.ir.interp.execution.run_state import State
from ktc.ir.interp.execution.true_counts import count_true

from .races import BarrierOrder, Order
from .witnesses import Beside, Witnesses

_ARTICLES = {"atomic": "an atomic", "peek": "an atomic read", "narrow": "an atomic within a block"}


class Shadow:
    """The access history of one buffer of ``n`` scalars; ``local``: each scalar belongs to one block.

    ``owner``: of an array that the kernel declares, the frame each lane of which has its own.
    """

    def __init__(self, n: int, local: bool = False, owner: Frame | None = None) -> None:
        self.writes, self.reads = Witnesses(n), Witnesses(n)
        self.peeks: Witnesses | None = None  # reads by atomics that changed nothing (a compare-and-swap that failed)
        self.narrow: Witnesses | None = None  # atomics that are atomic within their block only
        self.plain = np.zeros(n, bool)  # whether the remembered writers wrote plainly (not atomically)
        self.local, self.owner = local, owner
        self.fresh = np.zeros(0 if local else n, bool)  # stored to, and not read since

    def touch(self, state: State, frame: Frame, lanes, pos, how: str, value=None, old=None) -> None:
        """Check accesses of one statement against the history and each other, then record them.

        ``how``: read | write | atomic | peek (an atomic that leaves the element as it is). For writes, ``value`` is
        what they store and ``old`` what is there.
        """
        order = state.order
        assert order is not None
        ids = order.ids(frame, lanes)
        beside = self._beside(self.writes, order, frame, pos, ids)
        writer = _partner(beside)
        if writer is not None:
            racing = writer if how in ("read", "write") else np.where(self.plain[pos], writer, -1)
            if how == "write":
                racing = self._again(state, order, pos, ids, racing, value, old)
            self._report(state, order, pos, ids, racing, how, "a write")
        if not self.local:
            if how == "write":
                self._repeated(state, order, pos, ids, value == old)
            self.fresh[pos] = how == "write"
        if how == "peek":
            self.peeks = self.peeks or Witnesses(len(self.plain))
            self.peeks.remember(order, pos, ids, self._beside(self.peeks, order, frame, pos, ids))
            return
        readers = self._beside(self.reads, order, frame, pos, ids)
        if how == "read":
            self.reads.remember(order, pos, ids, readers)
            return
        if (reader := _partner(readers)) is not None:
            self._report(state, order, pos, ids, reader, how, "a read")
        if how == "write" and self.peeks is not None:
            peek = _partner(self._beside(self.peeks, order, frame, pos, ids))
            if peek is not None:
                self._report(state, order, pos, ids, peek, how, "an atomic read")
        self.writes.remember(order, pos, ids, beside if how == "atomic" else [])
        self.plain[pos] = how != "atomic"
        if how == "write":
            self._same_statement(state, order, pos, ids, value)

    def touch_within_block(self, state: State, frame: Frame, lanes, pos, narrow: bool) -> None:
        """Check atomics, to be recorded next, against those of other blocks: is one of the two not atomic to the other?

        ``narrow``: these are atomic within their block only.
        """
        order = state.order
        assert isinstance(order, BarrierOrder)
        ids = order.ids(frame, lanes)
        partners = [
            _partner(known.beside(order, pos, ids, self.local))
            for known in (self.narrow, self.writes if narrow else None)
            if known is not None
        ]
        if narrow:
            self.narrow = self.narrow or Witnesses(len(self.plain))
            self.narrow.remember(order, pos, ids, [])
            partners.append(self.narrow.who[0][pos])  # of several in this very statement, the last
        for partner in partners:
            if partner is not None:
                apart = (partner >= 0) & (order.block_of[partner] != order.block_of[ids])
                self._report(state, order, pos, ids, np.where(apart, partner, -1), "narrow", "an atomic")

    def _beside(self, known: Witnesses, order: Order, frame: Frame, pos, ids) -> list[Beside]:
        """The remembered accesses that are concurrent with these; without looking, where there can be none."""
        settled = order.settled(frame, self.owner) if self.owner is not None else 0
        if known.latest < settled or known.latest < 0:
            return []
        return known.beside(order, pos, ids, self.local, settled)

    def _again(self, state: State, order: Order, pos, ids, racing, value, old):
        """``racing`` without writers that left what is there (or raced with who did): storing it again is harmless."""
        again = (racing >= 0) & self.plain[pos] & (value == old)
        if not order.same_value or not count_true(again):
            return racing
        self._report(state, order, pos, ids, np.where(again, racing, -1), "write", "a write", order.same_value)
        return np.where(again, -1, racing)

    def _same_statement(self, state: State, order: Order, pos, ids, value) -> None:
        """Several lanes of one statement storing to one scalar: a race, a harmless one if they store the same bits."""
        winner = self.writes.who[0][pos]
        clash = winner != ids
        if not count_true(clash):
            return
        last = dict(zip(pos.tolist(), range(len(pos))))
        chosen = np.fromiter((last[p] for p in pos[clash].tolist()), np.int64)
        differs = value[clash] != value[chosen]
        for kind, which in ((order.kind, differs), (order.same_value, ~differs)):
            if kind:
                partner = np.full(len(pos), -1, np.int64)
                partner[np.flatnonzero(clash)[which]] = winner[clash][which]
                self._report(state, order, pos, ids, partner, "write", "a write", kind)

    def _repeated(self, state: State, order: Order, pos, ids, same) -> None:
        """Threads that store once more what they stored last, and nobody has read: work that is done twice."""
        if self.writes.latest < 0 or not order.same_value:
            return
        again = self.fresh[pos] & same & (self.writes.who[0][pos] == ids)
        if count_true(again):
            self._report(state, order, pos, ids, np.where(again, ids, -1), "write", "a write", order.same_value)

    def _report(self, state: State, order: Order, pos, ids, partner, how: str, other: str, kind: str = "") -> None:
        bad = partner >= 0
        if not count_true(bad):
            return
        at = int(np.argmax(bad))
        buffer = next(b for b in state.buffers.values() if b.shadow is self)
        index = int(pos[at]) % max(buffer.size, 1)
        who, whom = order.describe(int(ids[at])), order.describe(int(partner[at]))
        article = _ARTICLES.get(how, f"a {how}")
        message = f"{buffer.sym.name}[{index}]: {article} by {who} and {other} by {whom} are not ordered"
        if order.fences_between(int(ids[at]), int(partner[at])):
            message += ": a message takes a fence before its atomic and one after the atomic that receives it"
        if who == whom:
            message = f"{buffer.sym.name}[{index}] is stored twice by {who}, the same bits, and never read in between"
        state.findings.add(
            kind or order.kind, message, state.stmt, buffer=buffer.sym.name, index=index, count=int(bad.sum())
        )


def _partner(beside: list[Beside]) -> np.ndarray | None:
    """Of each access one that is beside it, or -1; None if no access has one."""
    partner = None
    for b in beside:
        partner = np.where(b.held, b.who, -1 if partner is None else partner)
    return partner
