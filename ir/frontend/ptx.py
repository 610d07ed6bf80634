"""Inline PTX of one exact instruction, understood: ``ptx.cuh`` says in C++ what the opcode computes.

    asm("bfe.u32 %0, %1, 8, 4;" : "=r"(x) : "r"(y))    ->    x = (y >> 8) & 15

What is understood is optimised, interpreted and ported like any other code. Everything else is carried as it is, for
CUDA only: several instructions, memory, predicates, and approximations, whose bits only the instruction itself gives.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache

FILE = "ptx.cuh"
_STATEMENT = re.compile(r"\s*([a-z][a-z0-9_.]*)\s*((?:[^\s,;]+\s*,\s*)*[^\s,;]+)?\s*;?\s*")
_OPERAND = re.compile(r"%(\d+)|(0[xX][0-9a-fA-F]+|\d+)|%?%([a-z_]+(?:\.[xyz])?)")


@dataclass(frozen=True)
class Instruction:
    """``function`` of ``ptx.cuh``, and its arguments after the result: operand numbers or literals."""

    function: str
    operands: tuple[int | str, ...]


def understood(text: str, outputs: int) -> Instruction | None:
    """The instruction that ``text`` is, writing operand 0 if there are ``outputs``; None if it is not one we know."""
    m = _STATEMENT.fullmatch(text.replace("\\n", " ").replace("\\t", " "))
    if m is None or outputs > 1:
        return None
    opcode = m[1].replace(".", "_").removesuffix("_ftz")
    given = [_OPERAND.fullmatch(x.strip()) for x in (m[2] or "").split(",") if x.strip()]
    if any(x is None for x in given):
        return None
    parts: list[int | str] = [int(x[1]) if x[1] else x[2] or "%" + x[3] for x in given if x is not None]
    if opcode == "bar_sync" and parts == ["0"] and not outputs:
        return Instruction(opcode, ())
    if bool(outputs) != (parts[:1] == [0]):
        return None
    rest = parts[outputs:]
    if opcode in ("mov_u32", "mov_b32") and len(rest) == 1 and str(rest[0]).startswith("%"):
        opcode, rest = str(rest[0])[1:].replace(".", "_"), []
    arity = _arities().get(opcode)
    if arity != len(rest) or any(isinstance(x, str) and x.startswith("%") for x in rest):
        return None
    return Instruction(opcode, tuple(rest))


@cache
def _arities() -> dict[str, int]:
    """Functions of ``ptx.cuh`` with their number of parameters."""
    with open(os.path.join(os.path.dirname(__file__), FILE), encoding="utf-8") as f:
        found = re.findall(r"__device__ (?:[a-z]+ )+([a-z0-9_]+)\(([^)]*)\)", f.read())
    return {name: len([p for p in params.split(",") if p.strip()]) for name, params in found}
