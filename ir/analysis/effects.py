"""What a statement does to memory that other threads can see."""

from __future__ import annotations

from ktc.ir.nodes import Assign, AsyncCopy, Atomic, Body, Decl, For, If, Load, Stmt, Store, Sym
from ktc.ir.storage import is_private, is_shared
from ktc.ir.walk import all_exprs, assigned, declared, stmt_exprs, walk, walk_expr


def has_effect(s: Stmt) -> bool:
    """Whether ``s`` writes memory that others can see."""
    return writes_shared(s) or any(is_global_effect(x) for x in walk((s,)))


def writes_shared(s: Stmt) -> bool:
    """Whether ``s`` writes memory that the threads of a block share."""
    return any(is_shared(b) for x in walk((s,)) if (b := written(x)) is not None)


def updates_in_place(body: Body) -> bool:
    """Whether ``body`` does no more than to write memory that others can see, some of which it reads: what only one
    thread is to write, no other may read meanwhile."""
    if any(not isinstance(x, Assign | Decl | For | If | Store) for x in walk(body)):
        return False
    written = {x.buffer for x in walk(body) if isinstance(x, Store) and not is_private(x.buffer)}
    read = {e.buffer for e in all_exprs(body) if isinstance(e, Load)}
    return bool(written & read) and assigned(body) <= written | set(declared(body)) | {
        x.var for x in walk(body) if isinstance(x, For)
    }


def is_global_effect(x: Stmt) -> bool:
    """Whether ``x`` itself does what all blocks can see."""
    b = written(x)
    if b is not None and not is_private(b) and not is_shared(b):
        return True
    return any(getattr(e, "effects", "pure") not in ("pure", "read") for ex in stmt_exprs(x) for e in walk_expr(ex))


def written(x: Stmt) -> Sym | None:
    """What ``x`` itself writes, if it is memory."""
    return x.dst if isinstance(x, AsyncCopy) else x.buffer if isinstance(x, Store | Atomic) else None
