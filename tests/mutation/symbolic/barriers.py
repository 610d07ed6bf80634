"""Barriers that keep nothing apart: what runs between the barrier before and the one after has no conflict.

Everything between two barriers of one body counts as running at once. The body's own barriers bound that, and the
kernel's start and end: what stands before the first barrier of a loop's body or behind its last one may meet anything,
and then there is no proof.
"""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Barrier, Body, Load, Stmt, Store, Sym
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import assigned, stmt_exprs, walk, walk_expr

PLAIN = frozenset({"Decl", "Alloc", "Assign", "Store", "If", "For", "Eval", "While", "Break", "Continue"})


def needless(body: Body, k: int, kernel: Kernel) -> bool:
    """Whether the block barrier ``body[k]`` orders no two conflicting accesses that another barrier does not order."""
    last = next((i for i in range(k - 1, -1, -1) if of_block(body[i])), None)
    following = next((i for i in range(k + 1, len(body)) if of_block(body[i])), None)
    if (last is None or following is None) and body is not kernel.body:
        return False
    before, after = body[0 if last is None else last + 1 : k], body[k + 1 : following]
    if any(type(s).__name__ not in PLAIN for s in walk((*before, *after))):
        return False
    mine, theirs = _touched(before, kernel), _touched(after, kernel)
    return not any(sym in theirs and (wrote or theirs[sym]) for sym, wrote in mine.items())


def of_block(s: Stmt) -> bool:
    """Whether ``s`` orders all that a block does before it and after it."""
    return isinstance(s, Barrier) and s.scope == "block" and s.memory == "all" and s.flags is None and s.mask is None


def _touched(body: Body, kernel: Kernel) -> dict[Sym, bool]:
    """Memory that threads share and ``body`` touches, and whether it writes there."""
    written = assigned(kernel.body)
    found: dict[Sym, bool] = {}
    for s in walk(body):
        reads = [e.buffer for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load)]
        writes = [s.buffer] if isinstance(s, Store | Atomic) else []
        for sym in (*reads, *writes):
            shared = isinstance(sym.type, Array) and sym.type.space == "shared"
            if shared or (isinstance(sym.type, Ptr) and sym in written):
                found[sym] = found.get(sym, False) or sym in writes
    return found
