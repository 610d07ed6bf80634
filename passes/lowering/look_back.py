"""Scans spread over blocks: one tile a block, and a look back at the tiles before it.

    scan(+) s over i in lo..hi @ [vec V, thread.x T, unroll U, block.x]

Memory is read and written once ("decoupled look-back": Merrill and Garland, "Single-pass parallel prefix scan with
decoupled look-back", 2016). A block

1. takes the next tile by a ticket, so that all tiles before its own have been taken by blocks that run already, and
   waiting for them ends whatever the order in which blocks start;
2. scans its tile in registers and publishes the tile's total;
3. looks back, each thread at one tile of a window, until it finds a tile that has published its whole prefix;
4. adds the totals from there up to its own tile, publishes its own prefix, and writes its elements.

A tile's prefix is always the sum of the prefix before it and its total: wherever a block finds one, it adds the same
numbers in the same order, so results do not depend on timing.

What a tile has published stands in its flag: 2 g + 1 its total, 2 g + 2 its prefix, where g counts the launches, one
count for all tiles of all scans. So scratch memory need not be cleared between launches, not even when sizes change:
whatever earlier launches left where a flag stands now is less than what this one publishes (modulo 2^32, so up to 2^31
launches back). It is one launch's own while that runs: two at a time need memory of their own.

**Why it is right** (PTX memory model; nothing here needs more than release and acquire at device scope):

- *Publishing* is a release pattern: thread 0 writes the value by a weak store, fences, and sets the flag by a relaxed
  atomic. The value is its own, so no barrier is needed before it.
- *Finding* is an acquire pattern: a thread reads a flag by relaxed loads (``ld.relaxed.gpu``: not ``ld.weak`` and not
  ``volatile``, which promise nothing of the kind or say so for no scope, and not past the first-level cache by luck),
  then fences. A barrier follows the fence, for other threads of the block read the values than those that read the
  flags: release, acquire, barrier, load is one chain of causality, after which a weak load is no race.
- *Chains*: a block publishes its prefix after it has acquired its predecessors', with barriers between those threads
  and thread 0, so what a block has seen is seen by all that see its prefix.
- *Waiting ends*: a block waits for flags of tiles with smaller tickets only. Their blocks have run up to their ticket,
  so they are resident, and a resident block goes on (CUDA and HIP; OpenCL has no such promise for work-groups: its
  printer refuses loops that wait). By induction over tickets each publishes its total without waiting for anyone, and
  its prefix after finite waiting. ``blockIdx`` says nothing about who has started and is not used. Threads of a warp
  never wait for each other.
- *The next launch* sees tickets at zero (they wrap round at the last one), flags of 2 g + 2 or less, and g + 1: it is
  stored when every scan's last tile has found its prefix. By then all blocks have read g, for their flags carry it, and
  those were seen: by the last tile of their scan and, through an atomic count of the scans that are done, by the last
  of these.
- The parameters are not ``restrict`` in the printed text: that would tell the compiler that nobody else writes there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.fold import add, cast, i32, lt, mul, product, simplify, sub
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    Fence,
    For,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
    fresh,
)
from ktc.ir.types import I32, I64, U32, Array
from ktc.ir.walk import map_body, used_in, walk

from .errors import LoweringError
from .grid_reduce import scratch
from .reduction import identity
from .scans import Tiles

WINDOW = 64
"""Tiles looked at in a round. More threads than that at the flags of the same few tiles wait for each other there."""

NOWHERE, START = -2, -1
"""No prefix found yet; the place before the first tile, where the initial value stands."""


def lower_scans(kernel: Kernel) -> Kernel:
    """``kernel`` with each scan as a loop over the threads of its block.

    Raises:
        LoweringError: E-LOWER-SCAN.
    """
    bare = map_body(kernel.body, lambda s: dataclasses.replace(s, then=()) if isinstance(s, Scan) else s)
    left = used_in(bare)
    more = _Scratch(kernel, [])

    def on(s: Stmt) -> Stmt | Body:
        if not isinstance(s, Scan):
            return s
        if s.dist[-1].kind == "block":
            return _OneTile(s, _around(kernel.body, s), more).spread(s.acc.sym in left)
        return Tiles(s).program(s.acc.sym in left)

    body = map_body(kernel.body, on)
    return kernel.with_(body=body, params=(*kernel.params, *more.scratch))


@dataclasses.dataclass
class _Scratch:
    """Where scratch parameters are collected, under names that ``kernel`` leaves free."""

    kernel: Kernel
    scratch: list[Param]


def _around(body: Body, s: Stmt) -> list[Par | Reduce]:
    """The parallel loops around ``s``, outermost first."""
    return [p for p in walk(body) if isinstance(p, Par | Reduce) and any(x is s for b in bodies(p) for x in walk(b))]


class _OneTile(Tiles):
    """The program of one scan. ``c``: the block's tile; ``base``: twice the number of launches before this one."""

    def __init__(self, s: Scan, around: Sequence[Par | Reduce], more: _Scratch) -> None:
        super().__init__(s)
        if any([lv.kind for lv in p.dist] != ["block"] or p.dist[-1].n is not None for p in around):
            raise LoweringError(
                "E-LOWER-SCAN", "each iteration of the loops around a scan over blocks has a block", s.loc
            )
        n = sub(cast(s.hi, self.iv), cast(s.lo, self.iv))
        self.tiles = cast(simplify(Binary("/", add(n, cast(sub(self.tile, i32(1)), self.iv)), self._wide())), I32)
        extents = [cast(sub(p.hi, p.lo), I32) for p in around]
        self.scan: Expr = i32(0)  # the number of this scan among those of the loops around
        for p, extent in zip(around, extents):
            self.scan = add(mul(self.scan, extent), cast(sub(Var(p.var), cast(p.lo, p.var.type)), I32))  # type: ignore[arg-type]
        name, t = s.acc.sym.name, self.t
        scans = product(extents) if extents else i32(1)
        self.many, self.row = bool(extents), fresh(f"{name}_row", I64)
        places = simplify(mul(cast(scans, I64), cast(self.tiles, I64)))
        self.flags = scratch(more, f"{name}_flags", U32, places)
        self.totals = scratch(more, f"{name}_totals", t, places)
        self.prefixes = scratch(more, f"{name}_prefixes", t, places)
        self.tickets = scratch(more, f"{name}_tickets", U32, scans)
        self.launches = scratch(more, f"{name}_launches", U32, i32(1))
        self.done = scratch(more, f"{name}_done", U32, i32(1)) if self.many else None
        self.last_scan = cast(simplify(sub(scans, i32(1))), U32)
        self.start = fresh(f"{name}_start", Array(I32, (i32(2),), "shared"))
        self.near = fresh(f"{name}_near", Array(I32, (i32(1),), "shared"))
        self.window = fresh(f"{name}_window", Array(t, (self.threads,), "shared"))
        self.c, self.base, self.found = fresh("tile", I32), fresh("base", U32), fresh("found", I32)
        self.ahead = fresh(f"{name}_ahead", t)
        self.first = Binary("==", Var(self.th), i32(0))

    def _wide(self) -> Expr:
        return cast(self.tile, self.iv)

    def slot(self, tile: Expr) -> Expr:
        """Where ``tile`` of this scan is among those of all; there may be more than 2^31."""
        return add(Var(self.row), cast(tile, I64)) if self.many else tile

    def spread(self, wanted: bool) -> Body:
        """``wanted``: something reads the total, which one block alone has."""
        s = self.s
        if wanted:
            raise LoweringError("E-LOWER-SCAN", "the total of a scan over blocks is used after it", s.loc)
        begin = add(cast(s.lo, self.iv), mul(cast(Var(self.c), self.iv), self._wide()))
        first = fresh(f"{s.var.name}_tile", self.iv)
        row = Decl(self.row, mul(cast(self.scan, I64), cast(self.tiles, I64)), const=True)
        inner: Body = (
            *((row,) if self.many else ()),
            *self.take(),
            Decl(first, begin, const=True),
            Decl(self.carry, identity(self.op, self.t)),
            Alloc(self.val), Alloc(self.part),
            *self.tile_sums(Var(first)), *self.before_vectors(self.publish(self.totals, Var(self.carry), 1)),
            *self.look_back(), *self.add_up(),
            self.publish(self.prefixes, self.together(Var(self.ahead), Var(self.carry)), 2, self.next_launch()),
            *self.use(Var(first)),
        )  # fmt: skip
        team = Par(self.th, i32(0), self.threads, (Level("thread", self.threads, "x"),), inner)
        shared = tuple(Alloc(a) for a in (self.slots, self.start, self.near, self.window))
        block = fresh("block", I32)
        return (Par(block, i32(0), self.tiles, (Level("block", None, s.dist[-1].axis or "x"),), (*shared, team),
                    loc=s.loc, comments=s.comments, tags=s.tags),)  # fmt: skip

    def take(self) -> Body:
        """The block's tile, and how many launches there were."""
        ticket, before = fresh("ticket", U32), fresh("launch", U32)
        limit = cast(sub(self.tiles, i32(1)), U32)
        take = (
            Decl(ticket, None),
            Atomic("inc", self.tickets, (self.scan,), limit, dst=ticket),
            Decl(before, Load(self.launches, (i32(0),), cache="cg"), const=True),
            Store(self.start, (i32(0),), cast(Var(ticket), I32)),
            Store(self.start, (i32(1),), cast(Var(before), I32)),
            Store(self.near, (i32(0),), i32(NOWHERE)),
        )
        twice = mul(Const(2, U32), cast(Load(self.start, (i32(1),)), U32))
        return (
            If(self.first, take),
            Decl(self.c, Load(self.start, (i32(0),)), const=True),
            Decl(self.base, twice, const=True),
        )

    def publish(self, where: Sym, value: Expr, state: int, *more: Stmt) -> Stmt:
        """The first thread writes what the tile knows, then that it does, and does ``more``."""
        at = self.slot(Var(self.c))
        flag = Atomic("exch", self.flags, (at,), add(Var(self.base), Const(state, U32)))
        return If(self.first, (Store(where, (at,), value), Fence("device"), flag, *more))

    def look_back(self) -> Body:
        """``found``: the nearest tile with a prefix. A round looks at a window of tiles, a thread at one."""
        back, p, state = fresh("back", I32), fresh("p", I32), fresh("state", U32)
        read = (
            Atomic("load", self.flags, (self.slot(Var(p)),), Const(0, U32), dst=state),
            Assign(state, sub(Var(state), add(Var(self.base), Const(1, U32)))),  # 0: total, 1: prefix, else: wait
        )
        one = (
            Decl(state, Const(0, U32)),
            While(Binary(">", Var(state), Const(1, U32)), read, post=True),
            If(Binary("==", Var(state), Const(1, U32)), (Atomic("max", self.near, (i32(0),), Var(p)),)),
        )
        none = If(Binary("==", Var(p), i32(START)), (Atomic("max", self.near, (i32(0),), i32(START)),))
        look = (
            Decl(p, sub(Var(back), Var(self.th)), const=True),
            If(lt(Var(self.th), i32(WINDOW)), (If(Binary(">=", Var(p), i32(0)), one, (none,)),)),
            Barrier(),
            Assign(self.found, Load(self.near, (i32(0),))),
            Barrier(),
            Assign(back, sub(Var(back), Call("min", (self.threads, i32(WINDOW)), I32))),
        )
        return (
            Decl(back, sub(Var(self.c), i32(1))),
            Decl(self.found, i32(NOWHERE)),
            While(Binary("==", Var(self.found), i32(NOWHERE)), look),
            If(lt(Var(self.th), i32(WINDOW)), (Fence("device"),)),
            Barrier(),
        )

    def add_up(self) -> Body:
        """``ahead``: the prefix found and the totals after it, nearest last."""
        b, k, th = fresh("b", I32), fresh("k", I32), Var(self.th)
        prefix = Load(self.prefixes, (self.slot(Var(self.found)),), cache="cg")
        total = Load(self.totals, (self.slot(add(Var(b), th)),), cache="cg")
        left = Call("min", (self.threads, sub(Var(self.c), Var(b))), I32)
        total_k = Load(self.window, (Var(k),))
        window = (
            If(lt(add(Var(b), th), Var(self.c)), (Store(self.window, (th,), total),)),
            Barrier(),
            For(k, i32(0), lt(Var(k), left), add(Var(k), i32(1)),
                (Assign(self.ahead, self.together(Var(self.ahead), total_k)),), unroll=16),
            Barrier(),
        )  # fmt: skip
        found = Binary(">=", Var(self.found), i32(0))
        after = add(Var(self.found), i32(1))
        return (
            Decl(self.ahead, cast(self.s.acc.init, self.t)),
            If(found, (Assign(self.ahead, prefix),)),
            For(b, after, lt(Var(b), Var(self.c)), add(Var(b), self.threads), window),
        )

    def next_launch(self) -> Stmt:
        """The last tile of the last scan counts the launch: by now all blocks have read the count."""
        last = Binary("==", Var(self.c), sub(self.tiles, i32(1)))
        following = add(Binary("/", Var(self.base), Const(2, U32)), Const(1, U32))
        count: Body = (Store(self.launches, (i32(0),), following),)
        if self.done is not None:
            nth = fresh("done", U32)
            count = (
                Decl(nth, None),
                Atomic("inc", self.done, (i32(0),), self.last_scan, dst=nth),
                If(Binary("==", Var(nth), self.last_scan), (Fence("device"), *count)),
            )
        return If(last, count)

    def prefix(self, u: Expr, v: Expr) -> Expr:
        return self.together(Var(self.ahead), super().prefix(u, v))


__all__ = ["lower_scans"]
