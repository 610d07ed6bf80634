"""Messages between blocks: a fence, then an atomic on one side; an atomic on that element, then a fence on the other.

A block that writes, fences and then updates a counter has published its writes to whoever updates that counter later
and fences (and to the threads of its block that fence after its next barrier). This is the happens-before of release
and acquire in the PTX memory model (section 8.9 of the PTX ISA) as far as atomics carry it; flags polled by plain loads
publish nothing here.

Times are those of :class:`~.races.BarrierOrder`: an access at time ``w`` comes before a fence at ``f`` iff ``w < f``.
"""

from __future__ import annotations

import numpy as np

Place = tuple[int, int]
"""(buffer identity, element)."""


class Published:
    """What each block may take as done by the threads of other blocks."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.threads, self.blocks = threads, blocks
        self.fenced = np.zeros(threads * blocks, np.int64)  # time of each thread's last device fence
        self._messages: dict[Place, np.ndarray] = {}  # up to when each thread's accesses are published there
        self._seen: dict[int, np.ndarray] = {}  # by block: known to all its threads
        self._taken: dict[int, tuple[set[int], np.ndarray]] = {}  # by block: known to these threads until they meet
        self._taken_at: dict[int, int] = {}  # by block: when it last took something
        self.any = False

    def fence(self, ids: np.ndarray, now: int) -> None:
        self.fenced[ids] = now
        self.any = True

    def exchange(self, buffer: int, elements: np.ndarray, ids: np.ndarray, block_sync: np.ndarray, now: int) -> None:
        """Threads ``ids`` update ``elements`` in this order: each takes what was published there and adds its own."""
        if not self.any:
            return
        for element, thread in zip(elements.tolist(), ids.tolist()):
            block = thread // self.threads
            message = self._messages.setdefault((buffer, element), np.zeros(self.threads * self.blocks, np.int64))
            if message.any():
                who, known = self._taken.setdefault(block, (set(), np.zeros_like(message)))
                who.add(thread)
                self._taken_at[block] = now
                np.maximum(known, message, out=known)
            np.maximum(message, self._known(block, thread), out=message)
            self._release(message, block, thread, int(block_sync[thread]))

    def _release(self, message: np.ndarray, block: int, thread: int, met: int) -> None:
        """Add what ``thread`` publishes: its own accesses before its fence; those of its block before the barrier at
        ``met``, if their thread fenced before it or this thread fenced after it."""
        mine = slice(block * self.threads, (block + 1) * self.threads)
        fenced = self.fenced[mine]
        others = np.where(fenced <= met, fenced, 0)
        if self.fenced[thread] > met:
            others = np.maximum(others, met)
        np.maximum(message[mine], others, out=message[mine])
        message[thread] = max(message[thread], self.fenced[thread])

    def met(self, ids: np.ndarray) -> None:
        """The blocks of ``ids`` passed a barrier: what one of their threads took, all of them know."""
        for block in np.unique(ids // self.threads).tolist() if self._taken else ():
            if block in self._taken:
                _, known = self._taken.pop(block)
                old = self._seen.get(block)
                self._seen[block] = known if old is None else np.maximum(old, known)

    def _known(self, block: int, thread: int) -> np.ndarray | int:
        known: np.ndarray | int = self._seen.get(block, 0)
        who, taken = self._taken.get(block, (set(), 0))
        return np.maximum(known, taken) if thread in who else known

    def before(self, who: np.ndarray, when: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Whether the access by ``who`` at ``when`` is done for ``ids``, one by one."""
        out = np.zeros(len(ids), bool)
        if not (self._seen or self._taken):
            return out
        for thread in np.unique(ids).tolist():
            block = thread // self.threads
            known = self._known(block, thread)
            if isinstance(known, np.ndarray) and self.fenced[thread] > self._taken_at[block]:
                at = ids == thread
                out[at] = when[at] < known[who[at]]
        return out
