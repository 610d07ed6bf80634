"""Variables at file scope in device memory: ``__constant__``, ``__device__``, ``__managed__``."""

from __future__ import annotations

import itertools
from typing import Any

from pycparser import c_ast

from ..kernel import Param
from ..nodes import Const, fresh
from ..types import Ptr, Scalar, Type, Vec
from .arrays import array_values, flattened
from .cxx_ast import qualifiers
from .cxx_types import CArray, show
from .declare import Declarations
from .program import Entity
from .values import PtrVal, RVal, Value

STORAGE = {"__constant__": "constant", "__managed__": "managed", "__device__": "device"}
MAX_INITIAL = 1 << 16


class Globals(Declarations):
    """Device memory at file scope becomes a parameter of the kernel that remembers what it was."""

    globals: dict[str, Param]

    def global_variable(self, entity: Entity, node: Any, args: list | None = None) -> Value:
        """What a variable at file scope means in device code."""
        decl: c_ast.Decl = entity.node
        storage = [*(decl.storage or []), *(s for s in (decl.funcspec or []) if isinstance(s, str))]
        word = next((s for s in STORAGE if s in storage), None)
        constant = "constexpr" in storage or "const" in qualifiers(decl.type)
        if word is None or (constant and not self._is_table(decl)):
            return super().global_variable(entity, node, args)
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
        inner = t
        while isinstance(inner, CArray):
            inner = inner.elem
        key = ("global", name)
        if name not in self.globals:
            size, natural = self.layout(t, node)
            elem = inner if isinstance(inner, Scalar | Vec) and key not in self.hints \
                else self.hinted(key, self.unit(t, node))  # fmt: skip
            each, own = self.layout(elem, node)
            constant = storage == "constant"
            sym = fresh(name, Ptr(elem, "const" if constant else "global", constant))
            init = self._initial_values(decl, t, inner, entity, node) if decl.init is not None else ()
            self.origin[sym] = key
            given = max((self.const_int(a.alignment, "an alignment") for a in decl.align or []), default=0)
            natural = max(natural, given)
            self.globals[name] = Param(sym, align=natural if natural > own else 0, readonly=constant, symbol=storage,
                                       extent=size // each, init=init)  # fmt: skip
        sym = self.globals[name].sym
        return self.at_start_of(PtrVal(sym, (), None, t, storage == "constant"), t, node)

    def _initial_values(self, decl: c_ast.Decl, t: Type, elem: Type, entity: Entity, node: Any) -> tuple:
        if not isinstance(elem, Scalar):
            self.fail("E-UNSUPPORTED-GLOBAL", f"'{decl.name}' of type '{show(t)}' has an initial value", node,
                      hint="set it from the host")  # fmt: skip
        dims: list[int] = []
        while isinstance(t, CArray):
            dims.append(t.n or 0)
            t = t.elem
        values = array_values(decl.init)
        flat: dict[tuple[int, ...], Any] = flattened(values, tuple(dims)) if dims else {(): values[0]}
        out: list[int | float | bool] = []
        with self.scoped(namespace=entity.namespace, root=self.global_scope()):
            for index in itertools.product(*(range(d) for d in dims)):
                if len(out) >= MAX_INITIAL:
                    self.fail("E-UNSUPPORTED-GLOBAL", f"'{decl.name}' has too many initial values", node)
                v = self.const_value(flat[index], "an initial value") if index in flat else RVal(Const(0, elem))
                c = self.convert(v, elem).expr
                assert isinstance(c, Const)
                out.append(c.value)
        return tuple(out)


__all__ = ["Globals"]
