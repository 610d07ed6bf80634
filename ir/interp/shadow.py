"""Shadow memory: who touched each scalar of a buffer last, and what is reported when an access is not ordered after it.

For every scalar it remembers two representative writers and two readers. Two are enough in practice: when
a new access is ordered after a remembered one it replaces it (happens-before is transitive), and when it is not, it is
itself the partner of a race or a second member of a set of concurrent readers or atomics.
"""

from __future__ import annotations

import numpy as np

from .counting import count_true
from .frames import Frame
from .races import BarrierOrder, Order
from .state import State


class _Two:
    """Two remembered accesses per scalar: identity (-1: none) and time."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.who: list[np.ndarray] = []  # one slot from the first access on, two from the first concurrent one on
        self.when: list[np.ndarray] = []
        self.latest = -1  # time of the last access remembered

    def _slots(self, count: int) -> None:
        while len(self.who) < count:
            self.who.append(np.full(self.n, -1, np.int64))
            self.when.append(np.zeros(self.n, np.int64))

    def concurrent(self, order: Order, pos, ids, local: bool, settled: int = 0):
        """For each access: the identity of a remembered concurrent one, or -1; None if there is none at all.

        What was done before the time ``settled`` is ordered before all of them.
        """
        partner = None
        for who, when in zip(self.who, self.when):
            if settled and not count_true(when[pos] >= settled):
                continue
            known = who[pos]
            hit = (known >= 0) & (known != ids)
            at = hit.nonzero()[0]
            if not len(at):
                continue
            if len(at) == len(hit):
                hit = order.concurrent(known, when[pos], ids, local)
            else:
                hit[at] = order.concurrent(known[at], when[pos[at]], ids[at], local)
            if count_true(hit):
                partner = np.where(hit, known, -1 if partner is None else partner)
        return partner

    def remember(self, pos, ids, now: int, keep: np.ndarray | None) -> None:
        """Note the accesses: as second member where ``keep`` (the remembered one is concurrent), else as first."""
        self.latest = now
        self._slots(1)
        if keep is not None and (kept := count_true(keep)):
            self._slots(2)
            self.who[1][pos[keep]] = ids[keep]
            self.when[1][pos[keep]] = now
            if kept == len(keep):
                return
            fresh = ~keep
            pos, ids = pos[fresh], ids[fresh]
        ends = _runs(pos)
        if ends is not None and self._remembered(pos, ids, now, ends):
            return
        self.who[0][pos] = ids
        self.when[0][pos] = now
        if len(self.who) > 1:
            self.who[1][pos] = -1
        clash = self.who[0][pos] != ids  # several lanes in this very statement
        if count_true(clash):
            self._slots(2)
            self.who[1][pos[clash]] = ids[clash]
            self.when[1][pos[clash]] = now

    def _remembered(self, pos, ids, now: int, ends: np.ndarray) -> bool:
        """What :meth:`remember` does, of the last two accesses to each place only; False if those are one thread's."""
        clash = len(ends) < len(pos)
        if clash:
            several = ends[np.diff(ends, prepend=-1) > 1]
            if count_true(ids[several] == ids[several - 1]):
                return False
            self._slots(2)
        last, place = ids[ends], pos[ends]
        self.who[0][place] = last
        self.when[0][place] = now
        if len(self.who) > 1:
            self.who[1][place] = -1
        if clash:
            self.who[1][pos[several]] = ids[several - 1]
            self.when[1][pos[several]] = now
        return True


def _runs(pos: np.ndarray) -> np.ndarray | None:
    """The last access to each place, where places never go down; None where they do, or there are few."""
    if len(pos) < FEW:
        return None
    step = pos[1:] - pos[:-1]
    if count_true(step < 0):
        return None
    return np.append(step.nonzero()[0], len(pos) - 1)


FEW = 256
"""Accesses whose order is not worth looking at."""

_ARTICLES = {"atomic": "an atomic", "peek": "an atomic read", "narrow": "an atomic within a block"}


class Shadow:
    """The access history of one buffer of ``n`` scalars; ``local``: each scalar belongs to one block."""

    def __init__(self, n: int, local: bool = False) -> None:
        self.writes, self.reads = _Two(n), _Two(n)
        self.peeks: _Two | None = None  # reads by atomics that changed nothing (a compare-and-swap that failed)
        self.narrow: _Two | None = None  # atomics that are atomic within their block only
        self.plain = np.zeros(n, bool)  # whether the remembered writers wrote plainly (not atomically)
        self.local = local
        self.fresh = np.zeros(0 if local else n, bool)  # stored to, and not read since

    def touch(self, state: State, frame: Frame, lanes, pos, how: str, value=None, old=None) -> None:
        """Check accesses of one statement against the history and each other, then record them.

        ``how``: read | write | atomic | peek (an atomic that leaves the element as it is). For writes, ``value`` is
        what they store and ``old`` what is there.
        """
        order = state.order
        assert order is not None
        ids = order.ids(frame, lanes)
        writer = self._concurrent(self.writes, order, frame, pos, ids)
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
            self.peeks = self.peeks or _Two(len(self.plain))
            beside = self._concurrent(self.peeks, order, frame, pos, ids)
            self.peeks.remember(pos, ids, order.now, None if beside is None else beside >= 0)
            return
        reader = self._concurrent(self.reads, order, frame, pos, ids)
        if how == "read":
            self.reads.remember(pos, ids, order.now, None if reader is None else reader >= 0)
            return
        if reader is not None:
            self._report(state, order, pos, ids, reader, how, "a read")
        if how == "write" and self.peeks is not None:
            peek = self._concurrent(self.peeks, order, frame, pos, ids)
            if peek is not None:
                self._report(state, order, pos, ids, peek, how, "an atomic read")
        beside = writer >= 0 if writer is not None and how == "atomic" else None
        self.writes.remember(pos, ids, order.now, beside)
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
            known.concurrent(order, pos, ids, self.local)
            for known in (self.narrow, self.writes if narrow else None)
            if known is not None
        ]
        if narrow:
            self.narrow = self.narrow or _Two(len(self.plain))
            self.narrow.remember(pos, ids, order.now, None)
            partners.append(self.narrow.who[0][pos])  # of several in this very statement, the last
        for partner in partners:
            if partner is not None:
                apart = (partner >= 0) & (order.block_of[partner] != order.block_of[ids])
                self._report(state, order, pos, ids, np.where(apart, partner, -1), "narrow", "an atomic")

    def _concurrent(self, known: _Two, order: Order, frame: Frame, pos, ids) -> np.ndarray | None:
        """A remembered concurrent access for each; None if there can be none, without looking."""
        settled = order.settled(frame) if self.local else 0
        if known.latest < settled or known.latest < 0:
            return None
        return known.concurrent(order, pos, ids, self.local, settled)

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
        if who == whom:
            message = f"{buffer.sym.name}[{index}] is stored twice by {who}, the same bits, and never read in between"
        state.findings.add(
            kind or order.kind, message, state.stmt, buffer=buffer.sym.name, index=index, count=int(bad.sum())
        )
