"""stage-store: a tile's results go to shared memory, and on to the buffer by wide accesses of neighbouring threads.

before                                                  after stage-store{array=C vec=8}
    par row in 0..min(128, M - R) @ [thread.x1 8, ..]       array C_s: shared f16[128, 256]
      par col in 0..min(256, N - Q) @ [vec 2, ..]           par row ... par col ...
        C[(R + row) * N + Q + col] = e                        C_s[row, col] = e
                                                            par C_r in 0..min(128, M - R) @ [thread.x2 4, ..]
                                                              par C_c in 0..min(256, N - Q) @ [vec 8, thread.x0 4, ..]
                                                                C[(R + C_r) * N + Q + C_c] = C_s[C_r, C_c]

Who computes an element is seldom who would best store it: tensor cores leave a thread two columns of eight. After this
the threads of a warp store whole rows, or as much of one as there is. The columns take the first parts of the thread
axes, as many as divide them, the rows take the others. Barriers are derived by lowering; ``swizzle-shared`` spreads the
tile over the banks.

What is computed from a thread's own sums goes to the tile unasked, beyond the edge too: the tile has a place for it
that nobody reads, and a block at the edge is as fast as others (1000 x 1504 x 704 in half precision: 8.8 to 6.9 us).

With ``over=B_s`` there is no array of its own: the rows lie in the lines of a staged array that is through, row r in
line r (of [4, 64, 256]: ``B_s[r / 64, r % 64, c]``), in panels of columns where the lines are shorter. That memory
would lie idle, and more buffers fit beside it.

Refused unless the two loops around the store are the block's, over one tile of known size, the second along the
buffer's contiguous dimension, and nothing else in the kernel touches the buffer; the array that it is put over holds
elements of the same type, as many in whole lines, and nothing behind the store uses it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from math import prod
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.loop_extents import extent
from ktc.ir.fold import add, binary, cast, fold_node, i32, is_const, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Dist,
    Expr,
    Level,
    Load,
    Par,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
    has_bodies,
)  # fmt: skip
from ktc.ir.types import I32, Array, Ptr, scalar_of
from ktc.ir.walk import map_body, mentions, stmt_exprs, substitute_expr, used, walk
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.distribution_coverage import assume, divided
from ktc.passes.shared.tiles import is_blocked, is_harmless, paths, uncut

from .shared_arrays import known, shared_array

WIDEST = 16
"""Bytes of one access."""


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the buffer that the tile is stored to")
    vec: Literal[1, 2, 4, 8, 16] | None = option(None, "elements that an access stores", shown="16 bytes")
    over: Arrays | None = option(None, "a staged array that is through by then, whose memory the tile takes")


class StageStore(Pass[Arguments]):
    name = "stage-store"
    summary = "a tile's results through shared memory, stored by neighbouring threads in wide accesses"
    refusals = (
        "E-PLACE", "E-ARG-RANGE", "E-STORE-NEST", "E-STORE-TOUCHED", "E-STORE-SHAPE", "E-STORE-OVER", "E-DIST-COVER",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        names = [p.sym.name for p in kernel.params if isinstance(p.sym.type, Ptr)]
        fits = [n for n in names if allowed(_nest, kernel, n)]
        return [Site(self.step(array=n), "rows stored by neighbouring threads") for n in fits]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        nest = _nest(kernel, args.array.name)
        vec = args.vec or WIDEST // scalar_of(nest.store.buffer.type).bytes
        if nest.columns % vec:
            raise Refusal("E-ARG-RANGE", f"rows of {nest.columns} elements are not stored {vec} at once")
        if vec > 1 and nest.columns // vec % nest.threads[0][1]:
            why = f"rows of {nest.columns // vec} accesses are not shared out evenly by {nest.threads[0][1]} threads"
            raise Refusal("E-STORE-SHAPE", why, hint="narrower accesses, or wider tiles")
        if args.over is not None:
            tile, panels = _room(kernel, nest, args.over)
            nest = dataclasses.replace(nest, tile=tile, over=True, panels=panels)
        kernel = kernel.with_(body=map_body(kernel.body, lambda s: _staged(s, nest, vec)))
        params = frozenset(p.sym for p in kernel.params)
        why = f"rows of '{nest.store.buffer.name}' start at {{have}}, which are no whole accesses of {{want}} elements"
        locs, hint = places(nest.store), "a narrower vec"
        facts = [f for e in nest.whole for f in divided(e, i32(vec), params, why, locs, hint)] if vec > 1 else []
        return Result(assume(kernel, facts), (f"{nest.tile.name}: {nest.rows} x {nest.columns}",))


@dataclasses.dataclass(frozen=True)
class _Nest:
    """The loops over a tile's rows and columns around its store, and what must hold whole vectors (``whole``)."""

    outer: Par
    inner: Par
    store: Store
    tile: Sym
    rows: int
    columns: int
    whole: tuple
    threads: tuple[tuple[str, int], ...]
    over: bool = False
    panels: int = 1

    def place(self, row: Expr, column: Expr) -> tuple[Expr, ...]:
        """Where the tile keeps an element."""
        t = self.tile.type
        assert isinstance(t, Array)
        if not self.over:
            return row, column
        line, width = cast(row, I32), cast(t.shape[-1], I32)
        if self.panels > 1:
            line = add(mul(binary("/", cast(column, I32), width), i32(self.rows)), line)
            column = binary("%", cast(column, I32), width)
        at: list[Expr] = [column]
        for n in reversed(t.shape[1:-1]):
            at.append(fold_node(Binary("%", line, cast(n, I32))))
            line = binary("/", line, cast(n, I32))
        return (line, *reversed(at))


def _nest(kernel: Kernel, name: str) -> _Nest:
    buffer = next((p.sym for p in kernel.params if p.sym.name == name and isinstance(p.sym.type, Ptr)), None)
    if buffer is None:
        buffers = ", ".join(p.sym.name for p in kernel.params if isinstance(p.sym.type, Ptr))
        raise Refusal("E-PLACE", f"no buffer '{name}'", hint=f"there are: {buffers or 'none'}")
    stores = [p for p in paths(kernel.body) if isinstance(p[-1], Store) and p[-1].buffer == buffer]
    touching = [s for s in walk(kernel.body) if not has_bodies(s) and _touches(s, buffer)]
    read = any(buffer in used(e) for s in walk(kernel.body) for e in stmt_exprs(s))
    if len(stores) != 1 or len(touching) != 1 or read:
        raise Refusal("E-STORE-TOUCHED", f"'{name}' is not stored to at one place and used at no other")
    *around, outer, inner, store = (None, None, *stores[0])
    assert isinstance(store, Store)
    locs = (store.loc,) if store.loc else ()
    blocks = [s for s in around if s is not None]
    plain = isinstance(outer, Par) and isinstance(inner, Par) and outer.body == (inner,) and inner.body == (store,)
    if not plain or not blocks or not all(isinstance(s, Par) and is_blocked(s) for s in blocks):
        why = f"the store to '{name}' does not stand alone in two loops of the block"
        raise Refusal("E-STORE-NEST", why, locs, "tile makes loops over blocks, and one tile inside")
    assert isinstance(outer, Par) and isinstance(inner, Par)
    if not (is_const(outer.lo, 0) and is_const(inner.lo, 0)) or outer.var in used(inner.hi):
        raise Refusal("E-STORE-NEST", f"the loops around the store to '{name}' do not cover a box", locs)
    reach = [extent(s.lo, s.hi) for s in (outer, inner)]
    sizes = [known(kernel, r.cap) if r.cap is not None else None for r in reach]
    form = linear_form(store.index[0], (outer.var, inner.var)) if len(store.index) == 1 else None
    rows, columns = sizes
    if rows is None or columns is None or store.width != 1 or store.cache:
        raise Refusal("E-STORE-SHAPE", f"the tile of '{name}' has no known size, or takes vectors already", locs)
    if form is None or not is_const(form.coeff(inner.var), 1):
        raise Refusal("E-STORE-SHAPE", f"the inner loop does not run along the rows of '{name}'", locs)
    threads = _threads(kernel)
    if threads is None:
        raise Refusal("E-STORE-SHAPE", "the block's shape is open", locs, "bind its knobs first")
    if not threads:
        raise Refusal("E-STORE-NEST", "no loop is spread over threads, which would share out the rows", locs)
    tile = fresh(f"{name}_s", Array(scalar_of(buffer.type), (i32(rows), i32(columns)), "shared"))
    whole = (form.coeff(outer.var), form.rest, *reach[1].clips)
    return _Nest(outer, inner, store, tile, rows, columns, whole, threads)


def _room(kernel: Kernel, nest: _Nest, named: Arrays) -> tuple[Sym, int]:
    """The staged array whose lines the tile may take, and in how many panels of columns it does."""
    alloc = shared_array(kernel, named, "E-STORE-OVER")
    locs = (nest.store.loc,) if nest.store.loc else ()
    t, name = alloc.sym.type, alloc.sym.name
    assert isinstance(t, Array)
    sizes = [known(kernel, n) for n in t.shape]
    *lines, columns = [0, 0] if None in sizes else [int(n or 0) for n in sizes]
    panels = -(-nest.columns // columns) if columns else 1
    fits = panels == 1 or nest.columns % columns == 0
    if t.elem != scalar_of(nest.store.buffer.type) or prod(lines) < nest.rows * panels or not fits:
        why = f"{nest.rows} rows of {nest.columns} elements do not fit in the lines of '{name}'"
        raise Refusal("E-STORE-OVER", why, locs, "over an array of the same type, with more buffers")
    *_, block = next(p for p in paths(kernel.body) if p[-1] is nest.outer)[:-1]
    assert isinstance(block, Par)
    order = [id(s) for s in block.body]
    users = [s for s in block.body if alloc.sym in mentions(s)]
    if id(alloc) not in order or any(order.index(id(s)) >= order.index(id(nest.outer)) for s in users):
        raise Refusal("E-STORE-OVER", f"'{name}' is not an array of the block that is through by then", locs)
    return alloc.sym, panels


def _touches(s: Stmt, buffer: Sym) -> bool:
    return buffer in mentions(s)


def _threads(kernel: Kernel) -> tuple[tuple[str, int], ...] | None:
    """The thread axes of the block, in parts where some loop takes them so, with their sizes."""
    sizes: dict[str, int] = {}
    for s in walk(kernel.body):
        for lv in s.dist if isinstance(s, Par | Reduce | Scan) else ():
            if lv.kind in ("lane", "warp"):
                return None
            if lv.kind == "thread":
                n = known(kernel, lv.n) if lv.n is not None else None
                if n is None:
                    return None
                sizes.setdefault(lv.axis or "x", n)
    split = {a[0] for a in sizes if len(a) > 1}
    return tuple((a, n) for a, n in sorted(sizes.items()) if len(a) > 1 or a not in split)


def _staged(s: Stmt, nest: _Nest, vec: int) -> Stmt | tuple[Stmt, ...]:
    """The loops of ``nest`` storing to its tile, and the loops that take the tile on; other statements as they are."""
    if not isinstance(s, Par) or s.var != nest.outer.var:
        return s
    store, outer, inner = nest.store, nest.outer, nest.inner
    at = nest.place(Var(outer.var), Var(inner.var))
    first = dataclasses.replace(store, buffer=nest.tile, index=at)
    computed: Stmt = dataclasses.replace(outer, body=(dataclasses.replace(inner, body=(first,)),))
    if is_harmless(store.value):  # the tile has a place for each result, so that none needs to be asked for
        computed = map_body((computed,), uncut)[0]
    row, column = (fresh(f"{store.buffer.name}_{n}", v.type) for n, v in (("r", outer.var), ("c", inner.var)))
    where = substitute_expr(store.index[0], {outer.var: Var(row), inner.var: Var(column)})
    move = Store(store.buffer, (where,), Load(nest.tile, nest.place(Var(row), Var(column))), loc=store.loc)
    rows, columns = _distributions(nest, vec)
    copy = Par(var=column, lo=inner.lo, hi=inner.hi, dist=columns, body=(move,), loc=inner.loc)
    out = Par(var=row, lo=outer.lo, hi=outer.hi, dist=rows, body=(copy,), loc=outer.loc)
    return (computed, out) if nest.over else (Alloc(nest.tile, align=WIDEST), computed, out)


def _distributions(nest: _Nest, vec: int) -> tuple[Dist, Dist]:
    """Columns: vectors, then the first thread parts that divide them, then rounds. Rows: the other parts, rounds."""
    left, taken = nest.columns // vec, 0
    columns = [Level("vec", i32(vec))] if vec > 1 else []
    while taken < len(nest.threads) and left % nest.threads[taken][1] == 0:
        axis, n = nest.threads[taken]
        columns.append(Level("thread", i32(n), axis))
        left, taken = left // n, taken + 1
    rest = nest.threads[taken:]
    rounds = -(-nest.rows // prod(n for _, n in rest))
    rows = [*(Level("thread", i32(n), axis) for axis, n in rest), Level("unroll", i32(rounds))]
    return tuple(rows), (*columns, Level("unroll", i32(left)))


__all__ = ["StageStore"]
