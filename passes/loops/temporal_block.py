"""temporal-block: several sweeps of a stencil in one launch, each block keeping what is between them in shared memory.

before (``repeat swap a, b``)                      after temporal-block{loops=i steps=3 tile=$T}
    par i in 1..n - 1 @ [thread.x, block.x]           par i_tile in 0..cdiv(n - 2, $T) @ [block.x]
      b[i] = a[i - 1] + a[i + 1]                        array a_0, a_1: shared f32[$T + 6]
                                                        let i0 = 1 + i_tile * $T - 3
                                                        par i_t in 0..$T + 6: a_0[i_t] = a[i0 + i_t]
                                                        par i_t in 0..$T + 6
                                                          if 1 <= i_t < $T + 5: a_1[i_t] = a_0[i_t - 1] + a_0[i_t + 1]
                                                        par i_t ..: if 2 <= i_t < $T + 4: a_0[i_t] = a_1[i_t - 1] + ..
                                                        par i_t ..: if 3 <= i_t < $T + 3: b[i0 + i_t] = ..

A block copies its tile and ``steps`` halos of it, computes ever smaller regions (the trapezoid of overlapped tiling),
and writes its tile. One launch then does what ``steps`` launches of the source do with the buffers swapped in between,
which is what verification compares it with; the workload has to say that the kernel is used so (``[repeat]``). What
lies outside the sweep's range is never written: each sweep reads it from the buffer that it would have read it from.
With an even number of steps the result would have to go where the input is, boundary included: that is taken only
from sweeps that write everything. The loops ``i_t`` share a name, so that one ``distribute`` spreads all of them.

Literature: Krishnamoorthy et al., "Effective automatic parallelization of stencil computations" (PLDI 2007); Holewinski
et al., "High-performance code generation for stencil computations on GPU architectures" (ICS 2012).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.fold import add, binary, both, cast, cdiv, i32, lt, mul, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Body,
    Const,
    Decl,
    Dist,
    Expr,
    If,
    Level,
    Load,
    Par,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import BOOL, Array, Scalar, scalar_of
from ktc.ir.walk import map_expr, map_stmt_exprs, refresh, substitute, used, used_in
from ktc.passes.core.argument_kinds import KnobSpec, Size
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Refused, Result, attempted
from ktc.passes.core.script import KnobRef, listed

from .stencils import Sweep, sweep_of

EXTENTS = (2, 4, 8, 16, 26, 28, 32, 56, 58, 60, 64, 112, 116, 120, 122, 124, 128, 250, 256)
TILE = KnobSpec("TILE", EXTENTS, "elements of a tile along one loop")


@dataclass(frozen=True)
class Arguments:
    steps: int = option(
        3,
        "sweeps of a launch, an odd number where the sweep leaves a boundary alone",
        code="E-TEMPORAL-STEPS",
        least=1,
        most=10,
    )
    tile: tuple[Size, ...] = option(
        (),
        "extents of a block's tile, outermost loop first",
        code="E-TEMPORAL-TILE",
        least=1,
        knobs=(TILE,),
        shown="a knob each",
    )


class TemporalBlock(Pass[Arguments]):
    name = "temporal-block"
    summary = "several sweeps of a stencil in one launch, over tiles with halos in shared memory"
    refusals = (
        "E-TEMPORAL-REPEAT", "E-TEMPORAL-STEPS", "E-TEMPORAL-FORM", "E-TEMPORAL-TAP", "E-TEMPORAL-WRAP",
        "E-TEMPORAL-PARITY", "E-TEMPORAL-TILE",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        sweep = attempted(_sweep, kernel)
        if isinstance(sweep, Refused):
            return []
        return [Site(self.step(steps=3, tile=listed(_knobs(sweep))), "one trip through memory for several sweeps")]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        sweep, steps = _sweep(kernel), args.steps
        assert kernel.repeat is not None
        if steps % 2 == 0 and not sweep.writes_all:
            read, written = kernel.repeat.swap
            why = f"after {steps} sweeps the result belongs into '{read}', whose boundary is not that of '{written}'"
            raise Refusal("E-TEMPORAL-PARITY", why, sweep.locs, "take an odd number of steps")
        sizes = args.tile or tuple(Size(knob, TILE) for knob in _knobs(sweep))
        if len(sizes) != len(sweep.vars):
            why = f"a tile of this sweep has {len(sweep.vars)} extents, not {len(sizes)}"
            raise Refusal("E-TEMPORAL-TILE", why, sweep.locs)
        tile: list[Expr] = []
        for n in sizes:
            kernel, extent = n.declared(kernel, self.name)
            tile.append(extent)
        body = _Blocked(sweep, steps, tile).body()
        assert kernel.repeat is not None
        repeat = dataclasses.replace(kernel.repeat, sweeps=steps)
        read, written = repeat.swap
        note = f"one launch does {steps} sweeps: '{read}' and '{written}' are swapped after {steps} of them"
        return Result(kernel.with_(body=body, repeat=repeat), (note,))


def _knobs(sweep: Sweep) -> list[KnobRef]:
    """A knob for the extent of a tile along each of the loops."""
    return [KnobRef(f"T{v.name.upper()}") for v in sweep.vars]


def _sweep(kernel: Kernel) -> Sweep:
    """The sweep that the kernel is, and that its launches repeat."""
    if kernel.repeat is None:
        hint = 'say so in the workload: [repeat] swap = ["read", "written"]'
        why = "nothing says that the kernel is launched again and again with two buffers swapped"
        raise Refusal("E-TEMPORAL-REPEAT", why, (kernel.loc,) if kernel.loc else (), hint)
    if kernel.repeat.sweeps != 1:
        raise Refusal("E-TEMPORAL-REPEAT", f"a launch does {kernel.repeat.sweeps} sweeps already")
    return sweep_of(kernel, kernel.repeat.swap)


class _Blocked:
    """The loops over tiles around the copy and the sweeps of one tile. ``margin``: halo elements before the tile."""

    def __init__(self, sweep: Sweep, steps: int, tile: list[Expr]) -> None:
        self.sweep, self.steps, self.tile = sweep, steps, tile
        elem = scalar_of(sweep.read.type)
        self.margin = [h * steps for h in sweep.halo]
        self.shape = tuple(simplify(add(n, i32(2 * m))) for n, m in zip(tile, self.margin))
        self.rooms = [fresh(f"{sweep.read.name}_{k}", Array(elem, self.shape, "shared")) for k in range(min(steps, 2))]
        self.tiles = [fresh(f"{v.name}_tile", v.type) for v in sweep.vars]
        self.starts = [fresh(f"{v.name}0", v.type) for v in sweep.vars]
        self.whole = fresh("whole", BOOL)

    def body(self) -> Body:
        s = self.sweep
        inside: list[Stmt] = [Alloc(r, align=16) for r in self.rooms]
        for v, t, start, lo, n, m in zip(s.vars, self.tiles, self.starts, s.lows, self.tile, self.margin):
            at = sub(add(cast(lo, v.type), mul(Var(t), cast(n, v.type))), cast(i32(m), v.type))  # type: ignore[arg-type]
            inside.append(Decl(start, at, const=True))
        inside.append(Decl(self.whole, self.interior(), const=True))
        inside.append(self.stage(0))
        inside += [self.stage(t) for t in range(1, self.steps + 1)]
        out: Body = tuple(inside)
        axes = "xyz"[: len(s.vars)][::-1]
        for v, t, lo, hi, n, axis in reversed(list(zip(s.vars, self.tiles, s.lows, s.highs, self.tile, axes))):
            count = cdiv(sub(cast(hi, v.type), cast(lo, v.type)), cast(n, v.type))  # type: ignore[arg-type]
            out = (Par(var=t, lo=cast(i32(0), v.type), hi=count, dist=(Level("block", None, axis),), body=out),)  # type: ignore[arg-type]
        return tuple(dataclasses.replace(x, comments=s.comments, loc=s.locs[0] if s.locs else None) for x in out)

    def stage(self, t: int) -> Stmt:
        """The loops of sweep ``t`` (0: the copy) over the tile's whole room, and what they do where it matters."""
        s = self.sweep
        local = [fresh(f"{v.name}_t", v.type) for v in s.vars]
        here = [fresh(v.name, v.type) for v in s.vars]
        named: Body = tuple(
            Decl(x, add(Var(start), Var(i)), const=True) for x, start, i in zip(here, self.starts, local)
        )
        body = (*named, *self.guarded(t, local, here))
        loops = list(zip(local, self.shape, _threads(len(local))))
        for i, n, dist in reversed(loops):
            zero = cast(i32(0), i.type)  # type: ignore[arg-type]
            body = (Par(var=i, lo=zero, hi=cast(n, i.type), dist=dist, body=body),)  # type: ignore[arg-type]
        return body[0]

    def guarded(self, t: int, local: list[Sym], here: list[Sym]) -> Body:
        s = self.sweep
        where = s.range_at([Var(x) for x in here])
        target = self.rooms[t % 2] if t < self.steps else None
        source = (s.read, s.written)[t % 2]
        outside: Body = ()
        if target is not None:  # what the next sweep reads beyond its range comes from the buffer it would be in
            kept = Load(source, (s.address([Var(x) for x in here]),))
            store = Store(target, tuple(Var(i) for i in local), kept)
            reached = s.reached_at([Var(x) for x in here])
            if t == 0:
                return (If(Binary("||", Var(self.whole), reached), (store,)),)
            if t == 1 and s.leaves_range:  # two sweeps before ``t`` they were stored in the same room
                outside = (If(reached, (store,)),)
        inside = self.computed(t, local, here, target)
        return (If(self.needed(t, local), (If(Binary("||", Var(self.whole), where), inside, outside),)),)

    def interior(self) -> Expr:
        """Whether the whole room is in the sweep's range: one question per block, before those per element."""
        out: Expr | None = None
        for start, lo, hi, n in zip(self.starts, self.sweep.lows, self.sweep.highs, self.shape):
            t = start.type
            assert isinstance(t, Scalar)
            out = both(out, binary(">=", Var(start), cast(lo, t)))
            out = both(out, binary("<=", Var(start), sub(cast(hi, t), cast(n, t))))
        assert out is not None
        return out

    def needed(self, t: int, local: list[Sym]) -> Expr:
        """The region that later sweeps need of sweep ``t``: it shrinks by a halo a sweep."""
        out: Expr | None = None
        for i, n, h in zip(local, self.shape, self.sweep.halo):
            edge = cast(i32(h * t), i.type)  # type: ignore[arg-type]
            if h:
                out = both(out, binary(">=", Var(i), edge))
                out = both(out, lt(Var(i), sub(cast(n, i.type), edge)))  # type: ignore[arg-type]
        return Const(True, BOOL) if out is None else out

    def computed(self, t: int, local: list[Sym], here: list[Sym], target: Sym | None) -> Body:
        """The sweep's own statements at ``here``, reading the room of the sweep before."""
        s = self.sweep
        room = self.rooms[(t - 1) % 2]
        env = {v: Var(x) for v, x in zip(s.vars, here)}
        bases = [Var(x) for x in self.starts]

        def on(e: Expr) -> Expr:
            if not (isinstance(e, Load) and e.buffer == s.read):
                return e
            at = s.taps[e.index]
            return Load(room, tuple(_local(c, v, x, i, b) for c, v, x, i, b in zip(at, s.vars, here, local, bases)))

        body: Body = tuple(map_stmt_exprs(x, lambda e: map_expr(e, on)) for x in s.body)
        body = _without_unused(substitute(body, env))
        last = body[-1]
        assert isinstance(last, Store)
        if target is not None:
            body = (*body[:-1], Store(target, tuple(Var(i) for i in local), last.value, loc=last.loc))
        return refresh(body)


def _local(coordinate: Expr, var: Sym, here: Sym, local: Sym, base: Expr) -> Expr:
    """A tap's coordinate in the room. ``i + 1`` of the source is ``i_t + 1`` there."""
    from ktc.ir.arith.polynomial import difference, polynomial

    if set(polynomial(difference(coordinate, Var(var)))) <= {()}:
        return simplify(add(Var(local), difference(coordinate, Var(var))))
    return sub(coordinate, base)


def _without_unused(body: Body) -> Body:
    """``body`` without declarations that nothing reads any more."""
    while True:
        read: set[Sym] = set()
        for s in body:
            read |= used(s.init) if isinstance(s, Decl) and s.init is not None else used_in((s,))
        kept = tuple(s for s in body if not isinstance(s, Decl) or s.sym in read)
        if len(kept) == len(body):
            return body
        body = kept


def _threads(n: int) -> list[Dist]:
    """Threads of a block over the room, outermost loop first."""
    sizes = {1: ((256, "x"),), 2: ((8, "y"), (32, "x")), 3: ((1, "z"), (8, "y"), (32, "x"))}[n]
    return [(Level("thread", i32(k), axis), Level("seq")) for k, axis in sizes]


__all__ = ["TemporalBlock"]
