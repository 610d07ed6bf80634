"""Two parallel loops over one range as one loop, and what is inside them as close together as it may stand.

before                                              after
    par r in 0..rows @ [block.x]                        par r in 0..rows @ [block.x]
      par i in 0..d @ [thread.x 256, seq]                 reduce(max) m over j in 0..d @ [thread.x 256, seq]
        y[r * d + i] = f(r * d + i)                         let y_1 = f(r * d + i)
    par r_1 in 0..rows @ [block.x]                          y[r * d + i] = y_1
      reduce(max) m over j in 0..d @ [thread.x 128, seq]    yield abs(y_1)
        yield abs(y[r_1 * d + j])

The outer loops join where an iteration of the second needs of the first what the same iteration made and nothing else,
by the dependence test that ``fuse`` has. Inside, constants of the second move in front of the loops of the first, equal
ones become one, and neighbouring loops join as far as the same test allows. Threads are shared out as in the first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.loop_extents import is_static
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Decl, Dist, Expr, Level, Load, Par, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.purity import is_movable
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned, declared, map_body, rename, substitute_expr, used, walk
from ktc.passes.core.refusals import allowed
from ktc.passes.loops.fuse import check, joined

L = TypeVar("L", Par, Par | Reduce)


def join(kernel: Kernel, first: Par, second: Par) -> Par:
    """``first`` and ``second`` as one loop; ``kernel`` has the facts about their buffers.

    Raises:
        Refusal: E-FUSE-..., as ``fuse`` would refuse them.
    """
    first, second = spread_alike(first, counted_as(first, second))
    check(kernel.with_(body=(first, second)), first, second)
    whole = joined(first, second)
    assert isinstance(whole, Par)
    return dataclasses.replace(whole, body=_close(kernel, whole.body, len(first.body)))


def counted_as(first: Par | Reduce, second: L) -> L:
    """``second`` with a counter of the type that ``first`` has, where both run over the same numbers."""
    old, t = second.var, first.var.type
    assert isinstance(t, Scalar) and isinstance(old.type, Scalar)
    if old.type == t or not (same_value(first.lo, second.lo) and same_value(first.hi, second.hi)):
        return second
    new = fresh(old.name, t, old.stem)
    counter = cast(Var(new), old.type)
    made = map_exprs(second, lambda e: counter if isinstance(e, Var) and e.sym == old else e)
    return dataclasses.replace(made, var=new, lo=first.lo, hi=first.hi)


def spread_alike(first: Par, second: Par) -> tuple[Par, Par]:
    """Two loops over as many threads: those of the first, unless only the second's are known before launch."""
    sizes = {**_threads(second), **_threads(first)}
    sizes |= {k: n for k, n in _threads(second).items() if is_static(n) and not is_static(sizes[k])}
    first, second = over_threads(first, sizes), over_threads(second, sizes)
    if _same_levels(first.dist, second.dist):
        return first, dataclasses.replace(second, dist=first.dist)
    if (rows := _row_levels(first)) is not None:
        return first, _as_rows(second, first.dist, rows)
    if (rows := _row_levels(second)) is not None:
        return _as_rows(first, second.dist, rows), second
    return first, second if _spread_inside(second) else dataclasses.replace(second, dist=first.dist)


def _row_levels(loop: Par) -> Dist | None:
    """How a loop over rows, which blocks share out, spreads a row over the threads of a block; None for other loops."""
    if any(lv.kind != "block" for lv in loop.dist):
        return None
    spread = (s.dist for s in walk(loop.body) if isinstance(s, Par | Reduce))
    return next((d for d in spread if any(lv.kind in THREADS for lv in d) and not _has_blocks(d)), None)


def _has_blocks(dist: Dist) -> bool:
    return any(lv.kind in ("block", "cluster") for lv in dist)


def _as_rows(loop: Par, rows: Dist, row: Dist) -> Par:
    """``loop`` as one over rows that are spread so: the loops right inside it go through a row."""
    body = tuple(dataclasses.replace(s, dist=row) if isinstance(s, Par | Reduce) else s for s in loop.body)
    return dataclasses.replace(loop, dist=rows, body=body)


Sizes = dict[tuple[str, str], Expr]
"""How many threads there are, by level and axis."""


def _threads(loop: Par) -> Sizes:
    loops = (s for s in walk((loop,)) if isinstance(s, Par | Reduce))
    levels = (lv for s in loops for lv in s.dist if lv.kind in THREADS)
    return {(lv.kind, lv.axis): lv.n for lv in levels if lv.n is not None}


def over_threads(loop: Par, sizes: Sizes) -> Par:
    """``loop`` and those in it, over so many threads: one that takes a turn of each may take several then."""

    def level(lv: Level) -> Level:
        n = sizes.get((lv.kind, lv.axis))
        return lv if n is None or lv.n is None else dataclasses.replace(lv, n=n)

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Par | Reduce):
            return s
        dist: Dist = tuple(map(level, s.dist))
        if dist == s.dist:
            return s
        covered = any(lv.n is None for lv in dist)
        return dataclasses.replace(s, dist=dist if covered else (*dist, Level("seq")))

    (new,) = map_body((loop,), on)
    assert isinstance(new, Par)
    return new


def spread_as(first: Par, second: Par) -> Par:
    """``second`` over as many threads as ``first``."""
    return over_threads(second, _threads(first))


THREADS = ("thread", "warp", "lane")


def _spread_inside(loop: Par) -> bool:
    return any(isinstance(s, Par | Reduce) and any(lv.kind in THREADS for lv in s.dist) for s in walk(loop.body))


def _close(kernel: Kernel, body: Body, of_first: int) -> Body:
    """``body``, whose first ``of_first`` statements are those of the first loop, with neighbouring loops joined."""
    body = _counted_alike(one_definition(_lifted(body)))
    while True:
        for k, (a, b) in enumerate(pairwise(body)):
            if not isinstance(a, Par) or not isinstance(b, Par | Reduce) or not _passes_on(a, b):
                continue
            b = counted_as(a, b)
            b = dataclasses.replace(b, dist=a.dist) if _same_levels(a.dist, b.dist) else b
            names = definitions(body)
            spelled = _spelled_out(a, names), _spelled_out(b, names)
            if not allowed(check, kernel.with_(body=spelled), *spelled):
                continue
            whole = joined(a, b)
            if isinstance(whole, Par):
                whole = dataclasses.replace(whole, body=_close(kernel, whole.body, len(a.body)))
            body = (*body[:k], whole, *body[k + 2 :])
            break
        else:
            return body


S = TypeVar("S", bound=Stmt)


def _counted_alike(body: Body) -> Body:
    """``body`` in which loops over the same numbers count in the type that the first of them has: what one of them
    leaves in registers another one finds there."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Par | Reduce):
            first = next((x for x in out if isinstance(x, Par | Reduce) and _over_the_same(x, s)), s)
            s = counted_as(first, s)
        out.append(s)
    return tuple(out)


def _over_the_same(a: Par | Reduce, b: Par | Reduce) -> bool:
    return same_value(a.lo, b.lo) and same_value(a.hi, b.hi)


def _spelled_out(s: S, names: dict[Sym, Expr]) -> S:
    """``s`` with names of integers from around it as what they stand for, so that indices can be compared."""
    known = {
        n: e for n, e in names.items() if isinstance(n.type, Scalar) and n.type.is_int and n not in set(declared((s,)))
    }
    return map_exprs(s, lambda e: expand(e, known) if isinstance(e, Var) and e.sym in known else e)


def map_exprs(s: S, f: Callable[[Expr], Expr]) -> S:
    """``s`` with ``f`` applied to every expression in it, bottom-up."""
    (new,) = map_body((s,), lambda x: x, f)
    return new  # type: ignore[return-value]


def _passes_on(a: Par, b: Par | Reduce) -> bool:
    """Whether ``b`` reads a buffer that ``a`` writes."""
    read = {e.buffer for e in all_exprs((b,)) if isinstance(e, Load)}
    return bool(read & assigned(a.body))


def _same_levels(a: Dist, b: Dist) -> bool:
    return [(lv.kind, lv.axis) for lv in a] == [(lv.kind, lv.axis) for lv in b]


def _lifted(body: Body) -> Body:
    """``body`` with each constant that touches no memory as early as what it is made of allows."""
    out: list[Stmt] = []
    for s in body:
        at = len(out)
        if isinstance(s, Decl) and s.init is not None and is_movable(s.init):
            needed = used(s.init)
            while at and not needed & (assigned((out[at - 1],)) | set(declared((out[at - 1],)))):
                at -= 1
            while at < len(out) and isinstance(out[at], Decl):  # behind those that stand there already
                at += 1
        out.insert(at, s)
    return tuple(out)


def one_definition(body: Body) -> Body:
    """``body`` in which, of several constants of one list that are one value, the first stands for all."""
    changed = assigned(body)
    first: list[Decl] = []
    same: dict[Sym, Sym] = {}
    for s in body:
        if not isinstance(s, Decl) or s.init is None or s.sym in changed or not is_movable(s.init):
            continue
        init = substitute_expr(s.init, {a: Var(b) for a, b in same.items()})
        known = next((d for d in first if d.sym.type == s.sym.type and _equal(d.init, init)), None)
        if known is None:
            first.append(dataclasses.replace(s, init=init))
        else:
            same[s.sym] = known.sym
    if not same:
        return body
    kept = tuple(s for s in body if not (isinstance(s, Decl) and s.sym in same))
    return rename(kept, same)


def _equal(a: Expr | None, b: Expr | None) -> bool:
    if a is None or b is None:
        return False
    integers = isinstance(a.type, Scalar) and a.type.is_int
    return a == b or (integers and same_value(a, b))


__all__ = ["join", "one_definition", "spread_as"]
