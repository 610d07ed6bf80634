"""What one thread makes of exchanged values before it hands it out, made by those that it hands it to.

before                                              after
    if (tid == 0) {                                     if (tid == 0) {
      float m = sum / n;                                  mean = sum;
      mean = m; rstd = rsqrt(squares / n - m * m);        rstd = squares;
    }                                                   }
    barrier; f(mean, rstd)                              barrier; f(mean / n, rsqrt(rstd / n - ...))

The exchange that is left only moves and combines, which the table of meanings knows. Like all that this package makes,
the result is a guess: the exact comparison with the source follows.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from ktc.ir.analysis.defs import expand
from ktc.ir.fold import is_const
from ktc.ir.nodes import Body, Decl, Expr, HwIndex, If, Load, Store, Sym, Var, WarpOp, bodies, fresh
from ktc.ir.storage import is_shared
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, keep, map_body, map_expr, substitute_expr, used, walk, walk_expr

Carried: TypeAlias = list[tuple[Store, Sym, Expr]]
"""Stores, the variable that each is to carry instead, and what its readers compute."""


def postponed(body: Body) -> Body:
    """``body`` with what is stored to single shared cells computed where the cells are read, as far as that is known
    there."""
    for k, s in enumerate(body):
        if not isinstance(s, If):
            continue
        for stores in _together((s,)):
            carried = _carried(stores, (s,), body, body[k + 1 :])
            if carried:
                bare = {id(x): dataclasses.replace(x, value=Var(v)) for x, v, _ in carried}
                (kept,) = map_body((s,), lambda x, bare=bare: bare.get(id(x), x))  # type: ignore[misc]
                rest = body[k + 1 :]
                until = min(_until(x, rest) for x, _, _ in carried)
                return (*body[:k], kept, *postponed((*_computed(rest[:until], carried), *rest[until:])))
    return body


def _together(body: Body) -> list[list[Store]]:
    """Stores to single shared cells, list by list of statements."""
    found = [s for s in body if isinstance(s, Store) and _is_cell(s)]
    return [*([found] if found else []), *(x for s in body for b in bodies(s) for x in _together(b))]


def _is_cell(s: Store) -> bool:
    return is_shared(s.buffer) and s.width == 1 and all(is_const(i) for i in s.index)


def _carried(stores: list[Store], inside: Body, body: Body, rest: Body) -> Carried:
    """How ``stores`` hand on the values that they are made of; none where that is not known, or not worth it."""
    changing = assigned(body)
    made = (d for d in walk(inside) if isinstance(d, Decl) and d.sym not in changing)
    named = {d.sym: d.init for d in made if d.init is not None and not _moves(d.init)}
    cells: dict[Sym, Expr] = {}
    out: Carried = []
    for s in stores:
        value = expand(s.value, named)
        if _moves(value) or not _read_alone(s, rest):
            return []
        own = [v for v in used(value) & changing if v not in cells]
        if len(own) != 1 or not isinstance(own[0].type, Scalar) or own[0].type != scalar_of(s.buffer.type):
            return []
        cells[own[0]] = Load(s.buffer, s.index)
        out.append((s, own[0], substitute_expr(value, cells)))
    plain = all(isinstance(s.value, Var) and s.value.sym == v for s, v, _ in out)
    return [] if plain or len({s.buffer for s in stores}) < len(stores) else out


def _moves(e: Expr) -> bool:
    """Whether the value of ``e`` is another thread's, or one of memory."""
    return any(isinstance(x, Load | WarpOp | HwIndex) for x in walk_expr(e))


def _read_alone(store: Store, rest: Body) -> bool:
    """Whether the next accesses of the array are reads of the very cell, by all that follows in ``rest``."""
    reads = [e for e in all_exprs(rest[: _until(store, rest)]) if isinstance(e, Load) and e.buffer == store.buffer]
    return bool(reads) and all(e.index == store.index and e.width == 1 for e in reads)


def _until(store: Store, rest: Body) -> int:
    return next((k for k, s in enumerate(rest) if store.buffer in assigned((s,))), len(rest))


def _computed(rest: Body, carried: Carried) -> Body:
    """``rest`` with the values in the place of the cells: in the one place, or named before the first of several."""
    made: dict[Expr, Expr] = {}
    for s, _, whole in carried:
        value = map_expr(whole, lambda e, made=made: made.get(e, e))  # type: ignore[misc]
        reads = [(k, e) for k, x in enumerate(rest) for e in all_exprs((x,)) if _reads(e, s)]
        single = len(reads) == 1 and not any(bodies(rest[reads[0][0]]))
        name = fresh(s.buffer.name, value.type)
        by = value if single else Var(name)
        # the value itself reads this cell: it takes its place once the reads have gone
        body = map_body(rest, keep, lambda e, s=s, by=by: by if _reads(e, s) else e)  # type: ignore[misc]
        first = max([reads[0][0], *(k + 1 for k, x in enumerate(body) if used(value) & set(declared((x,))))])
        rest = body if single else (*body[:first], Decl(name, value, const=True), *body[first:])
        made |= {} if single else {whole: Var(name)}
    return rest


def _reads(e: Expr, s: Store) -> bool:
    return isinstance(e, Load) and e.buffer == s.buffer


__all__ = ["postponed"]
