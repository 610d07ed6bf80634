"""Variables at file scope in device memory: ``__constant__``, ``__device__``, ``__managed__``."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Any, NoReturn

from pycparser import c_ast

from ktc.ir.frontend.lowering.expressions.construct import braced
from ktc.ir.frontend.meaning.cxx_types import CArray, RecordType, innermost, show
from ktc.ir.frontend.meaning.values import PtrVal, RVal, Value
from ktc.ir.frontend.syntax.cxx_ast import QualName, qualifiers
from ktc.ir.frontend.syntax.program import Entity, name_parts, pick
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.kernel import Param
from ktc.ir.nodes import Const, VecMake, fresh
from ktc.ir.types import F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Ptr, Scalar, Type, Vec

from .arrays import array_values, flattened
from .declare import Declarations

STORAGE = {"__constant__": "constant", "__managed__": "managed", "__device__": "device"}
MAX_INITIAL = 1 << 16


class Globals(Declarations):
    """Device memory at file scope becomes a parameter of the kernel that remembers what it was."""

    globals: dict[str, Param]

    def global_variable(self, entity: Entity, bound: dict[str, Value], node: Any) -> Value:
        """What a variable at file scope means in device code."""
        decl: c_ast.Decl = entity.node
        storage = [*(decl.storage or []), *(s for s in (decl.funcspec or []) if isinstance(s, str))]
        word = next((s for s in STORAGE if s in storage), None)
        constant = "constexpr" in storage or "const" in qualifiers(decl.type)
        if word is None or (constant and not self._is_table(decl)):
            return super().global_variable(entity, bound, node)
        with self.scoped(namespace=entity.namespace, root=self.global_scope()):
            t = self.resolve(decl.type)
        return self._device_variable(entity, t, STORAGE[word], node)

    def _is_table(self, decl: c_ast.Decl) -> bool:
        return isinstance(decl.type, c_ast.ArrayDecl) or decl.init is None

    def _device_variable(self, entity: Entity, t: Type, storage: str, node: Any) -> Value:
        decl, name = entity.node, entity.name
        if isinstance(t, CArray) and t.n is None:
            if decl.init is None:
                self.fail("E-UNSUPPORTED-GLOBAL", f"the size of '{name}' is not known in this file", node,
                          hint="declare it with its size")  # fmt: skip
            t = CArray(t.elem, len(array_values(decl.init)))
        inner = innermost(t)
        key = ("global", name)
        if name not in self.globals:
            size, natural = self.layout(t, node)
            whole = isinstance(inner, Scalar) or (isinstance(inner, Vec) and decl.init is None)
            elem = inner if whole and key not in self.hints else self.hinted(key, self.unit(t, node))
            each, own = self.layout(elem, node)
            constant = storage == "constant"
            sym = fresh(name, Ptr(elem, "const" if constant else "global", constant))
            init = self._initial_values(decl, t, elem, entity, node) if decl.init is not None else ()
            self.origin[sym] = key
            given = max((self.const_int(a.alignment, "an alignment") for a in decl.align or []), default=0)
            natural = max(natural, given)
            self.globals[name] = Param(sym, align=natural if natural > own else 0, readonly=constant, symbol=storage,
                                       extent=size // each, init=init)  # fmt: skip
        sym = self.globals[name].sym
        return self.at_start_of(PtrVal(sym, (), None, t, storage == "constant"), t, node)

    def _initial_values(self, decl: c_ast.Decl, t: Type, unit: Type, entity: Entity, node: Any) -> tuple:
        """The constants that the variable starts with, as the ``unit`` scalars that its memory holds."""
        args = init_args(decl.init)
        whole = decl.init if isinstance(decl.init, c_ast.InitList) or len(args) != 1 else args[0]
        if isinstance(t, CArray):
            whole = c_ast.InitList(array_values(decl.init))
        elif not isinstance(whole, c_ast.Node):
            whole = c_ast.InitList(args)
        out: list[tuple[Type, int | float | bool]] = []
        with self.scoped(namespace=entity.namespace, root=self.global_scope()):
            for leaf, value in self._leaf_values(decl, t, whole, node):
                if len(out) >= MAX_INITIAL:
                    self.fail("E-UNSUPPORTED-GLOBAL", f"'{decl.name}' has too many initial values", node)
                out.append((leaf, value))
        if all(leaf == unit for leaf, _ in out):
            return tuple(value for _, value in out)
        units = as_units(out, unit)
        if units is None or len(units) > MAX_INITIAL:
            self._no_initial_value(decl, t, node)
        return units

    def _leaf_values(self, decl: c_ast.Decl, t: Type, value: Any, node: Any) -> Iterator[tuple[Type, Any]]:
        """(type, value) of the scalars of a ``t`` that starts as ``value`` (None: as zeros), in memory's order."""
        if isinstance(t, Scalar):
            items = braced(value) if isinstance(value, c_ast.InitList) else [value]
            v = self.const_value(items[0], "an initial value") if items and items[0] is not None else self.zero(t)
            c = self.convert(v, t).expr
            assert isinstance(c, Const)
            yield t, c.value
        elif isinstance(t, CArray):
            dims, inner = self._shape(t, node)
            given = {} if value is None else flattened(array_values(value), dims)
            for index in itertools.product(*map(range, dims)):
                yield from self._leaf_values(decl, inner, given.get(index), node)
        elif isinstance(t, Vec):
            whole: Value = self.initial_value(t, braced(value), True, node) if isinstance(value, c_ast.InitList) else \
                self.zero(t) if value is None else self.rval(value)  # fmt: skip
            made = whole.expr if isinstance(whole, RVal) and whole.type == t else None
            lanes = made.args if isinstance(made, VecMake) else ()
            consts = [self.constant(x) for x in lanes]
            if not consts or None in consts:
                self._no_initial_value(decl, t, node)
            yield from ((t.elem, c.value) for c in consts)  # type: ignore[union-attr]
            yield from ((t.elem, 0) for _ in range(self.layout(t, node)[0] // t.elem.bytes - len(consts)))
        else:
            yield from self._member_values(decl, t, value, node)

    def _member_values(self, decl: c_ast.Decl, t: Type, value: Any, node: Any) -> Iterator[tuple[Type, Any]]:
        """The scalars of a struct that is initialised with braces and has neither padding nor bit-fields."""
        items = braced(value) if isinstance(value, c_ast.InitList) else [] if value is None else None
        plain = isinstance(t, RecordType) and t.decl[0].node.kind != "union" and not self.default_constructed(t)
        if items is None or not plain:
            self._no_initial_value(decl, t, node)
        assert isinstance(t, RecordType)
        by_name = {a.name[0].name: a.expr for a in items if isinstance(a, c_ast.NamedInitializer)}
        if by_name and len(by_name) < len(items):
            self._no_initial_value(decl, t, node)
        end = 0
        for k, f in enumerate(self.field_layout(t, node)):
            if f.offset != end or f.bits is not None or f.default is not None:
                self._no_initial_value(decl, t, node)
            end += self.layout(f.type, node)[0]
            given = by_name.get(f.name) if by_name else items[k] if k < len(items) else None
            yield from self._leaf_values(decl, f.type, given, node)
        if end != self.layout(t, node)[0]:
            self._no_initial_value(decl, t, node)

    def table_element(self, node: Any) -> Const | None:
        """The number that ``table[i]`` is where a constant array of the file and the index are known; else None."""
        at: list[int] = []
        while isinstance(node, c_ast.ArrayRef):
            at.insert(0, self.const_int(node.subscript, "an index"))
            node = node.name
        if not at or not isinstance(node, c_ast.ID | QualName):
            return None
        qualifier, name, _ = name_parts(node)
        for e in pick(self.program.variables.get(name, []), qualifier, self.scope.namespace):
            if not {"constexpr", "const"} & {*(e.node.storage or []), *qualifiers(e.node.type)}:
                return None
            t, value = self.resolve(e.node.type), e.node.init
            for i in at:
                items = array_values(value) if value is not None and isinstance(t, CArray) else []
                t, value = getattr(t, "elem", t), items[i] if 0 <= i < len(items) else None
            if isinstance(t, Scalar) and value is not None and not isinstance(value, c_ast.InitList):
                with self.scoped(namespace=e.namespace, root=self.global_scope()):
                    return self.constant(self.convert(self.const_value(value, "an element"), t).expr)
        return None

    def _no_initial_value(self, decl: c_ast.Decl, t: Type, node: Any) -> NoReturn:
        self.fail("E-UNSUPPORTED-GLOBAL", f"'{decl.name}' of type '{show(t)}' has an initial value", node,
                  hint="set it from the host")  # fmt: skip


def as_units(leaves: list[tuple[Type, Any]], unit: Type) -> tuple | None:
    """Scalars one after the other in memory (little-endian), read as ``unit`` scalars; None of types without a code."""
    code = _CODES.get(unit)
    if code is None or any(t not in _CODES for t, _ in leaves):
        return None
    raw = b"".join(struct.pack(f"<{_CODES[t]}", value) for t, value in leaves)
    return struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)


_CODES: dict[Any, str] = {
    U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", U64: "Q", I64: "q", F32: "f", F64: "d"
}  # fmt: skip
"""How ``struct`` spells scalars."""


__all__ = ["Globals"]
