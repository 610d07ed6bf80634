"""Atomics of CUDA C++ and HIP C++: the functions that exist, views of an element as an integer, and loops for the rest.

The front-end reads the loops back as the atomics that they are.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.atomic_ops import BIT_ORDERS, TAKEN
from ktc.ir.nodes import Atomic
from ktc.ir.types import BF16, F16, F32, F64, I16, I32, I64, U16, U32, U64, Scalar

from .cxx_memory import CxxMemory
from .cxx_tables import ATOMIC_TYPES, ATOMICS, BITCASTS
from .piece import ASSIGN, POSTFIX, Piece

WORDS = {16: ("unsigned short", U16), 32: ("unsigned", U32), 64: ("unsigned long long", U64)}
"""By size: what is compared and swapped."""

NAMES = {
    F16: "__half", BF16: "__nv_bfloat16", F32: "float", F64: "double", I16: "short", U16: "unsigned short", I32: "int",
    U32: "unsigned", I64: "long long", U64: "unsigned long long",
}  # fmt: skip
"""The elements that a loop may update."""

EXTREMES = {F16: "__h{}(x, value)", BF16: "__h{}(x, value)", F32: "f{}f(x, value)", F64: "f{}(x, value)"}
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
SCOPES = {"device": "", "block": "_block", "system": "_system"}


def _next(op: str, t: Scalar) -> str | None:
    """The element's next value over the old one ``x`` and ``value``."""
    if op in OPERATORS and (t.is_int or op in ("add", "sub", "mul")):
        found = f"x {OPERATORS[op]} value"
        return f"static_cast<{NAMES[t]}>({found})" if t.bits < 32 and t.is_int else found
    if op in ("min", "max"):
        sign = "<" if op == "min" else ">"
        return f"value {sign} x ? value : x" if t.is_int else EXTREMES[t].format(op)
    return "value" if op == "exch" else None


def _bits(text: str, t: Scalar) -> str:
    name = BITCASTS.get((t, {64: I64}.get(t.bits, WORDS[t.bits][1])))
    return text if t == WORDS[t.bits][1] else f"{name}({text})" if name else f"static_cast<{WORDS[t.bits][0]}>({text})"


def _value(text: str, t: Scalar) -> str:
    name = BITCASTS.get(({64: I64}.get(t.bits, WORDS[t.bits][1]), t))
    return text if t == WORDS[t.bits][1] else f"{name}({text})" if name else f"static_cast<{NAMES[t]}>({text})"


def loop_name(op: str, t: Scalar, scope: str) -> str:
    return f"atomic_{op}_{t}{SCOPES[scope]}"


def loop(op: str, t: Scalar, scope: str) -> str | None:
    """A function that does ``op`` on an element of type ``t`` and returns the old value; None where none is needed."""
    word, taken = WORDS[t.bits][0], TAKEN.get(op)
    if taken is not None:
        if not t.is_float:
            return None
        early, after = f"    if (!({taken.text('value', 'x')})) return x;\n", _bits("value", t)
    else:
        found = _next(op, t)
        if found is None:
            return None
        early, after = f"    const {word} next = {_bits(found, t)};\n", "next"
        early += "    if (next == old) return x;\n" if op in ("min", "max") else ""
    return (
        f"__device__ inline {NAMES[t]} {loop_name(op, t, scope)}({NAMES[t]}* p, {NAMES[t]} value) {{\n"
        f"  {word}* bits = reinterpret_cast<{word}*>(p);\n"
        f"  for ({word} old = *bits;;) {{\n"
        f"    const {NAMES[t]} x = {_value('old', t)};\n"
        f"{early}"
        f"    const {word} found = atomicCAS{SCOPES[scope]}(bits, old, {after});\n"
        f"    if (found == old) return x;\n"
        f"    old = found;\n"
        f"  }}\n}}"
    )


LOOPED = ("add", "sub", "mul", "min", "max", "and", "or", "xor", "exch", *TAKEN)

LOOPS = {
    loop_name(op, t, scope): text
    for op in LOOPED
    for t in NAMES
    for scope in SCOPES
    if (text := loop(op, t, scope)) is not None
}
"""All of them by name: printed where they are called."""


def viewed_as(op: str, t: Scalar) -> Scalar | None:
    """The integers that ``op`` sees elements of type ``t`` as, where it looks at bits; None where it does not."""
    if op in BIT_ORDERS and t.bits in (32, 64):
        return Scalar("int" if BIT_ORDERS[op][0] else "uint", t.bits)
    if op in ("cas", "exch") and t.is_float and t.bits in WORDS:
        found = WORDS[t.bits][1]
        return found if found in ATOMIC_TYPES[op] else None
    return None


class CxxAtomics(CxxMemory):
    """How an ``Atomic`` prints."""

    def atomic(self, s: Atomic, place: str, value: str, compare: str | None, t: Scalar) -> str:
        if s.op == "load":
            return self.atomic(dataclasses.replace(s, op="add"), place, "0", None, t)
        op = {"smax": "max", "umax": "max", "smin": "min", "umin": "min"}.get(s.op, s.op)
        kinds = ATOMIC_TYPES.get(s.op, set())
        if t in kinds or (t == I64 and U64 in kinds):
            pointer = "" if t in kinds else "unsigned long long*"
            return self._call(s, op, self._seen(s, place, t, pointer), value, compare)
        seen_as = viewed_as(s.op, t)
        if seen_as is not None:
            value, compare = (None if x is None else self._as(x, t, seen_as) for x in (value, compare))  # type: ignore[assignment]
            call = self._call(s, op, self._seen(s, place, t, f"{self.type_name(seen_as)}*"), value, compare)
            return call if s.dst is None else self._as(call, seen_as, t)
        name = loop_name(s.op, t, s.scope)
        if name not in self.helpers or compare is not None:
            self.refuse("ATOMIC", f"no atomic {s.op} on {t.name}")
        self.need(name)
        return f"{name}({self._seen(s, place, t)}, {value})"

    def _call(self, s: Atomic, op: str, address: str, value: str, compare: str | None) -> str:
        args = [address, compare, value] if compare is not None else [address, value]
        return f"{ATOMICS[op]}{SCOPES[s.scope]}({', '.join(args)})"

    def _seen(self, s: Atomic, place: str, t: Scalar, pointer: str = "") -> str:
        """The address of ``place``, of type ``t``, as a ``pointer`` if one is given: no atomic takes a volatile one."""
        volatile = getattr(s.buffer.type, "volatile", False)
        address = f"const_cast<{self.type_name(t)}*>(&{place})" if volatile else f"&{place}"
        return f"reinterpret_cast<{pointer}>({address})" if pointer else address

    def _as(self, text: str, t: Scalar, to: Scalar) -> str:
        """The bits of ``text``, of type ``t``, as a ``to``."""
        return self.bitcast(Piece(text, POSTFIX if text.endswith(")") and "(" in text else ASSIGN, t), to).text


__all__ = ["LOOPS", "CxxAtomics"]
