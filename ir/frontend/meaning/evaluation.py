"""Values of constant expressions that call functions with loops: their statements are run on numbers."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.nodes import Assign, Break, Const, Continue, Decl, Expr, For, If, Stmt, Sym, While
from ktc.ir.types import Scalar
from ktc.ir.walk import substitute_expr

from .constants import const_as, folded_float, folded_integer

MAX_STEPS = 20_000
"""Statements that are run for one constant expression."""


class _Unknown(Exception):
    """The value is not known while reading the source."""


def evaluated(stmts: list[Stmt], value: Expr, known: Mapping[Sym, Expr]) -> Const | None:
    """``value`` after ``stmts``, where ``known`` are the values of constant variables; None if that is not known."""
    run = _Run(dict(known))
    try:
        run.body(stmts)
        return run.value(value)
    except _Unknown:
        return None


def values_after(stmts: list[Stmt], known: Mapping[Sym, Expr]) -> dict[Sym, Expr] | None:
    """The variables that have a known value after ``stmts``; None where that cannot be told."""
    run = _Run(dict(known))
    try:
        run.body(stmts)
    except _Unknown:
        return None
    return run.known


class _Run:
    """Variables by symbol, and how many statements may still be run."""

    def __init__(self, known: dict[Sym, Expr]) -> None:
        self.known = known
        self.left = MAX_STEPS

    def value(self, e: Expr) -> Const:
        e = substitute_expr(e, self.known)
        c = folded_integer(e) or folded_float(e)
        if c is None:
            raise _Unknown
        return c

    def set(self, sym: Sym, e: Expr) -> None:
        c = self.value(e)
        c = c if c.ty == sym.type else const_as(c, sym.type) if isinstance(sym.type, Scalar) else None  # type: ignore[assignment]
        if c is None:
            raise _Unknown
        self.known[sym] = c

    def body(self, stmts: list[Stmt] | tuple[Stmt, ...]) -> type[Stmt] | None:
        """Run them; ``Break`` or ``Continue`` where one was met."""
        for s in stmts:
            self.left -= 1
            if self.left < 0:
                raise _Unknown
            if isinstance(s, Decl):
                if s.init is not None:
                    self.set(s.sym, s.init)
            elif isinstance(s, Assign):
                self.set(s.sym, s.value)
            elif isinstance(s, If):
                if (left := self.body(s.then if self.value(s.cond).value else s.orelse)) is not None:
                    return left
            elif isinstance(s, For | While):
                self.loop(s)
            elif isinstance(s, Break | Continue):
                return type(s)
            else:
                raise _Unknown
        return None

    def loop(self, s: For | While) -> None:
        if isinstance(s, For):
            self.set(s.var, s.init)
        first = isinstance(s, While) and s.post
        while first or self.value(s.cond).value:
            first = False
            if self.body(s.body) is Break:
                return
            self.left -= 1
            if self.left < 0:
                raise _Unknown
            if isinstance(s, For):
                self.set(s.var, s.step)
