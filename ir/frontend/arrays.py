"""Arrays in registers, in shared memory and at file scope."""

from __future__ import annotations

import itertools
from typing import Any

from pycparser import c_ast

from ..nodes import Alloc, Expr, Store, fresh, i32
from ..types import Array, Scalar, Type, Vec
from .cxx_ast import CtorInit
from .cxx_types import CArray, show
from .exprs import Exprs
from .values import (
    ArrayVal,
    ElemPlace,
    Value,
)  # fmt: skip


class Arrays(Exprs):
    """Array declarations and their initialisers."""

    def _shape(self, t: CArray, node: Any) -> tuple[tuple[int, ...], Type]:
        dims: list[int] = []
        inner: Type = t
        while isinstance(inner, CArray):
            if inner.n is None:
                self.fail("E-SEMA-ARRAY", "the size of this array is not known", node)
            dims.append(inner.n)
            inner = inner.elem
        return tuple(dims), inner

    def _local_array(self, node: c_ast.Decl, t: CArray) -> Value:
        values = None
        if node.init is not None:
            values = init_args(node.init)
            if len(values) == 1 and isinstance(values[0], c_ast.InitList):
                values = values[0].exprs
            if t.n is None:
                t = CArray(t.elem, len(values))
        v = self.declare_array(node.name, t, node)
        if values is not None:
            self._init_array(v, t, values, node)
        return v

    def declare_array(self, name: str, t: CArray, node: Any) -> ArrayVal:
        dims, elem = self._shape(t, node)
        if not isinstance(elem, Scalar | Vec):
            self.fail(
                "E-UNSUPPORTED-ARRAY",
                f"an array of '{show(elem)}' is not supported",
                node,
                hint="use one array per field",
            )
        sym = fresh(name, Array(elem, tuple(i32(d) for d in dims), "local"))
        self.emit(Alloc(sym, loc=self.loc))
        return ArrayVal(sym, (), t)

    def _init_array(self, v: ArrayVal, t: CArray, values: list, node: Any) -> None:
        dims, elem = self._shape(t, node)
        total = 1
        for d in dims:
            total *= d
        if total > MAX_INIT:
            self.fail(
                "E-UNSUPPORTED-ARRAY", f"an initialised array of {total} elements", node, hint="fill it with a loop"
            )
        flat: dict[tuple[int, ...], Any] = {}
        _flatten(values, dims, (), flat)
        for index in itertools.product(*(range(d) for d in dims)):
            e = self.initial_value(elem, [flat[index]], True, node) if index in flat else self.zero(elem)
            value = self.convert(self.rvalue(e, node), elem, "implicit", node).expr
            self.emit(Store(v.buffer, tuple(i32(i) for i in index), value, loc=self.loc))

    def copy_array(self, dst: Value, src: Value, node: Any) -> None:
        """Element by element."""
        assert isinstance(dst, ArrayVal) and isinstance(dst.type, CArray)
        dims, elem = self._shape(dst.type, node)
        for index in itertools.product(*(range(d) for d in dims)):
            at = tuple(i32(i) for i in index)
            source: Value = src
            for i in at:
                source = self.subscript(source, i, node)
            self.store(ElemPlace(dst.buffer, dst.prefix + at, elem), self.load(source), node)

    def declare_shared(self, node: c_ast.Decl, t: Type, storage: list[str]) -> Value:
        """``__shared__`` static or ``extern __shared__`` dynamic memory; the same dynamic name is the same memory."""
        align = 0
        for a in node.align or []:
            align = max(align, self.const_int(a.alignment, "an alignment"))
        dynamic = "extern" in storage
        if dynamic:
            return self._dynamic(node, t, align)
        if isinstance(t, Scalar | Vec):
            sym = fresh(node.name, Array(t, (i32(1),), "shared"))
            self.emit_alloc(Alloc(sym, align=align, loc=self.loc))
            return ElemPlace(sym, (i32(0),), t)
        if not isinstance(t, CArray):
            self.fail(
                "E-UNSUPPORTED-SHARED", f"shared memory of type '{show(t)}'", node, hint="use one array per field"
            )
        dims, elem = self._shape(t, node)
        if not isinstance(elem, Scalar | Vec):
            self.fail(
                "E-UNSUPPORTED-SHARED", f"shared memory of type '{show(elem)}'", node, hint="use one array per field"
            )
        sym = fresh(node.name, Array(elem, tuple(i32(d) for d in dims), "shared"))
        self.emit_alloc(Alloc(sym, align=align, loc=self.loc))
        return ArrayVal(sym, (), t)

    def emit_alloc(self, a: Alloc) -> None:
        """Shared memory belongs to the block, whatever the control flow around its declaration."""
        if self.frame.is_kernel and not self.frame.control:
            self.emit(a)
        else:
            self.hoisted.append(a)

    hoisted: list[Alloc]

    def _dynamic(self, node: c_ast.Decl, t: Type, align: int) -> Value:
        if node.name in self.shared:
            return self.shared[node.name]
        if not isinstance(t, CArray) or not isinstance(t.elem, Scalar | Vec):
            self.fail(
                "E-UNSUPPORTED-SHARED",
                f"dynamic shared memory of type '{show(t)}'",
                node,
                hint="declare an array of bytes or numbers",
            )
        sym = fresh(node.name, Array(t.elem, (self.dynamic_extent(t.elem),), "shared"))
        self.emit_alloc(Alloc(sym, dynamic=True, align=align, loc=self.loc))
        self.shared[node.name] = ArrayVal(sym, (), CArray(t.elem, None))
        return self.shared[node.name]

    def dynamic_extent(self, elem: Type) -> Expr:
        raise NotImplementedError

    def _constant_table(self, decl: c_ast.Decl, t: CArray) -> Value:
        if decl.name not in self.tables:
            saved, self.loc = self.loc, self.place(decl)
            with self.capture() as out:
                copy = c_ast.Decl(decl.name, decl.quals, decl.align, [], [], decl.type, decl.init, None, decl.coord)
                self.tables[decl.name] = self._local_array(copy, t)
            self.hoisted.extend(out)  # type: ignore[arg-type]
            self.loc = saved
        return self.tables[decl.name]

    tables: dict[str, Value]


MAX_INIT = 4096
"""Elements of an initialised private array that are stored one by one."""


def init_args(init: Any) -> list:
    """Initialiser forms ``= x``, ``(x, y)``, ``{x, y}`` as a list of expressions."""
    if init is None:
        return []
    if isinstance(init, CtorInit):
        return list(init.args)
    return list(init.exprs) if isinstance(init, c_ast.InitList) else [init]


def _flatten(values: list, dims: tuple[int, ...], prefix: tuple[int, ...], out: dict[tuple[int, ...], Any]) -> None:
    """Braced values by index; a missing inner brace level runs on row-major, as C allows."""
    if len(dims) == 1:
        for i, v in enumerate(values):
            out[(*prefix, i)] = v
        return
    if values and not any(isinstance(v, c_ast.InitList) for v in values):
        inner = 1
        for d in dims[1:]:
            inner *= d
        values = [c_ast.InitList(values[i : i + inner]) for i in range(0, len(values), inner)]
    for i, v in enumerate(values):
        _flatten(v.exprs, dims[1:], (*prefix, i), out)
