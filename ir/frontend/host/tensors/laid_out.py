"""Tensors whose objects hold their extents and strides as arrays: ``x->ne[1]``, ``x->nb[1]``.

What the host asks of one is a number that no expression gives. Elements lie one after the other in tensors as they are
made, and calls are mostly with such: the strides are products of the extents then, as numbers of elements are. This
describes one call, as drafts of workloads do; no launch is computed from it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import CxxCast, NamedType
from ktc.ir.frontend.syntax.program import Entity, name_parts
from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.frontend.syntax.variable_uses import init_args

from ..host_calls import function_of_call, name_of_function_call, name_of_member


@dataclass(frozen=True)
class Library:
    """How the tensors of a library are asked: the members that are arrays of ``extents`` and of ``strides``, in bytes,
    of which the first is that of the innermost dimension; functions for products of extents, with the first dimension
    of these, for the bytes of an element (of the tensor, or of the member that says its type), and for whether several
    tensors have the same extents."""

    extents: str
    strides: str
    dimensions: int
    products: Mapping[str, int]
    widths: frozenset[str]
    alike: frozenset[str]
    element: str = "type"
    data: str = "data"


LIBRARIES = {
    "ggml_tensor": Library(
        "ne", "nb", 4, {"ggml_nelements": 0, "ggml_nrows": 1},
        frozenset({"ggml_element_size", "ggml_type_size"}), frozenset({"ggml_are_same_shape", "ggml_are_same_layout"}),
    ),
}  # fmt: skip
"""By the class of their tensors. ggml: include/ggml.h, ``struct ggml_tensor`` and "tensor" functions."""

ALIKE = frozenset(f for lib in LIBRARIES.values() for f in lib.alike)

WIDTHS = {"GGML_TYPE_F32": 4, "GGML_TYPE_F16": 2, "GGML_TYPE_BF16": 2, "GGML_TYPE_I32": 4, "GGML_TYPE_I64": 8,
          "GGML_TYPE_I16": 2, "GGML_TYPE_I8": 1}  # fmt: skip
"""Bytes of an element, by the constants that say so."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a ``tensor``: its ``extent`` or ``stride`` along the dimension ``k``, the ``product`` of its
    extents from the dimension ``k`` on, or the ``width`` of an element."""

    tensor: str
    what: str
    k: int = 0


class LaidOut:
    """The tensors of one host function. ``env``: what is in scope at its launch; ``equal``: what it asserts to be
    equal."""

    def __init__(self, function: Entity, env: Mapping[str, Any], equal: Iterable[tuple[Any, Any]] = ()) -> None:
        nodes = _nodes(function)
        declared = [*params_of(function.node), *(n for n in nodes if isinstance(n, c_ast.Decl))]
        classes = {d.name: _class_name(d.type) for d in declared if getattr(d, "name", None)}
        self.libraries = {name: LIBRARIES[c] for name, c in classes.items() if c in LIBRARIES}
        self.nodes: dict[str, Any] = {}
        self.widths: dict[str, int] = {}
        """Bytes of an element, of the tensors of which that is known."""

        self.plain: set[str] = set()
        """Tensors of elements, not of blocks: the host divides their strides by what an element has of bytes."""

        self.spellings: dict[str, list[str]] = {}
        """For the names of what is asked for, those of the same number: of the call, and of variables that hold it."""

        if not self.libraries:
            return
        self.nodes = {name_of_query(_bare(n)): n for n in nodes if self.asked(n) is not None}
        self.nodes |= {
            v: d.init for v, d in env.items() if isinstance(d, c_ast.Decl) and self.asked(d.init) is not None
        }
        for name, node in self.nodes.items():
            self._unite(name_of_query(_bare(node)), name)
        for a, b in equal:
            self._told_equal(a, b)
        self.plain = {t for n in nodes if (t := self._in_elements(n))}

    def _told_equal(self, a: Any, b: Any) -> None:
        for x, y in ((a, b), (b, a)):
            (name, member), kind = _member(x), getattr(y, "name", "")
            if name in self.libraries and member == self.libraries[name].element and kind in WIDTHS:
                self.widths.setdefault(name, WIDTHS[kind])
        names = [x.name if isinstance(x, c_ast.ID) else name_of_query(_bare(x)) for x in (a, b)]
        asked = [self.asked(self.nodes.get(n, x)) for n, x in zip(names, (a, b))]
        if all(x is not None and x.what == "extent" for x in asked):
            self._unite(*names)

    def _in_elements(self, node: Any) -> str:
        """The tensor of which ``node`` is a stride in elements, ``x->nb[1] / ggml_type_size(x->type)``; '' if none."""
        if not isinstance(node, c_ast.BinaryOp) or node.op != "/":
            return ""
        stride, width = (self.asked(self.nodes.get(getattr(x, "name", ""), x)) for x in (node.left, node.right))
        told = stride is not None and width is not None and (stride.what, width.what) == ("stride", "width")
        return (
            stride.tensor if told and stride is not None and width is not None and stride.tensor == width.tensor else ""
        )

    def _unite(self, a: str, b: str) -> None:
        together = [*self.spellings.get(a, [a])]
        together += [n for n in self.spellings.get(b, [b]) if n not in together]
        for n in together:
            self.spellings[n] = together

    def divided(self, declared: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """The tensors of which variables hold a stride in elements, ``x->nb[1] / sizeof(float)``, with what the stride
        in bytes is divided by."""
        for d in declared if self.libraries else ():
            init = _bare(d.init) if isinstance(d, c_ast.Decl) and d.init is not None else None
            if isinstance(init, c_ast.BinaryOp) and init.op == "/":
                of = init.left.name if isinstance(init.left, c_ast.ID) else ""
                asked = self.asked(self.nodes.get(of, init.left))
                if asked is not None and asked.what == "stride":
                    yield asked.tensor, init.right

    def points_to(self, memory: str, width: int) -> None:
        """Take in that ``memory``, a member of an object, holds elements of ``width`` bytes."""
        for name, lib in self.libraries.items():
            if memory == f"{name}_{lib.data}" and width > 1:
                self.widths[name] = width

    def asked(self, node: Any) -> Asked | None:
        """What ``node`` asks of a tensor; None for anything else."""
        node = _bare(node)
        if isinstance(node, c_ast.ArrayRef) and isinstance(node.subscript, c_ast.Constant):
            name, member = _member(node.name)
            lib = self.libraries.get(name)
            if lib is not None and member in (lib.extents, lib.strides):
                return Asked(name, "extent" if member == lib.extents else "stride", int(node.subscript.value))
        if isinstance(node, c_ast.FuncCall) and node.args is not None and len(node.args.exprs) == 1:
            name, member = _member(node.args.exprs[0])
            lib, function = self.libraries.get(name), function_of_call(node)
            if lib is not None and function in lib.widths and member in ("", lib.element):
                return Asked(name, "width")
            if lib is not None and function in lib.products and not member:
                return Asked(name, "product", lib.products[function])
        return None

    def expression(self, node: Any) -> Any:
        """What ``node``, which asks something of a tensor, is made of; None where that is a number of its own."""
        asked = self.asked(node)
        if asked is None or asked.what == "extent":
            return None
        if asked.what == "product":
            return _product(self._extents(asked.tensor, asked.k, self.libraries[asked.tensor].dimensions))
        width = self.widths.get(asked.tensor)
        if width is not None:
            return _product([*self._extents(asked.tensor, 0, asked.k), c_ast.Constant("int", str(width))])
        if asked.what == "width":
            return self._held(asked.tensor, "stride", 0)
        if asked.tensor in self.plain and asked.k:
            return _product([*self._extents(asked.tensor, 0, asked.k), self._held(asked.tensor, "stride", 0)])
        if asked.k < 2:  # a row may be of blocks, of whose elements nothing is known
            return None
        return _product([*self._extents(asked.tensor, 1, asked.k), self._held(asked.tensor, "stride", 1)])

    def _extents(self, tensor: str, first: int, last: int) -> list[Any]:
        return [self._held(tensor, "extent", k) for k in range(first, last)]

    def _held(self, tensor: str, what: str, k: int) -> c_ast.ID:
        lib = self.libraries[tensor]
        return c_ast.ID(f"{tensor}_{lib.extents if what == 'extent' else lib.strides}_{k}")

    def shown(self, name: str) -> str:
        """How a number is called that is asked for as ``name``: as a variable that holds it, if there is one."""
        held = (n for n in self.spellings.get(name, ()) if n in self.nodes and n != name_of_query(_bare(self.nodes[n])))
        return next(held, name)

    def named(self, node: Any) -> str:
        """The name for what ``node`` asks of a tensor; '' where it asks nothing, or makes a real number of it:
        ``(float)x->ne[0] / 3`` divides no integers."""
        if is_real(node):
            return ""
        return name_of_query(_bare(node)) if self.libraries and self.asked(node) is not None else ""


def is_real(node: Any) -> bool:
    """Whether ``node`` is a conversion to a floating-point type."""
    if not isinstance(node, c_ast.Cast | CxxCast):
        return False
    words = getattr(getattr(getattr(node.to_type, "type", node.to_type), "type", None), "names", ())
    return any(w in ("float", "double") for w in words)


def name_of_query(node: Any) -> str:
    """The name for what is asked of a tensor: of ``x->ne[1]``, or of ``elements_of(x)``; '' for anything else."""
    return name_of_member(node) or (name_of_function_call(node) if isinstance(node, c_ast.FuncCall) else "")


def extents_alike(cond: Any) -> list[tuple[Any, Any]]:
    """The extents that are the same where ``cond`` holds, which says that tensors have the same extents."""
    if not isinstance(cond, c_ast.FuncCall) or function_of_call(cond) not in ALIKE or cond.args is None:
        return []
    lib = next(lib for lib in LIBRARIES.values() if function_of_call(cond) in lib.alike)
    first, *others = cond.args.exprs
    return [(_extent(x, lib, k), _extent(first, lib, k)) for x in others for k in range(lib.dimensions)]


def _extent(tensor: Any, lib: Library, k: int) -> Any:
    return c_ast.ArrayRef(c_ast.StructRef(tensor, "->", c_ast.ID(lib.extents)), c_ast.Constant("int", str(k)))


def _nodes(function: Entity) -> list[Any]:
    try:
        return list(descendants(function.node.body))
    except KtcError:
        return []


def _bare(node: Any) -> Any:
    """``node`` without conversions and the list that it stands in; ``x ? x->ne[1] : 0`` is that of an ``x`` there."""
    while True:
        if isinstance(node, c_ast.Cast | CxxCast):
            node = node.expr
        elif isinstance(node, c_ast.TernaryOp) and isinstance(node.cond, c_ast.ID) and _is_zero(node.iffalse):
            node = node.iftrue
        elif not isinstance(node, c_ast.FuncCall) and len(init_args(node)) == 1 and init_args(node)[0] is not node:
            node = init_args(node)[0]
        else:
            return node


def _is_zero(node: Any) -> bool:
    return isinstance(node, c_ast.Constant) and node.value == "0"


def _member(node: Any) -> tuple[str, str]:
    """The object and the member of ``object->member``; an object alone has the member ''."""
    if isinstance(node, c_ast.ID):
        return node.name, ""
    plain = isinstance(node, c_ast.StructRef) and isinstance(node.name, c_ast.ID)
    return (node.name.name, name_parts(node.field)[1]) if plain else ("", "")


def _class_name(declared: Any) -> str:
    while isinstance(declared, c_ast.PtrDecl | c_ast.TypeDecl):
        declared = declared.type
    if isinstance(declared, NamedType):
        return str(name_parts(declared.name)[1])
    return str(getattr(declared, "name", None) or "")


def _product(factors: list[Any]) -> Any:
    return functools.reduce(lambda a, b: c_ast.BinaryOp("*", a, b), factors)


__all__ = ["LaidOut", "extents_alike", "name_of_query"]
