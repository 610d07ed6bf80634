"""Uses of a pointer that may be ``nullptr``: where one is, the thread stops, unless something rules it out.

``which`` says into which of several buffers a pointer points; -1 is ``nullptr``. A statement in front of a use stops
the thread there::

    if (p_in == -1) null_access()

It is not needed where ``p`` was asked about, or is made of a condition that was: ``if (p) p[i] = 1``. Conditions that
hold somewhere are kept as literals: (condition, whether it holds).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ktc.ir.analysis.defs import definitions
from ktc.ir.diagnostics import Loc
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Break,
    Call,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    For,
    If,
    Load,
    Raw,
    Return,
    Select,
    Stmt,
    Sym,
    Unary,
    Var,
    WarpOp,
    While,
    i32,
)
from ktc.ir.types import I32, VOID
from ktc.ir.walk import assigned, declared, used, walk_expr

NULL_ACCESS = Eval(Call("null_access", (), VOID, "write"))
Literals = frozenset[tuple[Expr, bool]]
Definitions = Mapping[Sym, Expr]


def absent(which: Expr) -> Expr:
    """Whether a pointer is ``nullptr``."""
    return Binary("==", which, i32(-1))


def null_use(which: Expr, loc: Loc | None) -> If:
    """What a use of a pointer needs in front of it."""
    return If(absent(which), (replace(NULL_ACCESS, loc=loc),), loc=loc)


def literals(cond: Expr, holds: bool) -> Literals:
    """What is known where ``cond`` holds, or does not."""
    if isinstance(cond, Unary) and cond.op == "!":
        return literals(cond.x, not holds)
    if isinstance(cond, Binary) and cond.op == "!=":
        return literals(replace(cond, op="=="), not holds)
    if isinstance(cond, Binary) and cond.op == ("&&" if holds else "||"):
        return literals(cond.a, holds) | literals(cond.b, holds)
    return frozenset({(cond, holds)}) if _lasts(cond) else frozenset()


def points(which: Expr, known: Literals, defs: Definitions) -> bool:
    """Whether ``known`` rules out that ``which`` is -1."""
    if isinstance(which, Const):
        return which.value != -1
    if (absent(which), False) in known:
        return True
    if any(t and isinstance(e, Binary) and e.op == "==" and e.a == which and isinstance(e.b, Const)
           and e.b.value != -1 for e, t in known):  # fmt: skip
        return True
    if isinstance(which, Select):
        truth = _truth(which.cond, known, defs)
        arms = ((which.a, True), (which.b, False))
        return all(points(arm, known | literals(which.cond, t), defs) for arm, t in arms if truth in (None, t))
    return isinstance(which, Var) and which.sym in defs and points(defs[which.sym], known, defs)


def without(known: Literals, changed: Iterable[Sym]) -> Literals:
    """What stays known when ``changed`` get other values."""
    gone = set(changed)
    return frozenset(x for x in known if not used(x[0]) & gone)


def needed_only(body: Body) -> Body:
    """``body`` without the tests for ``nullptr`` that what was asked before answers."""
    return _Walk(definitions(body)).block(body, frozenset())[0]


def _lasts(e: Expr) -> bool:
    """Whether only an assignment to what ``e`` mentions can change its value."""
    return not any(isinstance(x, Load | WarpOp | Raw) or (isinstance(x, Call) and x.effects != "pure")
                   for x in walk_expr(e))  # fmt: skip


def _truth(e: Expr, known: Literals, defs: Definitions) -> bool | None:
    """Whether ``e`` holds, where that is known."""
    if isinstance(e, Const):
        return bool(e.value)
    for holds in (True, False):
        parts = literals(e, holds)
        if parts and parts <= known:
            return holds
    if isinstance(e, Var) and e.sym in defs:
        return _truth(defs[e.sym], known, defs)
    return None


class _Walk:
    """Follows control flow with what is known; None behind a jump."""

    def __init__(self, defs: Definitions) -> None:
        self.defs = defs

    def block(self, body: Body, known: Literals) -> tuple[Body, Literals | None]:
        out: list[Stmt] = []
        for k, s in enumerate(body):
            if isinstance(s, Return | Break | Continue):
                return (*out, *body[k:]), None
            if isinstance(s, If) and _is_null_use(s):
                if points(s.cond.a, known, self.defs):  # type: ignore[attr-defined]
                    continue
                out.append(s)
                known |= literals(s.cond, False)
                continue
            new, after = self._statement(s, known)
            out.append(new)
            if after is None:
                return (*out, *body[k + 1 :]), None
            known = after
        return tuple(out), known

    def _statement(self, s: Stmt, known: Literals) -> tuple[Stmt, Literals | None]:
        if isinstance(s, If):
            then, a = self.block(s.then, known | literals(s.cond, True))
            orelse, b = self.block(s.orelse, known | literals(s.cond, False))
            return replace(s, then=then, orelse=orelse), b if a is None else a if b is None else a & b
        left = without(known, _changed(s))
        given = s.value if isinstance(s, Assign) else s.init if isinstance(s, Decl) else None
        if given is not None and given.type == I32 and points(given, known, self.defs):
            return s, left | literals(absent(Var(s.sym)), False)  # type: ignore[attr-defined]
        if isinstance(s, For | While):
            asked = not (isinstance(s, While) and s.post)
            body, _ = self.block(s.body, left | literals(s.cond, True) if asked else left)
            return replace(s, body=body), left
        return s, left


def _is_null_use(s: If) -> bool:
    return s.then == (NULL_ACCESS,) and not s.orelse and isinstance(s.cond, Binary) and s.cond.b == i32(-1)


def _changed(s: Stmt) -> set[Sym]:
    return assigned((s,)) | set(declared((s,)))
