"""Race detection: whether an earlier access and a present one are concurrent.

In SPMD form barriers order accesses (:class:`BarrierOrder`), in parallel form the ``par`` iterations that they belong
to do (:class:`IterationOrder`). Which earlier accesses are looked at is :mod:`.shadow`'s business.

Kernels run in lockstep, one legal schedule; a race is reported when *some* schedule could order the pair differently.
Warps are not implicitly synchronous. Shuffles order nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from ktc.ir.interp.execution.frames import Frame
from ktc.ir.interp.execution.run_state import Geometry
from ktc.ir.interp.execution.true_counts import count_true

from .publish import Published


class Order(ABC):
    """``concurrent(who, when, ids, local)``: may the access by ``who`` at ``when`` run beside one by ``ids`` now?

    ``local``: accesses to shared memory, which some barriers order apart from global memory.
    """

    kind: str
    now: int = 0
    same_value: str = ""
    """The kind of finding that writers of one value to one place are; '' for none."""

    @abstractmethod
    def ids(self, frame: Frame, lanes: np.ndarray) -> np.ndarray:
        """Run-wide identities of lanes: threads, or iterations."""

    @abstractmethod
    def concurrent(self, who: np.ndarray, when: np.ndarray, ids: np.ndarray, local: bool) -> np.ndarray: ...

    def settled(self, frame: Frame, owner: Frame) -> int:
        """Accesses to an array of which each lane of ``owner`` has its own, by what runs within that lane: those at
        times before this are ordered before every access by ``frame`` now."""
        return 0

    @abstractmethod
    def line(self, ids: np.ndarray) -> np.ndarray:
        """Where identities lie on a line on which each group of those that are close to each other is together: a
        block's threads, the iterations inside one iteration."""

    @abstractmethod
    def describe(self, identity: int) -> str: ...

    def fences_between(self, one: int, other: int) -> bool:
        """Whether fences may be meant to order the accesses of two identities."""
        return False


class BarrierOrder(Order):
    """Threads of a block are ordered by block barriers, of a warp by warp barriers too, blocks by grid barriers."""

    kind, same_value = "race", "redundant-store"

    def __init__(self, geometry: Geometry) -> None:
        self.threads, self.warp = geometry.threads, geometry.warp
        total = geometry.threads * geometry.blocks
        self.block_of = np.repeat(np.arange(geometry.blocks), geometry.threads)
        self.warp_of = np.tile(np.arange(geometry.threads) // geometry.warp, geometry.blocks)  # within its block
        # Time of the last block barrier each thread was in that orders global memory, and that orders shared memory.
        self.block_sync, self.local_sync = np.zeros(total, np.int64), np.zeros(total, np.int64)
        self.warp_sync = np.zeros(total, np.int64)
        self.heard: np.ndarray | None = None
        """By thread of the batch and lane of its warp: until when what that lane did is ordered before the thread.
        From the first barrier of some lanes only on, in the place of ``warp_sync``."""
        self.published = Published(geometry.threads, geometry.blocks)
        self.grid_sync = np.zeros(total, np.int64)
        self.first, self.batch = 0, total
        self._floor, self._floor_at = 0, (-1, 0, 0)
        # Asynchronous copies by blocks are agents with identities after the threads'.
        self.total = total
        # Threads that passed their last barrier without a fence of (shared, global) memory, and when they last had one.
        self.lags = {True: np.zeros(total, bool), False: np.zeros(total, bool)}
        self.fenced_at = {True: np.zeros(total, np.int64), False: np.zeros(total, np.int64)}
        self.lagging = False
        self.flying = np.zeros(total, bool)
        self.in_flight = 0
        self.acting: np.ndarray | None = None
        """By block of the batch: the agent in whose name accesses are made now."""

    def ids(self, frame, lanes):
        return lanes + self.first if self.acting is None else self.acting[lanes // self.threads]

    def board(self, leaders: np.ndarray) -> np.ndarray:
        """New agents, one for the block of each of the threads ``leaders``: copies that start now."""
        leaders = leaders + self.first
        agents = np.arange(len(leaders)) + len(self.flying)
        for name in ("block_of", "block_sync", "local_sync", "grid_sync"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, old[leaders]]))
        self.warp_of = np.concatenate([self.warp_of, -1 - agents])  # no warp's
        self.warp_sync = np.concatenate([self.warp_sync, np.zeros(len(leaders), np.int64)])
        self.flying = np.concatenate([self.flying, np.ones(len(leaders), bool)])
        self.in_flight += len(leaders)
        return agents

    def landed(self, agents: np.ndarray) -> None:
        """Copies that their blocks have waited for."""
        self.flying[agents] = False
        self.in_flight -= len(agents)

    def block_barrier(self, lanes: np.ndarray, memory: str = "all") -> None:
        self.now += 1
        for local, sync in ((True, self.local_sync), (False, self.block_sync)):
            if memory not in ("all", "shared" if local else "global"):
                continue
            ids, lags, fenced = _stretch(lanes, self.first), self.lags[local], self.fenced_at[local]
            fenced[ids] = np.where(lags[ids], fenced[ids], sync[ids])
            lags[ids] = False
            sync[ids] = self.now
        if memory in ("all", "global"):
            self.published.met(lanes + self.first)

    def lacking(self, lanes: np.ndarray, flags: np.ndarray) -> None:
        """The threads of the barrier just passed fenced only the memories in ``flags``: 1 shared, 2 global.

        What a thread did is ordered before others by its own fence, so what it did since its last one stays open.
        """
        for bit, local in ((1, True), (2, False)):
            self.lags[local][lanes[(flags & bit) == 0] + self.first] = True
        self.lagging = bool(self.lags[True].any() or self.lags[False].any())

    def grid_barrier(self, lanes: np.ndarray) -> None:
        self.block_barrier(lanes)
        self.grid_sync[lanes + self.first] = self.now

    def fence(self, lanes: np.ndarray) -> None:
        """A fence at device scope by the threads ``lanes``."""
        self.now += 1
        self.published.fence(lanes + self.first, self.now)

    def exchange(self, buffer: int, elements: np.ndarray, lanes: np.ndarray, gives: np.ndarray) -> None:
        """Atomic accesses, in this order; ``gives``: those that write."""
        self.published.exchange(buffer, elements, lanes + self.first, gives, self.block_sync, self.now)

    def begin_batch(self, first: int, threads: int) -> None:
        """The blocks of ``threads`` threads from ``first`` on are next."""
        self.first, self.batch, self.heard = first, threads, None

    def warp_barrier(self, lanes: np.ndarray, masks: np.ndarray | None = None) -> None:
        """``masks``: by thread, the lanes that it waits for; None for its warp."""
        self.now += 1
        if masks is None and self.heard is None:
            self.warp_sync[lanes + self.first] = self.now
            return
        if self.heard is None:
            whole = self.warp_sync[self.first : self.first + self.batch]
            self.heard = np.repeat(whole[:, None], self.warp, axis=1)
        if masks is None:
            self.heard[lanes] = self.now
            return
        lane = lanes % self.threads % self.warp
        group = np.stack([masks, lane // 32, lanes - lane])  # a mask names 32 lanes
        order = np.lexsort(group)
        begins = np.append(True, (np.diff(group[:, order]) != 0).any(axis=0))
        told = np.maximum.reduceat(self.heard[lanes[order]], begins.nonzero()[0])[np.cumsum(begins) - 1]
        named = (masks[order, None] >> np.arange(32)) & 1 == 1
        for k in range(0, self.warp, 32):
            here = named & (lane[order, None] // 32 == k // 32)
            told[:, k : k + 32][here] = self.now
        self.heard[lanes[order]] = told

    def concurrent(self, who, when, ids, local):
        unordered = when >= (self.local_sync if local else self.block_sync)[ids]
        if count_true(unordered):
            known = self.warp_sync[ids] if self.heard is None else self._heard(who, ids)
            unordered &= (self.warp_of[who] != self.warp_of[ids]) | (when >= known)
        if self.lagging:
            threads = np.minimum(who, self.total - 1)
            unordered |= self.lags[local][threads] & (when >= self.fenced_at[local][threads]) & (who < self.total)
        if len(self.flying) > self.total:
            unordered = np.where(who >= self.total, self.flying[who], unordered)
        if local:  # memory of one block
            return unordered & (who != ids)
        other_block = self.block_of[who] != self.block_of[ids]
        if not count_true(other_block):
            return unordered & (who != ids)
        across = (when >= self.grid_sync[ids]) | self.flying[who]
        if self.published.any:
            across &= ~self._published(who, when, ids)
        return (who != ids) & np.where(other_block, across, unordered)

    def fences_between(self, one: int, other: int) -> bool:
        """Of threads of different blocks, in a kernel that fences."""
        threads = max(one, other) < self.total
        return threads and self.published.any and self.block_of[one] != self.block_of[other]

    def _heard(self, who: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Until when each of ``ids`` knows what ``who`` did, where they are of one warp."""
        assert self.heard is not None
        mine = np.clip(ids - self.first, 0, len(self.heard) - 1)  # copies are of no warp
        return self.heard[mine, who % self.threads % self.warp]

    def _published(self, who: np.ndarray, when: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Whether a fence and an atomic order the access by ``who`` before ``ids``; what copies did, they never do."""
        threads = (who < self.total) & (ids < self.total)
        out = np.zeros(len(ids), bool)
        out[threads] = self.published.before(who[threads], when[threads], ids[threads])
        return out

    def settled(self, frame: Frame, owner: Frame) -> int:
        if self.in_flight or self.lagging:
            return 0
        first = self.first
        if self._floor_at != (self.now, first, frame.n):
            self._floor_at = (self.now, first, frame.n)
            self._floor = int(self.local_sync[first : first + frame.n].min())
        return self._floor

    def line(self, ids):
        if len(self.flying) == self.total:
            return ids
        landed = self.block_of[ids] * self.threads + np.where(ids < self.total, ids % self.threads, self.threads - 1)
        return np.where(self.flying[ids], len(self.flying), landed)  # beside everybody

    def describe(self, identity):
        if identity >= self.total:
            return f"a copy by block {self.block_of[identity]}"
        return "block {}, thread {}".format(*divmod(identity, self.threads))


def _stretch(lanes: np.ndarray, first: int) -> np.ndarray | slice:
    """The threads of ``lanes``, a slice where there is none between them that is not among them."""
    if len(lanes) and int(lanes[-1]) - int(lanes[0]) + 1 == len(lanes):
        return slice(first + int(lanes[0]), first + int(lanes[-1]) + 1)
    return lanes + first


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
    start: np.ndarray = field(default_factory=lambda: np.zeros(1))
    width: np.ndarray = field(default_factory=lambda: np.ones(1))
    """Each iteration has a stretch of its parent's, those of one ``par`` beside each other (:meth:`line`)."""
    entered: int = 1
    """How many iterations there are: the arrays have room for more."""
    base: dict[int, int] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)
    """Of each frame, when the ``par`` of its iterations began."""
    now: int = 1
    """The instances so far: time passes where a ``par`` begins."""

    def begin(self, parents: int) -> int:
        """A ``par`` starts under ``parents`` lanes: one new instance for each; the first of their ids."""
        self.now += parents
        return self.now - parents

    def enter(
        self, frame: Frame, first_instance: int = 0, number: np.ndarray | None = None, of: np.ndarray | None = None
    ) -> None:
        """Register a frame: (some of) the iterations of the ``par`` that :meth:`begin` announced.

        ``number``: which iteration of its parent's each lane is; ``of``: of how many.
        """
        if frame.parent is None:
            self.base[id(frame)] = 0
            return
        assert frame.index is not None and number is not None and of is not None
        first, parent = self.entered, self.base[id(frame.parent)] + frame.index
        self.base[id(frame)], self.began[id(frame)] = first, first_instance + 1
        self.entered += len(parent)
        self._make_room()
        new = slice(first, self.entered)
        width = self.width[parent] / of
        self.parent[new] = parent
        self.instance[new] = first_instance + frame.index
        self.depth[new] = self.depth[parent] + 1
        self.start[new] = self.start[parent] + width * number
        self.width[new] = width

    def _make_room(self) -> None:
        """Twice as much as there is, where that does not do: each iteration is moved twice or so, however many there
        are."""
        room = len(self.parent)
        if self.entered > room:
            more = max(self.entered, 2 * room) - room
            for name in ("parent", "instance", "depth", "start", "width"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros(more, old.dtype)]))

    def settled(self, frame: Frame, owner: Frame) -> int:
        """When the outermost ``par`` inside ``owner`` began: what an earlier one did is ordered before it."""
        while frame.parent is not None and frame.parent is not owner:
            frame = frame.parent
        return self.began[id(frame)] if frame.parent is not None else 0

    def line(self, ids):
        return self.start[ids]

    def ids(self, frame, lanes):
        return lanes + self.base[id(frame)]

    def concurrent(self, who, when, ids, local):
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
