"""Asynchronous copies: ``__pipeline_memcpy_async`` and what waits for it."""

from __future__ import annotations

from typing import Any

from ktc.ir.builtins import Builtin
from ktc.ir.frontend.meaning.cxx_types import Pointer, show
from ktc.ir.frontend.meaning.values import ChoicePtr, ElemPlace, PtrVal, Value
from ktc.ir.nodes import AsyncCommit, AsyncCopy, AsyncWait, Binary, Const, Expr, Select
from ktc.ir.types import BOOL, U32, U64, Ptr, Scalar, Type, Vec, scalar_of

from .special import NO_VALUE
from .texture_calls import Textures

SIZES = (4, 8, 16)
"""Bytes that one asynchronous copy of the machine moves (PTX ISA, ``cp.async``)."""


class AsyncCalls(Textures):
    """Copies that are in flight until they are waited for."""

    def _b_async(self, row: Builtin, args: list[Value], node: Any) -> Value:
        """``async copy``, ``async commit``, ``async wait``."""
        if row.arg == "commit":
            self.emit(AsyncCommit(loc=self.loc))
        elif row.arg == "wait":
            pending = self._known_size(args[0], "the number of groups that may be in flight", node)
            self.emit(AsyncWait(pending, loc=self.loc))
        else:
            self._async_copy(args, node)
        return NO_VALUE

    def _known_size(self, v: Value, what: str, node: Any) -> int:
        c = self.constant(self.rvalue(v, node).expr)
        if c is None:
            self.fail("E-SEMA-CONSTANT", f"{what} must be a constant", node)
        return int(c.value)

    def _async_copy(self, args: list[Value], node: Any) -> None:
        to, source = (self.load(a, node) for a in args[:2])
        size = self._known_size(args[2], "the size of an asynchronous copy", node)
        if not isinstance(to, PtrVal) or not isinstance(source, PtrVal | ChoicePtr) or size not in SIZES:
            self.fail("E-UNSUPPORTED-CALL", f"an asynchronous copy of {size} bytes between these pointers", node,
                      hint="copy 4, 8 or 16 bytes from global into shared memory")  # fmt: skip
        valid = self._not_zeroed(args[3], size, node) if len(args) > 3 else None
        if isinstance(source, ChoicePtr):
            which = self.simple(source.which)
            valid = self.simple(valid) if valid is not None else None
            self.for_chosen(which, source.choices, lambda one: self._copy_from(to, one, size, valid, node))
        else:
            self._copy_from(to, source, size, valid, node)

    def _copy_from(self, to: PtrVal, source: PtrVal, size: int, valid: Expr | None, node: Any) -> None:
        unit = _unit(to, source, size)
        n = size // unit.bytes
        seen: Type = Vec(unit, n) if n > 1 else unit
        places = [self._pointee(self.recast_pointer(p, Pointer(seen), node), node) for p in (to, source)]
        dst, src = places
        machine = (
            all(isinstance(p, ElemPlace) and scalar_of(p.buffer.type) == unit for p in places)
            and getattr(to.buffer.type, "space", "") == "shared"
            and isinstance(source.buffer.type, Ptr)
            and source.buffer.type.space in ("global", "generic")
        )
        if machine:
            assert isinstance(dst, ElemPlace) and isinstance(src, ElemPlace)
            self.emit(AsyncCopy(dst.buffer, dst.index, src.buffer, src.index, n, valid=valid, loc=self.loc))
        elif valid is None:
            self.store(dst, self.load(src, node), node)  # of other element types: done at once
        else:
            what = f"an asynchronous copy with zeros between '{show(to.elem)}' and '{show(source.elem)}'"
            self.fail("E-UNSUPPORTED-CALL", f"{what} is not supported", node, hint="copy between arrays of one type")

    def _not_zeroed(self, v: Value, size: int, node: Any) -> Expr | None:
        """The condition under which nothing is filled with zeros: all or nothing may be."""
        e = self.convert(self.rvalue(v, node), U64).expr
        known = self.constant(e)
        if known is not None and known.value == 0:
            return None
        ends = [known] if known is not None else self._ends(e)
        if not ends or any(c is None or c.value not in (0, size) for c in ends):
            self.fail("E-UNSUPPORTED-CALL", "an asynchronous copy that fills only a part with zeros", node,
                      hint="fill all of it or nothing: condition ? 0 : size")  # fmt: skip
        return Const(False, BOOL) if known is not None else Binary("==", e, Const(0, U64))

    def _ends(self, e: Expr) -> list[Const | None]:
        """The values that ``e``, a choice, may have; empty if it is none."""
        while hasattr(e, "x") and not isinstance(e, Select):
            e = e.x
        return [self.constant(e.a), self.constant(e.b)] if isinstance(e, Select) else []


def _unit(to: PtrVal, source: PtrVal, size: int) -> Scalar:
    """What the copy counts in: the element type of both buffers, or words."""
    a, b = scalar_of(to.buffer.type), scalar_of(source.buffer.type)
    return a if a == b and size % a.bytes == 0 else U32
