"""What one launch of a kernel in SPMD form asks of a GPU: sectors, turns of shared memory, instructions, barriers.

Plain counts at fixed sizes, without a device: what a cost model divides by the device's rates. Upper bounds where
conditions decide (both branches count, but for what is done for a NaN), lower bounds where a trip count is not known
(once; listed in ``unknown``).

Sectors are counted twice. ``requested``: every access of every warp by itself. ``missed``: what leaves the
multiprocessor if its cache holds a warp's lines from one iteration to the next: a loop whose step is shorter than a
sector asks for the same ones again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ktc.ir.fragments import INSTRUCTIONS
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import (
    Assign,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Body,
    Decl,
    Expr,
    For,
    If,
    Mma,
    Stmt,
    TileMma,
    asks_for_nan,
)
from ktc.ir.walk import map_body, used, walk

from .access_nests import Access, Axis, accesses, visits
from .data_operations import data_operations, index_divisions
from .guard_shares import guard_shares
from .memory_costs import SECTOR, Request, requests_of
from .neighbouring_accesses import families
from .operation_counts import Counts
from .tile_transfers import Transfer, transfer_of

SHARED_TURN = 128
"""Bytes that shared memory serves in a turn."""


@dataclass(frozen=True)
class AccessCounts:
    """One textual access to global memory over the launch.

    ``requested`` and ``missed`` are sectors of 32 bytes, ``footprint`` distinct bytes, ``lines`` the sectors a warp
    touches at once, ``used`` the share of their bytes that it asks for (None: addresses are not known). ``family``:
    accesses that touch the same elements a few iterations apart have the same number.
    """

    buffer: str
    mode: str
    requested: float
    missed: float
    footprint: int
    lines: int
    used: float | None
    family: int = -1


@dataclass(frozen=True)
class ScheduleCounts:
    """Totals of one launch; instructions are those of warps.

    ``shared_turns`` are cycles of shared memory (128 bytes each), ``arithmetic``, ``special`` and ``memory``
    instructions, ``matrix`` operations (additions and multiplications) on tensor cores, ``barriers`` one thread's,
    ``atomic_turns`` updates of memory one after another: lanes of a warp that update one address wait for each other,
    ``loads`` of global memory by one thread, ``integer`` instructions on data and of divided indices. ``at_once``:
    loads of global memory that a thread issues in one round of a loop that is not unrolled, before it waits for any of
    them; of asynchronous copies, in as many rounds as are under way. ``min_blocks``: of a multiprocessor, for which the
    compiler is asked to leave registers.
    """

    blocks: int
    threads: int
    shared_bytes: int
    accesses: tuple[AccessCounts, ...]
    shared_turns: float
    arithmetic: float
    special: float
    memory: float
    matrix: float
    barriers: float
    atomic_turns: float
    loads: float
    unknown: tuple[str, ...] = ()
    integer: float = 0.0
    at_once: float = 0.0
    min_blocks: int = 1

    @property
    def warps(self) -> int:
        return self.blocks * -(-self.threads // WARP)


def schedule_counts(kernel: Kernel, sizes: Mapping[str, int | float]) -> ScheduleCounts | None:
    """The counts of ``kernel`` (SPMD form) at ``sizes``; None where its launch is not known."""
    kernel = _declared_late(_of_numbers(kernel))
    env = kernel.environment({k: int(v) for k, v in sizes.items() if isinstance(v, int)})
    count = Counts(kernel, env)
    threads, blocks = count.extent("thread"), count.extent("block")
    if kernel.is_parallel or not threads or not blocks:
        return None
    warps = blocks * -(-threads // WARP)
    kept = [a for a in accesses(kernel) if a.space in ("global", "shared")]
    guards = guard_shares(kernel, count)
    rows: list[AccessCounts] = []
    turns = memory = atomic = loads = 0.0
    rounds = _Rounds(count, _groups_under_way(kernel, count))
    alike = families(kept, count)
    for a, cost, family in zip(kept, requests_of(kernel, kept, sizes), alike, strict=True):
        of_warps, of_lanes = guards.get(id(a.stmt), (1.0, 1.0))
        each = _repeats(a, count) * of_warps
        if (whole := transfer_of(a)) is not None:
            times = whole.times(blocks, threads) * _repeats(a, count)
            size = times * whole.elements * a.elem.bytes
            memory += times
            turns += size / SHARED_TURN if a.space == "shared" else 0.0
            rows += [_box(a, whole, size, threads, count)] if a.space == "global" else []
            continue
        if of_lanes < 1 and cost.sectors is not None:
            cost = replace(cost, sectors=math.ceil(cost.sectors * of_lanes))
        memory += warps * each
        if a.space == "shared":
            turns += warps * each * (cost.conflict or 1) * max(1.0, cost.bytes_per_lane * WARP / SHARED_TURN)
        else:
            rows.append(replace(_access(a, cost, each, warps, count), family=family))
            atomic += warps * each * of_lanes * _waiting(a, threads) if a.mode == "atomic" else 0
            loads += each if a.mode == "read" else 0
            rounds.add(a, each)
    n = count.statements(kernel)
    mma, barriers = _synchronised(kernel, count)
    per_warp = min(threads, WARP)
    divided, reciprocals = index_divisions(kernel, count, guards)
    return ScheduleCounts(
        blocks,
        threads,
        n["shared_bytes"],
        tuple(rows),
        turns,
        n["flops"] / 2 / per_warp,
        (n["special"] + reciprocals) / per_warp,
        memory,
        mma,
        barriers,
        atomic,
        loads,
        tuple(sorted(count.unknown)),
        (data_operations(kernel, count, guards) + divided) / per_warp,
        rounds.at_once,
        count.value(kernel.launch.min_blocks) or 1 if kernel.launch is not None else 1,
    )


def _of_numbers(kernel: Kernel) -> Kernel:
    """``kernel`` without what it does where something is no number."""
    if not any(isinstance(s, If) and asks_for_nan(s.cond) for s in walk(kernel.body)):
        return kernel

    def on(s: Stmt) -> Stmt | Body:
        return s.orelse if isinstance(s, If) and asks_for_nan(s.cond) else s

    return kernel.with_(body=map_body(kernel.body, on))


def _declared_late(kernel: Kernel) -> Kernel:
    """``kernel`` with variables that get their only value behind a condition declared there, so that addresses that
    they are part of are known."""
    times = Counter(s.sym for s in walk(kernel.body) if isinstance(s, Assign))
    bare = {s.sym for s in walk(kernel.body) if isinstance(s, Decl) and s.init is None and times[s.sym] == 1}
    bare -= {s.sym for s in walk(kernel.body) if isinstance(s, Assign) and s.sym in used(s.value)}
    if not bare:
        return kernel

    def declared(s: Stmt) -> Stmt | None:
        if isinstance(s, Decl) and s.sym in bare:
            return None
        return Decl(s.sym, s.value) if isinstance(s, Assign) and s.sym in bare else s

    return kernel.with_(body=map_body(kernel.body, declared))


def _groups_under_way(kernel: Kernel, count: Counts) -> int:
    """Groups of asynchronous copies that a thread lets be under way in a loop, beside the one that it waits for."""
    loops = [s for s in walk(kernel.body) if isinstance(s, For)]
    waits = [s.pending for loop in loops for s in loop.body if isinstance(s, AsyncWait)]
    values = [count.value(n) if isinstance(n, Expr) else n for n in waits]
    return 1 + max((n for n in values if n is not None), default=0)


@dataclass
class _Rounds:
    """Loads by the innermost loop around them that is not unrolled."""

    count: Counts
    groups: int
    made: dict[int, list[float]] = field(default_factory=dict)

    def add(self, a: Access, each: float) -> None:
        """One textual load that a thread makes ``each`` times."""
        if a.mode != "read":
            return
        serial = [x for x in a.axes if x.kind not in ("thread", "block")]
        together = 1.0
        while serial and _is_unrolled(serial[-1], self.count):
            together *= self.count.trip(serial.pop()) or 1
        rounds = self.count.times(tuple(serial))
        share = each / (together * rounds) if rounds else 0.0
        mine = self.made.setdefault(id(serial[-1].stmt) if serial else 0, [0.0, 0.0])
        mine[0] += together * min(1.0, share) * (self.groups if isinstance(a.stmt, AsyncCopy) else 1)
        mine[1] += each

    @property
    def at_once(self) -> float:
        """The mean over all loads."""
        total = sum(each for _, each in self.made.values())
        return sum(n * each for n, each in self.made.values()) / total if total else 0.0


def _is_unrolled(axis: Axis, count: Counts) -> bool:
    s = axis.stmt
    if not isinstance(s, For) or s.unroll is None:
        return False
    factor, trip = count.value(s.unroll) if isinstance(s.unroll, Expr) else s.unroll, count.trip(axis)
    return factor == 0 or (trip is not None and factor is not None and factor >= trip)


def _repeats(a: Access, count: Counts) -> float:
    """How often one thread makes the access."""
    return float(count.times(tuple(x for x in a.axes if x.kind not in ("thread", "block"))))


def _access(a: Access, cost: Request, each: float, warps: int, count: Counts) -> AccessCounts:
    lines = cost.sectors if cost.sectors is not None else WARP  # not known: a sector a lane
    requested = warps * each * lines
    moving = tuple(x for x in a.axes if a.moves(x.name))
    width = a.width if isinstance(a.width, int) else count.value(a.width) or 1
    footprint = count.times(moving) * width * a.elem.bytes
    return AccessCounts(a.buffer.name, a.mode, requested, requested * _new(a, count), footprint, lines, cost.efficiency)


def _box(a: Access, whole: Transfer, size: float, threads: int, count: Counts) -> AccessCounts:
    """A box of global memory that one thread has copied: as if all warps of its block asked for parts of it."""
    moving = count.times(tuple(x for x in a.axes if x.kind != "thread" and a.moves(x.name)))
    box = whole.elements * a.elem.bytes
    lines = max(1, box // SECTOR // -(-threads // WARP))
    rows, columns = (count.value(e) for e in whole.extent) if whole.extent else (None, None)
    matrix = rows * columns * a.elem.bytes if rows and columns else moving * box
    return AccessCounts(a.buffer.name, a.mode, size / SECTOR, size / SECTOR, min(moving * box, matrix), lines, 1.0)


def _new(a: Access, count: Counts) -> float:
    """The share of a warp's sectors that it did not have in the iteration before, by the innermost serial loop."""
    serial = [x for x in a.axes if x.kind not in ("thread", "block")]
    if not serial or (trip := count.trip(serial[-1])) is None or trip < 2:
        return 1.0
    inner = serial[-1]
    if not a.moves(inner.name):
        return 1.0 / trip
    stride = count.value(a.strides.get(inner.name))
    if stride is None:
        return 1.0
    return min(1.0, max(abs(stride) * a.elem.bytes / SECTOR, 1 / trip))


def _waiting(a: Access, threads: int) -> float:
    """Turns of one warp's atomic: one a lane where all lanes update one address, else one for eight lanes."""
    lanes = min(threads, WARP)
    spread = any(x.kind == "thread" and a.moves(x.name) for x in a.axes)
    return lanes / 8 if spread else float(lanes)


def _synchronised(kernel: Kernel, count: Counts) -> tuple[float, float]:
    """Operations on tensor cores of the whole launch, in the time of those on halves (integers of 8 bits take half as
    long), and barriers that one thread passes."""
    operations = barriers = 0.0
    for v in visits(kernel):
        repeats = count.times(tuple(x for x in v.axes if x.kind not in ("thread", "block")))
        if isinstance(v.stmt, Barrier):
            barriers += repeats
        elif isinstance(v.stmt, Mma | TileMma):
            f = INSTRUCTIONS[v.stmt.fragment]
            groups = (count.extent("block") or 1) * ((count.extent("thread") or f.warp) / f.warp)
            depth = v.stmt.depth if isinstance(v.stmt, TileMma) else f.k
            share = 0.5 if f.operand.is_int else 1.0
            operations += 2.0 * share * f.m * f.n * depth * repeats * groups
    return operations, barriers
