"""What a statement does to memory that other threads can see."""

from __future__ import annotations

from ktc.ir.nodes import AsyncCopy, Atomic, Stmt, Store, Sym
from ktc.ir.storage import is_private, is_shared
from ktc.ir.walk import stmt_exprs, walk, walk_expr


def has_effect(s: Stmt) -> bool:
    """Whether ``s`` writes memory that others can see."""
    return writes_shared(s) or any(is_global_effect(x) for x in walk((s,)))


def writes_shared(s: Stmt) -> bool:
    """Whether ``s`` writes memory that the threads of a block share."""
    return any(is_shared(b) for x in walk((s,)) if (b := _written(x)) is not None)


def is_global_effect(x: Stmt) -> bool:
    """Whether ``x`` itself does what all blocks can see."""
    b = _written(x)
    if b is not None and not is_private(b) and not is_shared(b):
        return True
    return any(getattr(e, "effects", "pure") not in ("pure", "read") for ex in stmt_exprs(x) for e in walk_expr(ex))


def _written(x: Stmt) -> Sym | None:
    return x.dst if isinstance(x, AsyncCopy) else x.buffer if isinstance(x, Store | Atomic) else None
