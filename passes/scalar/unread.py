"""Scalars that nothing reads."""

from __future__ import annotations

from ktc.ir.nodes import Assign, Atomic, Body, Decl, InlineAsm, RawStmt, Stmt, Sym
from ktc.ir.purity import is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import map_body, stmt_exprs, used, walk


def without_unread(body: Body) -> Body:
    """``body`` without the scalars that no expression reads, and without the values that they were given, if these are
    free of effects; until nothing changes."""
    while (kept := _once(body)) != body:
        body = kept
    return body


def _once(body: Body) -> Body:
    kept: set[Sym] = set()
    for s in walk(body):
        kept |= _named(s)
        for e in stmt_exprs(s):
            kept |= used(e)
        value = s.value if isinstance(s, Assign) else s.init if isinstance(s, Decl) else None
        if isinstance(s, Assign | Decl) and value is not None and not is_removable(value):
            kept.add(s.sym)

    def on(s: Stmt) -> Stmt | None:
        gone = isinstance(s, Assign | Decl) and s.sym not in kept
        return None if gone and isinstance(s.sym.type, Scalar) else s  # type: ignore[attr-defined]

    return map_body(body, on)


def _named(s: Stmt) -> set[Sym]:
    """Symbols that ``s`` names outside its expressions, so that their declarations stay."""
    match s:
        case Atomic():
            return {s.dst} if s.dst is not None else set()
        case RawStmt():
            return {*s.reads, *s.writes}
        case InlineAsm():
            return {sym for _, sym in s.outputs}
    return set()


__all__ = ["without_unread"]
