"""Tiles as loops: their own coordinates, the loops over one tile, and tiles computed whole.

A band of loops over a tile (``row in t * T .. min(t * T + T, M)``) is brought to the tile's own coordinates
(``row in 0..min(T, M - t * T)``), so that arrays of the tile are indexed by its loops alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

from ktc.ir.arith.loop_extents import extent
from ktc.ir.arith.polynomial import from_polynomial, polynomial, same_value
from ktc.ir.fold import add, cast, fold_node, i32, is_const, mul, product
from ktc.ir.nodes import (
    Alloc,
    Assign,
    AsyncCopy,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Eval,
    Expr,
    For,
    If,
    Load,
    Par,
    Raw,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.storage import is_local_array
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import all_exprs, declared, map_body, refresh, stmt_exprs, substitute, used, walk, walk_expr

from .tile_edges import read_by_all

Path = tuple[Stmt, ...]


def paths(body: Body, above: Path = ()) -> Iterator[Path]:
    """Every statement with those around it, outermost first and itself last."""
    for s in body:
        yield (*above, s)
        for b in bodies(s):
            yield from paths(b, (*above, s))


def is_blocked(s: Stmt) -> bool:
    """Whether ``s`` is a loop over blocks alone: what is inside happens once a block."""
    return isinstance(s, Par) and bool(s.dist) and all(lv.kind in ("block", "cluster") for lv in s.dist)


def shared_inside(s: Par) -> Par | Reduce | Scan | None:
    """The first loop in ``s`` whose iterations threads share out, or whose parts they put together; None where each
    iteration of ``s`` is run by one thread, alone."""
    inside = (x for x in walk(s.body) if isinstance(x, Par | Reduce | Scan))
    return next((x for x in inside if not {lv.kind for lv in x.dist} <= OF_ONE_THREAD), None)


OF_ONE_THREAD = frozenset({"vec", "unroll", "seq"})
"""Levels of loops that one thread runs."""


def trips(s: Par) -> Expr:
    """Iterations of ``s``, as :func:`iterations` has them."""
    assert isinstance(s.var.type, Scalar)
    return iterations(s.lo, s.hi, s.var.type)


def iterations(lo: Expr, hi: Expr, t: Scalar) -> Expr:
    """Iterations from ``lo`` to ``hi``, of type ``t``: the static cap, clipped by what the sizes leave."""
    reach = extent(lo, hi)
    every = [*([reach.cap] if reach.cap is not None else []), *reach.clips]
    out = cast(every[0], t)
    for e in every[1:]:
        out = fold_node(Call("min", (out, cast(e, t)), t))
    return out


def over_tile(band: Sequence[Par], body: Body) -> tuple[Body, tuple[Sym, ...]]:
    """A copy of the loops ``band`` in the tile's coordinates around ``body``: (loops, their new variables)."""
    names = tuple(fresh(s.var.name, s.var.type) for s in band)
    env: dict[Sym, Expr] = {s.var: add(s.lo, Var(v)) for s, v in zip(band, names)}
    inner = substitute(refresh(body), env)
    for s, v in zip(reversed(band), reversed(names)):
        zero = cast(i32(0), v.type)  # type: ignore[arg-type]
        inner = (Par(var=v, lo=zero, hi=trips(s), dist=s.dist, body=inner, loc=s.loc),)
    return inner, names


# -------------------------------------------------------------------------------------------------------- whole tiles


def whole_tiles(body: Body, path: Path = ()) -> Body:
    """``body`` with loops over clipped tiles running over whole ones, where the extra iterations touch nothing.

    An iteration beyond the edge may run when it only fills private arrays, from private arrays, from shared ones that
    hold a value everywhere, and from elements that all iterations read: nobody reads what it computes. The loop then
    needs no guards. ``path``: the loops around ``body``.
    """
    full = set(filled(body))
    serial: set[Sym] = set()

    def on(s: Stmt) -> Stmt:
        if isinstance(s, For):
            serial.add(s.var)
            return dataclasses.replace(s, body=tuple(map(on, s.body)))
        if not (isinstance(s, Par) and harmless(s.body, full, read_by_all(s, path))):
            return s
        if not all(used(i) <= serial | set(declared((s,))) for i in _private_indices((s,))):
            return s  # an array of more than the tile: beyond the edge is another tile's part, or the array's end
        return map_body((s,), uncut)[0]

    return tuple(on(s) for s in body)


def _private_indices(body: Body) -> Iterator[Expr]:
    """The subscripts of private arrays in ``body``."""
    for s in walk(body):
        if isinstance(s, Store) and is_local_array(s.buffer):
            yield from s.index
    for x in all_exprs(body):
        for e in walk_expr(x):
            if isinstance(e, Load) and is_local_array(e.buffer):
                yield from e.index


def uncut(s: Stmt) -> Stmt:
    """A loop over a clipped tile running over a whole one; other statements as they are."""
    if isinstance(s, Par) and is_const(s.lo, 0):
        reach = extent(s.lo, s.hi)
        if reach.cap is not None and reach.clips:
            return dataclasses.replace(s, hi=cast(reach.cap, s.var.type))  # type: ignore[arg-type]
    return s


def split_copies(body: Body) -> tuple[Body, Body, Body]:
    """(arrays, copies, the rest): the loops at the start of ``body`` that only copy buffers into shared memory."""
    first = 0
    while first < len(body) and isinstance(body[first], Alloc):
        first += 1
    n = first
    while n < len(body) and is_copy(body[n]):
        n += 1
    return body[:first], body[first:n], body[n:]


def is_copy(s: Stmt) -> bool:
    """Whether ``s`` is a nest of parallel loops around stores to shared memory of what global memory holds. Where that
    is may be kept in registers (:func:`places_of_copies`)."""
    if not isinstance(s, Par):
        return False
    if any(isinstance(e.buffer.type, Array) and not is_local_array(e.buffer) for e in _loads((s,))):
        return False
    for x in walk(s.body):
        if isinstance(x, Store):
            if not (isinstance(x.buffer.type, Array) and x.buffer.type.space == "shared"):
                return False
        elif not isinstance(x, Par | For | Decl | If | AsyncCopy):
            return False
    return True


def places_of_copies(copies: Body) -> set[Sym]:
    """The arrays in registers that ``copies`` read."""
    return {e.buffer for e in _loads(copies) if is_local_array(e.buffer)}


def _loads(body: Body) -> Iterator[Load]:
    return (e for e in all_exprs(body) if isinstance(e, Load))


def filled(body: Body) -> Iterator[Sym]:
    """Shared arrays that a loop of ``body`` writes everywhere: as many elements as the array has, unconditionally."""
    for target, total in copied(body):
        if _same_count(total, product([cast(n, I32) for n in target.type.shape])):  # type: ignore[attr-defined]
            yield target


def copied(body: Body) -> Iterator[tuple[Sym, Expr]]:
    """(shared array, elements written to it) of each loop of ``body`` that writes one unconditionally."""
    for s in body:
        inner: Stmt = s
        total: Expr = i32(1)
        while isinstance(inner, Par) and inner.body and fills_private_arrays(inner.body[:-1]):
            reach = extent(inner.lo, inner.hi)
            if reach.cap is None or reach.clips:
                break
            total, inner = product([total, cast(reach.cap, I32)]), inner.body[-1]
        target, width = _written_by(inner)
        if target is not None and isinstance(target.type, Array) and target.type.space == "shared":
            yield target, mul(total, width)


def fills_private_arrays(body: Body) -> bool:
    """Whether ``body`` does nothing but fill private arrays, unconditionally: of what is stored together next."""
    inner = [x for x in walk(body) if not isinstance(x, Alloc | Par)]
    return all(isinstance(x, Store) and is_local_array(x.buffer) for x in inner)


def _written_by(s: Stmt) -> tuple[Sym | None, Expr]:
    """(array, elements) of one store or asynchronous copy, guarded ones (zeros in their place) included."""
    if isinstance(s, Store):
        return s.buffer, i32(1)
    if isinstance(s, AsyncCopy):
        return s.dst, i32(s.width) if isinstance(s.width, int) else s.width
    if isinstance(s, If) and len(s.then) == 1 and isinstance(s.then[0], AsyncCopy) and s.orelse:
        fills = [x for x in walk(s.orelse) if isinstance(x, Store)]
        if all(x.buffer == s.then[0].dst for x in fills):
            return _written_by(s.then[0])
    return None, i32(1)


def _same_count(a: Expr, b: Expr) -> bool:
    """``a == b``, where ``a`` may hold ``n / v`` times ``v``: a copy by vectors rests on whole ones."""
    whole: dict[tuple[Expr, ...], int] = {}
    for factors, k in polynomial(a).items():
        out: list[Expr] = []
        for f in factors:
            if isinstance(f, Binary) and f.op == "/" and isinstance(f.b, Const) and k % int(f.b.value) == 0:
                k, f = k // int(f.b.value), f.a
            out.append(f)
        key = tuple(sorted(out, key=repr))
        whole[key] = whole.get(key, 0) + k
    return same_value(from_polynomial(whole, I32), b)


def harmless(body: Body, readable: Collection[Sym], read: Collection[Load] = ()) -> bool:
    """Whether ``body`` may run for iterations nobody asked for: it only fills private memory, and nothing traps.

    ``readable``: shared arrays that hold a value everywhere; ``read``: what others read anyhow.
    """
    for s in walk(body):
        if not isinstance(s, Decl | Assign | Store | Alloc | If | For | Par | Reduce | Eval):
            return False
        if isinstance(s, Store) and not is_local_array(s.buffer):
            return False
        if not all(is_harmless(e, readable, read) for e in stmt_exprs(s)):
            return False
    return True


def is_harmless(e: Expr, readable: Collection[Sym] = (), read: Collection[Load] = ()) -> bool:
    """Whether ``e`` may be computed where nobody asked for it: from private memory, trapping nowhere."""
    return all(_pure(x, readable, read) for x in walk_expr(e))


def _pure(x: Expr, readable: Collection[Sym], read: Collection[Load]) -> bool:
    if isinstance(x, Load):
        return is_local_array(x.buffer) or x.buffer in readable or x in read
    if isinstance(x, Binary) and x.op in ("/", "%") and isinstance(x.type, Scalar) and not x.type.is_float:
        return is_const(x.b) and not is_const(x.b, 0)
    if isinstance(x, Raw | WarpOp):
        return False
    return not isinstance(x, Call) or x.effects == "pure"
