"""Registers, literals and functions of inline PTX in C++: their types, and one type's bits as another's.

A register holds bits: integers and halves are unsigned integers of its width, ``.f32`` and ``.f64`` floats, ``.pred``
bool. The functions of ``ptx.cuh`` say of which type an instruction takes its operands: of the same width, else the
assembler would refuse; of the other kind by their bits.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from functools import cache

from ktc.ir.types import F32, F64, U16, U32, U64, Scalar

NAMESPACE = "__ptx"
"""How the functions of ``ptx.cuh`` are called, so that no name of the user's can be meant."""

CLASSES = {"pred": "bool", "f32": "float", "f64": "double", "f16x2": "unsigned int", "bf16x2": "unsigned int",
           "f16": "unsigned short", "bf16": "unsigned short"}  # fmt: skip
INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long long"}
CONSTRAINTS: dict[str, tuple[str, Scalar]] = {
    "h": ("unsigned short", U16), "r": ("unsigned int", U32), "l": ("unsigned long long", U64), "f": ("float", F32),
    "d": ("double", F64),
}  # fmt: skip
"""C++ types of registers by class and of operands by constraint (Inline PTX Assembly in CUDA, 1.2.2 Constraints)."""

BITS = {"bool": 1, "float": 32, "double": 64} | {
    f"{sign} {name}": bits for bits, name in INTEGERS.items() for sign in ("unsigned", "signed")
}
REINTERPRET = {
    ("float", "int"): "__float_as_uint", ("int", "float"): "__uint_as_float",
    ("double", "int"): "__double_as_longlong", ("int", "double"): "__longlong_as_double",
}  # fmt: skip


class Opaque(Exception):
    """Something that is not known here to be exact."""


@dataclass(frozen=True)
class Value:
    """A C++ expression and its type; a literal (type '') is of whatever integer type is asked for."""

    text: str
    type: str


def as_type(value: Value, want: str) -> str:
    """``value`` as an operand of type ``want``: the same bits."""
    if value.type == want:
        return value.text
    if value.type == "":
        return literal_as(value.text, want)
    if BITS[value.type] != BITS[want]:
        raise Opaque
    a, b = (t if t in ("float", "double") else "int" for t in (value.type, want))
    if a == b:
        return f"({want}){value.text}"
    if (a, b) not in REINTERPRET:
        raise Opaque
    return f"{REINTERPRET[a, b]}({value.text})"


def register_name(name: str) -> str:
    return "r_" + re.sub(r"\W", "_", name.lstrip("%"))


def class_type(word: str) -> str:
    """The C++ type of a register of class ``word``."""
    word = word.lstrip(".")
    m = re.fullmatch(r"[bus](\d+)", word)
    t = CLASSES.get(word) or (f"unsigned {INTEGERS[int(m[1])]}" if m and int(m[1]) in INTEGERS else "")
    if not t:
        raise Opaque
    return t


def signed_type(word: str) -> str:
    """The C++ type of a value of class ``word``: signed where the instruction takes it so."""
    t = class_type(word)
    return "signed" + t.removeprefix("unsigned") if word.startswith("s") else t


def literal(text: str) -> Value:
    if text[:2].lower() in ("0f", "0d"):
        kind, size, t = ("<f", 4, "float") if text[1] in "fF" else ("<d", 8, "double")
        value = struct.unpack(kind, int(text[2:], 16).to_bytes(size, "little"))[0]
        if value != value or value in (float("inf"), float("-inf")):
            convert = REINTERPRET["int", t]
            return Value(f"{convert}(0x{text[2:]}{'u' if size == 4 else 'll'})", t)
        return Value(f"{value!r}{'f' if size == 4 else ''}", t)
    if any(c in text for c in ".eE") and not text.lower().lstrip("+-").startswith("0x"):
        return Value(repr(float(text)), "double")
    return Value(str(int(text.rstrip("U"), 0)), "")


def literal_as(text: str, want: str) -> str:
    """The integer literal ``text``, or an operand that must be one, as type ``want``."""
    if want not in BITS or want in ("bool", "float", "double"):
        raise Opaque
    if text.startswith("o"):
        return f"({want}){text}"
    value = int(text) % (1 << BITS[want])
    return f"({want}){value}ull" if BITS[want] == 64 else f"{value}u" if want == "unsigned int" else f"({want}){value}u"


def signature(opcode: str) -> tuple[str, tuple[str, ...]]:
    if opcode not in signatures():
        raise Opaque
    return signatures()[opcode]


@cache
def signatures() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Functions of ``ptx.cuh``: the types of their results and of their parameters."""
    with open(os.path.join(os.path.dirname(__file__), "..", "library", "ptx.cuh"), encoding="utf-8") as f:
        found = re.findall(r"__device__ ((?:[a-z]+ )+)([a-z0-9_]+)\(([^)]*)\)", f.read())
    return {
        name: (_spelled(result), tuple(_spelled(p.strip().rpartition(" ")[0]) for p in params.split(",") if p.strip()))
        for result, name, params in found
    }


def _spelled(t: str) -> str:
    t = t.strip()
    return f"signed {t}" if t in INTEGERS.values() else t
