"""Template arguments that C++ deduces from what a launch passes: ``k<<<grid, block>>>(floats, n)`` makes T float."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pycparser import c_ast

from ..diagnostics import KtcError
from ..types import F32, F64, I32, Type
from .cxx_ast import Alias, CxxCast, Launch
from .cxx_types import Auto, Pointer, Reference
from .lower import KernelLowering
from .methods import params_of
from .program import Entity
from .templates import deduce
from .values import TypeVal, Value

LITERALS: dict[str, Type] = {"int": I32, "float": F32, "double": F64}
"""Types of literals without a suffix that says more, as the parser calls them."""


def deduced_args(
    lowering: KernelLowering, kernel: Entity, launch: Launch, declared: Mapping[str, Any], known: Mapping[str, Value]
) -> dict[str, Value]:
    """Arguments of ``kernel`` beyond the ``known`` ones. ``declared`` are the host's declarations by name, in order;
    what they say is resolved in the current scope."""
    local = _HostTypes(lowering, declared)
    out: dict[str, Value] = {}
    for p, a in zip(params_of(kernel.node), launch.args):
        free = {q.name: q for q in kernel.params or () if q.name not in known and not q.pack}
        if not free:
            break
        t = local.of(a)
        found = dict(out)
        if t is not None and deduce(p, t, free, found, lowering.alias_named):
            out = found
    return out


class _HostTypes:
    """Types of host expressions, as far as declarations tell them."""

    def __init__(self, lowering: KernelLowering, declared: Mapping[str, Any]) -> None:
        self.lowering, self.declared = lowering, declared
        for name, item in declared.items():
            if isinstance(item, Alias | c_ast.Typedef) and (t := self._resolved(item.type)) is not None:
                lowering.scope.names[name] = TypeVal(t)

    def _resolved(self, node: Any) -> Type | None:
        try:
            t = self.lowering.resolve(node)
        except KtcError:
            return None
        t = t.elem if isinstance(t, Reference) else t
        return None if isinstance(t, Auto) else t

    def of(self, e: Any) -> Type | None:
        """The type of ``e``; None if nothing here tells it."""
        if isinstance(e, c_ast.ID):
            item = self.declared.get(e.name)
            return self._resolved(item.type) if isinstance(item, c_ast.Decl) else None
        if isinstance(e, c_ast.Cast | CxxCast):
            return self._resolved(e.to_type)
        if isinstance(e, c_ast.Constant):
            return LITERALS.get(e.type)
        if isinstance(e, c_ast.UnaryOp) and e.op == "&" and (t := self.of(e.expr)) is not None:
            return Pointer(t)
        if isinstance(e, c_ast.BinaryOp) and e.op in "+-":
            sides = [t for x in (e.left, e.right) if isinstance(t := self.of(x), Pointer)]
            return sides[0] if len(sides) == 1 else None
        return None
