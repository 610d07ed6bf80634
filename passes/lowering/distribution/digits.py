"""Quotients and remainders of sums whose terms are known: what a number's digits already say is not computed.

before                                                      after
    (tx3 * 64 + u * 16 + tid % 32 / 8 % 2 * 8 + tid % 8) % 8    tid % 8
    (tx2 * 64 + u * 16 + tid % 32 / 16 % 2 * 8) / 64            tx2      (u < 4: the other terms stay below 64)

Compilers see neither that a sum of multiples carries nothing into the last digit, nor how far a digit reaches. All
terms must be known not to be negative, since division truncates.

Numbers are enclosed by :mod:`ktc.ir.arith` (its intervals and polynomials); :class:`ktc.ir.arith.Facts` are not asked,
as this comes in the middle of lowering: how many threads there are, and how often a loop over what each of them has
runs, is what lowering has decided itself, and no kernel says it yet. What is left ``Facts`` simplify at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import inf

from ktc.ir.arith import Interval, Trust
from ktc.ir.arith.algebra import value
from ktc.ir.arith.enclosures import Intervals
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import Polynomial, from_polynomial, plus, polynomial
from ktc.ir.fold import add, cast, mul
from ktc.ir.nodes import (
    Binary,
    Body,
    BulkCopy,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    Load,
    Stmt,
    Store,
    Var,
    i32,
)  # fmt: skip
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import map_body, map_expr, used_in, walk, walk_expr
from ktc.passes.lowering.decider import Decider

COUNTED = Trust(indices=True, block_threads=1 << 16)
"""Sums of thread numbers do not wrap; devices other than GPUs have larger blocks."""

Reach = float
"""The largest value of something that is not negative; ``inf`` where there is no known one."""


def reduced(e: Expr, known: Mapping[Expr, Reach]) -> Expr:
    """``e`` with quotients and remainders by numbers taken term by term; ``known``: largest values of variables that
    are not negative."""

    def on(x: Expr) -> Expr:
        if not isinstance(x, Binary) or x.op not in "/%" or not isinstance(x.b, Const):
            return x
        n, t, terms = int(x.b.value), x.type, polynomial(x.a)
        signed = any(k < 0 or None in [reach(f, known) for f in factors] for factors, k in terms.items())
        if n < 1 or signed or not isinstance(t, Scalar):
            return x
        whole = {f: k // n for f, k in terms.items() if k % n == 0}
        rest = {f: k for f, k in terms.items() if k % n}
        below = _above_the_rest(rest, n, known)
        over: Polynomial = {}
        under: Polynomial = rest
        if _largest(rest, known) < n:
            pass
        elif below is not None:  # what is below it carries nothing into this digit
            digit = from_polynomial({f: k // below for f, k in rest.items() if k % below == 0}, t)
            left = from_polynomial({f: k for f, k in rest.items() if k % below}, t)
            rounds = i32(n // below)
            quotient, remainder = Binary("/", digit, rounds), Binary("%", digit, rounds)
            if x.op == "%":
                return add(mul(on(remainder), i32(below)), left)
            return add(from_polynomial(whole, t), on(quotient)) if whole else on(quotient)
        elif whole:
            joined = from_polynomial(rest, t)
            over[(Binary("/", joined, x.b),)] = 1
            under = {(Binary("%", joined, x.b),): 1}
        else:
            return x
        return from_polynomial(plus(whole, over) if x.op == "/" else under, t)

    return map_expr(map_expr(e, on), _signed)


def _signed(x: Expr) -> Expr:
    """Hardware indices as operands are numbers like the others: comparing terms took their conversions off, and what
    they are divided by may still be of their type."""
    if not isinstance(x, Binary) or not any(isinstance(y, HwIndex) for y in (x.a, x.b)):
        return x
    a, b = (cast(y, I32) if isinstance(y, HwIndex | Const) else y for y in (x.a, x.b))
    return dataclasses.replace(x, a=a, b=b)


def _above_the_rest(terms: Polynomial, n: int, known: Mapping[Expr, Reach]) -> int | None:
    """The largest coefficient that divides ``n`` such that the terms it does not divide stay below it."""
    for k in sorted({k for k in terms.values() if k > 1 and n % k == 0}, reverse=True):
        low = {f: v for f, v in terms.items() if v % k}
        if low and _largest(low, known) < k:
            return k
    return None


def reach(e: Expr, known: Mapping[Expr, Reach]) -> Reach | None:
    """The largest value of ``e``; None if it may be negative, or is made of anything but numbers, hardware indices and
    what is ``known``."""
    e = without_index_casts(e)
    if not _is_number(e, known):
        return None
    within = value(e, Intervals(COUNTED, lambda x: _range(known[x]) if x in known else None))
    return (inf if within.high is None else within.high) if within.never_negative else None


def _is_number(e: Expr, known: Mapping[Expr, Reach]) -> bool:
    e = without_index_casts(e)
    if e in known or isinstance(e, HwIndex | Const):
        return True
    counts = isinstance(e, Binary) and (e.op in "+*" or (e.op in "/%" and isinstance(e.b, Const)))
    return counts and isinstance(e, Binary) and _is_number(e.a, known) and _is_number(e.b, known)


def _range(most: Reach) -> Interval:
    return Interval(0, None if most == inf else int(most))


def _largest(terms: Polynomial, known: Mapping[Expr, Reach]) -> Reach:
    total: Reach = 0
    for factors, k in terms.items():
        term: Reach = k
        for f in factors:
            most = reach(f, known)
            assert most is not None
            term = term * most if most else 0
        total += term
    return total


def in_digits(body: Body, extents: Mapping[str, Expr], decide: Decider) -> Body:
    """``body`` without quotients and remainders of thread numbers that their digits say: of a copy by 32 x 8 threads,
    ``(tid_x + tid_y * 32 + u * 256) / 32`` is ``tid_y + u * 8``. In tiles that a producer fills, indices are reduced.
    """
    tiles = {s.dst for s in walk(body) if isinstance(s, BulkCopy)}
    names = {s.sym: s.init for s in walk(body) if isinstance(s, Decl) and s.const and s.init is not None}
    known: dict[Expr, Reach] = {
        Var(s.var): n - 1 for s in walk(body) if isinstance(s, For) and (n := decide.rounds(s)) is not None
    }
    known |= {HwIndex("thread", a): n - 1 for a, e in extents.items() if (n := decide.value(e)) is not None}

    def resolved(e: Expr) -> Expr:
        while any(isinstance(x, Var) and x.sym in names for x in walk_expr(e)):
            e = map_expr(e, lambda x: cast(names[x.sym], x.type) if isinstance(x, Var) and x.sym in names else x)  # type: ignore[arg-type]
        return e

    def short(i: Expr) -> Expr:
        whole = resolved(i)
        found = reduced(whole, known)
        return found if found != whole and _divisions(found) <= _divisions(i) else i

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Store) or s.buffer not in tiles:
            return s
        return dataclasses.replace(s, index=tuple(map(short, s.index)))

    def read(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in tiles:
            return dataclasses.replace(e, index=tuple(map(short, e.index)))
        if not isinstance(e, Binary) or e.op not in "/%" or not isinstance(e.b, Const):
            return e
        whole = resolved(e)
        threads = any(isinstance(x, HwIndex) and x in known for x in walk_expr(whole))
        found = reduced(whole, known) if threads else whole
        return e if _divisions(found) else cast(found, e.type)  # type: ignore[arg-type]

    found = map_body(body, on, read)
    idle = names.keys() & used_in(body) - used_in(found)  # numbers that were there for their digits
    return map_body(found, lambda s: None if isinstance(s, Decl) and s.sym in idle else s) if idle else found


def _divisions(e: Expr) -> int:
    return sum(isinstance(x, Binary) and x.op in "/%" for x in walk_expr(e))


__all__ = ["in_digits", "reach", "reduced"]
