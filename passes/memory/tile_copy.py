"""The loops of a cooperative copy: which element each iteration moves, under which condition, spread over all threads.

One flat loop over the elements of the box in the buffer's own order, so that neighbouring threads read neighbouring
addresses whatever the tile's layout and the block's shape; its coordinates come by division and remainder. Where the
tile has another dimension last, a few elements of that come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ktc.ir.analysis.footprint import Footprint, Loop, Side, within
from ktc.ir.analysis.order import places
from ktc.ir.arith.comparisons import follows
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.loop_extents import extent_of
from ktc.ir.arith.polynomial import polynomial, same_value
from ktc.ir.fold import add, binary, both, cdiv, fold_node, i32, is_const, mul, product, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Binary,
    Body,
    Const,
    Dist,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, scalar_of
from ktc.ir.walk import substitute_expr, walk
from ktc.passes.core.refusals import Refusal
from ktc.passes.shared.distribution_coverage import Need, divided
from ktc.passes.shared.tile_edges import nonempty

from .tile_contents import Contents

X = TypeVar("X")

TURNED = 4
"""Elements of the dimension that becomes the last which neighbouring threads copy, before they go on in the buffer's
own order: a warp reads four sectors, and in rows of the tile that are padded by as many elements each has a bank."""

AXIS = {"lane": "x", "warp": "y"}


@dataclass(frozen=True)
class Style:
    """How a copy is made: ``vec`` elements at once, to a tile with its dimensions reversed (``transpose``) or with the
    one last that the loop ``inner`` moves along, in one loop or in one a dimension (``by_rows``); elements that nobody
    reads become zero (``fills``) or are left as they are."""

    vec: Expr
    transpose: bool = False
    by_rows: bool = False
    fills: bool = True
    inner: str = ""

    def laid_out(self, box: Footprint, along: Sequence[X]) -> tuple[X, ...]:
        """``along``, something for each dimension of ``box``, in the order of the tile's dimensions."""
        if self.transpose:
            return tuple(reversed(along))
        if not self.inner:
            return tuple(along)
        at = self.moved(box)
        assert at is not None
        return (*along[:at], *along[at + 1 :], along[at])

    def turned(self, box: Footprint) -> int | None:
        """The dimension that becomes the last of the tile, if it has groups of :data:`TURNED`."""
        at = self.moved(box) if self.inner else None
        size = None if at is None or at == len(box.dims) - 1 else box.dims[at].size
        return at if isinstance(size, Const) and int(size.value) % TURNED == 0 else None

    def moved(self, box: Footprint) -> int | None:
        """The dimension that ``inner`` moves along; None if there is none."""
        sides = zip(*(t.sides for t in box.taps))
        names = [{m.var.stem for side in mine for m, _ in side.movers} for mine in sides]
        return next((d for d, mine in enumerate(names) if self.inner in mine), None)


@dataclass(frozen=True)
class Copy:
    """The box ``box`` of ``buffer`` goes to ``tile``, which then ``holds`` it, inside the loops ``path``."""

    buffer: Sym
    tile: Sym
    box: Footprint
    style: Style
    path: tuple[Stmt, ...]
    holds: Contents


def thread_levels(body: Body) -> tuple[Level, ...]:
    """One level per thread axis in use, with its size: a loop with all of them runs over the whole block."""
    sizes: dict[str, Expr] = {}
    for s in walk(body):
        for lv in s.dist if isinstance(s, Par | Reduce) else ():
            if lv.kind in ("thread", "lane", "warp") and lv.n is not None:
                sizes.setdefault(AXIS.get(lv.kind, lv.axis or "x"), lv.n)
    out: list[Level] = []
    for axis in "xyz":
        parts = [sizes[a] for a in sorted(sizes) if a[0] == axis and len(a) > 1]
        size = sizes.get(axis, simplify(product(parts)) if parts else None)  # an axis in parts is taken whole
        if size is not None:
            out.append(Level("thread", size, axis))
    return tuple(out)


def copy_nest(c: Copy, kernel: Kernel, threads: Dist) -> tuple[Body, list[Need]]:
    """The loops of ``c``, and the facts that its vectors rest on."""
    if c.holds.pad is not None and not c.style.fills:
        raise Refusal("E-STAGE-FILL", f"beyond the edges of '{c.buffer.name}' the tile's {c.holds.pad} is read")
    sizes = [d.size for d in c.box.dims]
    unknown = loop_of_unknown_length(c)
    if unknown is not None:
        why = f"whether '{unknown.var.name}' runs at all is not known where '{c.buffer.name}' would be copied"
        raise Refusal("E-STAGE-FOOTPRINT", why, places(unknown))
    vec = c.style.vec
    lanes = fresh(f"{c.buffer.name}_v", I32)
    single = is_const(vec, 1)
    facts: list[Need] = []
    if not single:
        facts = _vector_facts(c, kernel)
    beside = c.style.turned(c.box) if single and not c.style.by_rows else None
    if beside is None:
        counts = [*sizes[:-1], fold_node(Binary("/", sizes[-1], vec))]
        loops, at = _loops(c.buffer.name, counts, threads, c.style.by_rows)
    else:
        counts = [*sizes, i32(TURNED)]
        counts[beside] = fold_node(Binary("/", sizes[beside], i32(TURNED)))
        loops, (*at, among) = _loops(c.buffer.name, counts, threads, by_rows=False)
        at[beside] = add(mul(at[beside], i32(TURNED)), among)
    start = at[-1] if single else mul(at[-1], vec)  # where the vector starts: its guard holds for all its lanes
    last = start if single else add(start, Var(lanes))
    t = scalar_of(c.buffer.type)
    value: Expr = Load(c.buffer, (address(c, [*at[:-1], last]),))
    cond = touched(c, [*at[:-1], start])
    if cond is not None and c.style.fills:
        value = Select(cond, value, c.holds.pad or Const(0.0 if t.is_float else 0, t))
    where = [*at[:-1], last]
    store: Stmt = Store(c.tile, c.style.laid_out(c.box, where), value)
    if not single:
        store = Par(var=lanes, lo=i32(0), hi=vec, dist=(Level("vec", vec),), body=(store,))
    if cond is not None and not c.style.fills:
        store = If(cond, (store,))
    for i, (n, dist) in reversed(loops.items()):
        store = Par(var=i, lo=i32(0), hi=n, dist=dist, body=(store,))
    return (store,), facts


def _loops(
    name: str, sizes: list[Expr], threads: Dist, by_rows: bool
) -> tuple[dict[Sym, tuple[Expr, Dist]], list[Expr]]:
    """The loops of a copy, outermost first, with their extents and distributions; and the coordinates they give."""
    if by_rows and len(threads) <= len(sizes):
        axes: list[Dist] = [(lv,) for lv in reversed(threads)]
        axes_of = [*([()] * (len(sizes) - len(axes))), *axes]
        names = [fresh(f"{name}_i{d}", I32) for d in range(len(sizes))]
        return {i: (n, spread(n, on)) for i, n, on in zip(names, sizes, axes_of)}, [Var(i) for i in names]
    i = fresh(f"{name}_i", I32)
    total = simplify(product(sizes))
    return {i: (total, spread(total, threads))}, _coordinates(Var(i), sizes)


def _coordinates(i: Expr, sizes: list[Expr]) -> list[Expr]:
    """``i`` as row-major coordinates in a box."""
    out: list[Expr] = []
    for k, n in enumerate(reversed(sizes)):
        outermost = k == len(sizes) - 1
        out.append(i if outermost else fold_node(Binary("%", i, n)))
        i = fold_node(Binary("/", i, n))
    return list(reversed(out))


def spread(total: Expr, threads: Dist) -> Dist:
    """A loop of ``total`` iterations over all ``threads`` of a block, what each of them does written out, so that what
    it reads is on its way at once."""
    if not threads:
        return (Level("seq"),)
    each = simplify(cdiv(total, product([lv.n for lv in threads if lv.n is not None])))
    return threads if is_const(each, 1) else (*threads, Level("unroll", each))


def address(c: Copy, at: Sequence[Expr]) -> Expr:
    """Where the element at ``at`` comes from: clamps and all, if there are any."""
    plain = c.box.address([Var(t) for t in c.holds.cell])
    return c.box.address(at) if same_value(plain, c.holds.address) else c.holds.at(c.holds.address, at)


def touched(c: Copy, at: list[Expr]) -> Expr | None:
    """The condition under which some access reads the element at ``at``: the union of the taps' boxes, each where the
    tap's own conditions hold."""
    groups: dict[frozenset[Expr], tuple[tuple[Expr, ...], list[tuple[Side, ...]]]] = {}
    for tap, conds in zip(c.box.taps, c.holds.conds):
        groups.setdefault(frozenset(conds), (conds, []))[1].append(tap.sides)
    out: Expr | None = None
    for tests, taps in groups.values():
        guard = [c.holds.at(x, at) for x in tests]
        for sides in _merged(taps, c.path):
            here: Expr | None = None
            for x in (x for s, t, d in zip(sides, at, c.box.dims) for x in _reach(s, t, d.size)):
                here = here if follows(x, guard) else both(here, x)
            for x in (*_idle(c), *guard):
                here = both(here, x)
            if here is None:
                return None
            out = here if out is None else Binary("||", out, here)
    return out


@dataclass(frozen=True)
class _Span:
    """A run of taps along one dimension that differ by one: from ``side`` on, ``more`` further."""

    side: Side
    more: int


def _reach(s: _Span, t: Expr, size: Expr) -> list[Expr]:
    ends = within(Side(s.side.offset + s.more, s.side.movers), t, size)
    starts = within(s.side, t, size)
    lower = [x for x in starts if isinstance(x, Binary) and x.op == ">="]
    return [*lower, *(x for x in ends if not (isinstance(x, Binary) and x.op == ">="))]


def _merged(taps: list[tuple[Side, ...]], path: tuple[Stmt, ...]) -> list[tuple[_Span, ...]]:
    """Boxes that touch each other along one dimension become one; boxes inside others go.

    Two boxes one step apart are one only when neither is empty.
    """
    boxes = [tuple(_Span(s, 0) for s in sides) for sides in dict.fromkeys(taps)]
    if not all(nonempty(m, path) for sides in taps for s in sides for m, _ in s.movers):
        return boxes
    for d in range(len(taps[0])):
        groups: dict[tuple[tuple[_Span, ...], object, tuple[_Span, ...]], list[_Span]] = {}
        for b in boxes:
            groups.setdefault((b[:d], b[d].side.movers, b[d + 1 :]), []).append(b[d])
        for (before, _, after), spans in groups.items():
            boxes += [(*before, run, *after) for run in _runs(spans)]
    boxes = list(dict.fromkeys(boxes))
    return [b for b in boxes if not any(o != b and _inside(b, o) for o in boxes)]


def _runs(spans: list[_Span]) -> list[_Span]:
    """Spans along one dimension, those that touch joined."""
    out: list[_Span] = []
    for s in sorted(spans, key=lambda s: s.side.offset):
        gap = s.side.offset - out[-1].side.offset if out else 0
        if out and gap <= out[-1].more + 1:
            out[-1] = _Span(out[-1].side, max(out[-1].more, gap + s.more))
        else:
            out.append(s)
    return out


def _inside(a: tuple[_Span, ...], b: tuple[_Span, ...]) -> bool:
    return all(
        x.side.movers == y.side.movers
        and y.side.offset <= x.side.offset
        and x.side.offset + x.more <= y.side.offset + y.more
        for x, y in zip(a, b)
    )


def _idle(c: Copy) -> list[Expr]:
    """Loops around an access that do not move it, but might not run at all: their ranges must not be empty."""
    conds = (_runs_at_all(loop) for loop in _idle_loops(c))
    return list(dict.fromkeys(x for x in conds if x is not None))


def _idle_loops(c: Copy) -> Iterator[Loop]:
    for tap in c.box.taps:
        movers = {m.var for side in tap.sides for m, _ in side.movers}
        yield from (loop for loop in tap.touch.loops if loop.var not in movers and not nonempty(loop, c.path))


def _runs_at_all(loop: Loop) -> Expr | None:
    if not isinstance(loop, For):
        return binary("<", loop.lo, loop.hi)
    form = counting(loop)
    return None if form is None else binary("<", form.lo, form.hi)


def loop_of_unknown_length(c: Copy) -> Loop | None:
    """A loop that may be idle, and ends in a way that is not followed."""
    return next((loop for loop in _idle_loops(c) if _runs_at_all(loop) is None), None)


def _vector_facts(c: Copy, kernel: Kernel) -> list[Need]:
    """What makes each vector whole, aligned and guarded at once: rows, edges and the tile's start in whole vectors."""
    if c.holds.bends(len(c.box.dims) - 1):
        raise Refusal("E-STAGE-VEC", f"a condition or a clamp stands before single elements of '{c.buffer.name}'")
    if not is_const(c.box.dims[-1].stride, 1):
        raise Refusal("E-STAGE-VEC", f"no loop of the region runs along the rows of '{c.buffer.name}'")
    widest = 16 // scalar_of(c.buffer.type).bytes
    if isinstance(c.style.vec, Const) and (
        c.style.vec.value > widest or int(c.style.vec.value) & (int(c.style.vec.value) - 1)
    ):
        raise Refusal("E-STAGE-VEC", f"no 16-byte access moves {c.style.vec.value} elements of '{c.buffer.name}'")
    if any(t.sides[-1].offset or any(step != 1 for _, step in t.sides[-1].movers) for t in c.box.taps):
        raise Refusal("E-STAGE-VEC", f"the rows of the footprint of '{c.buffer.name}' do not start at whole vectors")
    params = frozenset(p.sym for p in kernel.params)
    name, hint = c.buffer.name, "a narrower vec, or a tile of whole vectors"

    def whole(e: Expr, what: str) -> list[Need]:
        why = f"{what} of '{name}', {{have}} elements, are no whole vectors of {{want}}"
        return divided(e, c.style.vec, params, why, places(*c.path[-1:]), hint)

    facts = whole(c.box.dims[-1].size, "the rows of the tile")
    for d in c.box.dims[:-1]:
        facts += whole(d.stride, "the rows")
    counting = _counting(c.path)
    for tap in c.box.taps:
        for loop, _ in tap.sides[-1].movers:
            for clip in extent_of(loop).clips:  # type: ignore[union-attr]
                facts += whole(substitute_expr(clip, counting), "what the edge leaves of the rows")
    loops = {s.var: s for s in c.path if isinstance(s, For)}
    for factors, k in polynomial(c.box.base).items():
        counted = [loops[f.sym] for f in factors if isinstance(f, Var) and f.sym in loops]
        if len(factors) == 1 and counted and isinstance(counted[0].step, Binary):
            for e in (counted[0].init, counted[0].step.b):
                facts += whole(mul(e, i32(k)), "the steps from tile to tile")
    return list(dict.fromkeys(facts))


def _counting(path: tuple[Stmt, ...]) -> dict[Sym, Expr]:
    """Each serial loop's index as its start and a number of its steps: what divides both divides every index."""
    out: dict[Sym, Expr] = {}
    for s in path:
        if isinstance(s, For) and isinstance(s.step, Binary) and s.step.op == "+" and s.step.a == Var(s.var):
            out[s.var] = add(s.init, mul(s.step.b, Var(fresh("round", s.var.type))))
    return out


__all__ = ["Copy", "Style", "address", "copy_nest", "loop_of_unknown_length", "thread_levels", "touched"]
