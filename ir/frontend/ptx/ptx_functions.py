"""Inline PTX, understood: ``ptx.cuh`` says in C++ what an opcode computes, and an asm statement becomes a function.

    asm("{ .reg .pred p; setp.lt.s32 p, %1, 0; selp.b32 %0, 0, %1, p; }" : "=r"(x) : "r"(y))

    unsigned int ptx(unsigned int o1) {
      unsigned int o0; { bool r_p; r_p = (int)o1 < 0; o0 = r_p ? 0u : o1; } return o0;
    }

What is understood is optimised, interpreted and ported like any other code. Everything else is carried as it is, for
CUDA only: memory (but for single accesses, ``ptx_access``), branches, and approximations whose bits only the
instruction itself gives, unless the IR has a function that prints as that instruction. One unknown instruction makes
the whole statement opaque.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ktc.ir.types import Scalar

from .ptx_code import Writer
from .ptx_types import Opaque

FILE = "ptx.cuh"
MAX_TEXT, MAX_BRACES = 1 << 14, 200
"""Beyond these a statement is carried as it is: reading it costs more than anybody's hand has written."""

IDIOMS = ((r"\{ \.reg \.b(32|64) (\w+); not\.b\1 \2, (%\d+); add\.s\1 (%\d+), \2, 1; \}", r"neg.s\1 \4, \3;"),)
"""Several instructions that are one: a negation that the assembler is not to see as such (``cuda.negations``)."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}


@dataclass(frozen=True)
class Understood:
    """C++ of one asm statement.

    ``operands`` are the numbers of the operands that the function takes, in order. With ``returns`` it gives the one
    output back; otherwise outputs are references, which come first.
    """

    text: str
    operands: tuple[int, ...]
    returns: bool
    output_types: tuple[Scalar, ...]


@cache
def understood(text: str, constraints: tuple[str, ...], outputs: int) -> Understood | None:
    """What ``text`` computes on operands of these ``constraints``, the first ``outputs`` of them outputs.

    None where an instruction, an operand or a constraint is not one that is known to be exact.
    """
    from lark.exceptions import LarkError

    if len(text) > MAX_TEXT or text.count("{") > MAX_BRACES:
        return None
    for pattern, one in IDIOMS:
        text = re.sub(pattern, one, text)
    try:
        tree = _grammar().parse(_assembled(text))
        return _function(Writer(constraints, outputs), tree, outputs)
    except (LarkError, Opaque):
        return None


def _function(writer: Writer, tree: Any, outputs: int) -> Understood:
    body = writer.whole(tree.children)
    types = tuple(writer.register(n)[1] for n in range(outputs))
    if outputs == 1:
        result, first = writer.operand_type(0), writer.param(0)
        known = [first] if writer.reads_output(0) else []
        local = "" if known else f"{first}; "
        only = re.fullmatch(r"o0 = (.*);", body)
        simple = only is not None and not known and ";" not in only[1]
        code = f"return {only[1]};" if simple and only is not None else f"{local}{body} return o0;"
        taken = ((0,) if known else ()) + writer.inputs
        params = ", ".join(known + [writer.param(n) for n in writer.inputs])
        return Understood(f"__device__ {result} ptx({params}) {{ {code} }}\n", taken, True, types)
    params = ", ".join([writer.param(n, "&") for n in range(outputs)] + [writer.param(n) for n in writer.inputs])
    return Understood(f"__device__ void ptx({params}) {{ {body} }}\n", (*range(outputs), *writer.inputs), False, types)


def unescaped(text: str) -> str:
    """The characters that the literal ``text`` stands for."""
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], " "), text)


def _assembled(text: str) -> str:
    """The text that the assembler sees, every instruction ended by a semicolon."""
    plain = text.replace("%%", "%").strip()
    return plain if not plain or plain[-1] in ";}" else plain + ";"


@cache
def _grammar() -> Any:
    from ktc.ir.support.grammars import load_grammar

    return load_grammar(Path(__file__).with_name("ptx.lark"), "start", placeholders=False)
