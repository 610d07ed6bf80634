"""Grids and blocks of a launch: the extents of what host code gives as a ``dim3``, a vector or a number."""

from __future__ import annotations

from functools import partial
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.host_calls import (
    function_of_call,
    name_of_function_call,
    with_named_calls,
)
from ktc.ir.frontend.meaning.cxx_types import DIM3
from ktc.ir.frontend.meaning.name_meanings import LazyVal, OpaqueVal
from ktc.ir.frontend.meaning.values import Dim3Val, RVal
from ktc.ir.frontend.syntax.cxx_ast import CxxCast
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.nodes import Expr, VecMake, i32
from ktc.ir.types import Scalar, Type

from .launch_math import as_written
from .names_at_launch import LaunchValues


class LaunchExtents(LaunchValues):
    """The extents of a launch."""

    def _dim3(self, node: Any) -> tuple[Expr, Expr, Expr]:
        v = self._dim3_value(node)
        return (v.x, v.y, v.z)

    def _dim3_value(self, node: Any) -> Dim3Val:
        low = self.lowering
        if node is None:
            return Dim3Val(i32(1), i32(1), i32(1))
        node = self._with_elements(node)
        while isinstance(node, c_ast.Cast | CxxCast) and self._type_of(node.to_type) == DIM3:
            node = node.expr  # (dim3)blocks
        args = init_args(node)
        if len(args) > 1 or (len(args) == 1 and args[0] is not node):
            whole = self._value(args[0]) if len(args) == 1 else None
            if isinstance(whole, Dim3Val):
                return whole
            parts = [self._int(a) for a in args]
            return Dim3Val(*(parts + [i32(1)] * 3)[:3])
        try:
            v = low.load(low.eval(node))
        except KtcError as error:
            return self._dim3_value(self._named(node, error))
        if isinstance(v, Dim3Val):
            return Dim3Val(*(as_written(e) for e in (v.x, v.y, v.z)))
        if isinstance(v, RVal) and isinstance(v.expr, VecMake):  # a uint3
            return Dim3Val(*([*v.expr.args, i32(1), i32(1)])[:3])
        if isinstance(v, RVal) and isinstance(v.expr.type, Scalar):
            return Dim3Val(self._int(node), i32(1), i32(1))
        if isinstance(v, OpaqueVal):
            return Dim3Val(*(self._unknown(f"{v.name}_{a}") for a in "xyz"))
        raise self._refuse(node, None)

    def _named(self, node: Any, why: KtcError) -> Any:
        """``node``, which cannot be followed for ``why``, with names in the place of calls of host objects' methods."""
        calls: set[str] = set()
        named = with_named_calls(node, calls, self.known, self._is_unknown, self.describing)
        if not calls:
            raise self._refuse(node, why) from None
        for n in calls - self._scope.names.keys():
            self._scope.names[n] = LazyVal(partial(self.value, n))
        return named

    def _is_unknown(self, call: Any) -> bool:
        """Whether ``call`` is a number of blocks that a function makes which cannot be followed, or is of another file:
        its name stands for what it returns."""
        if not self.in_grid or self._value(call) is not None:
            return False
        if self._returned(call) == DIM3:
            name = name_of_function_call(call)
            self._scope.names[name] = OpaqueVal(name, DIM3)
        return True

    def _returned(self, call: Any) -> Type | None:
        """What a function returns that the file has at least a declaration of; None if it has none."""
        name = function_of_call(call).rpartition("::")[2]
        for e in self.lowering.program.functions.get(name, []):
            try:
                return self.lowering.resolve(e.node.decl.type.type)
            except KtcError:
                continue
        return None


__all__ = ["LaunchExtents"]
