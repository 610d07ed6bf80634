"""Methods of the object whose method launches, as what they return of it: ``Cols()`` is ``cols_``.

class Matrix {                                                     void scale() {
  int Cols() const { return cols_; }                                 start(Cols(), Dim());
  Sizes Dim() const { Sizes s = {rows_, cols_}; return s; }          start(cols_, {rows_, cols_});
};                                                                 }
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import Function, Template
from ktc.ir.frontend.syntax.syntax_walk import descendants, replaced

DEEPEST = 4
"""Methods that call one another which are looked through."""


def with_own_methods(node: Any, around: Sequence[Any], taken: Container[str], left: int = DEEPEST) -> Any:
    """A copy of ``node`` with what methods among ``around``, the members of the object's class, return in the place of
    their calls, and with ``cols_`` for ``this->cols_``; but for what has a name that is ``taken`` by a variable."""
    variables = {m.name for m in around if isinstance(m, c_ast.Decl)}

    def made(n: Any) -> Any | None:
        member = _of_this(n)
        if isinstance(member, c_ast.ID) and member.name in variables and member.name not in taken:
            return member
        value = _returned(n, around) if left else None
        if value is None or any(isinstance(x, c_ast.ID) and x.name in taken for x in descendants(value)):
            return None
        return with_own_methods(value, around, taken, left - 1)

    return replaced(node, made) if around else node


def _of_this(n: Any) -> Any | None:
    """The member that ``this->member`` names."""
    own = isinstance(n, c_ast.StructRef) and isinstance(n.name, c_ast.ID) and n.name.name == "this"
    return n.field if own else None


def _returned(call: Any, around: Sequence[Any]) -> Any | None:
    """What ``call`` returns, if it is that of a method without parameters that does nothing but return, or name,
    something; None for anything else."""
    plain = isinstance(call, c_ast.FuncCall) and not (call.args and call.args.exprs)
    callee = (_of_this(call.name) or call.name) if plain else None
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
