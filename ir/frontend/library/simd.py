"""CUDA's integer SIMD functions as C++ text: ``__vadd4``, ``__vcmpgtu2``, ... on lanes of a word, and those of dynamic
programming, ``__viaddmax_s16x2_relu``, ``__vimin3_u32``, ...

Meanings after the CUDA Math API 13.0, "SIMD Intrinsics". Each function is written out lane by lane when first called.
"""

from __future__ import annotations

import re

NAME = re.compile(r"__v(set|cmp)?(add|sub|absdiff|abs|neg|max|min|avg|hadd|sad|eq|ne|gt|ge|lt|le)(ss|us|s|u)?([24])")

OPERATIONS: dict[str, str] = {
    "add": "a + b", "sub": "a - b", "addss": "clamp(a + b)", "addus": "clamp(a + b)", "subss": "clamp(a - b)",
    "subus": "clamp(a - b)", "absdiffs": "abs(a - b)", "absdiffu": "abs(a - b)", "maxs": "max(a, b)",
    "maxu": "max(a, b)", "mins": "min(a, b)", "minu": "min(a, b)", "avgu": "(a + b + 1) >> 1", "haddu": "(a + b) >> 1",
    "avgs": "(a + b + (a + b >= 0 ? 1 : 0)) >> 1",
    "abs": "abs(a)", "absss": "clamp(abs(a))", "neg": "-a", "negss": "clamp(-a)", "sads": "abs(a - b)",
    "sadu": "abs(a - b)",
}  # fmt: skip
"""One lane of the result from the lanes ``a`` and ``b`` as int; ``clamp`` saturates to the lane's range."""

COMPARE = {"eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
UNARY = frozenset({"abs", "absss", "neg", "negss"})


def text(name: str) -> str | None:
    """The function ``name`` as C++ text, None if it is not one of these."""
    if (dynamic := DYNAMIC.fullmatch(name)) is not None:
        return _dynamic(name, dynamic)
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


DYNAMIC = re.compile(r"__vi(add|b|)(max|min)(3?)_([su])(32|16x2)(_relu)?")
"""Which of two or three numbers is largest or smallest, the sum of two among them, one word or two halves of it."""


def _dynamic(name: str, match: re.Match[str]) -> str | None:
    form, op, three, sign, width, relu = match.groups()
    if (form and three) or (relu and sign == "u") or (relu and form == "b"):
        return None
    whole, signed = width == "32", sign == "s"
    word = "int" if whole and signed else "unsigned int"
    lane = word if whole else "short" if signed else "unsigned short"
    shifts = (0,) if whole else (0, 16)
    params = ["a", "b", "c"] if form == "add" or three else ["a", "b"]
    out, parts = [], []
    for i, shift in enumerate(shifts):
        for p in params:
            out.append(
                f"const {lane} {p}{i} = ({lane})({p} >> {shift});" if shift else f"const {lane} {p}{i} = ({lane}){p};"
            )
        first = f"({lane})((unsigned int)a{i} + (unsigned int)b{i})" if form == "add" else f"{op}(a{i}, b{i})"
        value = f"{op}({first}, c{i})" if len(params) == 3 else first
        out.append(f"const {lane} r{i} = ({lane}){f'max({value}, 0)' if relu else value};")
        parts.append(f"r{i}" if whole else f"(((unsigned int)r{i} & 0xffffu) << {shift})")
    chosen = [("pred", 0)] if whole else [("pred_hi", 1), ("pred_lo", 0)]
    out += [f"*{p} = r{i} == a{i};" for p, i in chosen if form == "b"]
    given = [f"{word} {p}" for p in params] + [f"bool* {p}" for p, _ in chosen if form == "b"]
    return f"__device__ {word} {name}({', '.join(given)}) {{ {' '.join(out)} return {' | '.join(parts)}; }}"


def _numbered(rule: str, lane: int) -> str:
    return re.sub(r"\b([ab])\b", rf"\g<1>{lane}", rule)
