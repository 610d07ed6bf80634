"""Where it matters which of two floats is larger, how many a thread compares, and how much it does in all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from ktc.ir.analysis.access_nests import visits
from ktc.ir.analysis.operation_counts import Counts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Const, Expr, HwIndex, Reduce, Stmt
from ktc.ir.types import Scalar
from ktc.ir.walk import keep, map_body, stmt_exprs, walk, walk_expr

COMPARISONS = ("<", "<=", ">", ">=")

IN_TURN = ("for", "while", "reduce", "scan")
"""Loops in which a thread compares one element after the other."""


def decides(kernel: Kernel) -> bool:
    """Whether results hang on which float is larger: a maximum, or a comparison."""
    return any(map(_decides, walk(kernel.body)))


def compared(kernel: Kernel, arguments: Mapping[str, int]) -> int:
    """How often the first thread asks which of two floats is larger. A loop whose length the scalar ``arguments`` do
    not tell counts as one iteration."""
    return _in_turn(kernel, arguments, _decides)


LAST = {"thread": "block_dim", "block": "grid_dim"}
"""Of which number of threads, or of blocks, the last one is one less."""


def of_last_thread(kernel: Kernel) -> Kernel:
    """``kernel`` as its last thread runs it: behind a causal mask, that is the one that compares most."""

    def last(e: Expr) -> Expr:
        if not isinstance(e, HwIndex) or e.level not in LAST:
            return e
        return Binary("-", dataclasses.replace(e, level=LAST[e.level]), Const(1, e.type))

    return kernel if kernel.is_parallel else kernel.with_(body=map_body(kernel.body, keep, last))


def statements(kernel: Kernel, arguments: Mapping[str, int]) -> int:
    """How many statements the first thread runs, loops as :func:`compared` counts them."""
    return _in_turn(kernel, arguments, lambda s: True)


def _in_turn(kernel: Kernel, arguments: Mapping[str, int], wanted: Callable[[Stmt], bool]) -> int:
    counts = Counts(kernel, arguments)
    found = (v for v in visits(kernel) if wanted(v.stmt))
    return sum(counts.times(tuple(a for a in v.axes if a.kind in IN_TURN)) for v in found)


def _decides(s: Stmt) -> bool:
    if isinstance(s, Reduce) and any(a.op in ("min", "max") for a in s.accs):
        return True
    return any(_asks(x) for e in stmt_exprs(s) for x in walk_expr(e))


def _asks(e: Expr) -> bool:
    """Whether ``e`` itself asks which of two floats is larger."""
    if isinstance(e, Call):
        return e.fn in ("min", "max") and _is_float(e.args[0].type)
    return isinstance(e, Binary) and e.op in COMPARISONS and _is_float(e.a.type)


def _is_float(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_float


__all__ = ["compared", "decides", "of_last_thread", "statements"]
