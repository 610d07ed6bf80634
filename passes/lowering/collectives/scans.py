"""Scans as thread programs: registers, lanes, warps, tiles.

    scan(+) s over i in lo..hi @ [vec V, thread.x T, unroll U, seq]

A block takes tiles of U * T vectors of V elements; each warp has U rows of 32 vectors that follow one another. A thread
loads its U vectors, at once, and adds up each one; a warp adds up the sums of each row by shuffles (Kogge-Stone), and
its last lane leaves the warp's sum in shared memory; every thread then knows what stands before its vectors: the tiles
before (``carry``), the warps before, the rows before, the lanes before. Two barriers a tile, memory read and written
once, 16 bytes at a time. (Without lane exchanges a row is one of T vectors, and threads meet in shared memory.)

The result is parallel form still, with a loop over the block's threads; loops, vectors and guards are ``lower``'s work.
:mod:`.look_back` has the scan whose tiles are spread over blocks.
"""

from __future__ import annotations

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.arith.counted_loops import count
from ktc.ir.fold import add, cast, fold_node, i32, is_const, lt, mul, sub
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Call,
    Decl,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Scan,
    Select,
    Stmt,
    Store,
    Var,
    WarpOp,
    fresh,
)
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import refresh, rename, substitute, used, used_in
from ktc.passes.lowering.errors import LoweringError

from .reduction import FULL_MASK, WARP


class Tiles:
    """The parts of one scan's program. ``val``: a thread's elements, then their prefixes within the vector, then within
    the tile (what a block holds while it waits for other tiles); ``part``: the sums of its vectors, then their prefixes
    within the warp."""

    def __init__(self, s: Scan) -> None:
        sizes = {lv.kind: lv.n for lv in s.dist}
        if "thread" not in sizes or sizes["thread"] is None or s.dist[-1].kind != "seq":
            raise LoweringError(
                "E-LOWER-SCAN", "a scan wants the levels vec, thread.x, unroll, block.x, and an open seq", s.loc,
                hint="scan{loop=... map=[vec 4, thread.x 256, unroll 4, seq]}",
            )  # fmt: skip
        t, iv = s.acc.sym.type, s.var.type
        assert isinstance(t, Scalar) and isinstance(iv, Scalar)
        self.iv: Scalar = iv
        self.s, self.t, self.op = s, t, s.acc.op
        self.lanes, self.rows = sizes.get("vec") or i32(1), sizes.get("unroll") or i32(1)
        self.threads: Expr = sizes["thread"]
        self.warps = fold_node(Binary("/", self.threads, i32(WARP)))
        self.tile = fold_node(mul(mul(self.lanes, self.threads), self.rows))
        name = s.acc.sym.name
        self.th = fresh("t", I32)
        self.val = fresh(f"{name}_val", Array(t, (self.rows, self.lanes)))
        self.part = fresh(f"{name}_part", Array(t, (self.rows,)))
        self.lanes_exchange = s.strategy == "auto"
        held = ("warps", (self.warps,)) if self.lanes_exchange else ("threads", (self.rows, self.threads))
        self.slots = fresh(f"{name}_{held[0]}", Array(t, held[1], "shared"))
        self.carry = fresh(f"{name}_carry", t)
        self.lane = fold_node(Binary("%", Var(self.th), i32(WARP)))
        self.warp = fold_node(Binary("/", Var(self.th), i32(WARP)))

    def together(self, a: Expr, b: Expr) -> Expr:
        return combine(self.op, a, b)

    def program(self, wanted: bool) -> Body:
        """``wanted``: something reads the total."""
        s = self.s
        c = fresh(f"{s.var.name}_tile", self.iv)
        start = Decl(self.carry, cast(s.acc.init, self.t))
        tiles = For(
            c, cast(s.lo, self.iv), lt(Var(c), cast(s.hi, self.iv)), add(Var(c), cast(self.tile, self.iv)),
            (*self.tile_sums(Var(c)), *self.before_vectors(), *self.use(Var(c))),
        )  # fmt: skip
        inner: Body = (start, Alloc(self.val), Alloc(self.part), tiles)
        last: Body = (Assign(s.acc.sym, Var(self.carry)),) if wanted else ()
        team = Par(self.th, i32(0), self.threads, (Level("thread", self.threads, "x"),), (*inner, *last),
                   loc=s.loc, comments=s.comments, tags=s.tags)  # fmt: skip
        return (Alloc(self.slots), *((Decl(s.acc.sym, cast(s.acc.init, self.t)),) if wanted else ()), team)

    def over_tile(self, first: Expr, body) -> Stmt:
        """``body(u, v, i)`` for the thread's elements of the tile at ``first`` that exist; ``i`` their position."""
        s, u, v = self.s, fresh("u", I32), fresh("v", I32)
        at = fresh(f"{s.var.name}_at", self.iv)
        row = add(mul(self.warp, self.rows), Var(u))
        in_warps, in_rows = add(mul(row, i32(WARP)), self.lane), add(mul(Var(u), self.threads), Var(self.th))
        vector = in_warps if self.lanes_exchange else in_rows
        place = Decl(at, add(first, cast(mul(vector, self.lanes), self.iv)), const=True)
        left = sub(cast(s.hi, self.iv), Var(at))
        here = Call("min", (cast(self.lanes, self.iv), left), self.iv)
        i = Var(at) if is_const(self.lanes, 1) else add(Var(at), cast(Var(v), self.iv))
        inner = tuple(body(Var(u), Var(v), i))
        lanes = Par(v, i32(0), cast(here, I32), (Level("vec", self.lanes),), inner, loc=s.loc)
        return count(u, self.rows, place, lanes)

    def at_position(self, body: Body, i: Expr) -> Body:
        """A copy of ``body`` whose loop variable is ``i``."""
        return substitute(refresh(body), {self.s.var: i})

    def tile_sums(self, first: Expr) -> Body:
        """Load, add up vectors, add up over the warp; the last lanes leave their warps' sums in shared memory."""
        u, v = fresh("u", I32), fresh("v", I32)
        run = fresh("run", self.t)
        neutral = identity(self.op, self.t)
        clear = count(u, self.rows, count(v, self.lanes, Store(self.val, (Var(u), Var(v)), neutral)))

        def load(u: Expr, v: Expr, i: Expr) -> Body:
            copy = refresh((*self.s.body, Decl(fresh("value", self.t), self.s.acc.value, const=True)))
            *decls, last = substitute(copy, {self.s.var: i})
            assert isinstance(last, Decl)
            return (*decls, last, Store(self.val, (u, v), Var(last.sym)))

        u1, v1 = fresh("u", I32), fresh("v", I32)
        here = Load(self.val, (Var(u1), Var(v1)))
        update, keep = Assign(run, self.together(Var(run), here)), Store(self.val, (Var(u1), Var(v1)), Var(run))
        own: Body = (update, keep)
        if self.s.exclusive:
            held = fresh("held", self.t)
            own = (Decl(held, here, const=True), Store(self.val, (Var(u1), Var(v1)), Var(run)),
                   Assign(run, self.together(Var(run), Var(held))))  # fmt: skip
        vectors = count(
            u1, self.rows, Decl(run, neutral), count(v1, self.lanes, *own), Store(self.part, (Var(u1),), Var(run))
        )
        share = self.by_lanes() if self.lanes_exchange else self.by_shared()
        return (clear, self.over_tile(first, load), vectors, *share)

    def by_lanes(self) -> Body:
        """The prefixes of the vectors' sums within each row; the last lanes leave the warps' sums for all to see."""
        d, whole = fresh("d", I32), fresh("whole", self.t)
        u2, u3, other = fresh("u", I32), fresh("u", I32), fresh("other", self.t)
        mine = Load(self.part, (Var(u2),))
        step = (
            Decl(other, WarpOp("shfl_up", mine, Var(d), i32(WARP), FULL_MASK), const=True),
            If(Binary(">=", self.lane, Var(d)), (Store(self.part, (Var(u2),), self.together(Var(other), mine)),)),
        )
        shuffles = For(d, i32(1), lt(Var(d), i32(WARP)), mul(Var(d), i32(2)), (count(u2, self.rows, *step),), unroll=0)
        rows = count(u3, self.rows, Assign(whole, self.together(Var(whole), Load(self.part, (Var(u3),)))))
        leave = (Decl(whole, identity(self.op, self.t)), rows, Store(self.slots, (self.warp,), Var(whole)))
        last = If(Binary("==", self.lane, i32(WARP - 1)), leave)
        return (shuffles, last)

    def by_shared(self) -> Body:
        """The prefixes of the vectors' sums over the block, in shared memory (Hillis and Steele)."""
        d, u1, u2, u3 = (fresh(n, I32) for n in ("d", "u", "u", "u"))
        far = fresh(f"{self.s.acc.sym.name}_far", Array(self.t, (self.rows,)))
        th, neutral = Var(self.th), identity(self.op, self.t)
        leave = count(u1, self.rows, Store(self.slots, (Var(u1), th), Load(self.part, (Var(u1),))))
        other = Select(Binary(">=", th, Var(d)), Load(self.slots, (Var(u2), sub(th, Var(d)))), neutral)
        read = count(u2, self.rows, Store(far, (Var(u2),), other))
        mine = Load(self.slots, (Var(u3), th))
        write = count(u3, self.rows, Store(self.slots, (Var(u3), th), self.together(Load(far, (Var(u3),)), mine)))
        steps = For(d, i32(1), lt(Var(d), self.threads), mul(Var(d), i32(2)), (read, Barrier(), write, Barrier()))
        return (leave, Alloc(far), Barrier(), steps)

    def before_vectors(self, *known: Stmt) -> Body:
        """What precedes each of the thread's vectors goes into its elements; ``known`` is done as soon as the carry
        past this tile is there."""
        return self.from_warps(*known) if self.lanes_exchange else (*self.from_threads(), *known)

    def from_threads(self) -> Body:
        u, th, before = fresh("u", I32), Var(self.th), fresh("ahead", self.t)
        left = Load(self.slots, (Var(u), sub(th, i32(1))))
        whole = Load(self.slots, (Var(u), fold_node(sub(self.threads, i32(1)))))
        return (
            count(
                u, self.rows,
                Decl(before, Var(self.carry)),
                If(Binary(">", th, i32(0)), (Assign(before, self.together(Var(before), left)),)),
                self.onto(Var(before), Var(u)),
                Assign(self.carry, self.together(Var(self.carry), whole)),
            ),
        )  # fmt: skip

    def from_warps(self, *known: Stmt) -> Body:
        u, w = fresh("u", I32), fresh("w", I32)
        theirs, lanes = fresh("theirs", self.t), fresh("lanes", self.t)
        ahead, before = fresh("ahead", self.t), fresh("ahead", self.t)
        warps = count(
            w, self.warps,
            Decl(theirs, Load(self.slots, (Var(w),)), const=True),
            If(lt(Var(w), self.warp), (Assign(ahead, self.together(Var(ahead), Var(theirs))),)),
            Assign(self.carry, self.together(Var(self.carry), Var(theirs))),
        )  # fmt: skip
        part = Load(self.part, (Var(u),))
        left = WarpOp("shfl_up", part, i32(1), i32(WARP), FULL_MASK)
        whole = WarpOp("shfl", part, i32(WARP - 1), i32(WARP), FULL_MASK)
        rows = count(
            u, self.rows,
            Decl(lanes, left, const=True),
            Decl(before, Var(ahead)),
            If(Binary(">", self.lane, i32(0)), (Assign(before, self.together(Var(before), Var(lanes))),)),
            self.onto(Var(before), Var(u)),
            Assign(ahead, self.together(Var(ahead), whole)),
        )  # fmt: skip
        return (Decl(ahead, Var(self.carry)), warps, *known, rows)

    def onto(self, ahead: Expr, u: Expr) -> Stmt:
        """``ahead`` precedes the elements of vector ``u``."""
        v = fresh("v", I32)
        place = (u, Var(v))
        return count(v, self.lanes, Store(self.val, place, self.together(ahead, Load(self.val, place))))

    def prefix(self, u: Expr, v: Expr) -> Expr:
        return Load(self.val, (u, v))

    def use(self, first: Expr) -> Body:
        """What the iterations do with their prefixes."""

        def then(u: Expr, v: Expr, i: Expr) -> Body:
            prefix = fresh(self.s.acc.sym.name, self.t)
            body = rename((*_needed(self.s.body, self.s.then), *self.s.then), {self.s.acc.sym: prefix})
            return self.at_position((Decl(prefix, self.prefix(u, v), const=True), *body), i)

        return (self.over_tile(first, then),)


def _needed(body: Body, then: Body) -> Body:
    """The declarations of ``body`` that ``then`` reads, directly or not: they are evaluated again."""
    wanted = used_in(then)
    kept: list[Stmt] = []
    for d in reversed(body):
        if isinstance(d, Decl) and d.sym in wanted:
            kept.append(d)
            wanted |= used(d.init) if d.init is not None else set()
    return tuple(reversed(kept))


__all__ = ["Tiles"]
