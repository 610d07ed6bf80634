"""Race detection by shadow memory: who touched each scalar last, and is that ordered before the access at hand?

Two questions are kept apart. *Order* says whether an earlier access and a present one are concurrent: in SPMD form by
barriers (:class:`BarrierOrder`), in parallel form by which ``par`` iterations they belong to (:class:`IterationOrder`).
*Shadow* remembers, for every scalar, two representative writers and two representative readers. Two are enough in
practice: when a new access is ordered after a remembered one it replaces it (happens-before is transitive), and when it
is not, it is itself the partner of a race or a second member of a set of concurrent readers or atomics.

Kernels run in lockstep, one legal schedule; a race is reported when *some* schedule could order the pair differently.
Warps are not implicitly synchronous. Shuffles order nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from .frames import Frame
from .publish import Published
from .state import Geometry, State


class Order(ABC):
    """``concurrent(who, when, ids)``: may the access by ``who`` at ``when`` run beside one by ``ids`` now?"""

    kind: str
    now: int = 0
    same_value: str = ""
    """The kind of finding that writers of one value to one place are; '' for none."""

    @abstractmethod
    def ids(self, frame: Frame, lanes: np.ndarray) -> np.ndarray:
        """Run-wide identities of lanes: threads, or iterations."""

    @abstractmethod
    def concurrent(self, who: np.ndarray, when: np.ndarray, ids: np.ndarray) -> np.ndarray: ...

    def settled(self, frame: Frame) -> int:
        """Within one block (one ``par``), accesses at times before this are ordered before every access now."""
        return 0

    @abstractmethod
    def describe(self, identity: int) -> str: ...


class BarrierOrder(Order):
    """Threads of a block are ordered by block barriers, of a warp by warp barriers too, blocks by grid barriers."""

    kind, same_value = "race", "redundant-store"

    def __init__(self, geometry: Geometry) -> None:
        self.threads, self.warp = geometry.threads, geometry.warp
        total = geometry.threads * geometry.blocks
        thread = np.arange(total) % max(geometry.threads, 1)
        self.block_of = np.arange(total) // max(geometry.threads, 1)
        self.warp_of = thread // geometry.warp  # within its block
        self.block_sync = np.zeros(total, np.int64)  # time of the last block barrier each thread was in
        self.warp_sync = np.zeros(total, np.int64)
        self.published = Published(geometry.threads, geometry.blocks)
        self.grid_sync = np.zeros(total, np.int64)
        self.first = 0
        self._floor, self._floor_at = 0, (-1, 0, 0)

    def ids(self, frame, lanes):
        return lanes + self.first

    def block_barrier(self, lanes: np.ndarray) -> None:
        self.now += 1
        self.block_sync[lanes + self.first] = self.now
        self.warp_sync[lanes + self.first] = self.now
        self.published.met(lanes + self.first)

    def grid_barrier(self, lanes: np.ndarray) -> None:
        self.block_barrier(lanes)
        self.grid_sync[lanes + self.first] = self.now

    def fence(self, lanes: np.ndarray) -> None:
        """A fence at device scope by the threads ``lanes``."""
        self.now += 1
        self.published.fence(lanes + self.first, self.now)

    def exchange(self, buffer: int, elements: np.ndarray, lanes: np.ndarray) -> None:
        """Atomic updates, in this order."""
        self.published.exchange(buffer, elements, lanes + self.first, self.block_sync, self.now)

    def warp_barrier(self, lanes: np.ndarray) -> None:
        self.now += 1
        self.warp_sync[lanes + self.first] = self.now

    def concurrent(self, who, when, ids):
        unordered = when >= self.block_sync[ids]
        if unordered.any():
            unordered &= (self.warp_of[who] != self.warp_of[ids]) | (when >= self.warp_sync[ids])
        other_block = self.block_of[who] != self.block_of[ids]
        if not other_block.any():
            return unordered & (who != ids)
        if self.published.any:
            other_block &= ~self.published.before(who, when, ids)
        return (who != ids) & np.where(other_block, when >= self.grid_sync[ids], unordered)

    def settled(self, frame: Frame) -> int:
        first = self.first
        if self._floor_at != (self.now, first, frame.n):
            self._floor_at = (self.now, first, frame.n)
            self._floor = int(self.block_sync[first : first + frame.n].min())
        return self._floor

    def describe(self, identity):
        return "block {}, thread {}".format(*divmod(identity, self.threads))


@dataclass
class IterationOrder(Order):
    """Iterations of one ``par`` are concurrent; everything else is a sequential program.

    Every lane of every frame is an *iteration* with a run-wide id, a parent id, and the id of the ``par`` instance it
    belongs to. Two accesses are concurrent iff their ancestors just below their lowest common one are in one instance.
    """

    kind = "dependent-iterations"
    parent: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    instance: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    depth: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    base: dict[int, int] = field(default_factory=dict)
    instances: int = 1

    def begin(self, parents: int) -> int:
        """A ``par`` starts under ``parents`` lanes: one new instance for each; the first of their ids."""
        self.instances += parents
        return self.instances - parents

    def enter(self, frame: Frame, first_instance: int = 0) -> None:
        """Register a frame: (some of) the iterations of the ``par`` that :meth:`begin` announced."""
        if frame.parent is None:
            self.base[id(frame)] = 0
            return
        assert frame.index is not None
        first = len(self.parent)
        self.base[id(frame)] = first
        parent = self.base[id(frame.parent)] + frame.index
        self.parent = np.concatenate([self.parent, parent])
        self.instance = np.concatenate([self.instance, first_instance + frame.index])
        self.depth = np.concatenate([self.depth, self.depth[parent] + 1])

    def ids(self, frame, lanes):
        return lanes + self.base[id(frame)]

    def concurrent(self, who, when, ids):
        a, b = np.maximum(who, 0), ids
        nested = np.zeros(len(a), bool)  # one contains the other: ordered, they are the same iteration
        while True:
            deeper_a, deeper_b = self.depth[a] > self.depth[b], self.depth[b] > self.depth[a]
            if not (deeper_a.any() or deeper_b.any()):
                break
            a, b = np.where(deeper_a, self.parent[a], a), np.where(deeper_b, self.parent[b], b)
        nested |= a == b
        while True:
            apart = (self.parent[a] != self.parent[b]) & ~nested
            if not apart.any():
                break
            a, b = np.where(apart, self.parent[a], a), np.where(apart, self.parent[b], b)
        return ~nested & (self.instance[a] == self.instance[b])

    def describe(self, identity):
        return f"iteration {identity}"


class _Two:
    """Two remembered accesses per scalar: identity (-1: none) and time."""

    def __init__(self, n: int) -> None:
        self.who = [np.full(n, -1, np.int64), np.full(n, -1, np.int64)]
        self.when = [np.zeros(n, np.int64), np.zeros(n, np.int64)]
        self.crowded = False  # whether the second slot was ever used
        self.latest = -1  # time of the last access remembered

    def concurrent(self, order: Order, pos, ids):
        """For each access: the identity of a remembered concurrent one, or -1."""
        partner = np.full(len(pos), -1, np.int64)
        for who, when in list(zip(self.who, self.when))[: 2 if self.crowded else 1]:
            known = who[pos]
            hit = (known >= 0) & (known != ids)
            if hit.all():
                hit = order.concurrent(known, when[pos], ids)
            elif hit.any():
                at = np.flatnonzero(hit)
                hit[at] = order.concurrent(known[at], when[pos[at]], ids[at])
            if hit.any():
                partner = np.where(hit, known, partner)
        return partner

    def remember(self, pos, ids, now: int, keep: np.ndarray | None) -> None:
        """Note the accesses: as second member where ``keep`` (the remembered one is concurrent), else as first."""
        self.latest = now
        if keep is not None and keep.any():
            self.crowded = True
            self.who[1][pos[keep]] = ids[keep]
            self.when[1][pos[keep]] = now
            fresh = ~keep
            pos, ids = pos[fresh], ids[fresh]
        self.who[0][pos] = ids
        self.when[0][pos] = now
        if self.crowded:
            self.who[1][pos] = -1
        clash = self.who[0][pos] != ids  # several lanes in this very statement
        if clash.any():
            self.crowded = True
            self.who[1][pos[clash]] = ids[clash]
            self.when[1][pos[clash]] = now


class Shadow:
    """The access history of one buffer of ``n`` scalars; ``local``: each scalar belongs to one block."""

    def __init__(self, n: int, local: bool = False) -> None:
        self.writes, self.reads = _Two(n), _Two(n)
        self.plain = np.zeros(n, bool)  # whether the remembered writers wrote plainly (not atomically)
        self.local = local

    def touch(self, state: State, frame: Frame, lanes, pos, how: str, value) -> None:
        """Check accesses of one statement against the history and each other, then record them."""
        order = state.order
        assert order is not None
        ids = order.ids(frame, lanes)
        writer = self._concurrent(self.writes, order, frame, pos, ids)
        if writer is not None:
            racing = writer if how != "atomic" else np.where(self.plain[pos], writer, -1)
            self._report(state, order, pos, ids, racing, how, "a write")
        reader = self._concurrent(self.reads, order, frame, pos, ids)
        if how == "read":
            self.reads.remember(pos, ids, order.now, None if reader is None else reader >= 0)
            return
        if reader is not None:
            self._report(state, order, pos, ids, reader, how, "a read")
        kept = writer is not None and how == "atomic"
        self.writes.remember(pos, ids, order.now, writer >= 0 if kept else None)
        self.plain[pos] = how != "atomic"
        if how == "write":
            self._same_statement(state, order, pos, ids, value)

    def _concurrent(self, known: _Two, order: Order, frame: Frame, pos, ids) -> np.ndarray | None:
        """A remembered concurrent access for each; None if there can be none, without looking."""
        if known.latest < 0 or (self.local and known.latest < order.settled(frame)):
            return None
        return known.concurrent(order, pos, ids)

    def _same_statement(self, state: State, order: Order, pos, ids, value) -> None:
        """Several lanes of one statement storing to one scalar: a race, a harmless one if they store the same bits."""
        winner = self.writes.who[0][pos]
        clash = winner != ids
        if not clash.any():
            return
        last = dict(zip(pos.tolist(), range(len(pos))))
        chosen = np.fromiter((last[p] for p in pos[clash].tolist()), np.int64)
        differs = value[clash] != value[chosen]
        for kind, which in ((order.kind, differs), (order.same_value, ~differs)):
            if kind:
                partner = np.full(len(pos), -1, np.int64)
                partner[np.flatnonzero(clash)[which]] = winner[clash][which]
                self._report(state, order, pos, ids, partner, "write", "a write", kind)

    def _report(self, state: State, order: Order, pos, ids, partner, how: str, other: str, kind: str = "") -> None:
        bad = partner >= 0
        if not bad.any():
            return
        at = int(np.argmax(bad))
        buffer = next(b for b in state.buffers.values() if b.shadow is self)
        index = int(pos[at]) % max(buffer.size, 1)
        who, whom = order.describe(int(ids[at])), order.describe(int(partner[at]))
        article = "an atomic" if how == "atomic" else f"a {how}"
        message = f"{buffer.sym.name}[{index}]: {article} by {who} and {other} by {whom} are not ordered"
        state.findings.add(
            kind or order.kind, message, state.stmt, buffer=buffer.sym.name, index=index, count=int(bad.sum())
        )
