"""Relaxed loads that see less than the latest: what a thread polls may have been written by another block just now.

In lockstep whatever one block tells has been told before another one asks, so a program that does not wait would never
be seen to. Here the first atomic ``load`` of a place by a block gives what stood there before the last update, if that
was another block's and nothing orders the two (:meth:`.races.Order.concurrent`); the next one gives the update. So a
block never sees a place go back (coherence), and loops that wait go round twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .races import BarrierOrder

ROOM = 1 << 24
"""Blocks times places, above which loads see the latest."""


@dataclass
class Polls:
    """Of each place of one buffer: its last update, and what stood there before."""

    writer: np.ndarray  # thread, -1: none in this launch
    when: np.ndarray
    before: np.ndarray
    version: np.ndarray
    seen: np.ndarray  # by block and place: the version that its loads have given

    @staticmethod
    def of(data: np.ndarray, blocks: int) -> Polls | None:
        n = data.size
        if blocks * n > ROOM:
            return None
        return Polls(
            np.full(n, -1), np.zeros(n, np.int64), data.copy(), np.zeros(n, np.int32), np.zeros((blocks, n), np.int32)
        )

    def update(self, places: np.ndarray, before: np.ndarray, threads: np.ndarray, now: int) -> None:
        """``places``, each once, held ``before`` until ``threads`` updated them."""
        self.writer[places], self.when[places], self.before[places] = threads, now, before
        self.version[places] += 1

    def load(self, places: np.ndarray, latest: np.ndarray, threads: np.ndarray, order: BarrierOrder) -> np.ndarray:
        """What the loads by ``threads`` give where ``latest`` stands."""
        writer, block = self.writer[places], order.block_of[threads]
        version = self.version[places]
        late = (writer >= 0) & (order.block_of[writer] != block) & (self.seen[block, places] < version)
        if late.any():
            ask = np.flatnonzero(late)
            late[ask] = order.concurrent(writer[ask], self.when[places[ask]], threads[ask], False)
        self.seen[block, places] = version
        return np.where(late, self.before[places], latest)


__all__ = ["Polls"]
