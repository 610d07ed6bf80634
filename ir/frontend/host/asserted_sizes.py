"""What a host function asserts of sizes before it launches: ``assert(heads * 64 == channels)``.

A caller that passes anything else gets no launch, so that is what calls are like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.syntax_walk import descendants

from .host_calls import function_of_call

_OF_A_LIBRARY = r"(?!CUDA|CU_|CUBLAS|CUDNN|CUFFT|CURAND|CUTLASS|NCCL|HIP|MPI|GPU|ROC)"
"""Macros about what a call of a library returns, which is no truth."""

CHECKS = re.compile(rf"assert|{_OF_A_LIBRARY}(?:[A-Z]+_)*(?:D?CHECK|ASSERTM?|ENFORCE)(?:_WITH_INFO|_MSG)?")
"""Macros whose first argument has to hold: ``TORCH_CHECK``, ``FT_CHECK_WITH_INFO``, ``PADDLE_ENFORCE``."""

COMPARISONS = re.compile(rf"{_OF_A_LIBRARY}(?:[A-Z]+_)*(?:D?CHECK|ASSERT|ENFORCE)_(EQ|NE|LT|LE|GT|GE)")
"""Macros that compare their first two arguments: ``CHECK_EQ``, ``TT_ENFORCE_EQ``, ``TM_CHECK_GE``."""

OPERATORS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def asserted(statement: Any) -> Iterator[Any]:
    """The conditions that hold behind ``statement``, if it is a check."""
    if not isinstance(statement, c_ast.FuncCall) or statement.args is None:
        return
    name, args = function_of_call(statement), statement.args.exprs
    compared = COMPARISONS.fullmatch(name or "")
    if compared is not None and len(args) >= 2:
        yield c_ast.BinaryOp(OPERATORS[compared[1]], args[0], args[1], statement.coord)
    elif CHECKS.fullmatch(name or "") and args:
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
