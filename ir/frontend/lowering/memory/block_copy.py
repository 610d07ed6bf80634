"""``memcpy`` and ``memset``: whole variables at once, memory element by element."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ktc.ir.frontend.lowering.control.lifetimes import Lifetimes
from ktc.ir.frontend.meaning.cxx_types import CArray, Pointer, show
from ktc.ir.frontend.meaning.values import ChoicePtr, NullVal, PtrToPlace, PtrVal, RecordVal, RVal, Value, describe
from ktc.ir.nodes import Binary, Const, Expr, For, Var, fresh, i32
from ktc.ir.types import I64, U8, Scalar, Type, Vec, scalar_of

from .buffers import UNSIGNED
from .null_uses import NULL_ACCESS

MAX_UNROLLED = 8
"""Elements that are copied one by one; more are copied in a loop."""

DONE = NullVal()


def _nowhere(v: Value) -> bool:
    """Whether a pointer is ``nullptr``, or a literal 0."""
    return isinstance(v, NullVal) or (isinstance(v, RVal) and isinstance(v.expr, Const) and v.expr.value == 0)


class BlockCopies(Lifetimes):
    """Copies of bytes, in the widest unit that both sides and the length allow."""

    def copy_memory(self, raw: list, node: Any) -> Value:
        """``memcpy(to, from, bytes)``."""
        to, source = (self.load(self.eval(a), a) for a in raw[:2])
        if _nowhere(to) or _nowhere(source):
            return self._trapped()
        whole = to if isinstance(to, PtrToPlace) else source
        if isinstance(whole, PtrToPlace):
            self._copy_variable(to, source, whole, raw[2], node)
            return DONE
        if not (isinstance(to, PtrVal) and isinstance(source, PtrVal)):
            self.fail("E-UNSUPPORTED-CALL", "memcpy between these places", node, hint="write a loop")
        unit = self._unit_of(to, source, node)
        self._each(
            raw[2],
            unit,
            node,
            lambda i: self.store(self._at(to, unit, i, node), self.load(self._at(source, unit, i, node), node), node),
        )  # type: ignore[arg-type]
        return DONE

    def _trapped(self) -> Value:
        """The thread stops at memory that is nowhere."""
        self.emit(replace(NULL_ACCESS, loc=self.loc))
        return DONE

    def fill_memory(self, raw: list, node: Any) -> Value:
        """``memset(to, byte, bytes)``."""
        to = self.load(self.eval(raw[0]), raw[0])
        given = self.rval(raw[1])
        constant = self.constant(given.expr)
        known = None if constant is None else int(constant.value)
        if known is None and isinstance(to, PtrVal):  # byte by byte, whatever the memory is used as
            byte_ = self.temp(self.convert(given, U8, "c", node).expr, "byte")
            self._each(raw[2], U8, node, lambda i: self.store(self._at(to, U8, i, node), RVal(byte_), node))
            return DONE
        byte = (self.const_int(raw[1], "the value of memset") if known is None else known) & 0xFF
        if isinstance(to, PtrToPlace):
            self._fill_variable(to, byte, raw[2], node)
            return DONE
        if _nowhere(to):
            return self._trapped()
        if not isinstance(to, PtrVal):
            self.fail("E-UNSUPPORTED-CALL", "memset of this place", node, hint="write a loop")
        unit = self._unit_of(to, to, node)
        value = self._bytes(byte, unit, node)
        self._each(raw[2], unit, node, lambda i: self.store(self._at(to, unit, i, node), value, node))
        return DONE

    def _copy_variable(self, to: Value, source: Value, whole: PtrToPlace, size: Any, node: Any) -> None:
        t = self.type_of(whole.place)
        n = self.const_int(size, "the size of memcpy")
        if self.layout(t, node)[0] != n:
            self.fail("E-UNSUPPORTED-CALL", f"memcpy of {n} bytes of a variable of type '{show(t)}'", node,
                      hint="copy all of it, or write a loop")  # fmt: skip
        places = [self._seen_as(p, t, node) for p in (to, source)]
        self.store(places[0], self.load(places[1], node), node)

    def _seen_as(self, p: Value, t: Type, node: Any) -> Value:
        return self._pointee(self.recast_pointer(p, Pointer(t), node), node)

    def _pointee(self, p: Value, node: Any) -> Value:
        if isinstance(p, ChoicePtr):
            return self.deref_choice(p, None, node)
        if not isinstance(p, PtrVal | PtrToPlace):
            self.fail("E-UNSUPPORTED-POINTER", f"{describe(p)} is no pointer into a buffer", node)
        return self.deref(p, None, node) if isinstance(p, PtrVal) else self.view(p, None, node)

    def _fill_variable(self, to: PtrToPlace, byte: int, size: Any, node: Any) -> None:
        place = to.place
        t = self.type_of(place)
        if self.const_int(size, "the size of memset") != self.layout(t, node)[0]:
            self.fail("E-UNSUPPORTED-CALL", f"memset of a part of a variable of type '{show(t)}'", node,
                      hint="assign its members")  # fmt: skip
        if isinstance(place, RecordVal):
            for name, f in place.fields.items():
                if isinstance(f, NullVal | PtrVal):
                    self.fail("E-UNSUPPORTED-CALL", f"memset of the pointer member '{name}'", node)
                self._fill_field(f, byte, node)
        else:
            self._fill_field(place, byte, node)

    def _fill_field(self, f: Value, byte: int, node: Any) -> None:
        t = self.type_of(f)
        if isinstance(f, RecordVal):
            for inner in f.fields.values():
                self._fill_field(inner, byte, node)
        elif isinstance(t, CArray):
            for k in range(t.n or 0):
                self._fill_field(self.subscript(f, i32(k), node), byte, node)
        elif isinstance(t, Vec):
            lane = self._bytes(byte, t.elem, node)
            self.store(f, self.convert(lane, t, "c", node), node)
        else:
            self.store(f, self._bytes(byte, t, node), node)

    # ------------------------------------------------------------------ memory
    def _unit_of(self, a: PtrVal, b: PtrVal, node: Any) -> Scalar:
        """The scalar that both buffers are copied as: their own where it is one, else the bits of the smaller."""
        x, y = (self._scalar_behind(p) for p in (a, b))
        if x == y:
            return x
        return UNSIGNED[min(x.bytes, y.bytes)]

    def _scalar_behind(self, p: PtrVal) -> Scalar:
        t: Any = p.elem
        while isinstance(t, CArray | Vec):
            t = t.elem
        return t if isinstance(t, Scalar) else scalar_of(p.buffer.type)

    def _at(self, p: PtrVal, unit: Scalar, i: Expr, node: Any) -> Value:
        q = self.recast_pointer(p, Pointer(unit), node)
        return self.deref(q, i, node)  # type: ignore[arg-type]

    def _bytes(self, byte: int, t: Type, node: Any) -> RVal:
        """The value of type ``t`` all of whose bytes are ``byte``."""
        if not isinstance(t, Scalar) or (t.is_float and byte):
            self.fail("E-UNSUPPORTED-CALL", f"memset of '{show(t)}' with {byte}", node, hint="assign the value")
        if not byte:
            return self.zero(t, node)
        return self.convert(RVal(Const(int.from_bytes(bytes([byte]) * t.bytes, "little"), UNSIGNED[t.bytes])), t)

    def _each(self, size: Any, unit: Scalar, node: Any, body: Any) -> None:
        """``body(i)`` for the elements of ``size`` bytes."""
        from ktc.ir.frontend.lowering.lower_kernel import elements_of

        length = self.promote(self.rval(size)).expr
        known = self.constant(length)
        if known is not None:
            n = int(known.value)
            if n % unit.bytes:
                self.fail("E-UNSUPPORTED-CALL", f"{n} bytes are no whole number of '{show(unit)}'", node)
            count: Expr = i32(n // unit.bytes)
            if n // unit.bytes <= MAX_UNROLLED:
                for k in range(n // unit.bytes):
                    body(i32(k))
                return
        else:
            count = elements_of(length, unit.bytes)
            if unit.bytes > 1 and isinstance(count, Binary) and count.op == "/":
                self.fail("E-UNSUPPORTED-CALL", f"a length that is not visibly a number of '{show(unit)}'", node,
                          hint="write it as count * sizeof(type), or write a loop")  # fmt: skip
        t = count.type if isinstance(count.type, Scalar) else I64
        i = fresh("i", t)
        with self.controlled(), self.capture() as out:
            body(Var(i))
        step = Binary("+", Var(i), Const(1, t))
        self.emit(For(i, Const(0, t), Binary("<", Var(i), count), step, tuple(out), loc=self.loc, tags=self.tag("i")))


__all__ = ["BlockCopies"]
