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


def asserted_equal(function: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of expressions that a host function asserts to be equal, wherever in it that stands."""
    for x in descendants(function):
        if not isinstance(x, c_ast.FuncCall) or x.args is None:
            continue
        name, args = function_of_call(x), x.args.exprs
        if name in EQUALITIES and len(args) >= 2:
            yield args[0], args[1]
        elif name in CHECKS and args:
            yield from _equalities(args[0])


def _equalities(cond: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(cond, c_ast.BinaryOp) and cond.op == "&&":
        yield from _equalities(cond.left)
        yield from _equalities(cond.right)
    elif isinstance(cond, c_ast.BinaryOp) and cond.op == "==":
        yield cond.left, cond.right


__all__ = ["asserted_equal"]
