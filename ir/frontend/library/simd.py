"""CUDA's video instructions ``__vadd4``, ``__vcmpgtu2``, ...: lanes of a word, written out as C++ text.

Meanings after the CUDA Math API 13.0, "SIMD Intrinsics". Each function is written out lane by lane when first called.
"""

from __future__ import annotations

import re

NAME = re.compile(r"__v(set|cmp)?(add|sub|absdiff|abs|neg|max|min|avg|hadd|sad|eq|ne|gt|ge|lt|le)(ss|us|s|u)?([24])")

OPERATIONS: dict[str, str] = {
    "add": "a + b", "sub": "a - b", "addss": "clamp(a + b)", "addus": "clamp(a + b)", "subss": "clamp(a - b)",
    "subus": "clamp(a - b)", "absdiffs": "abs(a - b)", "absdiffu": "abs(a - b)", "maxs": "max(a, b)",
    "maxu": "max(a, b)", "mins": "min(a, b)", "minu": "min(a, b)", "avgu": "(a + b + 1) >> 1", "haddu": "(a + b) >> 1",
    "abs": "abs(a)", "absss": "clamp(abs(a))", "neg": "-a", "negss": "clamp(-a)", "sads": "abs(a - b)",
    "sadu": "abs(a - b)",
}  # fmt: skip
"""One lane of the result from the lanes ``a`` and ``b`` as int; ``clamp`` saturates to the lane's range."""

COMPARE = {"eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
UNARY = frozenset({"abs", "absss", "neg", "negss"})


def text(name: str) -> str | None:
    """The function ``name`` as C++ text, None if it is not one of these."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    form, op, suffix, lanes = match[1] or "", match[2], match[3] or "", int(match[4])
    bits = 32 // lanes
    signed = suffix in ("s", "ss") or op in ("abs", "neg")
    rule = (
        f"(a {COMPARE[op]} b ? {'1' if form == 'set' else '-1'} : 0)" if op in COMPARE else OPERATIONS.get(op + suffix)
    )
    if rule is None or (op in COMPARE) != bool(form):
        return None
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    rule = re.sub(r"clamp\((.*)\)$", rf"min(max(\1, {low}), {high})", rule)
    lane_type = {8: "signed char", 16: "short"}[bits]
    params = "unsigned int x" if op + suffix in UNARY else "unsigned int x, unsigned int y"
    out, parts = [], []
    for i in range(lanes):
        for lane, word in (("a", "x"), ("b", "y"))[: 1 if op + suffix in UNARY else 2]:
            shifted = f"({word} >> {bits * i})" if i else word
            value = f"(int)({lane_type}){shifted}" if signed else f"(int)({shifted} & {(1 << bits) - 1}u)"
            out.append(f"const int {lane}{i} = {value};")
        out.append(f"const int r{i} = {_numbered(rule, i)};")
        lane = f"((unsigned int)r{i} & {(1 << bits) - 1}u)"
        parts.append(f"(unsigned int)r{i}" if op == "sad" else f"({lane} << {bits * i})" if i else lane)
    total = (" + " if op == "sad" else " | ").join(parts)
    return f"__device__ unsigned int {name}({params}) {{ {' '.join(out)} return {total}; }}"


def _numbered(rule: str, lane: int) -> str:
    return re.sub(r"\b([ab])\b", rf"\g<1>{lane}", rule)
