"""Two representatives of all who touched a scalar: those farthest apart, in whose place nobody else need be remembered.

Who may run beside whom is a tree: blocks, their warps, their threads, or iterations inside iterations. An access that
is ordered after both of two that lie as far apart as any is ordered after all of them; one that is not ordered after
somebody between them is not ordered after one of the two (Mellor-Crummey, "On-the-fly detection of data races for
programs with nested fork-join parallelism", SC 1991, keeps two readers for the same reason). What orders single
threads across blocks, a fence and an atomic, is outside the tree: there two are enough in practice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktc.ir.interp.execution.true_counts import count_true

from .races import Order

FEW = 256
"""Accesses whose order is not worth looking at."""


@dataclass
class Beside:
    """Remembered accesses that may run beside present ones: of the accesses where ``held``, ``who`` at ``when``."""

    who: np.ndarray
    when: np.ndarray
    held: np.ndarray


class Witnesses:
    """Two remembered accesses per scalar: identity (-1: none) and time, the last of its statement first."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.who: list[np.ndarray] = []  # one slot from the first access on, two from the first concurrent one on
        self.when: list[np.ndarray] = []
        self.latest = -1  # time of the last access remembered

    def _slots(self, count: int) -> None:
        while len(self.who) < count:
            self.who.append(np.full(self.n, -1, np.int64))
            self.when.append(np.zeros(self.n, np.int64))

    def beside(self, order: Order, pos, ids, local: bool, settled: int = 0) -> list[Beside]:
        """The remembered accesses that are concurrent with these; [] if there is none at all.

        What was done before the time ``settled`` is ordered before all of them.
        """
        out = []
        for who, when in zip(self.who, self.when):
            if settled and not count_true(when[pos] >= settled):
                continue
            known = who[pos]
            hit = (known >= 0) & (known != ids)
            at = hit.nonzero()[0]
            if not len(at):
                continue
            then = when[pos]
            if len(at) == len(hit):
                hit = order.concurrent(known, then, ids, local)
            else:
                hit[at] = order.concurrent(known[at], then[at], ids[at], local)
            if count_true(hit):
                out.append(Beside(known, then, hit))
        return out

    def remember(self, order: Order, pos, ids, beside: list[Beside]) -> None:
        """Note the accesses of one statement, in the place of those that none of them is ``beside``."""
        self.latest = order.now
        self._slots(1)
        ends = _runs(pos)
        if ends is not None and self._again(pos, ids, ends, order.now):
            return
        if beside:
            self._farthest(order, pos, ids, beside)
        elif ends is None or not self._at_once(pos, ids, ends, order.now):
            self._alone(pos, ids, order.now)

    def _alone(self, pos, ids, now: int) -> None:
        """The last and the first lane of each place."""
        self.who[0][pos] = ids
        self.when[0][pos] = now
        if len(self.who) > 1:
            self.who[1][pos] = -1
        clash = self.who[0][pos] != ids  # several lanes in this very statement
        if count_true(clash):
            self._slots(2)
            place = pos[clash][::-1]
            self.who[1][place] = ids[clash][::-1]
            self.when[1][place] = now

    def _at_once(self, pos, ids, ends: np.ndarray, now: int) -> bool:
        """What :meth:`_alone` does, looking at the two of each place only; False if those are one thread's."""
        several, starts = _several(ends)
        if len(several):
            if count_true(ids[several] == ids[starts]):
                return False
            self._slots(2)
        last, place = ids[ends], pos[ends]
        self.who[0][place] = last
        self.when[0][place] = now
        if len(self.who) > 1:
            self.who[1][place] = -1
        if len(several):
            self.who[1][pos[several]] = ids[starts]
            self.when[1][pos[several]] = now
        return True

    def _again(self, pos, ids, ends: np.ndarray, now: int) -> bool:
        """Whether those who are remembered made these accesses too; then they are as of now."""
        several, starts = _several(ends)
        place = pos[ends]
        if len(several) != len(ends) or len(self.who) < 2 or count_true(self.who[0][place] != ids[ends]):
            return False
        if count_true(self.who[1][place] != ids[starts]):
            return False
        self.when[0][place] = self.when[1][place] = now
        return True

    def _farthest(self, order: Order, pos, ids, beside: list[Beside]) -> None:
        """Of these accesses and those ``beside`` one of them, the two of each place that lie farthest apart."""
        self._slots(2)
        if len(beside) == len(self.who) and len(pos) >= FEW:
            outer = self._outer(order, pos, ids, beside)
            if outer is not None:
                self._renew(pos[~outer], ids[~outer], order.now)
                pos, ids = pos[outer], ids[outer]
                beside = [Beside(b.who[outer], b.when[outer], b.held[outer]) for b in beside]
        now = np.full(len(ids), order.now, np.int64)
        places = np.concatenate([*(pos[b.held] for b in beside), pos])
        who = np.concatenate([*(b.who[b.held] for b in beside), ids])
        when = np.concatenate([*(b.when[b.held] for b in beside), now])
        line = np.argsort(order.line(who), kind="stable")
        for slot, these in enumerate((line, line[::-1])):
            self.who[slot][places[these]] = who[these]
            self.when[slot][places[these]] = when[these]
        self._renew(pos, ids, order.now)
        one = self.who[0][pos] == self.who[1][pos]
        self.who[1][pos[one]] = -1

    def _outer(self, order: Order, pos, ids, beside: list[Beside]) -> np.ndarray | None:
        """The accesses to places at which one of these does not lie between the two that are remembered, both of them
        beside it; None if that is most. Of the other places the two stay the farthest apart."""
        at = order.line(ids)
        last, first = ((b.held, order.line(b.who), b.who == ids) for b in beside)
        within = ((last[0] & (at < last[1])) | last[2]) & ((first[0] & (at > first[1])) | first[2])
        if 2 * count_true(within) < len(within):
            return None
        beyond = pos[~within]
        if not len(beyond):
            return ~within
        low = int(pos.min())
        outer = np.zeros(int(pos.max()) - low + 1, bool)
        outer[beyond - low] = True
        return outer[pos - low]

    def _renew(self, pos, ids, now: int) -> None:
        """What remembered accesses were made by those who make these are as of ``now``."""
        for who, when in zip(self.who, self.when):
            when[pos[who[pos] == ids]] = now


def _runs(pos: np.ndarray) -> np.ndarray | None:
    """The last access to each place, where places never go down; None where they do, or there are few."""
    if len(pos) < FEW:
        return None
    step = pos[1:] - pos[:-1]
    if count_true(step < 0):
        return None
    return np.append(step.nonzero()[0], len(pos) - 1)


def _several(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last and the first access of each place that has several."""
    length = ends.copy()  # np.diff takes longer to look at its arguments
    length[1:] -= ends[:-1]
    length[0] += 1
    many = length > 1
    several = ends[many]
    return several, several - length[many] + 1
