"""Accesses to buffers, each with the comparisons that hold where it happens.

``if (i >= n) return; for (j = 0; j < m; ++j) y[i * m + j] = 0;`` gives ``y[i * m + j]`` where ``i - n < 0`` and
``j - m < 0``. A comparison counts if nothing that it names changes: parameters that are never assigned, variables that
are only initialised, counters of loops that leave them alone, thread and block indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ktc.ir.arith.polynomial import Polynomial, constant, minus, polynomial
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    NEGATED,
    Atomic,
    Binary,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    While,
)  # fmt: skip
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, stmt_exprs, walk, walk_expr

Facts = tuple[Polynomial, ...]
"""Sums that are below zero."""


@dataclass(frozen=True)
class GuardedAccess:
    """One textual access to ``width`` elements, and what holds there."""

    buffer: Sym
    index: tuple[Expr, ...]
    width: int | Expr
    facts: Facts


@dataclass
class FixedNames:
    """The scalars of a kernel that have one value wherever they can be named: its ``params``, variables with what they
    are initialised with (``defs``), and the ``loops`` whose counters only their steps change."""

    kernel: Kernel
    params: set[Sym] = field(init=False)
    defs: dict[Sym, Expr] = field(default_factory=dict)
    loops: dict[Sym, For] = field(default_factory=dict)

    def __post_init__(self) -> None:
        changed = assigned(self.kernel.body)
        self.params = {p.sym for p in self.kernel.params if isinstance(p.sym.type, Scalar)} - changed
        for s in walk(self.kernel.body):
            if isinstance(s, Decl) and s.init is not None and s.sym not in changed and self.is_fixed(s.init):
                self.defs[s.sym] = s.init
            elif isinstance(s, For) and s.var not in assigned(s.body) and self.is_fixed(s.init):
                self.loops[s.var] = s

    def __contains__(self, s: Sym) -> bool:
        return s in self.params or s in self.defs or s in self.loops

    def is_fixed(self, e: Expr) -> bool:
        """Whether ``e`` names nothing that changes, and reads no memory."""
        parts = list(walk_expr(e))
        return all(x.sym in self for x in parts if isinstance(x, Var)) and not any(isinstance(x, Load) for x in parts)

    def learnt(self, cond: Expr, holds: bool) -> Facts:
        """What follows if ``cond`` holds, or does not."""
        if isinstance(cond, Unary) and cond.op == "!":
            return self.learnt(cond.x, not holds)
        if not isinstance(cond, Binary):
            return ()
        if cond.op == ("&&" if holds else "||"):
            return (*self.learnt(cond.a, holds), *self.learnt(cond.b, holds))
        op = cond.op if holds else NEGATED.get(cond.op, "")
        if not isinstance(cond.a.type, Scalar) or not cond.a.type.is_int or not self.is_fixed(cond):
            return ()
        a, b = polynomial(cond.a), polynomial(cond.b)
        if op in (">", ">="):
            a, b = b, a
        if not cond.a.type.is_signed and not self._counts(b):
            return ()  # a number below zero would be a large one there
        one = constant(1)
        match op:
            case "<" | ">":
                return (minus(a, b),)
            case "<=" | ">=":
                return (minus(minus(a, b), one),)
            case "==":
                return (minus(minus(a, b), one), minus(minus(b, a), one)) if cond.a.type.is_signed else ()
        return ()

    def _counts(self, p: Polynomial) -> bool:
        """Whether ``p`` is a sum of parameters, which are counts, and of no difference."""
        return all(k >= 0 and all(isinstance(f, Var) and f.sym in self.params for f in fs) for fs, k in p.items())


def guarded_accesses(names: FixedNames) -> Iterator[GuardedAccess]:
    """Every access to memory in the body of a kernel in SPMD form, in the order of its text."""
    yield from _in_body(names.kernel.body, (), names)


def _in_body(body: Body, facts: Facts, names: FixedNames) -> Iterator[GuardedAccess]:
    for s in body:
        if isinstance(s, If):
            yield from _in_expr(s.cond, facts, names)
            yield from _in_body(s.then, (*facts, *names.learnt(s.cond, True)), names)
            yield from _in_body(s.orelse, (*facts, *names.learnt(s.cond, False)), names)
            if not s.orelse and s.then and isinstance(s.then[-1], Return | Break | Continue):
                facts = (*facts, *names.learnt(s.cond, False))
        elif isinstance(s, For):
            yield from _in_expr(s.init, facts, names)
            yield from _in_expr(s.cond, facts, names)
            inside = (*facts, *names.learnt(s.cond, True))
            yield from _in_body(s.body, inside, names)
            yield from _in_expr(s.step, inside, names)
        elif isinstance(s, While):
            yield from _in_expr(s.cond, facts, names)
            yield from _in_body(s.body, facts if s.post else (*facts, *names.learnt(s.cond, True)), names)
        else:
            yield from _in_statement(s, facts, names)


def _in_statement(s: Stmt, facts: Facts, names: FixedNames) -> Iterator[GuardedAccess]:
    for e in stmt_exprs(s):
        yield from _in_expr(e, facts, names)
    if isinstance(s, Store):
        yield GuardedAccess(s.buffer, s.index, s.width, facts)
    elif isinstance(s, Atomic):
        yield GuardedAccess(s.buffer, s.index, 1, facts)


def _in_expr(e: Expr, facts: Facts, names: FixedNames) -> Iterator[GuardedAccess]:
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        yield from _in_expr(e.a, facts, names)
        yield from _in_expr(e.b, (*facts, *names.learnt(e.a, e.op == "&&")), names)
    elif isinstance(e, Select):
        yield from _in_expr(e.cond, facts, names)
        for arm, holds in ((e.a, True), (e.b, False)):
            yield from _in_expr(arm, (*facts, *names.learnt(e.cond, holds)), names)
    else:
        if isinstance(e, Load):
            yield GuardedAccess(e.buffer, e.index, e.width, facts)
        for x in children(e):
            yield from _in_expr(x, facts, names)


__all__ = ["Facts", "FixedNames", "GuardedAccess", "guarded_accesses"]
