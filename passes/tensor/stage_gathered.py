"""stage-gathered: a factor whose elements lie in no box is gathered in shared memory, as the matrix that a tile needs.

before                                                   after stage-gathered{array=x loop=t vec=8}
    for t in 0..9 * (C / 32)                                 array x_s: shared f16[128, 32]
      par p in 0..128 @ [unroll 8, thread.y 16]              for t in 0..9 * (C / 32)
        par k in 0..64 @ [thread.x 16, unroll 4]               par x_i in 0..512 @ [thread.x 16, thread.y 16, unroll 2]
          for c in 0..32                                         par x_v in 0..8 @ [vec 8]
            acc[p, k] += f32(in(p, t)                              x_s[x_i / 4, x_i % 4 * 8 + x_v] = in(x_i / 4, t)
                ? x[at(p, t) + c] : 0.0) * f32(w[..])                ? x[at(x_i / 4, t) + x_i % 4 * 8 + x_v] : 0.0
                                                               par p .. par k .. for c ..
                                                                 acc[p, k] += f32(x_s[p, c]) * f32(w[..])

A convolution is a product: of pixels by taps and channels. Where pixels are counted through rows and images, and taps
are asked about at the rim, what a tile of it reads of ``x`` is no box, which ``stage-shared`` would copy; but for each
pixel and term there is one element, or a zero. The matrix is what im2col would write to memory, a tile at a time.

Its rows lie along the terms, or along the other loop where that is what memory has side by side; ``vec`` elements go at
once where they are neighbours there, which the launcher tests as far as it is not known.

Legal where what is read depends on the serial loop inside of ``loop`` and on one of the parallel loops of the block's
threads around it, of known extents, and the kernel does not write it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, Facts, facts_of, simplified
from ktc.ir.arith.affine import is_unit_stride, mentions
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fields import children, with_children
from ktc.ir.fold import add, binary, both, cast, evaluate, i32, is_const, lt, mul, simplify, sub, zero
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Binary,
    Cast,
    Const,
    Decl,
    Expr,
    For,
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
)
from ktc.ir.purity import is_removable
from ktc.ir.types import I32, Array, Ptr, scalar_of
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    loads_in,
    map_body,
    map_expr,
    stmt_exprs,
    substitute_expr,
    used,
    walk,
)
from ktc.passes.core.argument_kinds import Arrays, Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.knobs import largest
from ktc.passes.core.places import SERIAL, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.memory.region_reads import read_only, written_over
from ktc.passes.memory.swizzle_shared import UNIT
from ktc.passes.memory.tile_copy import spread, thread_levels
from ktc.passes.shared.bands import with_arrays
from ktc.passes.shared.distribution_coverage import Need, assume, divided
from ktc.passes.shared.tiles import paths, whole_tiles

from .summed_tiles import Side, SummedTile, begin, from_zero, side_of, summed_tile, without_unused

MOST = 65536
"""Elements of a tile at most."""


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the buffer that the factor's elements lie in")
    loop: Loops = required("the serial loops over the tiles of sums")
    vec: int = option(1, "elements an access of the copy", code="E-GATHER-VEC", least=1)


class StageGathered(Pass[Arguments]):
    name = "stage-gathered"
    summary = "the matrix of a tile's factor in shared memory, gathered from wherever its elements lie"
    refusals = ("E-PLACE", "E-STAGE-ARRAY", "E-STAGE-WRITTEN", "E-GATHER-LOOP", "E-GATHER-READS", "E-GATHER-SIZE",
                "E-GATHER-VEC", "E-DIST-COVER")  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each array that a tile reads so behind a condition: others are copied as they lie."""
        if not kernel.is_parallel:
            return []
        found = []
        for s in walk(kernel.body):
            if isinstance(s, For) and any(isinstance(x, Par) for x in s.body):
                asked = {x.buffer for e in all_exprs((s,)) for x in map(_element, (c.a for c in _selected(e))) if x}
                found += [(a, s) for a in sorted(asked, key=lambda a: a.name) if allowed(_found, kernel, a, s)]
        doc = "zeros at the rim, and each element is fetched once a block"
        return [Site(self.step(array=a.name, loop=place_of(kernel, s)), doc) for a, s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        buffer, notes = read_only(kernel, args.array), []
        for loop in args.loop.find(kernel, SERIAL):
            here = next(x for x in walk(kernel.body) if isinstance(x, For) and x.var == loop.var)
            found = _found(kernel, buffer, here)
            needs = _needs(kernel, found, args.vec)
            kernel = assume(_staged(kernel, found, args.vec), needs)
            notes.append(f"{found.tile.name}: gathered")
        return Result(kernel, tuple(notes))


# -------------------------------------------------------------------------------------------------------- what is read


@dataclass(frozen=True)
class Gathered:
    """The factor ``value`` of ``read``, what it reads where ``cond`` holds (always: None), as the sums' expressions say
    it. ``outer`` and ``inner``: the loops that rows of ``tile`` are for, and that run along them."""

    sums: SummedTile
    read: Expr
    load: Load
    cond: Expr | None
    outer: Side
    inner: Side
    tile: Sym


def _selected(e: Expr) -> Iterator[Select]:
    """The choices in ``e`` between something and a zero."""
    if isinstance(e, Select) and isinstance(e.b, Const) and e.b.value == 0 and str(e.b.value)[0] != "-":
        yield e
    for x in children(e):
        yield from _selected(x)


def _found(kernel: Kernel, buffer: Sym, loop: For) -> Gathered:
    """How the tile of sums inside of ``loop`` reads ``buffer``."""
    found = summed_tile(kernel, loop, "E-GATHER-LOOP")
    sums, name = found.sums, buffer.name
    reads = [e for e in _factors(sums) if any(x.buffer == buffer for x in loads_in(e))]
    everywhere = [x for s in walk((sums,)) for e in stmt_exprs(s) for x in loads_in(e) if x.buffer == buffer]
    if not reads or len(set(reads)) != 1 or len(everywhere) != len(reads):
        why = f"'{sums.var.name}' does not read '{name}' once, as a factor: as it is, or zero where a condition fails"
        raise Refusal("E-GATHER-READS", why, places(sums))
    names = definitions(kernel.body)
    (read,) = set(reads)
    here = facts_of(kernel, REWRITES).at(sums)
    value = map_expr(expand(read, names), lambda x: _smaller(x, here))
    load, cond = (_element(value.a), value.cond) if isinstance(value, Select) else (_element(value), None)
    assert load is not None
    own = {*declared(found.tile[0].body), *assigned(found.tile[0].body)} | {p.var for p in found.tile}
    along = [p for p in found.tile if p.var in used(value)]
    if len(along) != 1 or sums.var not in used(value) or used(value) & (own - {along[0].var, sums.var}):
        why = f"'{name}' is read by more or less than '{sums.var.name}' and one loop of the tile"
        raise Refusal("E-GATHER-READS", why, places(sums))
    if not is_removable(value) or any(not _is_index(kernel, x) for x in loads_in(value) if x != load):
        raise Refusal("E-GATHER-READS", f"where '{name}' is read may change in the loop", places(sums))
    sides = tuple(_named(side_of(x, "E-GATHER-SIZE"), names) for x in (along[0], sums))
    outer, inner = sides[::-1] if _runs_along(load.index[0], along[0].var) else sides
    knobs = largest(kernel)
    sizes = [evaluate(s.size, knobs) for s in sides]
    if None in sizes or int(sizes[0] or 0) * int(sizes[1] or 0) > MOST:
        why = f"the tile of '{name}' would have more than {MOST} elements"
        raise Refusal("E-GATHER-SIZE", why, places(sums, along[0]), "tile makes loops shorter")
    tile = fresh(f"{name}_s", Array(scalar_of(buffer.type), (outer.size, inner.size), "shared"))
    return Gathered(found, read, load, cond, outer, inner, tile)


def _smaller(x: Expr, here: Facts) -> Expr:
    """``x`` with its index simplified: digits of a row's number that come together are that number."""
    if not isinstance(x, Load) or len(x.index) != 1:
        return x
    return dataclasses.replace(x, index=(simplified(x.index[0], here),))


def _element(e: Expr) -> Load | None:
    """The element that ``e`` is, converted or not; None if it is something else."""
    inside = e.x if isinstance(e, Cast) and e.style != "bit" else e
    return inside if isinstance(inside, Load) and len(inside.index) == 1 and inside.width == 1 else None


def _runs_along(index: Expr, v: Sym) -> bool:
    """Whether neighbours along ``v`` lie side by side, but for where a quotient of it begins anew."""
    if is_unit_stride(index, v):
        return True
    digits = (factors[0] for factors, k in polynomial(index).items() if k == 1 and len(factors) == 1)
    return any(isinstance(f, Binary) and f.op == "%" and is_unit_stride(f.a, v) for f in digits)


def _named(s: Side, names: Mapping[Sym, Expr]) -> Side:
    """``s`` whose ends say what names stand for."""
    clips = tuple(expand(e, names) for e in s.extent.clips)
    return Side(s.loop, s.size, dataclasses.replace(s.extent, clips=clips), expand(s.start, names))


def _factors(sums: For | Reduce) -> Iterator[Expr]:
    """The elements that ``sums`` combines, each with the condition behind which it is zero."""

    def of(e: Expr) -> Iterator[Expr]:
        if isinstance(e, Load):
            yield e
        elif isinstance(e, Select):
            yield from (x for x in _selected(e) if x is e and _element(x.a) is not None)
        elif isinstance(e, Binary | Cast):
            for x in children(e):
                yield from of(x)

    for s in sums.body:
        value = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign | Store) else None
        if value is not None:
            yield from of(value)
    for acc in sums.accs if isinstance(sums, Reduce) else ():
        yield from of(acc.value)


def _is_index(kernel: Kernel, x: Load) -> bool:
    """Whether ``x``, in the index of an element, reads what the kernel leaves alone."""
    return (
        isinstance(x.buffer.type, Ptr) and x.buffer not in assigned(kernel.body) and not written_over(kernel, x.buffer)
    )


def _needs(kernel: Kernel, found: Gathered, vec: int) -> list[Need]:
    """What makes each vector whole, of neighbours, aligned and behind one condition."""
    if vec == 1:
        return []
    name, inner = found.load.buffer.name, found.inner.loop.var
    params = frozenset(p.sym for p in kernel.params)
    if vec & (vec - 1) or vec * scalar_of(found.load.buffer.type).bytes > UNIT:
        raise Refusal("E-GATHER-VEC", f"no access of {UNIT} bytes moves {vec} elements of '{name}'")
    if not is_unit_stride(found.load.index[-1], inner) or (found.cond is not None and mentions(found.cond, {inner})):
        raise Refusal("E-GATHER-VEC", f"along '{inner.name}' elements of '{name}' are no neighbours, or asked about")
    start = substitute_expr(found.load.index[-1], {inner: found.inner.start})
    why = f"where a row of '{name}' begins, {{have}}, is no whole vector of {{want}}"
    here, needs = facts_of(kernel, REWRITES), list[Need]()
    for what in (found.inner.size, *found.inner.extent.clips, start):
        for factors, k in polynomial(what).items():
            if not here.multiple_of(from_polynomial({factors: k}, what.type), vec):
                sizes = from_polynomial({tuple(f for f in factors if used(f) <= params): k}, what.type)
                needs += divided(sizes, i32(vec), params, why, places(found.sums.sums))
    return list(dict.fromkeys(needs))


# ---------------------------------------------------------------------------------------------------------- the rewrite


def _staged(kernel: Kernel, found: Gathered, vec: int) -> Kernel:
    region = found.sums.band.region
    assert isinstance(region, For)
    place = tuple(simplify(sub(Var(s.loop.var), begin(s.loop))) for s in (found.outer, found.inner))
    held = Load(found.tile, place)
    instead: Expr = cast(held, scalar_of(found.read.type), "c")
    reading = without_unused(map_body((found.sums.band.holder,), lambda s: _reading(s, found, instead)))
    fill = _Fill(kernel, found, vec, region)
    nest = fill.nest()
    arrays = [Alloc(found.tile, align=16), *fill.before]
    kernel = with_arrays(kernel, region, found.sums.band.holder, arrays, (nest, *reading))
    path = next(p for p in paths(kernel.body) if isinstance(p[-1], For) and p[-1].var == region.var)

    def whole(s: Stmt) -> Stmt:
        return dataclasses.replace(s, body=whole_tiles(s.body, path)) if isinstance(s, For) and s is path[-1] else s

    return kernel.with_(body=map_body(kernel.body, whole))


def _reading(s: Stmt, found: Gathered, instead: Expr) -> Stmt:
    """``s`` with elements of the tile, if it is the sum."""
    if not isinstance(s, For | Reduce) or s.var != found.sums.sums.var:
        return s

    def read(e: Expr) -> Expr:
        return instead if e == found.read else with_children(e, read)

    (done,) = map_body((s,), keep, read)
    assert isinstance(done, For | Reduce)
    return from_zero(done)


class _Fill:
    """The loop over a tile that fills it, and what comes ``before`` the loop over tiles: quotients of the places of
    rows, which take a thread longer than to copy."""

    def __init__(self, kernel: Kernel, found: Gathered, vec: int, region: For) -> None:
        name = found.load.buffer.name
        self.found, self.vec = found, vec
        self.i, self.v = fresh(f"{name}_i", I32), fresh(f"{name}_v", I32)
        self.moving = {region.var, *declared(region.body), *assigned(region.body)} - {found.outer.loop.var}
        self.facts = facts_of(kernel, REWRITES).at(found.sums.sums)
        row = cast(simplify(binary("/", found.inner.size, i32(vec))), I32)
        self.many = simplify(mul(cast(found.outer.size, I32), row))
        self.levels = spread(self.many, thread_levels(kernel.body))
        self.row, self.first = binary("/", Var(self.i), row), mul(binary("%", Var(self.i), row), i32(vec))
        self.before: list[Alloc | Par] = []
        self._held: dict[Expr, Expr] = {}

    def nest(self) -> Par:
        """One loop over the tile, neighbouring threads along its rows."""
        found, fast = self.found, self.first if self.vec == 1 else add(self.first, Var(self.v))
        cond = None if found.cond is None else self._at(self._quotients_held(found.cond), self.first)
        for s, x in ((found.outer, self.row), (found.inner, self.first)):
            for clip in s.extent.clips:
                cond = both(lt(cast(x, scalar_of(clip.type)), clip), cond)
        index = self._at(self._quotients_held(self._apart(found.load.index[0])), fast)
        value: Expr = dataclasses.replace(found.load, index=(index,))
        if cond is not None:
            value = Select(cond, value, zero(scalar_of(value.type)))
        store: Stmt = Store(found.tile, (self.row, fast), value)
        if self.vec > 1:
            store = Par(self.v, i32(0), i32(self.vec), (Level("vec", i32(self.vec)),), (store,))
        return Par(self.i, i32(0), self.many, self.levels, (store,))

    def _at(self, e: Expr, along: Expr) -> Expr:
        """``e`` at the place of the tile that is ``along`` its row."""
        here = ((self.found.outer, self.row), (self.found.inner, along))
        return substitute_expr(e, {s.loop.var: add(s.start, cast(x, scalar_of(s.loop.var.type))) for s, x in here})

    def _apart(self, e: Expr) -> Expr:
        """``e``, what of it stays the same in the loop over tiles on its own: there digits of a row come together."""
        terms = self.facts.polynomial(e)
        stays = {factors: k for factors, k in terms.items() if not any(used(f) & self.moving for f in factors)}
        rest = {factors: k for factors, k in terms.items() if factors not in stays}
        others, at_zero = from_polynomial(rest, e.type), {v: zero(scalar_of(v.type)) for v in used(e) & self.moving}
        if not is_const(simplified(substitute_expr(others, at_zero), self.facts), 0):
            return add(from_polynomial(stays, e.type), others)
        return add(simplified(substitute_expr(e, at_zero), self.facts), others)  # as it was written, digits are near

    def _quotients_held(self, e: Expr) -> Expr:
        """``e`` with quotients of a row's number, by what is no number, from registers."""
        outer = self.found.outer.loop.var
        if not isinstance(e, Binary) or e.op not in ("/", "%") or isinstance(e.b, Const):
            return with_children(e, self._quotients_held)
        if outer not in used(e) or used(e) & self.moving or any(loads_in(e)):
            return with_children(e, self._quotients_held)
        if e not in self._held:
            held = fresh(f"{self.found.load.buffer.name}_at", Array(scalar_of(e.type), (self.many,), "local"))
            i = fresh(self.i.name, I32)
            value = substitute_expr(self._at(e, self.first), {self.i: Var(i)})
            fill = Par(i, i32(0), self.many, self.levels, (Store(held, (Var(i),), value),))
            self.before += [Alloc(held), fill]
            self._held[e] = Load(held, (Var(self.i),))
        return self._held[e]


__all__ = ["StageGathered"]
