"""online-reduction: the maximum and the sum of exponentials below it in one sweep, tile by tile.

before                                              after online-reduction{loop=i map=[vec $V, thread.x $T, unroll $U]}
    reduce(max) m over i in 0..d                        array x_row[d]; var m = -inf; var s = 0.0
      yield x[r + i]                                    for t in 0..cdiv(d, V*T*U)
    reduce(+) s over i in 0..d                            reduce(max) mt over i in the tile @ [...]
      yield exp(x[r + i] - m)                               x_row[i] = x[r + i]; yield x[r + i]
                                                          let top = max(m, mt)
                                                          reduce(+) st over i in the tile @ [...]
                                                            yield exp(x_row[i] - top)
                                                          s = s * exp(m - top) + st; m = top

Each element is read once, whatever the length of the row: a tile stays in registers between its two reductions. The
algebra is that of Milakov and Gimelshein (arXiv 1805.02867), with tiles for elements: s always is the sum of
exp(x - m) over what was seen, for exp(x - m) exp(m - top) = exp(x - top). While nothing but -inf was seen, zero stands
in for the maximum, so that no inf - inf arises that the source would not have.

``own=thread`` gives every thread a maximum and a sum of its own, which meet once at the end (``online_threads``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.order import places
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import add, cast, cdiv, i32, is_const, mul, product, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    If,
    Knob,
    Level,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    fresh,
)
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import map_body, rename, substitute_expr
from ktc.passes.core.argument_kinds import KnobSpec, Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import DistSpec, KnobRef, LevelSpec
from ktc.passes.mapping.distribute import DOMAINS, check_levels, set_distribution, sized_levels
from ktc.passes.shared.distribution_coverage import assume, assumptions
from ktc.passes.shared.sweep_views import view_of
from ktc.passes.shared.sweeps import sibling_lists

from .online_threads import own_sums

EXPONENTIALS = ("exp", "fast_exp")
DEFAULT = DistSpec.of("vec $V", "thread.x $T", "unroll $U")
KNOBS = (
    KnobSpec("V", DOMAINS["vec"], "lanes"),
    KnobSpec("T", DOMAINS["thread"], "threads"),
    KnobSpec("U", DOMAINS["unroll"], "vectors a thread keeps of a tile"),
)


@dataclass(frozen=True)
class Pair:
    """``top`` finds the maximum of values, ``total`` the sum of ``fn(value - maximum)``; ``between`` are constants."""

    top: Reduce
    total: Reduce
    between: Body
    fn: str


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the two reductions' loop")
    map: DistSpec = option(DEFAULT, "the distribution of a tile, every level with a size", knobs=KNOBS)
    own: Literal["block", "thread"] = option(
        "block", "whose the maximum is: one for all threads, tile by tile, or one each", code="E-ONLINE-MAP"
    )


class OnlineReduction(Pass[Arguments]):
    name = "online-reduction"
    summary = "maximum and sum of exponentials in one sweep, tile by tile"
    refusals = ("E-PLACE", "E-ONLINE-NONE", "E-ONLINE-MAP", "E-DIST-LEVELS", "E-DIST-AXIS")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        every = loops(kernel)
        found = [p for p in pairs(kernel.body) if not _others_on_threads(every, p)]
        names = dict.fromkeys(place_of(kernel, p.top) for p in found)
        return [Site(self.step(loop=n, map=DEFAULT), "one read of rows of any length") for n in names]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found, spec = args.loop.spread(kernel), args.map
        locs = places(*found)
        pair = next((p for p in pairs(kernel.body) if any(s.var in (p.top.var, p.total.var) for s in found)), None)
        if pair is None:
            why = "no maximum of a row is followed by the sum of exponentials of its distance"
            raise Refusal("E-ONLINE-NONE", why, locs)
        if any(lv.n is None or lv.kind in ("block", "seq") for lv in spec.levels):
            why = "a tile is what the threads of one block keep in registers: vec, thread and unroll levels with sizes"
            raise Refusal("E-ONLINE-MAP", why, locs)
        check_levels(pair.top, spec)
        if args.own == "thread":
            return _by_threads(kernel, pair, spec)
        body, tops = _online(kernel, pair, spec)
        kernel = kernel.with_(body=body, flags=kernel.flags | {"reassociates"})
        done = set_distribution(kernel, [s for s in loops(kernel) if s.var in tops], spec, owner=self.name)
        return Result(done.kernel, ("one sweep in tiles",))


def _by_threads(kernel: Kernel, p: Pair, spec: DistSpec) -> Result:
    """Each thread's own maximum and sum."""
    kinds = [lv.kind for lv in spec.levels]
    locs = (p.top.loc,) if p.top.loc else ()
    if kinds != [k for k in ("vec", "thread", "unroll") if k in kinds] or "thread" not in kinds:
        raise Refusal(
            "E-ONLINE-MAP", "a thread's own sums want the levels vec, thread.x and unroll, in this order", locs
        )
    kernel, dist = sized_levels(kernel, [p.top], spec, OnlineReduction.name)
    n = {lv.kind: lv.n for lv in dist}
    assert n["thread"] is not None
    low = p.total.accs[0]
    made, whole = own_sums(p.top, low.sym, p.fn, n.get("vec") or i32(1), n["thread"], n.get("unroll") or i32(1))
    body = _replaced(kernel, p, (*made, Decl(low.sym, Var(whole)), *_nothing_seen(p), *p.between))
    facts = assumptions(p.top, (*dist, Level("seq")), False, frozenset(x.sym for x in kernel.params))
    kernel = assume(kernel.with_(body=body, flags=kernel.flags | {"reassociates"}), facts)
    return Result(kernel, ("one sweep, sums of each thread",))


def _others_on_threads(every: list[Loop], p: Pair) -> bool:
    """Whether loops beside the pair are spread over threads: they would have to follow its new distribution."""
    beside = (s for s in every if s.var not in (p.top.var, p.total.var))
    return any(lv.kind in THREAD_LEVELS for s in beside for lv in s.dist)


def pairs(body: Body) -> Iterator[Pair]:
    """Every recognised pair of sibling reductions."""
    for block in sibling_lists(body):
        view = view_of(Par(fresh("", I32), i32(0), i32(1), (), block))
        sums = [k for k, s in enumerate(block) if isinstance(s, Reduce)]
        for a, b in pairwise(sums):
            pair = _pair(block[a], block[a + 1 : b], block[b], view.constants)
            if pair is not None:
                yield pair


def _pair(top: Stmt, between: Body, total: Stmt, constants: Mapping[Sym, Expr]) -> Pair | None:
    assert isinstance(top, Reduce) and isinstance(total, Reduce)
    if len(top.accs) != 1 or len(total.accs) != 1 or (top.accs[0].op, total.accs[0].op) != ("max", "+"):
        return None
    if not (is_const(top.lo, 0) and is_const(total.lo, 0) and same_value(top.hi, total.hi)):
        return None
    if any(not isinstance(s, Decl) or s.init is None for s in (*top.body, *between, *total.body)):
        return None
    high, low = top.accs[0], total.accs[0]
    if not all(_starts_empty(a, constants) for a in (high, low)):
        return None
    e = view_of(total).value_of(low.value, top.var)
    names = {s.sym: s.init for s in between if isinstance(s, Decl) and s.init is not None}
    e = substitute_expr(e, names)
    if not (isinstance(e, Call) and e.fn in EXPONENTIALS and isinstance(e.args[0], Binary) and e.args[0].op == "-"):
        return None
    value = view_of(top).value_of(high.value, top.var)
    fits = e.args[0].a == value and e.args[0].b == Var(high.sym) and high.sym.type == low.sym.type
    return Pair(top, total, between, e.fn) if fits else None


def _starts_empty(a: Acc, constants: Mapping[Sym, Expr]) -> bool:
    start, t = simplify(substitute_expr(a.init, constants)), a.sym.type
    assert isinstance(t, Scalar)
    if isinstance(start, Unary) and start.op == "-" and isinstance(start.x, Const):
        start = Const(-start.x.value, t)
    return start == identity(a.op, t)


def _online(kernel: Kernel, p: Pair, spec: DistSpec) -> tuple[Body, set[Sym]]:
    """The kernel's body with the pair in one sweep, and the variables of the tiles' loops."""
    high, low = p.top.accs[0], p.total.accs[0]
    t = high.sym.type
    v = p.top.var.type
    assert isinstance(t, Scalar) and isinstance(v, Scalar)
    tile = cast(simplify(product([_size(kernel, lv) for lv in spec.levels])), v)
    c = fresh(f"{p.top.var.name}_tile", v)
    lo = mul(Var(c), tile)
    hi = Call("min", (add(lo, tile), cast(p.top.hi, v)), v)
    row = fresh(f"{high.sym.name}_row", Array(t, (p.top.hi,)))
    first, second = fresh(p.top.var.name, v), fresh(p.total.var.name, v)
    here, value = fresh("value", t), fresh(f"{high.sym.name}_tile", t)
    top, base, part = fresh("top", t), fresh("base", t), fresh(f"{low.sym.name}_tile", t)
    inner = rename(p.top.body, {p.top.var: first, **{s.sym: fresh(s.sym.name, s.sym.type) for s in p.top.body}})  # type: ignore[attr-defined]
    names = dict(zip((s.sym for s in p.top.body), (s.sym for s in inner)))  # type: ignore[attr-defined]
    read = substitute_expr(high.value, {p.top.var: Var(first), **{a: Var(b) for a, b in names.items()}})
    keep: Body = (*inner, Decl(here, read, const=True), Store(row, (Var(first),), Var(here)))
    nothing = identity("max", t)

    def power(e: Expr) -> Expr:
        return Call(p.fn, (e,), t)

    tiles: Body = (
        Reduce((Acc(value, "max", nothing, Var(here)),), first, lo, hi, (), keep, loc=p.top.loc),
        Decl(top, Call("max", (Var(high.sym), Var(value)), t), const=True),
        Decl(base, Select(Binary("==", Var(top), nothing), Const(0.0, t), Var(top)), const=True),
        Reduce(
            (Acc(part, "+", Const(0.0, t), power(Binary("-", Load(row, (Var(second),)), Var(base)))),),
            second, lo, hi, (), (), loc=p.total.loc,
        ),
        Assign(low.sym, _scaled(low.sym, power(Binary("-", Var(high.sym), Var(base))), part)),
        Assign(high.sym, Var(top)),
    )  # fmt: skip
    trips = cdiv(cast(p.top.hi, v), tile)
    sweep = For(c, Const(0, v), Binary("<", Var(c), trips), add(Var(c), Const(1, v)), tiles, loc=p.top.loc,
                comments=p.top.comments)  # fmt: skip
    new: Body = (
        Alloc(row), Decl(high.sym, nothing), Decl(low.sym, identity("+", t)), sweep, *_nothing_seen(p), *p.between,
    )  # fmt: skip
    return _replaced(kernel, p, new), {first, second}


def _nothing_seen(p: Pair) -> Body:
    """Where nothing but -inf was seen, the source has exp(-inf + inf)."""
    high, low = p.top.accs[0].sym, p.total.accs[0].sym
    t, v = high.type, p.top.var.type
    assert isinstance(t, Scalar) and isinstance(v, Scalar)
    everywhere = Binary("==", Var(high), identity("max", t))
    unseen = Assign(low, Select(everywhere, Binary("+", Var(low), Binary("-", Var(high), Var(high))), Var(low)))
    return (If(Binary("<", Const(0, v), cast(p.top.hi, v)), (unseen,)),)


def _replaced(kernel: Kernel, p: Pair, new: Body) -> Body:
    """The kernel's body with ``new`` for the pair and what is between."""

    def on(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Reduce) and s.var == p.top.var:
            return new
        if isinstance(s, Reduce) and s.var == p.total.var:
            return None
        return None if any(s is b for b in p.between) else s

    return map_body(kernel.body, on)


def _scaled(total: Sym, factor: Expr, part: Sym) -> Expr:
    return Binary("+", Binary("*", Var(total), factor), Var(part))


def _size(kernel: Kernel, lv: LevelSpec) -> Expr:
    if isinstance(lv.n, KnobRef):
        return Knob(lv.n.name)
    if isinstance(lv.n, str):
        return cast(Var(next(p.sym for p in kernel.params if p.sym.name == lv.n)), I32)
    return i32(lv.n or 1)
