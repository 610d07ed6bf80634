"""Where it matters which of two floats is larger, how many a thread compares, and how much it does in all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ktc.ir.analysis.access_nests import visits
from ktc.ir.analysis.operation_counts import Counts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Expr, Reduce, Stmt
from ktc.ir.types import Scalar
from ktc.ir.walk import stmt_exprs, walk, walk_expr

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


__all__ = ["compared", "decides", "statements"]
