"""Ranges of a kernel's integer expressions, from what its variables begin as and its parameters promise."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Decl, Expr, For, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, walk

from .numba_types import Spans


def spans_of(kernel: Kernel) -> Spans:
    """The ranges that hold anywhere in ``kernel``; signed overflow is undefined in the source language."""
    return Spans(_single_assignments(kernel), _facts(kernel))


def _facts(kernel: Kernel) -> dict[int, tuple[int, int]]:
    """Ranges of scalar parameters: known facts, else sizes are taken to be at least as their type allows."""
    out = {}
    for p in kernel.params:
        low, high = p.range
        if low is not None or high is not None:
            out[p.sym.id] = (-(2**31) if low is None else low, 2**31 - 1 if high is None else high)
    plain = Spans({})
    for s in walk(kernel.body):
        if isinstance(s, For) and s.var not in assigned(s.body) and plain.of(s.init)[0] >= 0 and _grows(s, plain):
            out[s.var.id] = (0, 2**31 - 1)  # from a non-negative start to non-negative values; overflow is undefined
    return out


def _grows(s: For, plain: Spans) -> bool:
    """Whether the step keeps a non-negative counter non-negative."""
    e = s.step
    return isinstance(e, Binary) and e.op in ("+", "*", "/", ">>") and e.a == Var(s.var) and plain.of(e.b)[0] >= 0


def _single_assignments(kernel: Kernel) -> dict[int, Expr]:
    """Initial values of the variables that never change."""
    changed = assigned(kernel.body)
    return {
        s.sym.id: s.init
        for s in walk(kernel.body)
        if isinstance(s, Decl) and s.init is not None and s.sym not in changed and isinstance(s.sym.type, Scalar)
    }
