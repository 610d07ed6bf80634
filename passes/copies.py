"""What the copies of a thread or block have in common: symbols that differ between them, and control that does not."""

from __future__ import annotations

from collections.abc import Collection

from ktc.ir.nodes import (
    Assign,
    Atomic,
    Body,
    Call,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Store,
    Sym,
    Var,
    WarpOp,
    While,
    bodies,
)  # fmt: skip
from ktc.ir.storage import is_private
from ktc.ir.walk import stmt_exprs, walk_expr


def is_uniform(s: If | For | While, varying: Collection[Sym | HwIndex]) -> bool:
    """Whether the statement's own expressions (condition, bounds) are the same for all copies."""
    return not any(depends(e, varying) for e in stmt_exprs(s))


def varying_symbols(body: Body, index: HwIndex) -> frozenset[Sym | HwIndex]:
    """The index, and the symbols whose value may differ between copies."""
    out: set[Sym | HwIndex] = {index}

    def varies(e: Expr) -> bool:
        return depends(e, out)

    def visit(b: Body, divergent: bool) -> None:
        for s in b:
            inside = divergent or (isinstance(s, If | For | While) and any(varies(e) for e in stmt_exprs(s)))
            match s:
                case Decl(sym=sym, init=init) if init is not None and (divergent or varies(init)):
                    out.add(sym)
                case Assign(sym=sym, value=value) if divergent or varies(value):
                    out.add(sym)
                case Store(buffer=b_, index=at, value=value) if is_private(b_):
                    if divergent or any(map(varies, (*at, value))):
                        out.add(b_)
                case Atomic(dst=dst) if dst is not None:
                    out.add(dst)
                case For(var=var) if inside:
                    out.add(var)
            for inner in bodies(s):
                visit(inner, inside)

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
