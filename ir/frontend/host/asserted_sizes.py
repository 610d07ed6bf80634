"""What a host function asserts of sizes before it launches: ``assert(heads * 64 == channels)``, or
``if (heads * 64 != channels) throw error;``.

A caller that passes anything else gets no launch, so that is what calls are like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.syntax_walk import descendants

from .host_calls import function_of_call
from .host_conditions import is_equality, said_by
from .tensors.laid_out import extents_alike

_OF_A_LIBRARY = r"(?!CUDA|CU_|CUBLAS|CUDNN|CUFFT|CURAND|CUTLASS|NCCL|HIP|MPI|GPU|ROC)"
"""Macros about what a call of a library returns, which is no truth."""

CHECKS = re.compile(rf"assert|{_OF_A_LIBRARY}(?:[A-Z]+_)*(?:D?CHECK|ASSERTM?|ENFORCE)(?:_WITH_INFO|_MSG)?")
"""Macros whose first argument has to hold: ``TORCH_CHECK``, ``FT_CHECK_WITH_INFO``, ``PADDLE_ENFORCE``."""

COMPARISONS = re.compile(rf"{_OF_A_LIBRARY}(?:[A-Z]+_)*(?:D?CHECK|ASSERT|ENFORCE)_(EQ|NE|LT|LE|GT|GE)")
"""Macros that compare their first two arguments: ``CHECK_EQ``, ``TT_ENFORCE_EQ``, ``TM_CHECK_GE``."""

OPERATORS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


ENDS = re.compile(r"(\w+_)?(abort|exit|terminate|panic)|throw|__assert_fail")
"""Functions that end the program, and what leaves a function in the middle."""


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
            yield from _equalities(cond, True)
        if isinstance(x, c_ast.If) and x.iffalse is None and ends(x.iftrue):
            yield from _equalities(x.cond, False)


def ends(stmt: Any) -> bool:
    """Whether the program ends at the end of ``stmt``, or the function is left as by an error."""
    while isinstance(stmt, c_ast.Compound) and stmt.block_items:
        stmt = stmt.block_items[-1]
    return ENDS.fullmatch(function_of_call(stmt).rpartition("::")[2]) is not None


def is_check(stmt: Any) -> bool:
    """Whether ``stmt`` does nothing but see to it that something holds."""
    return any(asserted(stmt)) or (isinstance(stmt, c_ast.If) and stmt.iffalse is None and ends(stmt.iftrue))


def _equalities(cond: Any, holds: bool) -> Iterator[tuple[Any, Any]]:
    """What is equal where ``cond`` holds, or does not."""
    for part, true in said_by(cond, holds):
        if is_equality(part, true):
            yield part.left, part.right
        elif true:
            yield from extents_alike(part)


__all__ = ["asserted", "asserted_equal", "ends", "is_check"]
