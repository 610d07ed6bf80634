"""Methods of the object whose method launches, as what they return of it: ``Cols()`` is ``cols_``.

class Matrix {                                                     void scale() {
  int Cols() const { return cols_; }                                 start(Cols(), Dim());
  Sizes Dim() const { Sizes s = {rows_, cols_}; return s; }          start(cols_, {rows_, cols_});
};                                                                 }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import Function, Template
from ktc.ir.frontend.syntax.syntax_walk import replaced

DEEPEST = 4
"""Methods that call one another which are looked through."""


def with_own_methods(node: Any, around: Sequence[Any], left: int = DEEPEST) -> Any:
    """A copy of ``node`` with what methods among ``around``, the members of the object's class, return in the place of
    their calls."""

    def made(n: Any) -> Any | None:
        value = _returned(n, around) if left else None
        return None if value is None else with_own_methods(value, around, left - 1)

    return replaced(node, made) if around else node


def _returned(call: Any, around: Sequence[Any]) -> Any | None:
    """What ``call`` returns, if it is that of a method without parameters that does nothing but return, or name,
    something; None for anything else."""
    plain = isinstance(call, c_ast.FuncCall) and not (call.args and call.args.exprs)
    callee = call.name if plain else None
    if isinstance(callee, c_ast.StructRef) and isinstance(callee.name, c_ast.ID) and callee.name.name == "this":
        callee = callee.field
    if not isinstance(callee, c_ast.ID):
        return None
    methods = [f for m in around for f in (m.decl if isinstance(m, Template) else (m,)) if isinstance(f, Function)]
    named = [f for f in methods if f.name == callee.name and not params_of(f)]
    items = getattr(named[0].body, "block_items", None) if len(named) == 1 else None
    return _value(items or [])


def _value(items: Sequence[Any]) -> Any | None:
    match items:
        case [c_ast.Return(expr=value)]:
            return value
        case [c_ast.Decl(name=name, init=value), c_ast.Return(expr=c_ast.ID(name=same))] if name == same:
            return value
    return None


__all__ = ["with_own_methods"]
