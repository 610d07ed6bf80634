"""Scans spread over blocks: blocks that stay take tile after tile, and look back at those before each.

    scan(+) s over i in lo..hi @ [vec V, thread.x T, unroll U, block.x B, seq]

Memory is read and written once ("decoupled look-back": Merrill and Garland, "Single-pass parallel prefix scan with
decoupled look-back", 2016). Each of B blocks, round after round,

1. takes the next tile by a ticket, so that all tiles before its own have been taken by blocks that run already, and
   waiting for them ends whatever the order in which blocks start;
2. scans the tile in registers and tells the other blocks its total;
3. only then finishes the tile of the round before, which it has kept in registers: it adds the totals from its last
   finished tile up to this one, and writes its elements.

So a total is told a round before anybody needs it, and what is in flight hides the wait. No prefixes are told: a block
knows that of its last tile, and some B totals lead from there to the next.

Results do not depend on timing: tiles are added up by groups of a warp's size, each group by one tree, groups one after
another. A block keeps the prefix before the group that its last tile is in.

**Why it is right**: :mod:`.messages` says why who hears a total has it.

- *Waiting ends*: a block waits for totals of tiles with smaller tickets only. Their blocks have run up to their ticket,
  so they are resident, and a resident block goes on (CUDA and HIP; OpenCL has no such promise for work-groups: its
  printer refuses loops that wait). Of the tiles that are taken and not told take the first: before it tells its total
  its block waits, at most, for tiles before an earlier one of its own, and those are told. ``blockIdx`` says nothing
  about who has started and is not used. Threads of a warp never wait for each other.
- *The next launch* sees tickets at zero (each block takes one beyond the last tile, and then they wrap round), tags of
  this launch or earlier ones, and one launch more: it is stored by the last block to end, after all have read the
  count: they fence between that and the atomic by which they say that they end.
- The parameters are not ``restrict`` in the printed text: that would tell the compiler that nobody else writes there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.analysis.accumulators import identity
from ktc.ir.arith.counted_loops import count
from ktc.ir.fold import add, cast, i32, lt, mul, product, simplify, sub
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
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
    WarpOp,
    While,
    bodies,
    fresh,
)
from ktc.ir.types import I32, I64, U32, Array
from ktc.ir.walk import map_body, used_in, walk
from ktc.passes.lowering.errors import LoweringError

from .grid_reduce import scratch
from .messages import messages
from .reduction import FULL_MASK, WARP
from .scans import Tiles


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
        if any(lv.kind == "block" for lv in s.dist):
            return _Shared(s, _around(kernel.body, s), more).spread(s.acc.sym in left)
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


class _Shared(Tiles):
    """The program of one scan. ``start``: what the first thread hands out, the first tile, the launch, and then, round
    after round, the next tile. ``c``: the tile that the block scans; ``next``: the one after it, ``ticket`` in the
    first thread; ``waiting``: the one that it has scanned, whose elements ``held`` has; ``before``: the prefix before
    group ``group`` of tiles; ``ahead``: that before ``waiting``."""

    def __init__(self, s: Scan, around: Sequence[Par | Reduce], more: _Scratch) -> None:
        super().__init__(s)
        if any([lv.kind for lv in p.dist] != ["block"] or p.dist[-1].n is not None for p in around):
            raise LoweringError(
                "E-LOWER-SCAN", "each iteration of the loops around a scan over blocks has a block", s.loc
            )
        level = next(lv for lv in s.dist if lv.kind == "block")
        if level.n is None:
            raise LoweringError(
                "E-LOWER-SCAN", "how many blocks share the scan is not said", s.loc, hint="[..., block.x 256, seq]"
            )
        self.axis, self.blocks = level.axis or "x", level.n
        n = sub(cast(s.hi, self.iv), cast(s.lo, self.iv))
        self.tiles = cast(simplify(Binary("/", add(n, cast(sub(self.tile, i32(1)), self.iv)), self._wide())), I32)
        extents = [cast(sub(p.hi, p.lo), I32) for p in around]
        self.scan: Expr = i32(0)  # the number of this scan among those of the loops around
        for p, extent in zip(around, extents):
            self.scan = add(mul(self.scan, extent), cast(sub(Var(p.var), cast(p.lo, p.var.type)), I32))  # type: ignore[arg-type]
        name, t = s.acc.sym.name, self.t
        scans = product(extents) if extents else i32(1)
        self.many, self.row = bool(extents), fresh(f"{name}_row", I64)
        self.totals = messages(more, name, t, mul(cast(scans, I64), cast(self.tiles, I64)))
        self.tickets = scratch(more, f"{name}_tickets", U32, scans)
        self.launches = scratch(more, f"{name}_launches", U32, i32(1))
        self.done = scratch(more, f"{name}_done", U32, i32(1))
        self.last_block = cast(simplify(sub(mul(scans, self.blocks), i32(1))), U32)
        self.start = fresh(f"{name}_start", Array(U32, (i32(3),), "shared"))
        self.groups = fresh(f"{name}_groups", Array(t, (self.warps,), "shared"))
        self.window = fresh(f"{name}_window", Array(t, (self.threads,), "shared"))
        self.held = fresh(f"{name}_held", self.val.type)
        self.c, self.waiting, self.tag = fresh("tile", U32), fresh("waiting", U32), fresh("launch", U32)
        self.ticket, self.next = fresh("ticket", U32), fresh("next", U32)
        self.here, self.now = fresh("here", I32), fresh("now", I32)
        self.group, self.before, self.ahead = fresh("group", I32), fresh(f"{name}_before", t), fresh(f"{name}_ahead", t)
        self.first = Binary("==", Var(self.th), i32(0))

    def _wide(self) -> Expr:
        return cast(self.tile, self.iv)

    def slot(self, tile: Expr) -> Expr:
        """Where ``tile`` of this scan is among those of all; there may be more than 2^31."""
        return add(Var(self.row), cast(tile, I64)) if self.many else tile

    def is_tile(self, c: Sym) -> Expr:
        """Whether ``c`` is the number of a tile: not a ticket beyond the last one."""
        return lt(Var(c), cast(self.tiles, U32))

    def element(self, tile: Sym) -> Expr:
        """The first iteration of ``tile``."""
        return add(cast(self.s.lo, self.iv), mul(cast(Var(tile), self.iv), self._wide()))

    def spread(self, wanted: bool) -> Body:
        """``wanted``: something reads the total, which one block alone has."""
        s = self.s
        if wanted:
            raise LoweringError("E-LOWER-SCAN", "the total of a scan over blocks is used after it", s.loc)
        row = Decl(self.row, mul(cast(self.scan, I64), cast(self.tiles, I64)), const=True)
        left, some = self.is_tile(self.c), self.is_tile(self.waiting)
        u, v = fresh("u", I32), fresh("v", I32)
        keep = count(
            u, self.rows, count(v, self.lanes, Store(self.held, (Var(u), Var(v)), Load(self.val, (Var(u), Var(v)))))
        )
        rounds: Body = (
            If(left, self.scan_tile()),
            If(some, self.finish()),
            keep,
            Assign(self.waiting, Var(self.c)),
            Assign(self.c, Var(self.next)),
            Barrier(),
        )
        inner: Body = (
            *((row,) if self.many else ()),
            *self.begin(),
            Alloc(self.val), Alloc(self.part), Alloc(self.held),
            While(Binary("||", left, some), rounds),
            *self.end(),
        )  # fmt: skip
        team = Par(self.th, i32(0), self.threads, (Level("thread", self.threads, "x"),), inner)
        shared = tuple(Alloc(a) for a in (self.slots, self.start, self.gathered()))
        block = fresh("block", I32)
        return (Par(block, i32(0), self.blocks, (Level("block", None, self.axis),), (*shared, team),
                    loc=s.loc, comments=s.comments, tags=s.tags),)  # fmt: skip

    def gathered(self) -> Sym:
        """The shared array in which groups are added up."""
        return self.groups if self.lanes_exchange else self.window

    def begin(self) -> Body:
        """The block's first tile, and which launch this is."""
        before = fresh("launches", U32)
        first = (
            self.take(),
            Decl(before, Load(self.launches, (i32(0),), cache="cg"), const=True),
            Store(self.start, (i32(0),), Var(self.ticket)),
            Store(self.start, (i32(1),), Var(before)),
        )
        return (
            Decl(self.ticket, Const(0, U32)),
            If(self.first, first),
            Barrier(),
            Decl(self.c, Load(self.start, (i32(0),))),
            Decl(self.next, Var(self.c)),
            Decl(self.tag, add(Load(self.start, (i32(1),)), Const(1, U32)), const=True),
            Decl(self.waiting, cast(self.tiles, U32)),  # none
            Decl(self.group, i32(0)),
            Decl(self.before, cast(self.s.acc.init, self.t)),
        )

    def take(self) -> Stmt:
        """One thread's: the next ticket of this scan. Each block takes one beyond the last tile."""
        limit = cast(simplify(sub(add(self.tiles, self.blocks), i32(1))), U32)
        return Atomic("inc", self.tickets, (self.scan,), limit, dst=self.ticket)

    def scan_tile(self) -> Body:
        """The tile's elements as prefixes within it, and its total told; meanwhile the next ticket is on its way."""
        first = fresh(f"{self.s.var.name}_tile", self.iv)
        told = self.totals.tell(self.slot(Var(self.here)), Var(self.carry), Var(self.tag))
        return (
            Decl(self.here, cast(Var(self.c), I32), const=True),
            Decl(first, self.element(self.here), const=True),
            Decl(self.carry, identity(self.op, self.t)),
            If(self.first, (self.take(),)),
            *self.tile_sums(Var(first)),
            If(self.first, (Store(self.start, (i32(2),), Var(self.ticket)),)),
            Barrier(),
            *self.before_vectors(If(self.first, told), Assign(self.next, Load(self.start, (i32(2),)))),
        )

    def finish(self) -> Body:
        """What stands before the tile that waits, and its elements written."""
        first = fresh(f"{self.s.var.name}_tile", self.iv)
        last, base = fresh("last_group", I32), fresh("base", I32)
        return (
            Decl(self.now, cast(Var(self.waiting), I32), const=True),
            Decl(last, Binary("/", Var(self.now), i32(WARP)), const=True),
            Decl(self.ahead, Var(self.before)),
            For(base, Var(self.group), Binary("<=", Var(base), Var(last)), add(Var(base), self.warps),
                self.add_up(base, last)),
            Assign(self.group, Var(last)),
            Decl(first, self.element(self.now), const=True),
            *self.use(Var(first)),
        )  # fmt: skip

    def add_up(self, base: Sym, last: Sym) -> Body:
        """The totals of as many groups as there are warps, from ``base`` on, each lane one tile's."""
        p, total, k = fresh("p", I32), fresh("total", self.t), fresh("k", I32)
        mine = add(mul(add(Var(base), self.warp), i32(WARP)), self.lane)
        left = sub(Var(last), Var(base))  # whole groups
        some = Binary("&&", lt(Var(k), self.warps), lt(Var(k), left))
        whole = Assign(self.before, self.together(Var(self.before), self.sum_of(Var(k))))
        broken = Assign(self.ahead, self.together(Var(self.before), self.sum_of(left)))
        return (
            If(Binary("!=", Var(base), Var(self.group)), (Barrier(),)),  # the sums of the round before have been read
            Decl(p, mine, const=True),
            Decl(total, identity(self.op, self.t)),
            If(lt(Var(p), Var(self.now)), self.totals.hear(self.slot(Var(p)), Var(self.tag), total)),
            *(self.by_shuffles(total) if self.lanes_exchange else self.by_halves(total)),
            Barrier(),
            For(k, i32(0), some, add(Var(k), i32(1)), (whole,), unroll=4),
            If(lt(left, self.warps), (broken,)),
        )

    def by_shuffles(self, total: Sym) -> Body:
        """One tree a warp; its first lane leaves the sum."""
        d, other = fresh("d", I32), fresh("other", self.t)
        step = (
            Decl(other, WarpOp("shfl_xor", Var(total), Var(d), i32(WARP), FULL_MASK), const=True),
            Assign(total, self.together(Var(total), Var(other))),
        )
        tree = For(d, i32(WARP // 2), Binary(">", Var(d), i32(0)), Binary("/", Var(d), i32(2)), step, unroll=0)
        return (tree, If(Binary("==", self.lane, i32(0)), (Store(self.groups, (self.warp,), Var(total)),)))

    def by_halves(self, total: Sym) -> Body:
        """The same trees in shared memory."""
        d, th = fresh("d", I32), Var(self.th)
        pair = self.together(Load(self.window, (th,)), Load(self.window, (add(th, Var(d)),)))
        step = (Barrier(), If(lt(self.lane, Var(d)), (Store(self.window, (th,), pair),)))
        tree = For(d, i32(WARP // 2), Binary(">", Var(d), i32(0)), Binary("/", Var(d), i32(2)), step)
        return (Store(self.window, (th,), Var(total)), tree)

    def sum_of(self, k: Expr) -> Expr:
        """What the tree of the ``k``-th group has left."""
        return Load(self.groups, (k,)) if self.lanes_exchange else Load(self.window, (mul(k, i32(WARP)),))

    def end(self) -> Body:
        """The last block to end counts the launch: by now all have read the count."""
        nth = fresh("done", U32)
        last = If(
            Binary("==", Var(nth), self.last_block), (Fence("device"), Store(self.launches, (i32(0),), Var(self.tag)))
        )
        count_up = (
            Fence("device"),
            Decl(nth, None),
            Atomic("inc", self.done, (i32(0),), self.last_block, dst=nth),
            last,
        )
        return (If(self.first, count_up),)

    def prefix(self, u: Expr, v: Expr) -> Expr:
        return self.together(Var(self.ahead), Load(self.held, (u, v)))


__all__ = ["lower_scans"]
