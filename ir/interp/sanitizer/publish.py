"""Messages between blocks: a fence, then an atomic on one side; an atomic on that element, then a fence on the other.

A block that writes, fences and then updates a counter has published its writes to whoever updates that counter later
and fences, and to its whole block from the barrier after that fence on (or to the threads of its block that fence
after its next barrier: device fences are sequentially consistent). This is the happens-before of release
and acquire in the PTX memory model (section 8.9 of the PTX ISA) as far as atomics carry it; flags polled by plain loads
publish nothing here.

Times are those of :class:`~.races.BarrierOrder`: an access at time ``w`` comes before a fence at ``f`` iff ``w < f``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

Place = tuple[int, int]
"""(serial of the buffer, element)."""

Knowledge = dict[int, np.ndarray]
"""By block: up to when the accesses of each of its threads are done for whoever knows this. Arrays are never written
to once they are in here, so that a chain of messages shares them: its size goes with blocks times messages, not with
threads times messages."""


class Published:
    """What each block may take as done by the threads of other blocks."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.threads = threads
        self.fenced = np.zeros(threads * blocks, np.int64)  # time of each thread's last device fence
        self._messages: dict[Place, Knowledge] = {}  # what is published there
        self._seen: dict[int, Knowledge] = {}  # by block: known to all its threads
        self._taken: dict[int, tuple[set[int], Knowledge]] = {}  # by block: known to these threads until they meet
        self._taken_at: dict[int, int] = {}  # by block: when it last took something
        self._open: dict[int, tuple[set[int], Knowledge]] = {}  # by block: taken by threads that have not fenced since
        self._acquired: dict[int, Knowledge] = {}  # by block: known to all its threads, without a fence of their own
        self.any = False

    def fence(self, ids: np.ndarray, now: int) -> None:
        self.fenced[ids] = now
        self.any = True

    def exchange(
        self,
        buffer: int,
        elements: np.ndarray,
        ids: np.ndarray,
        gives: np.ndarray,
        block_sync: np.ndarray,
        now: int,
    ) -> None:
        """Threads ``ids`` access ``elements`` in this order: each takes what was published there, and those that
        ``gives`` marks, which wrote something, add their own."""
        if not self.any:
            return
        for element, thread, wrote in zip(elements.tolist(), ids.tolist(), gives.tolist()):
            block = thread // self.threads
            message = self._messages.setdefault((buffer, element), {})
            if message:
                who, known = self._taken.setdefault(block, (set(), {}))
                who.add(thread)
                self._taken_at[block] = now
                _learn(known, message)
            if not wrote:
                continue
            for known in self._known(block, thread):
                _learn(message, known)
            mine = self._released(block, thread, int(block_sync[thread]))
            if mine.any():
                _learn(message, {block: mine})

    def _released(self, block: int, thread: int, met: int) -> np.ndarray:
        """What ``thread`` publishes of its block: its own accesses before its fence; those of the others before the
        barrier at ``met``, if their thread fenced before it or this thread fenced after it."""
        fenced = self.fenced[block * self.threads : (block + 1) * self.threads]
        out = np.where(fenced <= met, fenced, 0)
        if self.fenced[thread] > met:
            out = np.maximum(out, met)
        own = thread - block * self.threads
        out[own] = max(out[own], self.fenced[thread])
        return out

    def met(self, ids: np.ndarray) -> None:
        """The blocks of ``ids`` passed a barrier: what one of their threads took, all of them know."""
        for block in np.unique(ids // self.threads).tolist() if self._taken or self._open else ():
            if block in self._taken:
                who, known = self._taken.pop(block)
                _learn(self._seen.setdefault(block, {}), known)
                takers, unfenced = self._open.setdefault(block, (set(), {}))
                takers |= who
                _learn(unfenced, known)
            if block in self._open and self._fenced_since(block, self._open[block][0]):
                _learn(self._acquired.setdefault(block, {}), self._open.pop(block)[1])

    def _fenced_since(self, block: int, takers: set[int]) -> bool:
        return bool((self.fenced[list(takers)] > self._taken_at[block]).all())

    def _known(self, block: int, thread: int) -> list[Knowledge]:
        """What ``thread`` knows of other blocks: with all of its block, and by itself."""
        who, taken = self._taken.get(block, (frozenset(), {}))
        return [k for k in (self._seen.get(block), taken if thread in who else None) if k]

    def before(self, who: np.ndarray, when: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Whether the access by ``who`` at ``when`` is done for ``ids``, one by one."""
        out = np.zeros(len(ids), bool)
        if not (self._seen or self._taken):
            return out
        blocks = ids // self.threads
        for block in np.unique(blocks).tolist():
            here = np.flatnonzero(blocks == block)
            for alike, known in self._groups(block, ids[here]):
                mine = here[alike]
                for k in known if len(mine) else ():
                    out[mine] |= self._done(k, who[mine], when[mine])
        return out

    def _groups(self, block: int, ids: np.ndarray) -> Iterator[tuple[np.ndarray, list[Knowledge]]]:
        """Which of the threads ``ids`` of a block know the same, and what: those that fenced since the block last took
        something, apart by whether they took it, and the others."""
        taken_at = self._taken_at.get(block)
        fenced = np.zeros(len(ids), bool) if taken_at is None else self.fenced[ids] > taken_at
        takers, _ = self._taken.get(block, (set(), {}))
        took = np.isin(ids, list(takers)) if takers else np.zeros(len(ids), bool)
        for one in (fenced & took, fenced & ~took):
            if one.any():
                yield one, self._known(block, int(ids[np.argmax(one)]))
        if block in self._acquired:
            yield ~fenced, [self._acquired[block]]

    def _done(self, known: Knowledge, who: np.ndarray, when: np.ndarray) -> np.ndarray:
        out = np.zeros(len(who), bool)
        blocks = who // self.threads
        for block in np.unique(blocks).tolist():
            if block in known:
                at = blocks == block
                out[at] = when[at] < known[block][who[at] - block * self.threads]
        return out


def _learn(known: Knowledge, more: Knowledge) -> None:
    """``known`` with what ``more`` says; arrays are shared where one of the two says it all."""
    if not known:
        known.update(more)
        return
    for block, times in more.items():
        old = known.get(block)
        if old is times:
            continue
        if old is None or (old <= times).all():
            known[block] = times
        elif not (times <= old).all():
            known[block] = np.maximum(old, times)
