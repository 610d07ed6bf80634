"""Generic lambdas of host functions, which stand for a template: ``[&](auto t) { k<decltype(t)><<<1, 32>>>(p); }``.

Each call says what the parameters are, ``run(float{}); run(half{});``, and what the body mentions is mentioned once for
each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning.resolve import names_in
from ktc.ir.frontend.syntax.cxx_ast import Construct, Lambda

from .host_types import is_auto

Names = dict[str, Any]


@dataclass(frozen=True)
class GenericLambda:
    """A local variable that is a lambda with ``auto`` parameters, and the names in scope where it is declared."""

    node: Lambda
    env: Names
    declared: Names

    def called(self, args: list[Any], env: Names, declared: Names) -> tuple[Names, Names]:
        """What the names in its body are in a call with ``args`` from a place with these names: of what it captures as
        there, of its parameters what is passed."""
        inside = {name: env.get(name) for name in self.env}
        own = parameters(self.node)
        types = self.declared | {}
        for p, a in zip(own, args):
            known = _passed(p, a, declared) if names_in(a).isdisjoint(x.name for x in own) else None
            inside[p.name] = known
            types[p.name] = p if known is None else known
        return inside, types


def generic_lambda(item: Any, env: Names, declared: Names) -> GenericLambda | None:
    """The generic lambda that ``item`` declares; None if it is none."""
    node = item.init if isinstance(item, c_ast.Decl) else None
    if not isinstance(node, Lambda) or not generic_parameters(node):
        return None
    return GenericLambda(node, dict(env), dict(declared))


def parameters(node: Lambda) -> list[Any]:
    return [p for p in (node.params.params if node.params is not None else ()) if isinstance(p, c_ast.Decl)]


def generic_parameters(node: Lambda) -> list[Any]:
    """Its parameters that are of any type."""
    return [p for p in parameters(node) if is_auto(p)]


def _passed(p: c_ast.Decl, arg: Any, declared: Names) -> c_ast.Decl | None:
    """The parameter ``p`` as a variable with the value ``arg``; None where the syntax does not say its type."""
    of = p
    if is_auto(p):
        of = declared.get(arg.name) if isinstance(arg, c_ast.ID) else getattr(arg, "to_type", None)
    if not isinstance(of, c_ast.Decl) and not isinstance(arg, Construct):
        return None
    if of is None or (isinstance(of, c_ast.Decl) and is_auto(of)):
        return None
    return c_ast.Decl(p.name, [], [], [], [], of.type, arg, None, p.coord)
