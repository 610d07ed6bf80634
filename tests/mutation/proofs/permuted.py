"""Blocks that do one another's work: a launch runs the same work whichever block does which part of it.

Work in bands (``block-swizzle``) has blocks ``q * L .. q * L + L - 1`` in band ``q``, of which block ``q * L + x`` has
row ``x % R`` and column ``x / R``, where the rows ``R`` of a band hang on ``q`` alone. Taking ``block % R`` instead
turns the rows of every column by the same ``q * L % R``. Where each band, the last one too, has whole columns, all rows
of a column are there, and turning them is a permutation of the blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Return,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.types import I64, Scalar
from ktc.ir.walk import all_exprs, assigned, map_expr, stmt_exprs, walk, walk_expr
from ktc.search.verification.integers import smt

from .definitions import definitions

APART = (Alloc, Assign, Atomic, Barrier, Break, Continue, Decl, For, If, Return, Store)
"""Statements of blocks that may run in any order: none of them waits for another block, or learns of one."""

BLOCK = HwIndex("block", "x")

BAND, COLUMN, ROW = (Var(fresh(name, I64)) for name in ("band", "column", "row"))


def permuted(kernel: Kernel, s: Decl, t: Decl) -> bool:
    """Whether ``kernel`` with ``t`` for ``s``, a definition in its own body, runs the same blocks in another order."""
    at = next((k for k, x in enumerate(kernel.body) if x is s), None)
    if at is None or kernel.launch is None or s.init is None or t.init is None or not _independent(kernel):
        return False
    before = smt.Context(kernel)
    for x in itertools.takewhile(lambda x: isinstance(x, Decl), kernel.body[:at]):
        before.after(x)
    plain = _Plain(kernel, s.sym, before)
    pair = _differing(plain.of(s.init), plain.of(t.init))
    if pair is None:
        return False
    one, other = pair
    if one.op != "%" or other.op != "%" or one.b != other.b or other.a != BLOCK:
        return False
    if not (isinstance(one.a, Binary) and one.a.op == "%" and one.a.a == BLOCK) or _has(one.a.b, BLOCK):
        return False
    banded = _Banded(one.a.b, one.b)
    mine, theirs = banded.of(plain.of(s.init), one.a), banded.of(plain.of(t.init), BLOCK)
    if mine != theirs or _has(mine, BLOCK) or not _of_launch(kernel, banded.length, banded.rows):
        return False
    if any(_has(banded.of(plain.of(e), None), BLOCK) for e in _uses(kernel.body, plain.given, s)):
        return False
    return _whole_columns(kernel, banded)


def _independent(kernel: Kernel) -> bool:
    """Whether the blocks of a launch may run in any order, and none finds out in which."""
    for s in walk(kernel.body):
        if not isinstance(s, APART) or (isinstance(s, Atomic) and s.dst is not None):
            return False
        if isinstance(s, Barrier) and s.scope not in ("block", "warp"):
            return False
    return not any(
        (isinstance(e, Load) and e.cache == "volatile") or (isinstance(e, Call) and e.effects != "pure")
        for e in all_exprs(kernel.body)
    )


def _of_launch(kernel: Kernel, *exprs: Expr) -> bool:
    """Whether expressions have one value for all blocks of a band: they read parameters and the band alone."""
    given = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)} - assigned(kernel.body) | {BAND.sym}
    made = (Const, Knob, Var, Binary, Call)
    parts = [x for e in exprs for x in walk_expr(e)]
    return all(isinstance(x, made) and (not isinstance(x, Var) or x.sym in given) for x in parts)


def _has(e: Expr, part: Expr) -> bool:
    return any(x == part for x in walk_expr(e))


def _uses(body: Body, given: dict[Sym, Expr], changed: Decl) -> Iterator[Expr]:
    """All expressions of ``body`` but definitions that stand for their values, and the one that is changed."""
    for s in walk(body):
        if s is not changed and not (isinstance(s, Decl) and s.sym in given):
            yield from stmt_exprs(s)


def _differing(e: Expr, f: Expr) -> tuple[Binary, Binary] | None:
    """The smallest two operations in which ``e`` and ``f`` differ, in one operand alone."""
    mine, theirs = children(e), children(f)
    pairs = [(a, b) for a, b in zip(mine, theirs) if a != b]
    if type(e) is type(f) and len(mine) == len(theirs) and len(pairs) == 1:
        a, b = pairs[0]
        found = _differing(a, b)
        if found is not None:
            return found
        if isinstance(e, Binary) and isinstance(f, Binary) and replace(f, a=e.a) == e:
            return e, f
    return None


class _Plain:
    """Expressions without names for what is defined once, and without conversions that keep all values."""

    def __init__(self, kernel: Kernel, changed: Sym, context: smt.Context) -> None:
        self.context = context
        known = definitions(kernel.body)
        self.given = {
            s: e for s, e in known.items() if s != changed and _whole(s.type) and _whole(e.type) and context.lasting(e)
        }
        self._kept: dict[Expr, bool] = {}

    def of(self, e: Expr) -> Expr:
        return map_expr(e, self._simple)

    def _simple(self, e: Expr) -> Expr:
        if isinstance(e, Var) and e.sym in self.given:
            return self.of(self.given[e.sym])
        if isinstance(e, Cast) and _whole(e.to) and _whole(e.x.type) and self.context.lasting(e.x) and self._keeps(e):
            return e.x
        return e

    def _keeps(self, e: Cast) -> bool:
        if e not in self._kept:
            exact = all(self.context.fits(x, x.type) for x in walk_expr(e.x) if isinstance(x, Binary))
            self._kept[e] = exact and self.context.fits(e.x, e.to)
        return self._kept[e]


class _Banded:
    """Expressions in which a block is known by its band, its column in it and its row alone."""

    def __init__(self, length: Expr, rows: Expr) -> None:
        self.length = length
        self.rows = map_expr(rows, self._band)

    def _band(self, e: Expr) -> Expr:
        return BAND if isinstance(e, Binary) and (e.op, e.a, e.b) == ("/", BLOCK, self.length) else e

    def of(self, e: Expr, turned: Expr | None) -> Expr:
        """``e`` where ``turned % rows``, if there is one, is the row."""

        def on(x: Expr) -> Expr:
            if isinstance(x, Binary) and x.b == self.rows:
                if x.op == "/" and _in_band(x.a, self.length):
                    return COLUMN
                if x.op == "%" and x.a == turned:
                    return ROW
            return self._band(x)

        return map_expr(e, on)


def _in_band(e: Expr, length: Expr) -> bool:
    return isinstance(e, Binary) and (e.op, e.a, e.b) == ("%", BLOCK, length)


def _whole_columns(kernel: Kernel, banded: _Banded) -> bool:
    """Whether every band has as many blocks as some number of columns, and none of its numbers overflows."""
    assert kernel.launch is not None
    context = smt.Context(kernel)
    blocks, length = context.of(kernel.launch.grid[0]), context.of(banded.length)
    parts = (kernel.launch.grid[0], banded.length)
    if not all(context.fits(x, x.type) for e in parts for x in walk_expr(e) if isinstance(x, Binary)):
        return False
    band, rows = context.of(BAND), context.of(banded.rows)
    context.facts += [band >= 0, length > 0, band * length < blocks]
    some = smt.Context(kernel)
    if not some.proves(some.of(banded.length) > 0) or not context.proves(rows > 0):
        return False
    return any(context.proves(_least(length, blocks - band * length) == m * rows) for m in _factors(context, banded))


def _least(a: Any, b: Any) -> Any:
    import z3

    return z3.If(a < b, a, b)


def _factors(context: smt.Context, banded: _Banded) -> Iterator[Any]:
    """Numbers of columns that a band may have."""
    e = banded.length
    while isinstance(e, Cast):
        e = e.x
    yield from (context.of(x) for x in children(e)) if isinstance(e, Binary) and e.op == "*" else ()


def _whole(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_int


__all__ = ["permuted"]
