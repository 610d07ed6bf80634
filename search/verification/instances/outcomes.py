"""Conditions that came out one way in every run, and integer choices that always chose the same operand.

What depends on the other way has not been checked: ``x == 3.25 ? 0 : x`` is right for all other numbers, and
``block % 50000`` for all smaller grids. A branch of its own is found by :mod:`.reach`; here are conditions without a
branch (selects, guards that never fail, parts of conjunctions, what ends a loop beside its count), remainders and masks
that cut nothing, quotients that are always zero, minima, maxima.
Not all is a doubt: some can come out one way only, by intervals or with z3, and some the original has as well: the same
operators and literals, of nothing that the original's do not hang on
(:mod:`ktc.search.verification.integers.argument_sources`). That is no answer where a choice says which place is stored
to: ``s[k % 512]`` is a place of its own for each k below 512 and one of many beyond, and then it matters who stores
there last, and who waits for whom; unless the original means nothing at sizes beyond, because it races there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from ktc.ir.fold import simplify
from ktc.ir.interp.execution.evaluation_plans import CUTS, QUOTIENTS
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    NEGATED,
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Knob,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    While,
    asks_for_nan,
)
from ktc.ir.support.memo import by_identity
from ktc.ir.types import BOOL, scalar_of
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.argument_sources import sources_of
from ktc.search.verification.integers.intervals import is_whole
from ktc.search.verification.integers.ranges import decided
from ktc.search.verification.integers.statement_context import context_at, has_part, learn_lazily

from .coverage import Coverage
from .reach import promised


def one_sided(coverage: Coverage, original: Coverage) -> list[tuple[Stmt, Expr]]:
    """What has been seen to come out one way only, and is not known to have no other; with its statement."""
    limits = _new_limits(coverage, original)
    found = _one_sided(coverage)
    if not found:
        return limits
    always = decided(coverage.candidate, promised(coverage.workload))
    before, theirs = defaultdict[object, set[str]](set), sources_of(original.candidate)
    for _, e in _one_sided(original):
        before[_kind(e)] |= theirs.of(e)
    mine, places = sources_of(coverage.candidate), places_written(coverage.candidate)

    elsewhere = {
        _kind(e) for _, e in _one_sided(original) if original.outcomes[id(e)] | original.meaningless.get(id(e), 0) == 3
    }

    def as_before(e: Expr) -> bool:
        settled = id(e) not in places or _kind(e) in elsewhere
        return settled and _kind(e) in before and mine.of(e) <= before[_kind(e)]

    known = (always.get(id(e)) is not None or as_before(e) for _, e in found)
    open_ = [found[k] for k, settled in enumerate(known) if not settled]
    if open_:
        context = smt.Context(coverage.candidate)
        open_ = [(s, e) for s, e in open_ if not _proved(coverage, context, s, e)]
    return [*limits, *open_]


def open_to_sizes(coverage: Coverage, original: Coverage) -> list[tuple[Stmt, Expr]]:
    """Of what is :func:`one_sided`, what other sizes may bring out the other way; data alone are no numbers."""
    return [(s, e) for s, e in one_sided(coverage, original) if not asks_for_nan(e)]


@by_identity(32)
def places_written(kernel: Kernel) -> frozenset[int]:
    """By ``id``, the choices among integers that say which element of memory ``kernel`` stores to, where they
    stand in the subscript or in the value of a variable in it."""
    given = defaultdict[Sym, list[Expr]](list)
    for s in walk(kernel.body):
        if isinstance(s, Decl | Assign) and (value := s.init if isinstance(s, Decl) else s.value) is not None:
            given[s.sym].append(value)
    todo = [e for s in walk(kernel.body) if isinstance(s, Store) for e in s.index]
    out, seen = set[int](), set[Sym]()
    while todo:
        e = todo.pop()
        out |= {id(x) for x in walk_expr(e) if isinstance(x, Binary) and x.op in CUTS}
        for v in used(e) - seen:
            seen.add(v)
            todo += given[v]
    return frozenset(out)


def hangs_on_data(coverage: Coverage) -> bool:
    """Whether a comparison of floats has come out one way only."""
    return any(isinstance(e, Binary) and scalar_of(e.a.type).is_float for _, e in _one_sided(coverage))


def _new_limits(coverage: Coverage, original: Coverage) -> list[tuple[Stmt, Expr]]:
    """Minima and maxima of floats with a number that the original has not, which always chose one operand: a clamp that
    no data came to."""
    known = {abs(x.value) for x in all_exprs(original.candidate.body) if isinstance(x, Const)} | {0.0, math.inf}
    found = []
    for s in walk(coverage.candidate.body):
        for e in (e for top in stmt_exprs(s) for e in walk_expr(top) if _is_limit(e)):
            numbers = {abs(x.value) for x in walk_expr(e) if isinstance(x, Const)}
            if numbers - known and coverage.outcomes.get(id(e), 0) in (1, 2):
                found.append((s, e))
    return found


def _is_limit(e: Expr) -> bool:
    """Whether ``e`` is a minimum or maximum of a float and a number."""
    return isinstance(e, Call) and e.fn in ("min", "max") and not is_whole(e.type) and (
        any(isinstance(a, Const) for a in e.args))  # fmt: skip


def _one_sided(coverage: Coverage) -> list[tuple[Stmt, Expr]]:
    found = ((s, e, coverage.outcomes.get(id(e), 0)) for s, e in _tracked(coverage.candidate.body))
    return [(s, e) for s, e, seen in found if seen in ((1,) if is_quotient(e) else (1, 2))]


def is_quotient(e: Expr) -> bool:
    """Of a quotient it says nothing that it never was zero."""
    return isinstance(e, Binary) and e.op in QUOTIENTS


def _tracked(body: Body) -> Iterator[tuple[Stmt, Expr]]:
    for s in walk(body):
        if isinstance(s, If):
            yield from ((s, e) for e in _parts(s.cond))
        yield from ((s, e) for e in _ends(s))
        for top in stmt_exprs(s):
            for e in walk_expr(top):
                cond = e.cond if isinstance(e, Select) else e.x if isinstance(e, Cast) and e.x.type == BOOL else None
                if cond is not None:
                    yield from ((s, part) for part in _parts(cond))
                if isinstance(e, Select) and isinstance(cond, Binary) and cond.op in ("&&", "||"):
                    yield s, cond  # the halves may hold by turns, and an arm be left out
                elif _is_choice(e):
                    yield s, e


def _parts(cond: Expr) -> Iterator[Expr]:
    """What a condition is a combination of."""
    if isinstance(cond, Binary) and cond.op in ("&&", "||"):
        yield from _parts(cond.a)
        yield from _parts(cond.b)
    elif isinstance(cond, Unary) and cond.op == "!":
        yield from _parts(cond.x)
    elif any(not isinstance(x, Const | Knob) for x in walk_expr(cond)):
        yield cond


def _ends(s: Stmt) -> list[Expr]:
    """What may end a loop, of one that several things may."""
    parts = list(_parts(s.cond)) if isinstance(s, For | While) else []
    return parts if len(parts) > 1 else []


def _is_choice(e: Expr) -> bool:
    if isinstance(e, Call):
        return e.fn in ("min", "max") and is_whole(e.type)
    return (
        isinstance(e, Binary)
        and e.op in CUTS
        and is_whole(e.type)
        and any(not isinstance(x, Const | Knob | Binary) for x in walk_expr(e))
    )


def _kind(e: Expr) -> tuple[object, ...]:
    """What is left of an expression that passes have moved, renamed, negated and folded: its operator and literals.
    ``if (x >= n) return`` and what raising makes of it, ``if x < n``, are of one kind."""
    e = as_remainder(simplify(e))
    operator = getattr(e, "op", "") or getattr(e, "fn", "")
    if isinstance(e, Binary) and operator in NEGATED:
        operator = min(operator, NEGATED[operator])
    literals = [x.value for x in walk_expr(e) if isinstance(x, Const)]
    return operator, *sorted(map(str, literals)), scalar_of(next(iter(walk_expr(e))).type).kind


def as_remainder(e: Expr) -> Expr:
    """``e``; lower bits of an unsigned number, ``x & 15``, as what they are, ``x % 16``."""
    if isinstance(e, Binary) and e.op == "&" and isinstance(e.b, Const) and not scalar_of(e.type).is_signed:
        mask = int(e.b.value)
        if mask & (mask + 1) == 0:
            return Binary("%", e.a, Const(mask + 1, e.b.ty))
    return e


def _proved(coverage: Coverage, context: smt.Context, target: Stmt, e: Expr) -> bool:
    """Whether ``e`` comes out as it was seen whenever ``target`` is reached, by everything known on the way there."""
    if any(x is e for x in _ends(target)):
        return False  # what is known before the first round need not hold in the next
    seen = coverage.outcomes[id(e)] == 1
    place = context_at(coverage.candidate.body, target, context.branch())
    if place is not None and isinstance(target, For) and any(x is e for x in walk_expr(target.step)):
        place.enter(target, "body")  # where it is asked: behind a round
    if place is None:
        return False
    tops = [top for top in stmt_exprs(target) if has_part(top, e)]
    if sum(x is e for top in tops for x in walk_expr(top)) == 1:
        learn_lazily(place, tops[0], e)
    return place.always(e, seen)


__all__ = ["hangs_on_data", "is_quotient", "one_sided"]
