"""What the copies of a thread or block have in common: symbols that differ between them, and control that does not."""

from __future__ import annotations

from collections.abc import Collection

from ktc.ir.nodes import (
    Atomic,
    Body,
    Call,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Sym,
    Var,
    WarpOp,
    While,
    bodies,
)  # fmt: skip
from ktc.ir.storage import is_private, is_shared
from ktc.ir.walk import assigned, stmt_exprs, walk_expr


def is_uniform(s: If | For | While, varying: Collection[Sym | HwIndex]) -> bool:
    """Whether the statement's own expressions (condition, bounds) are the same for all copies."""
    return not any(depends(e, varying) for e in stmt_exprs(s))


def varying_symbols(body: Body, index: HwIndex) -> frozenset[Sym | HwIndex]:
    """The index, and the symbols whose value may differ between copies.

    Copies of a thread share its block's memory; copies of a block each have their own.
    """
    out: set[Sym | HwIndex] = {index}

    def own(sym: Sym) -> bool:
        return is_private(sym) or (index.level == "block" and is_shared(sym))

    def visit(b: Body, divergent: bool) -> None:
        for s in b:
            varies = divergent or any(depends(e, out) for e in stmt_exprs(s))
            if isinstance(s, Atomic) and s.dst is not None:
                out.add(s.dst)
            if varies and isinstance(s, For):
                out.add(s.var)
            elif varies and isinstance(s, Decl) and s.init is not None:
                out.add(s.sym)
            elif varies and not isinstance(s, For | If | While):
                out.update(sym for sym in assigned((s,)) if own(sym))
            for inner in bodies(s):
                visit(inner, varies)

    before = -1
    while len(out) != before:
        before = len(out)
        visit(body, False)
    return frozenset(out)


def depends(e: Expr, varying: Collection[Sym | HwIndex]) -> bool:
    """Whether the value of ``e`` may differ between copies that agree on all but ``varying``."""
    for x in walk_expr(e):
        if isinstance(x, WarpOp) or (isinstance(x, Call) and x.effects not in ("pure", "read")):
            return True
        if isinstance(x, HwIndex) and x in varying:
            return True
        if isinstance(x, Var) and x.sym in varying:
            return True
        if getattr(x, "buffer", None) in varying and hasattr(x, "buffer"):
            return True
    return False
