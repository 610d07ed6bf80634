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
the same in whatever way elements are dealt out to threads (:mod:`ktc.ir.analysis.accumulators`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import AT, BETTER, identity, is_identity
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import cast, evaluate
from ktc.ir.nodes import (
    Acc,
    Assign,
    Binary,
    Body,
    Decl,
    Expr,
    For,
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
from ktc.ir.walk import assigned, substitute_expr, used, used_in
from ktc.passes.raising.recognise.statement_kinds import threads_in
from ktc.passes.shared.serial_extremes import Search, searches


def places_searched(body: Body, varying: Container[Sym], outside: frozenset[Sym] = frozenset()) -> Body:
    """``body``, in thread form, with every such pair of reductions as one. ``varying``: what threads have of their own;
    ``outside``: what is read around ``body``."""
    out = list(body)
    for k, s in enumerate(body):
        around = outside | used_in((*body[:k], *body[k + 1 :]))
        if isinstance(s, If):
            then, orelse = (places_searched(b, varying, around) for b in (s.then, s.orelse))
            out[k] = dataclasses.replace(s, then=then, orelse=orelse)
        elif isinstance(s, For | While):
            out[k] = dataclasses.replace(s, body=places_searched(s.body, varying, around))
    at = 0
    while at < len(out):
        found = _joined(tuple(out), at, varying, outside)
        if found is not None:
            out = list(found)
        at += 1
    return tuple(out)


@dataclass(frozen=True)
class Picked:
    """``place`` is the least ``at`` of the threads whose ``best`` is the ``extreme`` of all."""

    place: Acc
    at: Sym
    best: Sym
    extreme: Sym

    @property
    def mine(self) -> set[Sym]:
        return {self.best, self.at}


def _picked(a: Acc) -> Picked | None:
    """What ``a`` picks, where it is the least place."""
    match a.value:
        case Select(Binary("==", Var(best), Var(extreme)), Var(at), other) if a.op == "min":
            return Picked(a, at, best, extreme) if is_identity(other, a.op, scalar_of(at.type)) else None
    return None


def _joined(body: Body, k: int, varying: Container[Sym], outside: frozenset[Sym]) -> Body | None:
    """``body`` whose reduction at ``k`` picks the place of an extreme, with one search in place of these; None if it
    does not."""
    last = body[k]
    if not isinstance(last, Reduce) or last.body or len(last.accs) != 1 or (p := _picked(last.accs[0])) is None:
        return None
    first = next((j for j, s in enumerate(body[:k]) if _declares(s, p.extreme)), None)
    swept = max((j for j, s in enumerate(body[: first or 0]) if p.best in assigned((s,))), default=None)
    if first is None or swept is None or not isinstance(loop := body[swept], For):
        return None
    whole = body[first]
    assert isinstance(whole, Reduce)
    key = next(a for a in whole.accs if a.sym == p.extreme)
    search = next((f for f in searches(loop)[1] if f.best == p.best), None)
    if search is None or whole.body or [s for s, _ in search.kept] != [p.at]:
        return None
    starts = [_start(body[:swept], v, varying) for v in (p.best, p.at)]
    best, at = starts
    if best is None or at is None or not _is_extreme_of(key, search) or not _rises(search.kept[0][1], loop.var):
        return None
    sweep, pair = _swept(loop, search)
    others = [s for j, s in enumerate(body) if j not in (swept, first, k) and not (j < swept and _starts(s, p.mine))]
    left = tuple(a for a in whole.accs if a is not key)
    read = used_in((*others, sweep)) | assigned((*others, sweep)) | outside
    if p.mine & read.union(*(used(a.value) for a in left)):
        return None
    results = _results(pair, key, p, search, loop.var, best, at)
    inits = tuple(Decl(v.sym, a.init) for a in pair if isinstance(v := a.value, Var))
    front = (s for s in body[:swept] if not _starts(s, p.mine))
    reduction = dataclasses.replace(whole, accs=(*left, *pair))
    return (*front, *inits, sweep, *body[swept + 1 : first], reduction, *results, *body[first + 1 : k], *body[k + 1 :])


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


def _is_extreme_of(key: Acc, search: Search) -> bool:
    t = scalar_of(key.sym.type)
    return key.op == search.op and key.value == Var(search.best) and is_identity(key.init, key.op, t)


def _rises(e: Expr, var: Sym) -> bool:
    """Whether ``e`` is larger in each iteration over ``var`` than in those before."""
    form = linear_form(without_casts(e), {var})
    slope = None if form is None else evaluate(form.coeff(var), {})
    return slope is not None and slope > 0


def _swept(loop: For, search: Search) -> tuple[For, tuple[Acc, Acc]]:
    """``loop`` as a search for the extreme and the iteration that has it, and how threads agree on these."""
    t, of_place = scalar_of(search.best.type), scalar_of(loop.var.type)
    key, place = fresh(search.best.name, t), fresh(f"{loop.var.name}_at", of_place)
    named = search.key if isinstance(search.key, Var) else Var(fresh(f"{search.best.name}_next", t))
    taken = (Assign(key, named), Assign(place, Var(loop.var)))
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
    pair: tuple[Acc, Acc], key: Acc, p: Picked, search: Search, var: Sym, best: Expr, at: Expr
) -> Iterator[Stmt]:
    """What ``pair`` means for the extreme and its place, where all threads began with ``best`` and ``at``."""
    top, first = pair
    better = Binary(BETTER[search.op], Var(top.sym), best)
    found = cast(substitute_expr(search.kept[0][1], {var: Var(first.sym)}), p.place.sym.type)
    yield Decl(key.sym, Select(better, Var(top.sym), best), const=True)
    yield Decl(p.place.sym, Select(better, found, at), const=True)


__all__ = ["places_searched"]
