"""Textures and surfaces: objects are 64-bit handles, references of the old kind become kernel parameters.

A texture reference at file scope (gone from CUDA 12) is bound by the host through its name; here it becomes a parameter
of the kernel: a texture object, or a plain read-only buffer when the kernel only uses ``tex1Dfetch`` on it, which reads
linear memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning.cxx_types import Pointer, show, size_of
from ktc.ir.frontend.meaning.values import RVal, Value
from ktc.ir.frontend.syntax.cxx_ast import NamedType
from ktc.ir.kernel import Param
from ktc.ir.nodes import Call, Const, Eval, Expr, Load, Sym, Var, fresh
from ktc.ir.types import F32, I32, U64, VOID, Ptr, Scalar, Type, Vec

from .special import NO_VALUE, SpecialCalls

FETCHES: dict[str, tuple[Scalar, ...]] = {
    "tex1Dfetch": (I32,), "tex1D": (F32,), "tex2D": (F32, F32), "tex3D": (F32, F32, F32),
    "tex1DLayered": (F32, I32), "tex2DLayered": (F32, F32, I32), "texCubemap": (F32, F32, F32),
    "tex1DLod": (F32, F32), "tex2DLod": (F32, F32, F32), "tex3DLod": (F32, F32, F32, F32),
    "tex2Dgather": (F32, F32, I32),
}  # fmt: skip
"""Types of the coordinates after the texture object."""

SURFACES = {"1D": 1, "2D": 2, "3D": 3, "1DLayered": 2, "2DLayered": 3}
SURFACE_CALL = re.compile(r"surf([123]D(?:Layered)?)(read|write)")
BOUNDARY = {"cudaBoundaryModeTrap": "", "cudaBoundaryModeClamp": "_clamp", "cudaBoundaryModeZero": "_zero"}


@dataclass(frozen=True)
class TextureRef(Value):
    """A texture or surface reference at file scope: ``sym`` is the parameter that stands for it."""

    sym: Sym
    elem: Type
    plain: bool
    """A buffer rather than an object."""


class Textures(SpecialCalls):
    """Fetches, surface accesses, references."""

    references: dict[str, TextureRef]

    def special_call(
        self, qualifier: tuple[str, ...], name: str, targs: list | None, callee: Any, raw: list, node: Any
    ) -> Value | None:
        if not qualifier and name in FETCHES and not self.program.functions.get(name):
            return self._fetch(name, targs, raw, node)
        if not qualifier and (match := SURFACE_CALL.fullmatch(name)) and not self.program.functions.get(name):
            return self._surface(match[1], match[2], targs, raw, node)
        return super().special_call(qualifier, name, targs, callee, raw, node)

    # ------------------------------------------------------------------ accesses
    def _fetch(self, name: str, targs: list | None, raw: list, node: Any) -> Value:
        base = self.eval(raw[0])
        types = FETCHES[name]
        if name == "tex2Dgather" and len(raw) == 3:
            raw = [*raw, RVal(Const(0, I32))]
        if len(raw) != len(types) + 1:
            self.fail("E-SEMA-OVERLOAD", f"'{name}' takes a texture and {len(types)} coordinates here", node)
        coords = [self.convert(self.rval(a), t, "implicit", node).expr for a, t in zip(raw[1:], types)]
        if isinstance(base, TextureRef):
            if base.plain:
                return RVal(_element(base, coords[0]))
            return RVal(Call(name, (Var(base.sym), *coords), base.elem, "read"))
        elem = self.arg_type(targs[0]) if targs else None
        obj = self.rvalue(self.load(base, node), node)
        if not isinstance(elem, Scalar | Vec) or obj.type != U64:
            self.fail("E-SEMA-OVERLOAD", f"'{name}' needs a texture object and a type", node,
                      hint=f"write it as {name}<float>(object, ...)")  # fmt: skip
        return RVal(Call(name, (obj.expr, *coords), elem, "read"))

    def _surface(self, shape: str, kind: str, targs: list | None, raw: list, node: Any) -> Value:
        mode, count = "", SURFACES[shape]
        last = getattr(raw[-1], "name", None)
        if isinstance(last, str) and last in BOUNDARY:
            mode, raw = BOUNDARY[last], raw[:-1]
        fn = f"surf{shape}{kind}{mode}"
        if kind == "read" and not targs and len(raw) == count + 2:  # surf2Dread(&value, object, x, y)
            place = self._pointee(self.eval(raw[0]), node)
            self.store(place, self._surface_read(fn, self.type_of(place), raw[1:], node), node)
            return NO_VALUE
        if len(raw) != count + (kind == "write") + 1:
            self.fail("E-SEMA-OVERLOAD", f"'surf{shape}{kind}' takes {count} coordinates here", node)
        if kind == "read":
            return self._surface_read(fn, self.arg_type(targs[0]) if targs else VOID, raw, node)
        value = self.rval(raw[0])
        if targs:
            value = self.convert(value, self.arg_type(targs[0]), "implicit", node)
        self.emit(Eval(Call(fn, (value.expr, *self._surface_at(raw[1:], node)), VOID, "write"), loc=self.loc))
        return NO_VALUE

    def _surface_read(self, fn: str, t: Type, raw: list, node: Any) -> RVal:
        if not isinstance(t, Scalar | Vec):
            self.fail("E-SEMA-OVERLOAD", f"a surface read of '{show(t)}'", node, hint="write surf2Dread<float>")
        call = Call(fn, self._surface_at(raw, node), t, "write")  # ordered with writes to the same surface
        return RVal(self.temp(call, "texel"))

    def _surface_at(self, raw: list, node: Any) -> tuple[Expr, ...]:
        base = self.eval(raw[0])
        obj: Expr = Var(base.sym) if isinstance(base, TextureRef) else self.rvalue(self.load(base, node), node).expr
        if obj.type != U64:
            self.fail("E-SEMA-OVERLOAD", "a surface object is expected here", raw[0])
        return (obj, *(self.convert(self.rval(a), I32, "implicit", node).expr for a in raw[1:]))

    # ------------------------------------------------------------------ references
    def texture_reference(self, decl: c_ast.Decl, node: Any) -> TextureRef | None:
        """What the file-scope variable ``decl`` means if it is a texture or surface reference."""
        named = getattr(getattr(decl.type, "type", None), "name", None)
        if not isinstance(decl.type, c_ast.TypeDecl) or not isinstance(decl.type.type, NamedType):
            return None
        kind = named.parts[-1]  # type: ignore[union-attr]
        if kind.name not in ("texture", "surface") or not kind.args or self.program.records.get(kind.name):
            return None
        if decl.name not in self.references:
            t = self.arg_type(kind.args[0])
            if isinstance(t, Pointer) or not isinstance(t, Scalar | Vec):
                t = F32  # surface<void, 2>: the type is that of each access
            if len(kind.args) > 2 and getattr(kind.args[2], "name", "") == "cudaReadModeNormalizedFloat":
                t = Vec(F32, t.n) if isinstance(t, Vec) else F32
            plain = kind.name == "texture" and self._only_fetched(decl.name)
            symbol = fresh(decl.name, Ptr(t, const=True) if plain else U64)
            self.references[decl.name] = TextureRef(symbol, t, plain)
        return self.references[decl.name]

    def _only_fetched(self, name: str) -> bool:
        """Whether every fetch from the texture reference ``name`` in this file is a tex1Dfetch."""
        used = set(re.findall(rf"\b(tex\w+)\s*\(\s*{name}\s*,", self.source.text))
        return used == {"tex1Dfetch"}

    def texture_params(self) -> tuple[Param, ...]:
        """Parameters for the references that the kernel used, in order of first use."""

        def align(r: TextureRef) -> int:
            return (size_of(r.elem) or 0) if r.plain and isinstance(r.elem, Vec) else 0

        return tuple(Param(r.sym, align=align(r), readonly=r.plain) for r in self.references.values())


def _element(ref: TextureRef, index: Expr) -> Expr:
    """``tex1Dfetch`` on linear memory: as a load, but outside of the memory a fetch gives 0 and a load is a defect."""
    return Load(ref.sym, (index,), 1, "ldg")


__all__ = ["TextureRef", "Textures"]
