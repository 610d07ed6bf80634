"""Rows that threads keep in registers by hand, read again where they are used.

before                                                 after
    for (j) { v[j] = row[j * 256 + tid]; s += v[j]; }      for (j) s += row[j * 256 + tid];
    total = reduce(s);                                     total = reduce(s);
    for (j) out[j * 256 + tid] = v[j] / total;             for (j) out[j * 256 + tid] = row[j * 256 + tid] / total;

What an element of the array was made of takes its place, so that no array lives across the exchange and the loops on
both sides are over the row's elements. ``row-cache`` keeps the row again, for any distribution. A guess like all of
this package: memory may have changed in between, which the exact comparison with the source finds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ktc.ir.analysis.defs import expand
from ktc.ir.fold import cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Decl, Expr, For, Load, Par, Reduce, Stmt, Store, Sym, Var, WarpOp, fresh
from ktc.ir.storage import is_local_array
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Array, Scalar, Vec
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    map_body,
    map_expr,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
    with_list_around,
)
from ktc.passes.core.places import PARALLEL, places_of
from ktc.passes.raising.normalise.scalars import lane_in_place
from ktc.passes.raising.normalise.tidy import without_dead
from ktc.passes.raising.raise_report import Region
from ktc.passes.shared.staging import after_steps

from .equal_ways import without_equal_ways
from .row_rounds import with_row_rounds
from .single_values import kept_rows, with_single_values

KEPT = "registers"
"""The kind of region that this module reports."""


def recomputed(body: Body) -> tuple[Body, tuple[Region, ...]]:
    """``body`` without the private arrays each of whose elements has one value, known where it is read; and those."""
    found: list[Region] = []
    body = with_single_values(body)
    for s in kept_rows(body):
        made = _element(s.sym, body)
        if made is not None:
            j, value, store = made

            def on(e: Expr, v: Sym = s.sym, j: Sym = j, value: Expr = value) -> Expr:
                if isinstance(e, Load) and e.buffer == v:
                    return substitute_expr(value, {j: cast(e.index[0], j.type)})  # type: ignore[arg-type]
                return e

            body = without_dead(map_body(_named_where_made(body, store), keep, on))
            found.append(_read_again(s))
    body, parts = with_row_rounds(without_equal_ways(body) if found else body)
    return body, (*found, *map(_read_again, parts))


def _read_again(array: Alloc) -> Region:
    return Region(KEPT, array.sym.name, "each element is read again where it is used", array.loc)


def _named_where_made(body: Body, store: Store) -> Body:
    """``body`` with a name for what ``store`` stores, in place of loads of that behind it."""
    elem = store.buffer.type.elem  # type: ignore[attr-defined]
    name = fresh(store.buffer.name, elem)

    def known(e: Expr) -> Expr:
        return Var(name) if isinstance(e, Load) and e.buffer == store.buffer and e.index == store.index else e

    def here(before: Body, behind: Body) -> Body:
        value = cast(store.value, elem) if isinstance(elem, Scalar) else store.value
        return (*before, Decl(name, value, const=True, loc=store.loc), *map_body(behind, keep, known))

    def accumulated(s: Stmt) -> Stmt:
        if not isinstance(s, Reduce) or not any(x is name for x in declared(s.body)):
            return s
        top = any(isinstance(d, Decl) and d.sym is name for d in s.body)
        accs = (dataclasses.replace(a, value=map_expr(a.value, known)) for a in s.accs)
        return dataclasses.replace(s, accs=tuple(accs)) if top else s

    changed = with_list_around(body, store, here)
    if changed is None:
        return body
    changed = map_body(changed, accumulated)
    return changed if name in used_in(changed) else body


def unrolled(body: Body) -> Body:
    """``body`` with known numbers of rounds unrolled, as they were where their elements had registers."""

    def known(s: Stmt) -> Stmt:
        if isinstance(s, Par | Reduce):
            dist = (dataclasses.replace(lv, kind="unroll") if lv.kind == "seq" and lv.n else lv for lv in s.dist)
            return dataclasses.replace(s, dist=tuple(dist))
        return s

    return map_body(body, known)


def keeping(raised: Kernel, regions: Sequence[Region]) -> tuple[str, ...]:
    """Steps after which ``raised`` keeps its rows in registers as its source did; () where there are none."""
    if not any(r.kind == KEPT for r in regions):
        return ()
    loops = places_of(raised, (s for s in walk(raised.body) if isinstance(s, Reduce)), PARALLEL)
    steps = tuple(f"row-cache{{loop={name} where=registers}}" for name in loops)
    return steps if steps and after_steps(raised, steps) is not None else ()


def _element(v: Sym, body: Body) -> tuple[Sym, Expr, Store] | None:
    """The one loop variable, the value of ``v`` at it, and where it is stored; None if ``v`` is no such array."""
    written, read = _accesses(body)
    stores, loads = written.get(v, []), read.get(v, [])
    if len(stores) != 1 or not loads or _unlike_elements(stores, loads):
        return None
    (store,) = stores
    around = [s for s in walk(body) if isinstance(s, For | Par | Reduce) and any(x is store for x in walk(s.body))]
    loop = around[-1] if around else None
    if loop is None or store.index[0] != Var(loop.var) or not isinstance(v.type, Array):
        return None
    named = _named(loop, body)
    vectors = {s: e for s, e in named.items() if isinstance(s.type, Vec)}
    value = expand(map_expr(expand(store.value, named), lambda e: lane_in_place(e, vectors)), named)
    local = {d.sym for d in walk(loop.body) if isinstance(d, Decl)} | (assigned(body) - _memory(body))
    local |= {b for b in assigned(loop.body) if is_local_array(b)}
    if used(value) & (local - {loop.var}) or any(isinstance(x, WarpOp) for x in walk_expr(value)):
        return None
    elem = v.type.elem
    return loop.var, cast(value, elem) if isinstance(elem, Scalar) else value, store


@by_identity(2)
def _accesses(body: Body) -> tuple[Mapping[Sym, list[Store]], Mapping[Sym, list[Load]]]:
    """The stores to each array of ``body``, and the loads from it."""
    stores: dict[Sym, list[Store]] = {}
    loads: dict[Sym, list[Load]] = {}
    for s in walk(body):
        if isinstance(s, Store):
            stores.setdefault(s.buffer, []).append(s)
    for e in all_exprs(body):
        if isinstance(e, Load):
            loads.setdefault(e.buffer, []).append(e)
    return stores, loads


def _unlike_elements(stores: list[Store], loads: list[Load]) -> bool:
    """Whether some access is not one of a single element of one dimension."""
    places = [(s.index, s.width) for s in stores] + [(e.index, e.width) for e in loads]
    return any(len(index) != 1 or width != 1 for index, width in places)


def _named(loop: For | Par | Reduce, body: Body) -> Mapping[Sym, Expr]:
    """What the constants of the loop's body are."""
    changing = assigned(body)
    return {
        d.sym: d.init for d in walk(loop.body) if isinstance(d, Decl) and d.init is not None and d.sym not in changing
    }


def _memory(body: Body) -> set[Sym]:
    return {s for s in assigned(body) if hasattr(s.type, "space")}


__all__ = ["keeping", "recomputed", "unrolled"]
