"""How many elements the host's tensors and vectors have, from how they are made and what is asked of them.

``x.numel()`` is a number that no expression gives. Where the host asks for ``x.size(0)`` and ``x.size(1)`` too, made
``x`` of ``{n, d}``, or takes ``d = x.numel() / n``, it is their product. This describes one call, as drafts of
workloads do; no launch is computed from it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.syntax.cxx_ast import Construct, CxxCast, QualName
from ktc.ir.frontend.syntax.program import Entity, name_parts
from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.frontend.syntax.variable_uses import init_args

from ..asserted_sizes import asserted_equal
from ..host_calls import name_of_call
from .laid_out import LaidOut
from .tensor_accessors import method_call

COUNTS = frozenset({"numel", "size", "length"})
"""Methods that, without arguments, say how many elements there are."""

MADE_OF = frozenset({"empty", "zeros", "ones", "full", "rand", "randn", "randint"})
"""Functions whose list of numbers is the shape of what they return."""

SHAPED_LIKE = frozenset({"empty_like", "zeros_like", "ones_like", "rand_like", "randn_like", "full_like"})
SAME_SHAPE = frozenset({"contiguous", "clone", "detach", "to", "cuda", "cpu"})
"""Functions of a tensor, and methods, whose result has its shape."""

VECTORS = frozenset({"vector", "device_vector", "host_vector"})
DEEPEST = 6


class ObjectExtents:
    """The numbers of elements of the objects of one host function; ``env``: what is in scope at its launch."""

    def __init__(self, function: Entity, env: Mapping[str, Any]) -> None:
        self.env = env
        try:
            nodes = list(descendants(function.node.body))
        except KtcError:
            nodes = []
        self.calls = {name: n for n in nodes if isinstance(n, c_ast.FuncCall) and (name := name_of_call(n))}
        held = ((v, _bare(d.init)) for v, d in env.items() if isinstance(d, c_ast.Decl) and d.init is not None)
        self.laid_out = LaidOut(function, env, asserted_equal(function.node))
        self.holders: dict[str, str] = {}
        self.quotients: dict[str, tuple[str, Any]] = {}
        for v, init in held:
            if name := name_of_call(init):
                self.holders.setdefault(name, v)
            elif isinstance(init, c_ast.BinaryOp) and init.op == "/" and (of := self.object_of(_bare(init.left))):
                self.quotients.setdefault(of, (v, init.right))

    def object_of(self, node: Any) -> str:
        """The object whose number of elements ``node`` asks for; '' if it is something else."""
        if not isinstance(node, c_ast.FuncCall) or not isinstance(node.name, c_ast.StructRef):
            return ""
        field = node.name.field
        asks = isinstance(field, c_ast.ID) and field.name in COUNTS and not (node.args is not None and node.args.exprs)
        return str(node.name.name.name) if asks and isinstance(node.name.name, c_ast.ID) else ""

    def product(self, name: str) -> Any:
        """An expression for what the host's number ``name`` is: a variable or a call as a name; None if it is no
        object's number of elements, or nothing says what that is a product of."""
        if name in self.laid_out.nodes:
            return self.laid_out.expression(self.laid_out.nodes[name])
        decl = self.env.get(name)
        node = _bare(decl.init) if isinstance(decl, c_ast.Decl) and decl.init is not None else self.calls.get(name)
        of = self.object_of(node)
        if not of:
            return None
        if of in self.quotients:
            v, by = self.quotients[of]
            return c_ast.BinaryOp("*", by, c_ast.ID(v))
        extents = self._extents(of, DEEPEST)
        return functools.reduce(lambda a, b: c_ast.BinaryOp("*", a, b), extents) if extents else None

    def factor_of(self, name: str) -> set[str]:
        """The numbers of elements, as names, that the variable ``name`` is a quotient of."""
        return {f"{of}_{count}" for of, (v, _) in self.quotients.items() if v == name for count in COUNTS}

    def along(self, tensor: Any, k: int, dimensions: int) -> Any:
        """An expression for the extent along dimension ``k`` of a tensor that has so many: a number that it is made
        of, a variable that holds what it was asked for, or that call."""
        while isinstance(tensor, c_ast.FuncCall) and (of := _same_shape(tensor)) is not None:
            tensor = of
        if not isinstance(tensor, c_ast.ID):
            return method_call(tensor, "size", k)
        made = self._made_of(tensor.name)
        if (of := _same_shape(made)) is not None and of.name != tensor.name:
            return self.along(of, k, dimensions)
        listed = self._made(made, 0) if isinstance(made, c_ast.FuncCall) else []
        if len(listed) == dimensions:
            return listed[k]
        held = self.holders.get(f"{tensor.name}_size_{k}")
        return c_ast.ID(held) if held is not None else method_call(tensor, "size", k)

    def _made_of(self, name: str) -> Any:
        """What the host initialises the object ``name`` with; None if that is no single value."""
        decl = self.env.get(name)
        init = decl.init if isinstance(decl, c_ast.Decl) else None
        return _bare(init_args(init)[0]) if len(init_args(init)) == 1 else None

    def _extents(self, name: str, left: int) -> list[Any]:
        """The extents of an object along its dimensions; [] if they are not known."""
        decl = self.env.get(name)
        init = decl.init if isinstance(decl, c_ast.Decl) else None
        if isinstance(decl, c_ast.Decl) and {*_words(decl.type)} & VECTORS:
            args = init_args(init)
            return args[:1] if args and not isinstance(init, c_ast.InitList) else []
        made = self._made_of(name)
        if isinstance(made, c_ast.FuncCall) and left:
            found = self._made(made, left)
            if found:
                return found
        asked = {n: self._holder(f"{name}_size_{n}") for n in range(DEEPEST) if f"{name}_size_{n}" in self.calls}
        return [asked.get(n) or c_ast.ID(f"{name}_size_{n}") for n in range(max(asked) + 1)] if len(asked) > 1 else []

    def _made(self, call: c_ast.FuncCall, left: int) -> list[Any]:
        of = _same_shape(call)
        if of is not None:
            return self._extents(of.name, left - 1)
        args = call.args.exprs if call.args is not None else []
        return _listed(args[0]) if _function(call) in MADE_OF and args else []

    def _holder(self, name: str) -> Any:
        """A variable that holds what a call returns, or the call's own name."""
        return c_ast.ID(self.holders.get(name, name))


def _same_shape(call: Any) -> c_ast.ID | None:
    """The tensor ``x`` of ``x.contiguous()`` and ``zeros_like(x)``, which has that shape; None for anything else."""
    if not isinstance(call, c_ast.FuncCall):
        return None
    args = call.args.exprs if call.args is not None else []
    if isinstance(call.name, c_ast.StructRef):
        of = call.name.name if name_parts(call.name.field)[1] in SAME_SHAPE else None
    else:
        of = args[0] if _function(call) in SHAPED_LIKE and args else None
    return of if isinstance(of, c_ast.ID) else None


def _function(call: c_ast.FuncCall) -> str:
    """The name of the function that is called, without its namespaces; '' of a method."""
    return name_parts(call.name)[1] if isinstance(call.name, c_ast.ID | QualName) else ""


def _listed(node: Any) -> list[Any]:
    if isinstance(node, c_ast.InitList):
        return list(node.exprs)
    return list(node.args) if isinstance(node, Construct) and node.brace else []


def _bare(node: Any) -> Any:
    """``node`` without conversions, nor the list or call that an initialiser wraps it in."""
    while True:
        if isinstance(node, c_ast.Cast | CxxCast):
            node = node.expr
        elif isinstance(node, Construct) and len(node.args) == 1:
            node = node.args[0]
        elif not isinstance(node, c_ast.FuncCall) and len(init_args(node)) == 1 and init_args(node)[0] is not node:
            node = init_args(node)[0]
        else:
            return node


def _words(node: Any) -> Iterator[str]:
    """The names in a type."""
    for n in descendants(node):
        for found in (getattr(n, "names", None) or [], [getattr(n, "name", None)]):
            yield from (w for w in found if isinstance(w, str))


__all__ = ["ObjectExtents"]
