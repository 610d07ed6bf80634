"""offset-sums: products of elements less an offset (a zero point) become products of the elements, and sums of each.

before                                              after offset-sums{loop=k}
    for k_tile in 0..n step 64                          for k_tile in 0..n step 64
      par row in 0..64 @ [...]                            par row .. par col .. reduce
        par col in 0..64 @ [...]                            yield i32(a_s[row, k - k_tile]) * i32(b_s[k - k_tile, col])
          reduce(+) sum = acc[row, col]                   par i in 0..256 @ [thread.x 128, unroll 2]
              over k in k_tile..k_tile + 64                 reduce(+) part = a_part[i] over j in 0..16
              strategy m16n8k32_i8                            yield i32(a_s[i / 4, i % 4 * 16 + j])
            yield (i32(a_s[row, k - k_tile]) - za)          a_part[i] = part
                * (i32(b_s[k - k_tile, col]) - zb)        ... the same for b_s, less zb, in b_part
          acc[row, col] = sum                           a_sum[row] = ... of a_part; b_sum[col] = ... of b_part
                                                        par row in 0..64 @ [...]
                                                          par col in 0..64 @ [...]
                                                            acc[row, col] += -zb * a_sum[row] + -za * b_sum[col]

Tensor cores multiply bytes, and a byte less an offset is none. Each element of the tiles is added up once by one of the
block's threads, while it is there to be multiplied: beside the products that is little. With
u = -za and v = -zb, sum((a + u) * (b + v)) = sum(a * b) + v * sum(a) + u * sum(b + v): integers wrap around, so this
holds whatever overflows.

Legal for sums of i32 that ``tensorize`` has made reductions of, whose offsets no term changes, in tiles of known sizes.
The last of the steps on such a product: what it reads is read where the other steps have put it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.fold import add, evaluate, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Cast, Dist, Expr, For, Load, Par, Reduce, Stmt, Store, Sym, Var, fresh
from ktc.ir.text import print_expr
from ktc.ir.types import I32
from ktc.ir.walk import assigned, declared, substitute_expr, used, walk, with_bodies
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.memory.tile_copy import thread_levels
from ktc.passes.shared.mma import is_mma
from ktc.passes.shared.tiles import paths

from .contractions import Factor, converted
from .element_sums import ElementSums, Tap, sums_of


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the reductions on tensor cores over one tile's terms")


class OffsetSums(Pass[Arguments]):
    name = "offset-sums"
    summary = "products of elements less an offset, from products and sums of the elements"
    refusals = ("E-PLACE", "E-OFFSET-FORM", "E-OFFSET-NONE", "E-OFFSET-SIZE")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, Reduce) and is_mma(s)]
        names = ",".join(place_of(kernel, s) for s in found)
        if not found or not allowed(_rewritten, kernel, found):
            return []
        return [Site(self.step(loop=names), "bytes as they are on tensor cores, offsets apart")]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = [s for s in args.loop.find(kernel) if isinstance(s, Reduce) and is_mma(s)]
        if not found:
            raise Refusal("E-OFFSET-FORM", "no reduction on tensor cores is named", hint="tensorize first")
        return _rewritten(kernel, found)


@dataclass(frozen=True)
class Place:
    """A product: ``tiles`` goes through the tiles of its terms, ``band`` are the loops over rows and columns."""

    tiles: For
    band: tuple[Par, Par]
    product: Reduce
    factors: tuple[Factor, Factor]
    sums: Sym


def _rewritten(kernel: Kernel, found: Sequence[Reduce]) -> Result:
    at = [_place(kernel, s) for s in found]
    first = at[0]
    if len({p.sums for p in at}) > 1:
        raise Refusal("E-OFFSET-FORM", "several sums at once", places(found[0]), "name the loops of one product")
    threads = thread_levels(kernel.body)
    known = [evaluate(lv.n, {}) for lv in threads if lv.n is not None]
    if not threads or any(n is None for n in known):
        raise Refusal("E-OFFSET-SIZE", "how many threads a block has is open", places(found[0]), "bind its knobs first")
    terms = [t for t in (_term(at, k, threads) for k in (0, 1)) if t is not None]
    if not terms:
        raise Refusal("E-OFFSET-NONE", "no factor has an offset", places(found[0]))
    notes = ", ".join(f"{print_expr(t.times)} times the sum of {t.sums.name}" for t in terms)
    return Result(kernel.with_(body=_inserted(kernel.body, at, terms)), (f"{first.sums.name}: {notes}",))


@dataclass(frozen=True)
class Term:
    """``times`` the sum of a factor's elements (``own``: with their own offset), side ``side`` of the product."""

    sums: ElementSums
    side: int
    times: Expr
    own: bool


def _term(at: Sequence[Place], k: int, threads: Dist) -> Term | None:
    """What the offset of the other factor adds to the products of factor ``k``."""
    times = at[0].factors[1 - k].offset
    return None if times is None else Term(sums_of([_tap(p, k) for p in at], threads), k, times, k == 1)


def _tap(p: Place, k: int) -> Tap:
    return Tap(p.band[k], p.product, p.factors[k])


def _inserted(body: Body, at: Sequence[Place], terms: Sequence[Term]) -> Body:
    """``body`` with the sums beside the products, and what they come to behind the last tile."""
    tiles = {p.tiles.var: p for p in at}
    here = [k for k, s in enumerate(body) if isinstance(s, For) and s.var in tiles]
    if not here:
        return tuple(with_bodies(s, lambda b: _inserted(b, at, terms)) for s in body)
    inner = tuple(_beside(s, tiles[s.var], terms) if isinstance(s, For) and s.var in tiles else s for s in body)
    first, last = here[0], here[-1] + 1
    start = [s for t in terms for s in t.sums.before()]
    end = [s for t in terms for s in t.sums.after()]
    return (*inner[:first], *start, *inner[first:last], *end, _correction(at[0], terms), *inner[last:])


def _beside(s: For, p: Place, terms: Sequence[Term]) -> For:
    """One tile: the products of its elements alone, and then their sums, while the tensor cores are at work."""
    k = next(i for i, x in enumerate(s.body) if x is p.band[0])
    a, b = (Cast(I32, x.load) for x in p.factors)
    acc = dataclasses.replace(p.product.accs[0], value=Binary("*", a, b))
    product = dataclasses.replace(p.product, accs=(acc,), body=())
    cols = dataclasses.replace(p.band[1], body=(product, *p.band[1].body[1:]))
    added = [t.sums.added(_tap(p, t.side), t.own) for t in terms]
    rows = dataclasses.replace(p.band[0], body=(cols,))
    return dataclasses.replace(s, body=(*s.body[:k], rows, *added, *s.body[k + 1 :]))


def _correction(p: Place, terms: Sequence[Term]) -> Stmt:
    rows, cols = p.band
    env: dict[Sym, Expr] = {s.var: Var(fresh(s.var.name, I32)) for s in p.band}
    at = (env[rows.var], env[cols.var])
    value: Expr = Load(p.sums, at)
    for t in terms:
        value = add(value, mul(substitute_expr(t.times, env), t.sums.value(at[t.side])))
    inner: Body = (Store(p.sums, at, value),)
    for s, x in ((cols, at[1]), (rows, at[0])):
        assert isinstance(x, Var)
        inner = (
            dataclasses.replace(s, var=x.sym, lo=substitute_expr(s.lo, env), hi=substitute_expr(s.hi, env), body=inner),
        )
    return inner[0]


def _place(kernel: Kernel, s: Reduce) -> Place:
    path = next(p for p in paths(kernel.body) if p[-1] is s)
    hint = "tile the sum, then register-tile and tensorize"
    if len(path) < 4:
        raise Refusal("E-OFFSET-FORM", f"'{s.var.name}' stands in no loop over tiles", places(s), hint)
    tiles, rows, cols = path[-4:-1]
    back = cols.body[-1] if isinstance(cols, Par) else None
    acc = s.accs[0]
    held = isinstance(acc.init, Load) and isinstance(back, Store) and back.value == Var(acc.sym)
    if not (isinstance(tiles, For) and isinstance(rows, Par) and isinstance(cols, Par) and held):
        raise Refusal("E-OFFSET-FORM", f"the sum over '{s.var.name}' is kept in no tile of registers", places(s), hint)
    assert isinstance(acc.init, Load)
    same = isinstance(back, Store) and Load(back.buffer, back.index) == acc.init
    if not same or acc.init.index != (Var(rows.var), Var(cols.var)) or len(cols.body) != 2 or len(rows.body) != 1:
        raise Refusal("E-OFFSET-FORM", f"more happens around the sum over '{s.var.name}'", places(s), hint)
    changing = (assigned(tiles.body) | set(declared(tiles.body)) | {s.var, tiles.var}) - {rows.var, cols.var}
    factors = converted(acc.value, changing) if not s.body else []
    if acc.value.type != I32 or len(factors) != 2:
        raise Refusal("E-OFFSET-FORM", f"what '{s.var.name}' sums are no products of two elements in i32", places(s))
    if cols.var in used(factors[0].load) or rows.var in used(factors[1].load):
        factors.reverse()
    return Place(tiles, (rows, cols), s, (factors[0], factors[1]), acc.init.buffer)
