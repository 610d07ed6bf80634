"""tabulate: what depends on the counters of serial loops alone is computed once a block, and read from a table.

before                                              after tabulate{loop=t}
    for t_tile in 1..steps step 64                      array pow_t: shared f32[64]
      par j in 0..256 @ [thread.x 256]                  for t_tile in 1..steps step 64
        for t in t_tile..min(t_tile + 64, steps)          par k in 0..min(64, steps - t_tile) @ [thread.x 256, seq]
          v[j] = g[j] / (1.0 - pow(b, t)) + v[j]            pow_t[k] = 1.0 - pow(b, t_tile + k)
                                                          par j in 0..256 @ [thread.x 256]
                                                            for t in t_tile..min(t_tile + 64, steps)
                                                              v[j] = g[j] / pow_t[t - t_tile] + v[j]

All threads of a block compute the same powers, exponentials, sines, roots and quotients then, one after another; a
table has each of them computed by one thread. The values are the same to the last bit. With several loops (the taps of
a filter), the table has a dimension for each that the value depends on.

Legal where the loops count up by one and stand in a loop over threads that is the block's, between ends that do not
depend on the thread; and where the value may be computed whatever conditions say. Whatever is as cheap as reading the
table stays (sums, products, conversions).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import pinned, places
from ktc.ir.arith.loop_extents import Extent, extent
from ktc.ir.arith.polynomial import from_polynomial, minus, polynomial
from ktc.ir.fields import with_children
from ktc.ir.fold import add, cast, evaluate, fold_node, i32, is_const, product, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Call,
    Dist,
    Expr,
    For,
    Level,
    Load,
    Par,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.purity import is_movable
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import assigned, declared, map_body, substitute_expr, used, walk, walk_expr
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.knobs import largest
from ktc.passes.core.places import SERIAL, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.bands import band_around, with_arrays
from ktc.passes.shared.serial_sums import counted_to
from ktc.passes.shared.tiles import iterations

from .tile_copy import thread_levels

COSTLY = frozenset({
    "acos", "asin", "atan", "atan2", "cbrt", "cos", "cosh", "cospi", "erf", "erfc", "exp", "exp10", "exp2", "expm1",
    "fast_cos", "fast_exp", "fast_log", "fast_pow", "fast_sin", "hypot", "lgamma", "log", "log10", "log1p", "log2",
    "pow", "rcbrt", "rsqrt", "sin", "sinh", "sinpi", "sqrt", "tan", "tanh", "tgamma",
})  # fmt: skip
"""Functions that take more instructions than a read of shared memory; quotients of floats are the others."""

MOST = 8192
"""Elements of a table at most."""


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the serial loops whose counters alone the values depend on, outermost first")


class Tabulate(Pass[Arguments]):
    name = "tabulate"
    summary = "what depends on serial loops' counters alone, computed once a block"
    refusals = ("E-PLACE", "E-TABLE-LOOP", "E-TABLE-NONE", "E-TABLE-SIZE")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each loop, and one for each pair of loops one of which is all that the other holds."""
        if not kernel.is_parallel:
            return []
        serial = [s for s in walk(kernel.body) if isinstance(s, For) and isinstance(s.var.type, Scalar)]
        nests = [[s] for s in serial] + [[s, s.body[0]] for s in serial if len(s.body) == 1 and s.body[0] in serial]
        doc = "computed once a block, not by every thread"
        return [
            Site(self.step(loop=",".join(place_of(kernel, s) for s in nest)), doc)
            for nest in nests
            if allowed(_tables, kernel, nest)
        ]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = [s for s in args.loop.find(kernel, SERIAL) if isinstance(s, For)]
        tables = _tables(kernel, found)
        names = ", ".join(t.sym.name for t in tables.tables)
        return Result(_filled(kernel, tables), (f"{names}: computed once a block",))


@dataclass(frozen=True)
class Table:
    """``sym`` holds ``value`` for each state of the loops ``along``."""

    sym: Sym
    value: Expr
    along: tuple[For, ...]


@dataclass(frozen=True)
class Tables:
    """The ``tables`` of ``values`` that ``loop`` reads in ``band``, a statement of the block in ``region``."""

    region: For | Par
    band: Stmt
    loop: For
    values: _Values
    tables: tuple[Table, ...]


def _tables(kernel: Kernel, loops: Sequence[For]) -> Tables:
    around, locs = band_around(kernel, loops[0]), places(*loops)
    if around is None:
        why = f"'{loops[0].var.name}' stands in no loop over threads inside a loop over blocks or tiles"
        raise Refusal("E-TABLE-LOOP", why, locs, "tile makes loops over blocks, register-tile turns a serial loop out")
    band = around.loop
    own = {band.var, *declared(band.body), *assigned(band.body)}
    for s in loops:
        end = counted_to(s)
        inside = any(s is x for x in walk((loops[0],)))
        if end is None or (used(end) | used(s.init)) & own or s.var in assigned(s.body) or not inside:
            why = f"'{s.var.name}' does not count up by one between ends that all threads have in common"
            raise Refusal("E-TABLE-LOOP", why, places(s))
    if pinned(band.body) is not None:
        raise Refusal("E-TABLE-LOOP", "the loop over threads holds a barrier or opaque code", locs)
    found = _Values({s.var: s for s in loops}, own - {s.var for s in loops}, definitions(kernel.body))
    found.read_from(loops[0])
    if not found.tables:
        why = f"nothing costly depends on {', '.join(s.var.name for s in loops)} alone"
        raise Refusal("E-TABLE-NONE", why, locs)
    tables = tuple(found.tables.values())
    for t in tables:
        _has_size(kernel, t)
    return Tables(around.region, around.holder, loops[0], found, tables)


def _has_size(kernel: Kernel, t: Table) -> None:
    """The size of ``t`` is known before launch and no larger than shared memory is, or it is refused."""
    reach = [_reach(s) for s in t.along]
    knobs = largest(kernel)
    sizes = [None if r.cap is None else evaluate(r.cap, knobs) for r in reach]
    if any(n is None for n in sizes) or (len(reach) > 1 and any(r.clips for r in reach)):
        names = ", ".join(s.var.name for s in t.along)
        hint = "tile makes a loop of known length out of a long one"
        raise Refusal("E-TABLE-SIZE", f"how often {names} run is not known before launch", places(*t.along), hint)
    if prod(n for n in sizes if n is not None) > MOST:
        raise Refusal("E-TABLE-SIZE", f"a table of more than {MOST} elements", places(*t.along), "tile the loop")


def _reach(s: For) -> Extent:
    end = counted_to(s)
    assert end is not None
    return extent(s.init, end)


class _Values:
    """The tables that expressions are read from: ``counters`` choose their elements, nothing of ``own`` is in them,
    ``names`` stand for what they are declared as."""

    def __init__(self, counters: Mapping[Sym, For], own: set[Sym], names: Mapping[Sym, Expr]) -> None:
        self.counters, self.own, self.names = counters, own, names
        self.tables: dict[Expr, Table] = {}

    def read_from(self, s: For) -> For:
        """``s`` reading from tables whatever is worth it."""
        body = map_body(s.body, lambda x: with_children(x, self._read))
        return dataclasses.replace(s, body=body)

    def _read(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return e
        value = expand(e, self.names)
        on = used(value) & self.counters.keys()
        t = e.type
        if not on or used(value) & self.own or not isinstance(t, Scalar) or not t.is_float or not is_movable(value):
            return with_children(e, self._read)
        costly = next((x for x in walk_expr(value) if _is_costly(x) and used(x) & self.counters.keys()), None)
        if costly is None:
            return with_children(e, self._read)
        if value not in self.tables:
            along = tuple(s for v, s in self.counters.items() if v in on)
            shape = tuple(cap for s in along if (cap := _reach(s).cap) is not None)
            name = f"{costly.fn if isinstance(costly, Call) else 'quotient'}_{along[-1].var.name}"
            self.tables[value] = Table(fresh(name, Array(t, shape, "shared")), value, along)
        table = self.tables[value]
        return Load(table.sym, tuple(_from_start(s) for s in table.along))


def _from_start(s: For) -> Expr:
    return from_polynomial(minus(polynomial(Var(s.var)), polynomial(s.init)), s.var.type)


def _is_costly(e: Expr) -> bool:
    if isinstance(e, Call):
        return e.fn in COSTLY
    return (
        isinstance(e, Binary) and e.op == "/" and isinstance(e.type, Scalar) and e.type.is_float and not is_const(e.b)
    )


def _filled(kernel: Kernel, t: Tables) -> Kernel:
    """``kernel`` with the tables filled before the loop over threads that reads them."""
    threads = (*thread_levels(kernel.body), Level("seq"))
    loop = t.values.read_from(t.loop)
    band = map_body((t.band,), lambda s: loop if _is(s, loop) else s)
    nests = tuple(_fill(table, threads) for table in t.tables)
    return with_arrays(kernel, t.region, t.band, [Alloc(x.sym, align=16) for x in t.tables], (*nests, *band))


def _is(s: Stmt, loop: For) -> bool:
    return isinstance(s, For) and s.var == loop.var


def _fill(t: Table, threads: Dist) -> Par:
    """One loop over the elements of ``t``, spread over ``threads``."""
    (*_, first) = t.along[:1]
    u = first.var.type if len(t.along) == 1 else I32
    assert isinstance(u, Scalar)
    k = fresh("k", u)
    sizes = [cast(cap, I32) for s in t.along if (cap := _reach(s).cap) is not None]
    at: list[Expr] = []
    rest: Expr = Var(k)
    for n in reversed(sizes[1:]):
        at.append(fold_node(Binary("%", rest, n)))
        rest = fold_node(Binary("/", rest, n))
    at = [rest, *reversed(at)]
    starts = {s.var: add(s.init, cast(a, s.var.type)) for s, a in zip(t.along, at)}  # type: ignore[arg-type]
    end = counted_to(first)
    assert end is not None
    hi = iterations(cast(first.init, u), cast(end, u), u) if len(t.along) == 1 else simplify(product(sizes))
    return Par(k, cast(i32(0), u), hi, threads, (Store(t.sym, tuple(at), substitute_expr(t.value, starts)),))
