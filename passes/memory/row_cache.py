"""row-cache: a value computed in one sweep of a row is kept for the next sweep instead of being computed again.

before                                              after row-cache{loop=i.* where=registers}
    reduce(+) s over i in 0..d                          array x_row[d]
      x = f32(a[r + i]) + f32(b[r + i])                 reduce(+) s over i in 0..d
      yield x * x                                         x = f32(a[r + i]) + f32(b[r + i]); x_row[i] = x
    par i_1 in 0..d                                       yield x * x
      x = f32(a[r + i_1]) + f32(b[r + i_1])             par i_1 in 0..d
      b[r + i_1] = f16(x)                                 b[r + i_1] = f16(x_row[i_1])

In registers each thread keeps the elements it owns, so the loops need one common distribution without a run-time
``seq`` level. In shared memory any distribution will do. ``keep=loaded`` keeps what was loaded, which may be narrower
than what is computed from it, and so takes less room. A later sweep may go further than the first if it asks first
where it computes the value (``i < d ? ... : 0.0``). ``where=stored`` keeps what a later sweep stores anyway where that
stores it (:mod:`.early_stores`). ``ahead=yes`` also loads in the first sweep what only a later one
reads (the weights of a normalisation): all of a row's loads are then in flight at once, before the first barrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Expr, Load, Par, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.text import print_expr
from ktc.ir.types import Array
from ktc.ir.walk import map_body, substitute_expr, walk_expr
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.places import PARALLEL, places_of
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.shared.sweep_rewrites import load_ahead, replace_values, store_value
from ktc.passes.shared.sweeps import Kept, kept_values, values_ahead

from .early_stores import stored_early
from .row_lengths import most


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the sweeps' loop")
    where: Literal["registers", "shared", "stored"] = option(
        "registers",
        "where a row is kept; stored: in the array that a later sweep stores it to",
        code="E-ROWCACHE-WHERE",
    )
    keep: Literal["computed", "loaded"] = option(
        "computed", "what is kept: the largest common values, or the elements read", code="E-ROWCACHE-WHERE"
    )
    ahead: bool = option(False, "whether the first sweep also loads what only later ones read", code="E-ROWCACHE-WHERE")


class RowCache(Pass[Arguments]):
    name = "row-cache"
    summary = "keep a row's values in registers or shared memory between sweeps"
    refusals = (
        "E-PLACE",
        "E-ROWCACHE-NONE",
        "E-ROWCACHE-SEQ",
        "E-ROWCACHE-OWNER",
        "E-ROWCACHE-WHERE",
        "E-ROWCACHE-ROOM",
        "E-ROWCACHE-STORED",
    )

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for name, found in places_of(kernel, loops(kernel), PARALLEL).items():
            if values := kept_values(kernel.body, found):
                origins = {k.origin for k in values}
                roomy = all(most(kernel, s.hi) is not None for s in found if s.var in origins)
                rooms, doc = ("registers", "shared")[: 1 + roomy], "one read of the row instead of two"
                out += [Site(self.step(loop=name, where=room), doc) for room in rooms]
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        where, found = args.where, args.loop.spread(kernel)
        locs = places(*found)
        values = kept_values(kernel.body, found, loads_only=args.keep == "loaded")
        if args.ahead:
            values += values_ahead(kernel.body, found)
        if not values:
            raise Refusal("E-ROWCACHE-NONE", "no value of one sweep is computed again in a later one", locs)
        if where == "stored":
            alone = {p.sym for p in kernel.params if p.overlaps_nothing}
            body, early = stored_early(kernel.body, values, alone)
            if not early:
                why = "no later sweep stores such a value unrounded to an array of which nothing else is needed before"
                raise Refusal("E-ROWCACHE-STORED", why, locs, "where=shared keeps it in an array of its own")
            stored = ", ".join(dict.fromkeys(e.buffer.name for e in early))
            return Result(kernel.with_(body=body), (f"stored by the first sweep: {stored}",))
        if where == "registers":
            touched = {v for k in values for v in (k.origin, *k.later)}
            sweeps = [s for s in found if s.var in touched]
            if any(lv.kind == "seq" and (lv.n is None or evaluate(lv.n, {}) != 1) for s in sweeps for lv in s.dist):
                raise Refusal(
                    "E-ROWCACHE-SEQ", "registers cannot be indexed by a run-time loop", locs,
                    hint="distribute with unroll instead of seq, or where=shared",
                )  # fmt: skip
            if len({s.dist for s in sweeps}) > 1:
                raise Refusal("E-ROWCACHE-OWNER", "the sweeps are distributed differently", locs, "give both one map")
        ends = {s.var: s.hi for s in found if s.var in {k.origin for k in values}}
        if where == "shared":
            rooms = {v: most(kernel, e) for v, e in ends.items()}
            if unknown := [ends[v] for v, room in rooms.items() if room is None]:
                why = f"a row is {print_expr(unknown[0])} long, and how much that may be is not known at launch"
                raise Refusal("E-ROWCACHE-ROOM", why, locs, "where=registers needs no room for a row")
            ends = {v: room for v, room in rooms.items() if room is not None}
        body = keep_rows(kernel.body, found, values, ends, "local" if where == "registers" else "shared")
        names = ", ".join(dict.fromkeys(_name(k) for k in values))
        return Result(kernel.with_(body=body), (f"kept in {where}: {names}",))


def keep_rows(body: Body, found: list[Loop], values: list[Kept], ends: Mapping[Sym, Expr], space: str) -> Body:
    """A row array for each value, as long as ``ends`` of its first sweep: written there, read in the later ones."""
    by_var = {s.var: s for s in found}
    rows = {k: fresh(f"{_name(k)}_row", Array(k.value.type, (ends[k.origin],), space)) for k in values}

    def on(s: Stmt) -> Stmt | Body:
        if not isinstance(s, Par | Reduce) or s.var not in by_var:
            return s
        loop: Loop = s
        mine = [(k, row) for k, row in rows.items() if k.origin == s.var]
        for k, row in mine:
            loop = (load_ahead if k.ahead else store_value)(loop, k.value, row, _name(k))
        here = {
            substitute_expr(k.value, {k.origin: Var(s.var)}): (row, by_var[k.origin].hi)
            for k, row in rows.items()
            if s.var in k.later
        }
        if here:
            loop = replace_values(loop, here)
        allocs = tuple(Alloc(row, dynamic=space == "shared", align=16) for _, row in mine)
        return (*allocs, loop)

    return map_body(body, on)


def _name(k: Kept) -> str:
    """A name for the value: what it is read from."""
    first: Sym = next(x.buffer for x in walk_expr(k.value) if isinstance(x, Load))
    return first.name
