"""Arrays in registers, in shared memory and at file scope."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.context import Retry
from ktc.ir.frontend.lowering.expressions.construct import braced
from ktc.ir.frontend.lowering.memory.pointer_vars import PointerVariables
from ktc.ir.frontend.meaning.cxx_types import CArray, Pointer, RecordType, show
from ktc.ir.frontend.meaning.literals import characters
from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    ElemPlace,
    FlatArray,
    LaneArray,
    ListVal,
    PtrVal,
    Value,
)  # fmt: skip
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.nodes import Alloc, Binary, Expr, For, Stmt, Store, Var, fresh, i32
from ktc.ir.types import I8, I32, Array, Scalar, Type, Vec, scalar_of

from .brace_elision import regrouped


class Arrays(PointerVariables):
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
            values = self.unpacked(array_values(node.init))
            if t.n is None:
                t = CArray(t.elem, len(values))
        v = self.declare_array(node.name, t, node, self._alignment(node))
        elem = self._shape(t, node)[1]
        if values is None and isinstance(elem, RecordType) and self.has_start(elem):
            values = []
        if values is not None:
            self.fill_array(v, t, values, node)
        return v

    def declare_array(self, name: str, t: CArray, node: Any, align: int = 0) -> Value:
        dims, elem = self._shape(t, node)
        key = ("array", name, str(self.place(node)))
        elem = self.vector_of(elem, node) or elem
        if isinstance(elem, RecordType | Pointer) or key in self.hints:
            return self.in_array(name, t, "local", node, align, key)
        if not isinstance(elem, Scalar | Vec):
            self.fail("E-UNSUPPORTED-ARRAY", f"an array of '{show(elem)}' is not supported", node)
        sym = fresh(name, Array(elem, tuple(i32(d) for d in dims), "local"))
        self.origin[sym] = key
        self.emit(Alloc(sym, align=align, loc=self.loc))
        return ArrayVal(sym, (), t)

    def _alignment(self, node: Any) -> int:
        """What ``alignas`` asks for, 0 without one."""
        return max((self.const_int(a.alignment, "an alignment") for a in getattr(node, "align", None) or []), default=0)

    def fill_array(self, v: Value, t: CArray, values: list, node: Any) -> None:
        dims, elem = self._shape(t, node)
        total = prod(dims)
        flat: dict[tuple[int, ...], Any] = {}
        if isinstance(elem, RecordType | Vec):
            values = regrouped(self, t, values, node)
        _flatten(values, dims, (), flat)
        by_loops = isinstance(v, ArrayVal) and isinstance(elem, Scalar) and total - len(flat) > LONG_INIT
        if (len(flat) if by_loops else total) > MAX_INIT:
            what = f"an initialised array of {total} elements"
            self.fail("E-UNSUPPORTED-ARRAY", what, node, hint="fill it with a loop")
        stored: Iterable[tuple[int, ...]] = itertools.product(*map(range, dims))
        if by_loops:
            self._zeroed(v, dims, elem)  # type: ignore[arg-type]
            stored = [k for k, x in flat.items() if not _is_zero(x)]
        for index in stored:
            if not isinstance(v, ArrayVal) or isinstance(elem, RecordType):
                place: Value = v
                for i in index:
                    place = self.subscript(place, i32(i), node)
                args = [flat[index]] if index in flat else []
                if isinstance(elem, RecordType):
                    args = args[0].exprs if args and isinstance(args[0], c_ast.InitList) else args
                    self.store(place, self.brace_record(elem, args, node), node)
                else:
                    self.store(place, self.initial_value(elem, args, True, node), node)
                continue
            e = self.initial_value(elem, [flat[index]], True, node) if index in flat else self.zero(elem)
            value = self.convert(self.rvalue(e, node, elem), elem, "implicit", node).expr
            self.emit(Store(v.buffer, tuple(i32(i) for i in index), value, loc=self.loc))

    def _zeroed(self, v: ArrayVal, dims: tuple[int, ...], elem: Scalar) -> None:
        """Zero in every element, by loops."""
        index = [fresh("i", I32) for _ in dims]
        body: Stmt = Store(v.buffer, tuple(map(Var, index)), self.zero(elem).expr, loc=self.loc)
        for i, d in zip(reversed(index), reversed(dims), strict=True):
            cond, step = Binary("<", Var(i), i32(d)), Binary("+", Var(i), i32(1))
            body = For(i, i32(0), cond, step, (body,), loc=self.loc, tags=self.tag("i"))
        self.emit(body)

    def copy_array(self, dst: Value, src: Value, node: Any, declared: CArray | None = None) -> None:
        """Element by element; ``declared`` is the array's type where ``dst`` is only where it begins."""
        for target, source in self.elements_of(dst, src, node, declared):
            self.store(target, self.load(source), node)

    def elements_of(
        self, dst: Value, src: Value, node: Any, declared: CArray | None = None
    ) -> Iterator[tuple[Value, Value]]:
        """The elements of two arrays of one type, in pairs."""
        if declared is None:
            assert isinstance(dst, ArrayVal | FlatArray | LaneArray) and isinstance(dst.type, CArray)
            declared = dst.type
        dims, _ = self._shape(declared, node)
        for index in itertools.product(*(range(d) for d in dims)):
            source, target = src, dst
            for i in index:
                source, target = self.subscript(source, i32(i), node), self.subscript(target, i32(i), node)  # type: ignore[assignment]
            yield target, source

    def declare_shared(self, node: c_ast.Decl, t: Type, storage: list[str]) -> Value:
        """``__shared__`` static or ``extern __shared__`` dynamic memory; the same dynamic name is the same memory."""
        align = self._alignment(node)
        dynamic = "extern" in storage
        if dynamic:
            return self._dynamic(node, t, align)
        key = ("shared", node.name, str(self.place(node)))
        if isinstance(t, Scalar | Vec) and key not in self.hints:
            sym = fresh(node.name, Array(t, (i32(1),), "shared"))
            self.origin[sym] = key
            self.emit_alloc(Alloc(sym, align=align, loc=self.loc))
            return ElemPlace(sym, (i32(0),), t)
        dims, elem = self._shape(t, node) if isinstance(t, CArray) else ((), t)
        if 0 in dims:
            self.fail("E-SEMA-ARRAY", f"the shared array '{node.name}' has no elements", node,
                      hint="give the template arguments or macros that its size is made of")  # fmt: skip
        elem = self.vector_of(elem, node) or elem
        if isinstance(elem, RecordType | Pointer) or key in self.hints or not dims:
            return self.in_array(node.name, t, "shared", node, align, key)
        if not isinstance(elem, Scalar | Vec):
            self.fail("E-UNSUPPORTED-SHARED", f"shared memory of type '{show(elem)}'", node)
        sym = fresh(node.name, Array(elem, tuple(i32(d) for d in dims), "shared"))
        self.origin[sym] = key
        self.emit_alloc(Alloc(sym, align=align, loc=self.loc))
        return ArrayVal(sym, (), t)

    def shared_at_file_scope(self, node: c_ast.Decl, storage: list[str]) -> Value:
        """A ``__shared__`` variable outside functions: one array, whichever function names it first."""
        t = self.resolve(node.type)
        if "extern" in storage or (isinstance(t, CArray) and t.n is None):
            return self._dynamic(node, t, 0)
        key = str(self.place(node))
        if key not in self.file_shared:
            self.file_shared[key] = self.declare_shared(node, t, storage)
        return self.file_shared[key]

    file_shared: dict[str, Value]

    def emit_alloc(self, a: Alloc) -> None:
        """Shared memory belongs to the block, whatever the control flow around its declaration."""
        if self.frame.is_kernel and not self.frame.control:
            self.emit(a)
        else:
            self.hoisted.append(a)

    hoisted: list[Alloc]

    def _dynamic(self, node: c_ast.Decl, t: Type, align: int) -> Value:
        """The block's dynamic memory: every ``extern`` declaration of it, whatever its name, starts at its first byte.

        Declarations of different element types make it an array of the smaller type, which both are views of.
        """
        if not isinstance(t, CArray):
            self.fail("E-UNSUPPORTED-SHARED", f"dynamic shared memory of type '{show(t)}'", node,
                      hint="declare an array")  # fmt: skip
        key = ("dynamic",)
        whole = CArray(t.elem, None)
        if node.name in self.shared and self.shared[node.name].type == whole:  # type: ignore[attr-defined]
            return self.shared[node.name]
        plain = isinstance(t.elem, Scalar | Vec) and key not in self.hints
        for first in self.shared.values():
            sym = first.buffer if isinstance(first, ArrayVal) else first.start.buffer  # type: ignore[attr-defined]
            if plain and isinstance(first, ArrayVal) and isinstance(first.type, CArray) and first.type.elem == t.elem:
                return self.shared.setdefault(node.name, ArrayVal(sym, (), whole))
            if key not in self.hints:
                raise Retry(key, min(self.unit(t.elem, node), scalar_of(sym.type), key=lambda u: u.bytes))
            return FlatArray(PtrVal(sym, (), None, whole), whole)
        elem = t.elem if plain else self.hinted(key, self.unit(t.elem, node))
        if not plain:
            natural = 16 if key in self.hints else self.layout(t.elem, node)[1]
            align = max(align, natural if natural > elem.bytes else 0)  # type: ignore[attr-defined]
        sym = fresh(node.name, Array(elem, (self.dynamic_extent(elem),), "shared"))
        self.origin[sym] = key
        self.emit_alloc(Alloc(sym, dynamic=True, align=align, loc=self.loc))
        self.shared[node.name] = ArrayVal(sym, (), whole) if plain else FlatArray(PtrVal(sym, (), None, whole), whole)
        return self.shared[node.name]

    def dynamic_extent(self, elem: Type) -> Expr:
        raise NotImplementedError

    def _constant_table(self, decl: c_ast.Decl, t: CArray) -> Value:
        return self._table(id(decl), decl, t, decl.init)

    def string_table(self, text: str, node: Any) -> Value:
        """A string literal as an array of characters."""
        key = ("string", text)
        if key not in self.tables:
            values = characters(text)
            with self.capture() as out:
                array = self.declare_array("text", CArray(I8, len(values)), node)
                self.fill_array(array, array.type, values, node)  # type: ignore[attr-defined]
            self.hoisted.extend(out)  # type: ignore[arg-type]
            self.tables[key] = array
        return self.tables[key]

    def static_table(self, owner: RecordType, decl: c_ast.Decl, init: Any) -> Value:
        """A static array member of the class ``owner``."""
        t = self.resolve(decl.type)
        assert isinstance(t, CArray)
        return self._table((id(decl), owner), decl, t, init)

    def _table(self, key: Any, decl: c_ast.Decl, t: CArray, init: Any) -> Value:
        """A constant array, as one private array that is filled before everything else."""
        if key not in self.tables:
            saved, self.loc = self.loc, self.place(decl)
            with self.capture() as out:
                copy = c_ast.Decl(decl.name, decl.quals, decl.align, [], [], decl.type, init, None, decl.coord)
                self.tables[key] = self._local_array(copy, t)
            self.hoisted.extend(out)  # type: ignore[arg-type]
            self.loc = saved
        return self.tables[key]

    tables: dict[Any, Value]


MAX_INIT = 4096
"""Elements of an initialised private array that are stored one by one."""


LONG_INIT = 64
"""Elements without a value of their own, from which on loops store their zeros."""


def _is_zero(value: Any) -> bool:
    """Whether a value is a zero as it is written."""
    return isinstance(value, c_ast.Constant) and value.type in ("int", "float", "double") and _number(value.value) == 0


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("fFuUlL"))
    except ValueError:
        return None  # hexadecimal, say: it is stored like any other


def array_values(init: Any) -> list:
    """The values that an array is initialised with: of ``{...}``, or the characters of a literal."""
    values = init_args(init)
    if len(values) == 1 and isinstance(values[0], c_ast.InitList):
        values = values[0].exprs
    if len(values) == 1 and isinstance(values[0], c_ast.Constant) and values[0].type == "string":
        values = characters(values[0].value)
    return values


def flattened(values: list, dims: tuple[int, ...]) -> dict[tuple[int, ...], Any]:
    """Braced values of an array by index."""
    out: dict[tuple[int, ...], Any] = {}
    _flatten(values, dims, (), out)
    return out


def _flatten(values: list, dims: tuple[int, ...], prefix: tuple[int, ...], out: dict[tuple[int, ...], Any]) -> None:
    """Braced values by index; a missing inner brace level runs on row-major, as C allows."""
    if len(dims) == 1:
        for i, v in enumerate(values):
            out[(*prefix, i)] = v
        return
    if values and not any(isinstance(v, c_ast.InitList | ListVal) for v in values):
        inner = 1
        for d in dims[1:]:
            inner *= d
        values = [c_ast.InitList(values[i : i + inner]) for i in range(0, len(values), inner)]
    for i, v in enumerate(values):
        _flatten(braced(v), dims[1:], (*prefix, i), out)
