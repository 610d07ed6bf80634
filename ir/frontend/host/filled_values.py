"""Which integers host code fills an array with that a launch passes: ``data[i] = 'a' + rand() % 26`` is 97 to 122.

The array is followed to the memory that is copied into it, through the functions of the file that it is passed to, and
back to those that pass it. What the host computes otherwise says nothing; an array that only gets one number neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import Construct, CxxCast, Function, Lambda, Launch, NamedType
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.frontend.syntax.variable_uses import base_name, init_args

from .host_calls import function_of_call
from .host_code import uses

Span: TypeAlias = "tuple[int, int]"
"""The least and the largest of several integers."""

HOPS = 3
"""Functions that an array is followed through, in either direction."""

COPIES = frozenset({"cudaMemcpy", "cudaMemcpyAsync", "hipMemcpy", "hipMemcpyAsync", "memcpy"})
"""Functions that fill their first argument with what their second one holds."""

FILLS = frozenset({"generate", "generate_n", "fill", "fill_n"})
"""Functions of ``<algorithm>`` whose last argument is what elements are, or makes one."""

RANDOM = frozenset({"rand", "random", "lrand48", "rand_r"})
"""Functions whose result is any number that is not negative."""

DRAWN = "uniform_int_distribution"


def values_filled(lowering: KernelLowering, function: Entity, array: Any) -> Span | None:
    """The least and the largest integer that host code is seen to put into ``array``, an argument of a launch in
    ``function``; None where it is seen to put in nothing, one number, or what it may be is not known."""
    name = _array(array)
    found = list(_Filling(lowering).of(function, name)) if name is not None else []
    spans = [s for s in found if s is not None]
    whole = _hull(spans) if spans and len(spans) == len(found) else None
    return whole if whole is not None and whole[0] < whole[1] else None


class _Filling:
    """The search for what fills an array; each variable of a function is looked at once."""

    def __init__(self, lowering: KernelLowering) -> None:
        self.lowering = lowering
        self.seen: set[tuple[int, str]] = set()

    def of(self, function: Entity, name: str, hops: int = HOPS) -> Iterator[Span | None]:
        """What each statement that fills ``name``, here and in the functions that pass it here, fills it with."""
        yield from self._within(function.node, name, hops)
        at = _position(function.node, name)
        for use in uses(self.lowering, frozenset({function.name})) if at is not None and hops else ():
            given = use.call[at] if at is not None and use.call is not None and at < len(use.call) else None
            if (passed := _array(given)) is not None:
                yield from self.of(use.function.entity, passed, hops - 1)

    def _within(self, fn: Function, name: str, hops: int) -> Iterator[Span | None]:
        if (id(fn), name) in self.seen:
            return
        self.seen.add((id(fn), name))
        try:
            nodes = descendants(fn.body) if fn.body is not None else []
        except KtcError:
            return
        for n in nodes:
            if isinstance(n, c_ast.Assignment) and isinstance(n.lvalue, c_ast.ArrayRef) and base_name(n.lvalue) == name:
                yield self._span(n.rvalue, nodes) if n.op == "=" else None
            elif isinstance(n, c_ast.FuncCall) and not isinstance(n, Launch) and n.args is not None:
                yield from self._called(n, name, fn, nodes, hops)

    def _called(self, call: c_ast.FuncCall, name: str, fn: Function, nodes: list, hops: int) -> Iterator[Span | None]:
        """What a call with ``name`` among its arguments fills it with."""
        called, args = function_of_call(call).rpartition("::")[2], call.args.exprs
        if not args or name not in (passed := [_array(a) for a in args]):
            return
        if called in COPIES:
            source = passed[1] if len(passed) > 1 and passed[0] == name else None
            yield from self._within(fn, source, hops) if source is not None else ()
        elif own := self.lowering.program.functions.get(called, []):
            for e in own if hops else ():
                names = [getattr(p, "name", None) for p in params_of(e.node)]
                for inner in (p for p, a in zip(names, passed) if a == name and p):
                    yield from self._within(e.node, inner, hops - 1)
        elif called in FILLS and passed[0] == name:
            yield self._span(args[-1], nodes)

    def _span(self, e: Any, nodes: list) -> Span | None:
        """Between what numbers ``e`` is, in a function with these ``nodes``."""
        if isinstance(e, c_ast.Cast | CxxCast):
            return self._span(e.expr, nodes)
        if isinstance(e, Construct) and len(e.args) == 1:
            return self._span(e.args[0], nodes)
        if isinstance(e, c_ast.UnaryOp) and e.op == "-":
            span = self._span(e.expr, nodes)
            return (-span[1], -span[0]) if span is not None else None
        if isinstance(e, Lambda):
            made = [self._span(n.expr, nodes) for n in descendants(e.body) if isinstance(n, c_ast.Return)]
            return _hull([s for s in made if s is not None]) if made and None not in made else None
        if isinstance(e, c_ast.TernaryOp):
            ways = [self._span(e.iftrue, nodes), self._span(e.iffalse, nodes)]
            return None if None in ways else _hull([s for s in ways if s is not None])
        if isinstance(e, c_ast.FuncCall):
            return self._drawn(e, nodes)
        if isinstance(e, c_ast.BinaryOp):
            return self._combined(e, nodes)
        return self._constant(e, nodes)

    def _combined(self, e: c_ast.BinaryOp, nodes: list) -> Span | None:
        b = self._span(e.right, nodes)
        if e.op == "%" and b is not None and b[0] > 0:
            return (0, b[1] - 1) if self._not_negative(e.left, nodes) else None
        a = self._span(e.left, nodes)
        if a is None or b is None or e.op not in "+-*":
            return None
        ends = [{"+": x + y, "-": x - y, "*": x * y}[e.op] for x in a for y in b]
        return min(ends), max(ends)

    def _not_negative(self, e: Any, nodes: list) -> bool:
        """Whether ``e`` is a random number, a loop's counter, or one of a span above 0."""
        if isinstance(e, c_ast.FuncCall) and function_of_call(e).rpartition("::")[2] in RANDOM:
            return True
        counters = (d.name for n in nodes if isinstance(n, c_ast.For) for d in getattr(n.init, "decls", None) or ())
        if isinstance(e, c_ast.ID) and e.name in counters:
            return True
        if isinstance(e, c_ast.BinaryOp) and e.op in "+*":
            return self._not_negative(e.left, nodes) and self._not_negative(e.right, nodes)
        span = self._span(e, nodes)
        return span is not None and span[0] >= 0

    def _drawn(self, call: c_ast.FuncCall, nodes: list) -> Span | None:
        """What a call of a distribution of integers draws from."""
        name = call.name.name if isinstance(call.name, c_ast.ID) else None
        for n in nodes:
            if isinstance(n, c_ast.Decl) and n.name == name and DRAWN in _type_name(n.type):
                ends = [self._constant(a, nodes) for a in init_args(n.init)]
                return (ends[0][0], ends[1][0]) if len(ends) == 2 and ends[0] and ends[1] else None
        return None

    def _constant(self, e: Any, nodes: list) -> Span | None:
        for n in nodes if isinstance(e, c_ast.ID) else ():
            if isinstance(n, c_ast.Decl) and n.name == e.name and {"const", "constexpr"} & {*n.quals, *n.storage}:
                return self._span(args[0], nodes) if len(args := init_args(n.init)) == 1 else None
        try:
            n = self.lowering.const_int(e, "a value")
        except KtcError:
            return None
        return n, n


def _position(fn: Function, name: str) -> int | None:
    """Which parameter of ``fn`` is called ``name``."""
    names = [getattr(p, "name", None) for p in params_of(fn)]
    return names.index(name) if name in names else None


def _array(e: Any) -> str | None:
    """The array that an argument is, or where it begins: ``a``, ``&a[0]``, ``a.data()``, ``begin(a)``."""
    while isinstance(e, c_ast.FuncCall):
        if isinstance(e.name, c_ast.StructRef):
            e = e.name.name
            continue
        args = e.args.exprs if e.args is not None else []
        if not args or function_of_call(e).rpartition("::")[2] not in ("begin", "data"):
            return None
        e = args[0]
    return base_name(e)


def _type_name(node: Any) -> str:
    while isinstance(node, c_ast.TypeDecl):
        node = node.type
    return node.name.text if isinstance(node, NamedType) else ""


def _hull(spans: list[Span]) -> Span:
    return min(a for a, _ in spans), max(b for _, b in spans)


__all__ = ["values_filled"]
