"""Values of one thread that live from one thread loop to the next.

Splitting a thread's program at its barriers leaves every thread with values that were made before a barrier and are
used after it. An index computed from constants and the thread's number is computed again; any other value becomes a row
array of the block, element t for thread t (lowering keeps such rows in the registers they came from).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Body,
    Call,
    Decl,
    Expr,
    For,
    InlineAsm,
    Load,
    Raw,
    RawStmt,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array, Vec
from ktc.ir.walk import assigned, declared, map_body, used, used_in, walk, walk_expr


def recomputable(body: Body, varying: Iterable[Sym]) -> dict[Sym, Decl]:
    """Thread-dependent constants made of indices, parameters and other such constants alone, in source order."""
    changed = assigned(body)
    loop_vars = {s.var for s in walk(body) if isinstance(s, For)}
    mine = set(varying)
    out: dict[Sym, Decl] = {}
    for s in walk(body):
        if not isinstance(s, Decl) or s.init is None or s.sym in changed or s.sym not in mine:
            continue
        if any(isinstance(x, Load | WarpOp | Raw) or _effect(x) for x in walk_expr(s.init)):
            continue
        needs = used(s.init)
        if all((n not in mine and n not in changed) or n in out or (n in loop_vars and n not in mine) for n in needs):
            out[s.sym] = s
    return out


def _effect(e: Expr) -> bool:
    return isinstance(e, Call) and e.effects != "pure"


def prologue(body: Body, again: dict[Sym, Decl]) -> Body:
    """Declarations of ``again`` that ``body`` uses but does not make itself, in their source order."""
    have = set(declared(body))
    need: set[Sym] = set()
    todo = [s for s in used_in(body) if s in again and s not in have]
    while todo:
        s = todo.pop()
        if s in need:
            continue
        need.add(s)
        init = again[s].init
        assert init is not None
        todo += [n for n in used(init) if n in again and n not in have]
    return tuple(again[s] for s in again if s in need)


def touched(body: Body, accs: Iterable[Expr] = ()) -> set[Sym]:
    out = used_in(body) | assigned(body) | set(declared(body))
    for e in accs:
        out |= used(e)
    return out


def row_type(sym: Sym, shape: tuple[Expr, ...]) -> Array:
    t = sym.type
    if isinstance(t, Array):
        return Array(t.elem, (*shape, *t.shape), "local")
    return Array(t, shape, "local")


class Rows:
    """Private symbols kept in row arrays, and the rewriting of their uses."""

    def __init__(self, index: tuple[Expr, ...], rows: dict[Sym, Sym]) -> None:
        self.index, self.rows = index, rows

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var) and e.sym in self.rows and not isinstance(e.sym.type, Array):
            return Load(self.rows[e.sym], self.index)
        if isinstance(e, Load) and e.buffer in self.rows:
            return dataclasses.replace(e, buffer=self.rows[e.buffer], index=(*self.index, *e.index))
        return e

    def stmt(self, s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Decl) and s.sym in self.rows:
            if s.init is None:
                return None
            return Store(self.rows[s.sym], self.index, s.init, loc=s.loc, comments=s.comments)
        if isinstance(s, Alloc) and s.sym in self.rows:
            return None
        if isinstance(s, Assign) and s.sym in self.rows:
            return Store(self.rows[s.sym], self.index, s.value, loc=s.loc, comments=s.comments)
        if isinstance(s, Store | Atomic) and s.buffer in self.rows:
            s = dataclasses.replace(s, buffer=self.rows[s.buffer], index=(*self.index, *s.index))
        if isinstance(s, Atomic) and s.dst in self.rows:
            old = fresh(s.dst.name, s.dst.type)
            keep = Store(self.rows[s.dst], self.index, Var(old))
            return (Decl(old), dataclasses.replace(s, dst=old), keep)
        return s

    def apply(self, body: Body) -> Body:
        return map_body(body, self.stmt, self.expr)


def expandable(sym: Sym, body: Body) -> bool:
    """Whether ``sym`` may become a row array: nothing touches it in a way that rewriting would miss."""
    for s in walk(body):
        if isinstance(s, InlineAsm) and any(o == sym for _, o in s.outputs):
            return False
        if isinstance(s, RawStmt) and sym in (*s.reads, *s.writes):
            return False
        if isinstance(s, For) and s.var == sym:
            return False
    return not isinstance(sym.type, Vec)
