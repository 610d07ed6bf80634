"""tensorize: a sum of products over two parallel loops becomes tensor-core instructions.

before
    par row in 0..128 @ [unroll 8, thread.y 16]
      par col in 0..128 @ [thread.x 16, unroll 8]
        for k in 0..32
          acc[row, col] += f32(As[row, k]) * f32(Bs[k, col])
after tensorize{loop=k warps=2,4}
    par row in 0..128 @ [thread.x1 8, unroll 2, unroll 4, thread.x3 2]
      par col in 0..128 @ [unroll 2, thread.x0 4, unroll 4, thread.x2 4]
        reduce(+) sum = acc[row, col] over k in 0..32 @ [seq] strategy m16n8k16_f16
          yield f32(As[row, k]) * f32(Bs[k, col])
        acc[row, col] = sum

*Which loops go where.* The loop over k becomes a reduction whose strategy names the instruction. Of the parallel loops
around it, the innermost one that only the first factor's index knows gives the rows of the product, the one that only
the second knows the columns. Their first levels are the digits of the instruction's accumulator layout
(``ktc.ir.fragments``): parts x0 and x1 of the thread axis are lanes, the next ``unroll`` repeats the fragment in
registers, then ``warps`` (or warpgroups) spread the tile over the next parts, first columns, then rows. A loop over one
tile keeps its extent: the repetition is tile / (fragment * warps). A loop over the whole range keeps its block level
and takes ``repeat``.

*What stays.* The meaning: a reduction may be summed in any order, and the rest is a distribution like any other. So
accumulators live in registers across an outer loop over k as any owned array does, prologue and epilogue (scale, bias,
cast, masked store) are element-wise code over the same loops, and staging, padding, swizzling, pipelining and block
order apply before and after. Interpreters and targets without the instruction run the loops as they are written.

*What lowering adds* (``passes/lowering/tensor/fragment_products.py``): operand fragments, by matrix loads from shared
memory where rows of eight elements are provably there, else element by element with zero outside the ranges; ``mma``;
nothing else. It checks the distribution against the layout again, so this pass cannot misplace an element unnoticed.

*What must hold.* Two factors of the instruction's operand type, or of one whose values it has (bytes and floats of 8
bits among halves: warps convert them on their way to registers), converted and summed in its accumulator type; each
indexed by k and one of the two loops; nothing between the loops but what every thread may run with its warp. The sum is
reassociated, and its error bound is that of truncated alignment (``Domain.truncated``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.arith.loop_extents import extent
from ktc.ir.fold import binary, cast, i32, is_const, mul, product, simplify, sub
from ktc.ir.fragments import FRAGMENTS, Fragment, Layout, takes
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Assign,
    Binary,
    Body,
    Decl,
    Dist,
    Expr,
    For,
    Level,
    Par,
    Reduce,
    Stmt,
    Store,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.text import print_expr
from ktc.ir.types import I32
from ktc.ir.walk import knobs_in, map_body, walk
from ktc.passes.core.argument_kinds import KnobSpec, Loops, Size
from ktc.passes.core.arguments import knobs, option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed, attempted
from ktc.passes.memory.tile_copy import thread_levels

from .contractions import Product, pars, product_of

WARPS = [
    KnobSpec(n, (1, 2, 4, 8), f"warps of a block along {what}", 2) for n, what in (("WM", "rows"), ("WN", "columns"))
]
REPEATS = [
    KnobSpec(n, (1, 2, 4, 8), f"fragments a warp holds along {what}", 2)
    for n, what in (("FM", "rows"), ("FN", "columns"))
]


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop that sums products")
    fragment: str | None = option(
        None, "the instruction; by default the operands'", code="E-TENSOR-FRAGMENT", words=tuple(FRAGMENTS)
    )
    warps: tuple[Size, Size] = knobs("warps along rows and columns", *WARPS)
    repeat: tuple[Size, Size] = knobs("fragments a warp holds along rows and columns of an untiled loop", *REPEATS)
    pairs: bool = option(False, "whether neighbouring columns of a lane go to memory as one vector")


class Tensorize(Pass[Arguments]):
    name = "tensorize"
    summary = "sums of products over two parallel loops by tensor-core instructions (mma)"
    refusals = (
        "E-PLACE", "E-TENSOR-FORM", "E-TENSOR-TYPE", "E-TENSOR-NEST", "E-TENSOR-OPERAND", "E-TENSOR-FRAGMENT",
        "E-TENSOR-DIST", "E-ARG-RANGE",
    )  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body):
            if not isinstance(s, For | Reduce):
                continue
            p = attempted(product_of, kernel, s)
            if isinstance(p, Product) and allowed(_fragment, p, None):
                out.append(Site(self.step(loop=place_of(kernel, s)), "products on tensor cores"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        notes = []
        for s in args.loop.find(kernel):
            p = product_of(kernel, s)
            f = _fragment(p, args.fragment)
            kernel = _tensorized(kernel, p, f, args)
            notes.append(f"{s.var.name}: {f.name}")
        return Result(kernel.with_(flags=kernel.flags | {"reassociates"}), tuple(dict.fromkeys(notes)))


def _fragment(p: Product, name: str | None) -> Fragment:
    locs = (p.loop.loc,) if p.loop.loc else ()
    types = (p.a.type, p.b.type)
    sums = [f for f in FRAGMENTS.values() if p.value.type == f.accumulator and takes(f, *types)]
    fits = [f for f in sums if not f.from_shared or types == f.operands]  # which reads elements as they lie
    fits.sort(key=lambda f: types != f.operands)  # elements as they lie before those that are converted
    have = " and ".join(sorted(map(str, set(types))))
    if not fits:
        raise Refusal("E-TENSOR-TYPE", f"no instruction multiplies {have} into {p.value.type}", locs)
    if name is not None and name not in [f.name for f in fits]:
        why = f"{name} does not multiply {have} into {p.value.type}"
        raise Refusal("E-TENSOR-TYPE", why, locs, f"these do: {', '.join(f.name for f in fits)}")
    return fits[0] if name is None else FRAGMENTS[name]


# ---------------------------------------------------------------------------------------------------------- the rewrite


def _tensorized(kernel: Kernel, p: Product, f: Fragment, args: Arguments) -> Kernel:
    sizes: dict[str, list[Expr]] = {"warps": [], "repeat": []}
    for size in args.warps:
        kernel, n = size.declared(kernel, Tensorize.name)
        sizes["warps"].append(n)
    for size, side in zip(args.repeat, (p.rows, p.cols)):
        n = i32(1)
        if _tile(side) is None:
            kernel, n = size.declared(kernel, Tensorize.name)
        sizes["repeat"].append(n)
    maps: dict[str, Dist] = {}
    first = len(f.c.lane)  # the parts of the thread axis beyond the lanes of one fragment
    for k, (side, extent_, part) in enumerate(((p.rows, f.m, f"x{first + 1}"), (p.cols, f.n, f"x{first}"))):
        first_levels = axis_levels(f.c, rows=k == 0, vec=args.pairs)
        kernel, maps[side.var.stem] = _levels(kernel, side, first_levels, extent_, part, sizes, k)
    before = thread_levels(kernel.body)
    kernel = kernel.with_(body=map_body(kernel.body, _spread(kernel, p, maps, f)))
    return kernel.with_(body=_whole_block(kernel.body, before, maps.values()))


def axis_levels(layout: Layout, rows: bool, vec: bool) -> list[Level]:
    """The levels that spread one dimension of the accumulator over lanes and registers, fastest first."""
    digits = [("thread", f"x{i}", d) for i, d in enumerate(layout.lane)] + [("unroll", "", d) for d in layout.slot]
    steps = [(d.row if rows else d.col, Level(kind, i32(d.size), axis)) for kind, axis, d in digits]
    ordered = [lv for step, lv in sorted((x for x in steps if x[0]), key=lambda x: x[0])]
    if vec and ordered[0].kind == "unroll":
        ordered[0] = Level("vec", ordered[0].n)
    return ordered


def _tile(s: Par) -> Expr | None:
    """The known extent of a loop over one tile; None for a loop that is spread over blocks itself."""
    if any(lv.kind == "block" for lv in s.dist):
        return None
    return extent(s.lo, s.hi).cap


def _levels(
    kernel: Kernel, side: Par, first: list[Level], size: int, part: str, sizes: Mapping[str, list[Expr]], k: int
) -> tuple[Kernel, Dist]:
    warps, repeat = sizes["warps"][k], sizes["repeat"][k]
    tile = _tile(side)
    blocks = tuple(lv for lv in side.dist if lv.kind == "block")
    if tile is None and not blocks:
        locs = places(side)
        why = f"'{side.var.name}' runs over neither a tile of known size nor blocks"
        raise Refusal("E-TENSOR-DIST", why, locs, "tile it, or give it a block level")
    if tile is not None:
        whole = simplify(mul(i32(size), warps))
        fits = simplify(binary("==", binary("%", cast(tile, I32), whole), i32(0)))
        if is_const(fits, 0):
            locs = places(side)
            have, warp = print_expr(tile), print_expr(warps)
            why = f"the tile of '{side.var.name}', {have}, is no multiple of {warp} warps of {size}"
            raise Refusal("E-TENSOR-DIST", why, locs, f"a tile of {size}, {2 * size}, ... for each warp")
        if knobs_in(fits) and fits not in kernel.constraints:
            kernel = kernel.with_(constraints=(*kernel.constraints, fits))
        repeat = simplify(Binary("/", cast(tile, I32), whole))
    return kernel, (*first, Level("unroll", repeat), Level("thread", warps, part), *blocks)


def _spread(kernel: Kernel, p: Product, maps: Mapping[str, Dist], f: Fragment):
    """Every loop over the same rows or columns takes the new map; the sum becomes a reduction."""
    last = _last_declaration(kernel, p)

    def on(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Par) and s.var.stem in maps and not _blocked(s):
            return dataclasses.replace(s, dist=maps[s.var.stem])
        if isinstance(s, Reduce) and s.var == p.loop.var:
            return dataclasses.replace(s, strategy=f.name)
        if isinstance(s, For) and s.var == p.loop.var:
            return _reduction(s, p, f, last)
        if last is not None and isinstance(s, Decl) and s.sym == last.sym:
            return None
        return s

    return on


def _whole_block(body: Body, before: Dist, maps: Iterable[Dist]) -> Body:
    """``body`` whose loops over all of the block's threads, which were spread as ``before``, run over those of
    ``maps``: fills of tables and copies that were there already."""
    threads = thread_levels(tuple(Par(fresh("i", I32), i32(0), i32(0), m, ()) for m in maps))

    as_many = is_const(simplify(sub(_count(threads), _count(before))), 0)

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Par) or not before or s.dist[: len(before)] != before:
            return s
        rounds = s.dist[len(before) :] if as_many else (Level("seq"),)
        return dataclasses.replace(s, dist=(*threads, *rounds))

    return map_body(body, on)


def _count(threads: Dist) -> Expr:
    return product([lv.n for lv in threads if lv.n is not None])


def _blocked(s: Par) -> bool:
    return bool(s.dist) and all(lv.kind in ("block", "cluster") for lv in s.dist)


def _last_declaration(kernel: Kernel, p: Product) -> Decl | None:
    """The declaration right in front of the loop that starts the sum: the reduction can declare it itself."""
    if not isinstance(p.update, Assign):
        return None
    for _, s in pars(kernel.body, ()):
        if isinstance(s, Par):
            for before, after in zip(s.body, s.body[1:]):
                if (
                    after is p.loop
                    and isinstance(before, Decl)
                    and before.sym == p.update.sym
                    and before.init is not None
                ):
                    return before
    return None


def _reduction(s: For, p: Product, f: Fragment, start: Decl | None) -> Body:
    assert isinstance(s.cond, Binary)
    dist = (Level("seq"),)
    if start is not None and start.init is not None:
        acc = Acc(start.sym, "+", start.init, p.value)
        comments = (*start.comments, *s.comments)
        return (Reduce((acc,), s.var, s.init, s.cond.b, dist, (), f.name, loc=s.loc, comments=comments),)
    total = fresh("sum", f.accumulator)
    reduce = Reduce(
        (Acc(total, "+", p.init, p.value),), s.var, s.init, s.cond.b, dist, (), f.name, loc=s.loc, comments=s.comments
    )
    assert isinstance(p.update, Assign | Store)
    return (reduce, dataclasses.replace(p.update, value=Var(total)))
