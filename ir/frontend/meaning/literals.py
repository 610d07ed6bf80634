"""Literals: their values and the types that C++ gives them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pycparser import c_ast

from ktc.ir.nodes import Const
from ktc.ir.types import I32, I64, U32, U64


@lru_cache(maxsize=1024)
def integer(text: str) -> Const:
    """An integer literal with the type C++ gives it (LP64)."""
    if text.isdecimal() and text.isascii() and text[0] != "0" and len(text) < 10:  # most are
        return Const(int(text), I32, text)
    digits = text.replace("'", "").rstrip("uUlL")
    suffix = text[len(text.rstrip("uUlL")) :].lower()
    lower = digits.lower()
    decimal = not (lower.startswith(("0x", "0b")) or (lower.startswith("0") and len(lower) > 1))
    value = int(lower, 8) if not decimal and lower[1] not in "xb" else int(lower, 0)
    unsigned, long = "u" in suffix, "l" in suffix
    options = [U64] if unsigned and long else [U32, U64] if unsigned else [I64, U64] if long else [I32, U32, I64, U64]
    if decimal and not unsigned:
        options = [t for t in options if t.is_signed]
    for t in options:
        if value < (1 << (t.bits - (1 if t.is_signed else 0))):
            return Const(value, t, text)
    return Const(value & (2**64 - 1), U64, text)


_ESCAPES = {"n": 10, "t": 9, "0": 0, "r": 13, "\\": 92, "'": 39, '"': 34, "a": 7, "b": 8, "f": 12, "v": 11}


def character(text: str) -> int:
    """A character literal's value, which is signed as ``char`` is."""
    body = text[text.index("'") + 1 : -1]
    if not body.startswith("\\"):
        return ord(body[0])
    if body[1] == "x" or body[1].isdigit():
        code = int(body[2:], 16) if body[1] == "x" else int(body[1:], 8)
        return code - 256 if 128 <= code < 256 and text.startswith("'") else code
    return _ESCAPES.get(body[1], ord(body[1]))


def characters(text: str) -> list[Any]:
    """The characters of a string literal, the closing zero among them, as literals."""
    body = "".join(text[i + 1 : j] for i, j in _quoted(text))
    codes = [ord(c) for c in body.encode("utf-8").decode("unicode_escape")]
    return [c_ast.Constant("int", str(c if c < 128 else c - 256)) for c in (*codes, 0)]


def _quoted(text: str) -> list[tuple[int, int]]:
    """Where the literals of ``"a" "b"`` start and end."""
    marks = [i for i, c in enumerate(text) if c == '"' and (i == 0 or text[i - 1] != "\\")]
    return list(zip(marks[::2], marks[1::2]))
