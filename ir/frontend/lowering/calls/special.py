"""Calls whose meaning is in their template arguments or that write through pointers."""

from __future__ import annotations

import math
from typing import Any

from ktc.ir.frontend.lowering.expressions.convert import bitcast
from ktc.ir.frontend.meaning import constants
from ktc.ir.frontend.meaning.cxx_types import RecordType, Reference, show
from ktc.ir.frontend.meaning.name_meanings import OpaqueVal
from ktc.ir.frontend.meaning.values import NullVal, PtrVal, RVal, Value
from ktc.ir.nodes import Call, Const, Eval, Expr, Str, Var, i32
from ktc.ir.types import F32, F64, I32, U32, U64, Scalar

from .forwarding import Forwarding

SHARED_ADDRESSES = {"__cvta_generic_to_shared": U64, "__nvvm_get_smem_pointer": U32}
"""Where in shared memory a pointer points, with the result's type; the second is NVVM's own name, which sources declare
themselves."""


class SpecialCalls(Forwarding):
    """Calls that no row of the table can describe."""

    def _has_body(self, name: str) -> bool:
        """Whether the file defines a function of that name, not only declares it."""
        return any(e.node.body is not None for e in self.program.functions.get(name, ()))

    def special_call(
        self, qualifier: tuple[str, ...], name: str, targs: list | None, callee: Any, raw: list, node: Any
    ) -> Value | None:
        """Calls whose meaning is in their template arguments: numeric limits, traits, casts by name."""
        parts: list = list(getattr(callee, "parts", ()))
        if len(parts) > 1 and parts[-2].name == "numeric_limits" and parts[-2].args:
            t = self.arg_type(parts[-2].args[0])
            if isinstance(t, RecordType) and self.program.records.get("numeric_limits"):
                return None  # a specialisation of the file or of a library
            c = constants.limit(t, name) if isinstance(t, Scalar) else None
            if c is None:
                self.fail("E-SEMA-NAME", f"std::numeric_limits<{show(t)}> has no '{name}' here", node)
            return RVal(c)
        if name in ("min", "max") and targs and not self.program.functions.get(name):
            t = self.arg_type(targs[0])
            a, b = (self.convert(self.rval(x), t, "implicit", node).expr for x in raw)
            return RVal(Call(name, (a, b), t))
        if name in SHARED_ADDRESSES and len(raw) == 1 and not self._has_body(name):
            place = self._shared_address(self.load(self.eval(raw[0])), node)
            return self.convert(place, SHARED_ADDRESSES[name], "c", node)
        if name == "forward" and targs and len(raw) == 1 and not self.program.functions.get(name):
            return self.forward(targs[0], self.eval(raw[0]), node)
        if name == "declval" and targs:  # asked for its type only
            t = self.arg_type(targs[0])
            t = t.elem if isinstance(t, Reference) else t
            return self.new_record(t, "value", node) if isinstance(t, RecordType) else self.zero(t, node)
        if name == "bit_cast" and targs:
            t = self.arg_type(targs[0])
            return RVal(bitcast(self.rval(raw[0]).expr, t))
        if name == "swap" and qualifier == ("std",) and len(raw) == 2:
            left, right = self.stable(self.eval(raw[0])), self.stable(self.eval(raw[1]))
            if not isinstance(self.load(left, node), RVal):
                return self.call_entities(self.program.functions["swap"], None, [left, right], node, self.file_scope())
            old = RVal(self.temp(self.rvalue(left, node).expr, "old"))
            self.store(left, self.load(right), node)
            self.store(right, old, node)
            return NO_VALUE
        name = name.removeprefix("__builtin_") if name in BUILTIN_COPIES else name
        if name in ("memcpy", "memset", "memmove") and len(raw) == 3 and not self.program.functions.get(name):
            return self.copy_memory(raw, node) if name != "memset" else self.fill_memory(raw, node)
        if name == "printf" and raw and not self.program.functions.get(name):
            return self._printf(raw, node)
        if name in QUIET_NAN and [getattr(a, "value", None) for a in raw] == ['""']:
            return RVal(Const(math.nan, QUIET_NAN[name]))
        if name in SINCOS and len(raw) == 3 and not self.program.functions.get(name):
            return self._sincos(*SINCOS[name], raw, node)
        return None

    def _shared_address(self, v: Value, node: Any) -> RVal:
        """The place of an element within the block's shared memory, in bytes: what PTX takes for an address."""
        space = getattr(v.buffer.type, "space", "") if isinstance(v, PtrVal) else ""
        if not isinstance(v, PtrVal) or space not in ("shared", "generic", "global"):
            self.fail("E-UNSUPPORTED-POINTER", "the shared address of something that is no array", node,
                      hint="pass a pointer to a __shared__ array")  # fmt: skip
        return RVal(Call("shared_address", (self.address_expr(v, node),), U64))

    def _printf(self, raw: list, node: Any) -> Value:
        """``printf`` with C's promotions of the arguments: numbers, string literals, text in an array."""
        args: list[Expr] = []
        for a in raw:
            v = self.load(self.eval(a), a)
            if isinstance(v, OpaqueVal) and v.name.startswith('"'):
                args.append(Str(v.name[1:-1]))
                continue
            if args and isinstance(v, PtrVal):  # %s or %p
                args.append(self.address_expr(v, a))
                continue
            if not args or not isinstance(v, RVal) or not isinstance(v.type, Scalar):
                what = "a format that is a literal" if not args else "numbers and literals"
                self.fail("E-UNSUPPORTED-PRINTF", f"printf of anything but {what}", a, hint="print numbers or text")
            x = self.promote(v)
            args.append(self.convert(x, F64, "implicit").expr if x.type.is_float else x.expr)  # type: ignore[attr-defined]
        self.emit(Eval(Call("printf", tuple(args), I32, "write"), loc=self.loc))
        return RVal(Const(len(args) - 1, I32))

    def _sincos(self, functions: tuple[str, str], t: Scalar | None, raw: list, node: Any) -> Value:
        """Sine and cosine of ``raw[0]`` as a ``t`` (of its own type if None) through two pointers."""
        v = self.rval(raw[0])
        own = v.type if v.type == F32 else F64
        x = self.convert(v, t or own).expr
        x = x if isinstance(x, Const | Var) else self.temp(x, "angle")
        for arg, fn in zip(raw[1:], functions):
            p = self.load(self.eval(arg), node)
            place = self.deref(p, None, node) if isinstance(p, PtrVal) else self.subscript(p, i32(0), node)
            self.store(place, RVal(Call(fn, (x,), x.type)), node)
        return NO_VALUE


SINCOS: dict[str, tuple[tuple[str, str], Scalar | None]] = {
    "sincosf": (("sin", "cos"), F32),
    "sincos": (("sin", "cos"), None),
    "__sincosf": (("fast_sin", "fast_cos"), F32),
    "sincospif": (("sinpi", "cospi"), F32),
    "sincospi": (("sinpi", "cospi"), None),
}
"""Calls that write a sine and a cosine, and the type they compute in (None: the argument's)."""

QUIET_NAN: dict[str, Scalar] = {"nan": F64, "nanf": F32}
"""C's functions of a literal that give a NaN; only the empty one says which."""

FULL_MASK = Const(0xFFFFFFFF, U32, "0xffffffff")


BUILTIN_COPIES = ("__builtin_memcpy", "__builtin_memset", "__builtin_memmove")
"""How compilers' headers spell the library's functions."""

NO_VALUE = NullVal()
"""Result of a call made for its effect."""
