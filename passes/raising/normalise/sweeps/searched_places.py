"""Threads that each search for an extreme and its place, and then agree on one, as one search.

before                                                      after
    best, at = -inf, 0                                          key, place = -inf, 2147483647
    for c in threadIdx.x..n step 256                            for c in threadIdx.x..n step 256
      if x[c] > best                                              if x[c] > key
        best, at = x[c], c                                          key, place = x[c], c
    reduce(max) most of best                                    reduce(max) top of key, (at) first of place
    reduce(min) where of best == most ? at : 2147483647         let most = max(top, -inf)
                                                                let where = top > -inf ? first : 0

A thread keeps the first of its equal elements, the least of these over all threads is the first of all: the pair means
the same in whatever way elements are dealt out to threads (:mod:`ktc.ir.analysis.accumulators`). Where threads take
precedence by an order of their own (:mod:`ktc.passes.raising.recognise.tie_orders`), the place is the number of an
element in that order, from which the element follows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import AT, BETTER, identity, is_identity
from ktc.ir.arith.affine import linear_form
from ktc.ir.fold import cast, evaluate, simplify
from ktc.ir.nodes import (
    Acc,
    Assign,
    Binary,
    Body,
    Call,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Reduce,
    Select,
    Stmt,
    Sym,
    Var,
    While,
    fresh,
)
from ktc.ir.types import scalar_of
from ktc.ir.walk import assigned, substitute_expr, used, used_in, walk_expr
from ktc.passes.raising.recognise.statement_kinds import threads_in
from ktc.passes.raising.recognise.tie_orders import Order
from ktc.passes.shared.conditional_updates import with_conditionals
from ktc.passes.shared.serial_extremes import Search, searches

from .element_numbers import Numbered, numbered


def places_searched(
    body: Body, varying: Container[Sym], orders: Mapping[Sym, Order], outside: frozenset[Sym] = frozenset()
) -> Body:
    """``body``, in thread form, with every such pair of reductions as one. ``varying``: what threads have of their own;
    ``orders``: which ranks what holds a least rank is about; ``outside``: what is read around ``body``."""
    out = list(body)
    for k, s in enumerate(body):
        around = outside | used_in((*body[:k], *body[k + 1 :]))
        if isinstance(s, If):
            then, orelse = (places_searched(b, varying, orders, around) for b in (s.then, s.orelse))
            out[k] = dataclasses.replace(s, then=then, orelse=orelse)
        elif isinstance(s, For | While):
            out[k] = dataclasses.replace(s, body=places_searched(s.body, varying, orders, around))
    at = 0
    while at < len(out):
        found = _joined(tuple(out), at, varying, orders, outside)
        if found is not None:
            out = list(found)
        at += 1
    return tuple(out)


@dataclass(frozen=True)
class Picked:
    """``place`` is ``at`` of the thread that comes first among those whose ``best`` is the ``extreme`` of all: by
    ``order``, or by what is least. ``spent``: which statements say so."""

    place: Acc
    at: Sym
    best: Sym
    extreme: Sym
    spent: frozenset[int]
    order: Order | None = None

    @property
    def mine(self) -> set[Sym]:
        return {self.best, self.at}


def _picked(body: Body, k: int, orders: Mapping[Sym, Order]) -> Picked | None:
    """What the reduction at ``k`` picks."""
    a = _least(body[k])
    match a.value if a is not None else None:
        case Select(Binary("==", Var(best), Var(extreme)), Var(at), _):
            return Picked(a, at, best, extreme, frozenset({k}))  # type: ignore[arg-type]
        case Select(Binary("==", _, Var(rank)), Var(at), _) if rank in orders:
            of_rank = next((j for j, s in enumerate(body[:k]) if _declares(s, rank)), k)
            ranked = _least(body[of_rank])
            match ranked.value if ranked is not None else None:
                case Select(Binary("==", Var(best), Var(extreme)), _, _):
                    return Picked(a, at, best, extreme, frozenset({k, of_rank}), orders[rank])  # type: ignore[arg-type]
    return None


def _least(s: Stmt) -> Acc | None:
    """The accumulator of ``s`` where that is the least of what threads have under a condition, and the only one."""
    if not isinstance(s, Reduce) or s.body or len(s.accs) != 1 or s.accs[0].op != "min":
        return None
    (a,) = s.accs
    t = scalar_of(a.sym.type)
    return a if isinstance(a.value, Select) and is_identity(a.value.b, a.op, t) else None


def _joined(
    body: Body, k: int, varying: Container[Sym], orders: Mapping[Sym, Order], outside: frozenset[Sym]
) -> Body | None:
    """``body`` whose reduction at ``k`` picks the place of an extreme, with one search in place of these; None if it
    does not."""
    p = _picked(body, k, orders)
    first = next((j for j, s in enumerate(body[:k]) if p is not None and _declares(s, p.extreme)), None)
    if p is None or first is None:
        return None
    swept = max((j for j, s in enumerate(body[:first]) if p.best in assigned((s,))), default=None)
    loop, whole = body[swept or 0], body[first]
    if swept is None or not isinstance(loop, For) or not isinstance(whole, Reduce) or whole.body:
        return None
    loop = dataclasses.replace(loop, body=with_conditionals(loop.body))
    key = next(a for a in whole.accs if a.sym == p.extreme)
    best, at = (_start(body[:swept], v, varying) for v in (p.best, p.at))
    search = next((f for f in searches(loop, {p.at})[1] if f.best == p.best), None)
    strict = _is_before(at, loop) or any(f.best == p.best for f in searches(loop)[1])
    if search is None or [s for s, _ in search.kept] != [p.at] or not _is_extreme_of(key, search):
        return None
    numbers = numbered(loop, search.kept[0][1], p.order)
    if best is None or at is None or numbers is None or not (strict or p.order is None):
        return None
    sweep, pair = _swept(loop, search, numbers)
    others = [
        s for j, s in enumerate(body) if j not in (swept, first, *p.spent) and not (j < swept and _starts(s, p.mine))
    ]
    left = tuple(a for a in whole.accs if a is not key)
    read = used_in((*others, sweep)) | assigned((*others, sweep)) | outside
    if p.mine & read.union(*(used(a.value) for a in left)):
        return None
    place = substitute_expr(search.kept[0][1], {loop.var: numbers.element(Var(pair[1].sym))})
    if not strict:  # what is as good as the start, and in front of its place
        sweep, equal = _swept_for_equals(sweep, search, best)
        at = Call("min", (at, cast(Var(equal.sym), scalar_of(at.type))), scalar_of(at.type))
        pair = (*pair, equal)
    results = _results(pair, key, p, search, cast(place, scalar_of(p.place.sym.type)), best, at)
    inits = tuple(Decl(v.sym, a.init) for a in pair if isinstance(v := a.value, Var))
    front = (s for s in body[:swept] if not _starts(s, p.mine))
    reduction = dataclasses.replace(whole, accs=(*left, *pair))
    after = (s for j, s in enumerate(body) if j > first and j not in p.spent)
    return (*front, *numbers.named, *inits, sweep, *body[swept + 1 : first], reduction, *results, *after)


def _declares(s: Stmt, sym: Sym) -> bool:
    return isinstance(s, Reduce) and any(a.sym == sym for a in s.accs)


def _starts(s: Stmt, mine: set[Sym]) -> bool:
    return isinstance(s, Decl | Assign) and s.sym in mine


def _start(before: Body, sym: Sym, varying: Container[Sym]) -> Expr | None:
    """What all threads begin with in ``sym``; None where that is not known."""
    at = max((j for j, s in enumerate(before) if _starts(s, {sym})), default=None)
    if at is None or sym in assigned(tuple(s for s in before[at:] if not _starts(s, {sym}))):
        return None
    s = before[at]
    e = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None
    if e is None or any(v in varying for v in used(e)) or used(e) & assigned(before[at + 1 :]):
        return None
    return None if threads_in(e) else e


def _is_before(at: Expr | None, loop: For) -> bool:
    """Whether ``at`` is a number that no iteration of ``loop`` has a lower one than."""
    known = evaluate(at, {}) if at is not None else None
    start = linear_form(loop.init, {x for x in walk_expr(loop.init) if isinstance(x, HwIndex)})
    rest = None if start is None else evaluate(simplify(start.rest), {})
    upwards = start is not None and all((evaluate(c, {}) or -1) > 0 for c in start.coeffs.values())
    return known is not None and rest is not None and upwards and known <= rest


def _is_extreme_of(key: Acc, search: Search) -> bool:
    t = scalar_of(key.sym.type)
    return key.op == search.op and key.value == Var(search.best) and is_identity(key.init, key.op, t)


def _swept(loop: For, search: Search, numbers: Numbered) -> tuple[For, tuple[Acc, ...]]:
    """``loop`` as a search for the extreme and the iteration that has it, and how threads agree on these."""
    t, of_place = scalar_of(search.best.type), scalar_of(loop.var.type)
    key, place = fresh(search.best.name, t), fresh(f"{loop.var.name}_at", of_place)
    named = search.key if isinstance(search.key, Var) else Var(fresh(f"{search.best.name}_next", t))
    taken = (Assign(key, named), Assign(place, numbers.of(Var(loop.var))))
    body: list[Stmt] = []
    for s in loop.body:
        if search.best not in assigned((s,)):
            body.append(s)
            continue
        body += () if named == search.key else (Decl(named.sym, search.key, const=True),)
        body.append(If(Binary(BETTER[search.op], named, Var(key)), taken, loc=s.loc, comments=s.comments))
    extreme = Acc(fresh(key.name, t), search.op, identity(search.op, t), Var(key))
    first = Acc(fresh(place.name, of_place), AT, identity(AT, of_place), Var(place))
    return dataclasses.replace(loop, body=tuple(body)), (extreme, first)


def _results(
    pair: tuple[Acc, ...], key: Acc, p: Picked, search: Search, place: Expr, best: Expr, at: Expr
) -> Iterator[Stmt]:
    """What ``pair`` means for the extreme and its ``place``, where all threads began with ``best`` and ``at``."""
    top = pair[0].sym
    better = Binary(BETTER[search.op], Var(top), best)
    neutral = is_identity(simplify(best), search.op, scalar_of(key.sym.type))
    yield Decl(key.sym, Var(top) if neutral else Select(better, Var(top), best), const=True)
    yield Decl(p.place.sym, Select(better, place, at), const=True)


def _swept_for_equals(sweep: For, search: Search, best: Expr) -> tuple[For, Acc]:
    """``sweep`` with the least place, too, of what is no better than what threads begin with, and how they agree on it:
    that counts where nothing is better, in rows of -inf."""
    t = scalar_of(search.kept[0][0].type)
    place, none = fresh(search.kept[0][0].name, t), identity("min", t)
    same = Select(Binary("==", search.key, best), cast(search.kept[0][1], t), none)
    least = Assign(place, Call("min", (Var(place), same), t), loc=sweep.loc)
    return dataclasses.replace(sweep, body=(*sweep.body, least)), Acc(fresh(place.name, t), "min", none, Var(place))


__all__ = ["places_searched"]
