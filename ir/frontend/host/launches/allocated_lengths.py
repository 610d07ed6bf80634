"""How many bytes the host function around a launch allocates for what it passes: ``cudaMalloc(&rows, n * pitch)``."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.host_api import KNOWN, cuda_name
from ktc.ir.frontend.host.host_calls import function_of_call
from ktc.ir.frontend.syntax.cxx_ast import CxxCast, Function
from ktc.ir.frontend.syntax.syntax_walk import descendants


def allocated_bytes(fn: Function, name: str) -> Any:
    """The bytes that ``fn`` allocates for its variable ``name``, as syntax; None where it does so elsewhere, never, or
    more than once."""
    try:
        calls = [n for n in descendants(fn.body) if isinstance(n, c_ast.FuncCall) and n.args is not None]
    except KtcError:
        return None
    found = []
    for call in calls:
        does = KNOWN.get(cuda_name(function_of_call(call).rpartition("::")[2]))
        args = list(call.args.exprs)
        if does is not None and does.allocates is not None and does.bytes is not None and len(args) > does.bytes:
            found += [args[does.bytes]] if _pointed(args[does.allocates]) == name else []
    return found[0] if len(found) == 1 else None


def _pointed(node: Any) -> str:
    """The variable whose address ``node`` is, casts left out; '' for anything else."""
    while isinstance(node, c_ast.Cast | CxxCast):
        node = node.expr
    at = node.expr if isinstance(node, c_ast.UnaryOp) and node.op == "&" else None
    return at.name if isinstance(at, c_ast.ID) else ""


__all__ = ["allocated_bytes"]
