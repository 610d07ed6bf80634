"""What keeps statements in their order besides data: meeting points, opaque code and jumps."""

from __future__ import annotations

from typing import TypeGuard

from ktc.ir.diagnostics import Loc
from ktc.ir.nodes import (
    AsyncCommit,
    AsyncWait,
    Barrier,
    Body,
    Break,
    Continue,
    Decl,
    Fence,
    GridDependency,
    If,
    InlineAsm,
    RawStmt,
    Return,
    Stmt,
    TileMmaWait,
)  # fmt: skip
from ktc.ir.purity import is_removable, is_volatile
from ktc.ir.walk import assigned, loads_in, stmt_exprs, used, walk

PINNED = (AsyncCommit, AsyncWait, Barrier, Fence, GridDependency, InlineAsm, RawStmt, TileMmaWait)
JUMPS = (Break, Continue, Return)


def pinned(body: Body) -> Stmt | None:
    """The first statement of ``body`` that must stay where it is in the order of execution, None if all may move.

    Barriers and fences order other threads' accesses, warp operations are meeting points, opaque code may be either,
    and a volatile access counts as seen from outside.
    """
    return next((s for s in walk(body) if _stays(s)), None)


def is_exit(s: Stmt) -> TypeGuard[If]:
    """Whether ``s`` is ``if (condition) return;``."""
    return isinstance(s, If) and not s.orelse and len(s.then) == 1 and isinstance(s.then[0], Return)


def jump(body: Body) -> Stmt | None:
    """The first ``break``, ``continue`` or ``return`` of ``body``, None if control only falls through."""
    return next((s for s in walk(body) if isinstance(s, JUMPS)), None)


def is_name(s: Stmt, body: Body) -> bool:
    """Whether ``s``, in front of ``body``, names a value that ``body`` may as well compute wherever it wants."""
    if not isinstance(s, Decl) or s.init is None or not is_removable(s.init) or any(loads_in(s.init)):
        return False
    return not (used(s.init) | {s.sym}) & assigned(body)


def places(*stmts: Stmt | None) -> tuple[Loc, ...]:
    """The source places of statements that have one."""
    return tuple(s.loc for s in stmts if s is not None and s.loc is not None)


def _stays(s: Stmt) -> bool:
    return isinstance(s, PINNED) or is_volatile(s) or not all(is_removable(e) for e in stmt_exprs(s))
