"""What a launch passes for ``x.packed_accessor32<T, N>()``: where a tensor begins, its extents and its strides.

The kernel's parameter is a struct whose members are parameters here, ``x_ptr``, ``x_sizes_0`` and ``x_strides_0``. The
extents are what the host makes ``x`` of or asks it for; the strides are told for a tensor whose elements lie one after
the other, as those are that the host makes itself.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.program import name_parts

Extent = Callable[[Any, int, int], Any]
"""The expression for the extent of a tensor along a dimension, of how many."""

ACCESSORS = re.compile(r"(generic_)?packed_accessor(32|64)?")


def accessed_tensor(node: Any) -> Any:
    """The tensor ``x`` of ``x.packed_accessor32<T, N>()``; None for anything else."""
    method = node.name if isinstance(node, c_ast.FuncCall) else None
    if not isinstance(method, c_ast.StructRef) or not ACCESSORS.fullmatch(name_parts(method.field)[1]):
        return None
    return method.name


def accessor_member(tensor: Any, member: str, dimensions: int, extent: Extent) -> Any:
    """The expression for the member of an accessor of ``tensor`` that has so many ``dimensions``; None for others."""
    kind, _, number = member.rpartition("_")
    if kind not in ("sizes", "strides"):
        return method_call(tensor, "data_ptr") if member == "ptr" else None
    k = int(number)
    if kind == "sizes":
        return extent(tensor, k, dimensions)
    inner = [extent(tensor, j, dimensions) for j in range(k + 1, dimensions)]
    return functools.reduce(lambda a, b: c_ast.BinaryOp("*", a, b), inner) if inner else c_ast.Constant("int", "1")


def asked_as(member: str) -> Iterator[str]:
    """How launch expressions name what host code asks of an accessor's ``member``: ``x.getSize(0)`` is its
    ``sizes_0``."""
    told = re.fullmatch(r"_(sizes|strides)_(\d+)", member)
    if told is not None:
        methods = ("size", "getSize") if told[1] == "sizes" else ("stride", "getStride")
        yield from (f"_{method}_{told[2]}" for method in methods)


def method_call(of: Any, method: str, *args: int) -> c_ast.FuncCall:
    """``of.method(args)``."""
    given = c_ast.ExprList([c_ast.Constant("int", str(a)) for a in args])
    return c_ast.FuncCall(c_ast.StructRef(of, ".", c_ast.ID(method)), given)
