"""How many elements buffers have, as a workload promises it: code that is run where it was not before may read these.

Only of buffers that the kernel does not write, under whatever name: of others the order of reads and writes matters.
"""

from __future__ import annotations

import functools

from ktc.ir import fold
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Load, Stmt, Sym, Var
from ktc.ir.types import I64, Ptr, Scalar
from ktc.ir.walk import assigned, stmt_exprs, walk_expr
from ktc.ir.workload import Workload, size_expressions
from ktc.search.verification.integers import smt

from .subscripts import within


def extents(kernel: Kernel, workload: Workload) -> dict[Sym, Expr]:
    """The number of elements of each buffer that ``kernel`` only reads, over its parameters, where that can be told."""
    params = {p.sym.name: p for p in kernel.params}
    sizes = {
        a.value: fold.cast(Var(params[a.name].sym), I64)
        for a in workload.args
        if a.role == "scalar" and isinstance(a.value, str) and a.value.isidentifier() and a.name in params
    }
    written = assigned(kernel.body)
    several = [p for p in kernel.params if p.sym in written and isinstance(p.sym.type, Ptr) and not p.noalias]
    found = {}
    for a in workload.args:
        p = params.get(a.name)
        if p is None or not a.shape or not isinstance(p.sym.type, Ptr) or not isinstance(p.sym.type.elem, Scalar):
            continue
        known = all(size_expressions.names(text) <= sizes.keys() for text in a.shape)
        if known and p.sym not in written and (p.noalias or not several):
            found[p.sym] = functools.reduce(fold.mul, (size_expressions.to_ir(text, sizes) for text in a.shape))
    return found


def readable(s: Stmt, context: smt.Context) -> bool:
    """Whether every buffer element that ``s`` itself reads exists wherever the facts hold, and nobody writes it."""
    return all(exists(e, context) for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load))


def exists(e: Load, context: smt.Context) -> bool:
    """Whether what ``e`` reads is the kernel's own memory, or elements of a buffer that are there."""
    if not isinstance(e.buffer.type, Ptr):
        return True
    return e.buffer in context.extents and within(e, (context.extents[e.buffer],), context)


__all__ = ["exists", "extents", "readable"]
