"""What a host function asserts of sizes before it launches: ``assert(heads * 64 == channels)``.

A caller that passes anything else gets no launch, so that is what calls are like.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.syntax_walk import descendants

from .host_calls import function_of_call

CHECKS = frozenset(
    {"assert", "CHECK", "DCHECK", "TORCH_CHECK", "TORCH_INTERNAL_ASSERT", "AT_ASSERT", "AT_ASSERTM", "FT_CHECK",
     "FT_CHECK_WITH_INFO", "TLLM_CHECK", "PADDLE_ENFORCE"}
)  # fmt: skip
"""Macros whose first argument has to hold."""

EQUALITIES = frozenset({"CHECK_EQ", "DCHECK_EQ", "TORCH_CHECK_EQ", "ASSERT_EQ", "PADDLE_ENFORCE_EQ"})
"""Macros whose first two arguments have to be equal."""


def asserted(statement: Any) -> Iterator[Any]:
    """The conditions that hold behind ``statement``, if it is a check."""
    if not isinstance(statement, c_ast.FuncCall) or statement.args is None:
        return
    name, args = function_of_call(statement), statement.args.exprs
    if name in EQUALITIES and len(args) >= 2:
        yield c_ast.BinaryOp("==", args[0], args[1], statement.coord)
    elif name in CHECKS and args:
        yield args[0]


def asserted_equal(function: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of expressions that a host function asserts to be equal, wherever in it that stands."""
    for x in descendants(function):
        for cond in asserted(x):
            yield from _equalities(cond)


def _equalities(cond: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(cond, c_ast.BinaryOp) and cond.op == "&&":
        yield from _equalities(cond.left)
        yield from _equalities(cond.right)
    elif isinstance(cond, c_ast.BinaryOp) and cond.op == "==":
        yield cond.left, cond.right


__all__ = ["asserted", "asserted_equal"]
