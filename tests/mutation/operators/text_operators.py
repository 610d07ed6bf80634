"""Mutations of printed text: what a faulty emitter would print.

Operators work on the tokens of the kernel's function (not on the fixed helper functions above it), so that each mutant
is the program with one token, one pair of parentheses or one statement other than it should be. ``C_LIKE`` is for CUDA,
HIP and OpenCL, ``PYTHON`` for the numba backend's modules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .text_tokens import Tokens

Mutate = Callable[[Tokens], Iterator[str]]


@dataclass(frozen=True)
class TextOperator:
    """``change`` yields every mutant of a text. See :class:`.operators.Operator` for ``blind``."""

    name: str
    family: str
    change: Mutate
    blind: bool = False


def swap(table: dict[str, str], kind: str = "") -> Mutate:
    """Each token of the table becomes the one beside it."""

    def change(t: Tokens) -> Iterator[str]:
        for k in range(len(t)):
            if t[k] in table and (not kind or t.kind(k) == kind):
                yield t.replaced(k, k, table[t[k]])

    return change


def unparenthesised(t: Tokens) -> Iterator[str]:
    """A pair of parentheses that groups (no call, no cast, no condition) left out."""
    for k in range(1, len(t)):
        if t[k] == "(" and t.kind(k - 1) == "op" and t[k - 1] not in (")", "]", ">"):
            last = t.closing(k)
            inside = [t[j] for j in range(k + 1, last or k)]
            if last is not None and len(inside) > 1 and not _is_type(inside):
                a, b = t.spans[k + 1][0], t.spans[last - 1][1]
                yield t.text[: t.spans[k][0]] + t.text[a:b] + t.text[t.spans[last][1] :]


TYPES = {"int", "unsigned", "long", "short", "char", "float", "double", "half", "bool", "signed", "const",
         "uint", "ulong",
         "__half", "__nv_bfloat16", "void", "size_t", "ushort", "uchar"}  # fmt: skip


def _is_type(words: list[str]) -> bool:
    return words[0] in TYPES and all(w in TYPES or w == "*" for w in words)


def uncast(t: Tokens) -> Iterator[str]:
    """A C cast left out."""
    for k in range(len(t) - 2):
        if t[k] == "(":
            last = t.closing(k)
            if last is not None and last > k + 1 and _is_type([t[j] for j in range(k + 1, last)]):
                yield t.replaced(k, last, "")


def numbers(new: Callable[[str], str | None]) -> Mutate:
    """Each number of the text as what ``new`` makes of it (None: left alone), one at a time."""

    def change(t: Tokens) -> Iterator[str]:
        for k in range(len(t)):
            if t.kind(k) == "number":
                other = new(t[k])
                if other is not None and other != t[k]:
                    yield t.replaced(k, k, other)

    return change


def _integer(by: int) -> Callable[[str], str | None]:
    def new(text: str) -> str | None:
        m = re.fullmatch(r"(\d+)([uUlL]*)", text)
        return f"{max(int(m[1]) + by, 0)}{m[2]}" if m else None

    return new


def _without_f(text: str) -> str | None:
    return text[:-1] if re.fullmatch(r"[\d.eE+-]+[fF]", text) and ("." in text or "e" in text.lower()) else None


def _without_unsigned(text: str) -> str | None:
    return re.sub("[uU]", "", text) if re.fullmatch(r"\d+[uUlL]*[uU][lL]*", text) else None


def _float_scaled(text: str) -> str | None:
    m = re.fullmatch(r"(\d+\.\d*(?:[eE][+-]?\d+)?)([fF]?)", text)
    return f"{float(m[1]) * 2 + 1!r}{m[2]}" if m else None


def dropped_statement(t: Tokens) -> Iterator[str]:
    """One ``...;`` that is no declaration left out."""
    for first, last in _statements(t):
        if t[first] not in TYPES and t[first] not in ("__shared__", "return", "constexpr", "__local", "extern"):
            yield t.replaced(first, last, ";")


def doubled_update(t: Tokens) -> Iterator[str]:
    """One ``x += e;`` printed twice."""
    for first, last in _statements(t):
        if any(t[j] in ("+=", "*=") for j in range(first, last)):
            text = t.text[t.spans[first][0] : t.spans[last][1]]
            yield t.replaced(first, last, "{ " + text + " " + text + " }")


def _statements(t: Tokens) -> Iterator[tuple[int, int]]:
    """Simple statements: tokens between ``; { }`` or ``)`` and a ``;`` outside parentheses."""
    depth, first = 0, None
    for k in range(len(t)):
        if t[k] in "([":
            depth += 1
        elif t[k] in ")]":
            depth -= 1
        if depth:
            first = k if first is None else first
            continue
        if t[k] in "{}" or t[k] in ("for", "if", "else", "while", "do"):
            first = -1 if t[k] in ("for", "if", "while") else None
        elif t[k] == ";":
            if first is not None and first >= 0:
                yield first, k
            first = None
        elif first == -1 and t[k] == ")":
            first = None
        elif first is None:
            first = k


def plain_update(t: Tokens) -> Iterator[str]:
    """``x += e`` printed as ``x = e``."""
    yield from swap({"+=": "=", "*=": "="})(t)


def swapped_arms(t: Tokens) -> Iterator[str]:
    """``c ? a : b`` with single-token arms exchanged."""
    for k in range(1, len(t) - 3):
        if t[k] == "?" and t[k + 2] == ":" and t[k + 1] != t[k + 3]:
            yield t.text[: t.spans[k + 1][0]] + t[k + 3] + " : " + t[k + 1] + t.text[t.spans[k + 3][1] :]


def swapped_arguments(t: Tokens) -> Iterator[str]:
    """The first two single-token arguments of a call exchanged."""
    for k in range(len(t) - 5):
        call = t.kind(k) == "word" and t[k + 1] == "(" and t[k + 3] == "," and t[k + 5] in (",", ")")
        single = call and "op" not in (t.kind(k + 2), t.kind(k + 4))
        if single and t[k + 2] != t[k + 4] and t[k] not in SYMMETRIC:
            yield t.text[: t.spans[k + 2][0]] + f"{t[k + 4]}, {t[k + 2]}" + t.text[t.spans[k + 4][1] :]


SYMMETRIC = {"fmaxf", "fminf", "max", "min", "fmax", "fmin", "fma", "fmaf", "mul24", "mad"}

NUMBER_OF_AXIS = {"x": "y", "y": "x", "z": "x"}


def other_axis(t: Tokens) -> Iterator[str]:
    """``threadIdx.x`` printed as ``.y``, ``get_local_id(0)`` as ``(1)``."""
    for k in range(len(t) - 2):
        if t[k] in ("threadIdx", "blockIdx", "blockDim", "gridDim") and t[k + 1] == ".":
            yield t.replaced(k + 2, k + 2, NUMBER_OF_AXIS[t[k + 2]])
        if t[k].startswith("get_") and t[k + 1] == "(" and t[k + 2].isdigit():
            yield t.replaced(k + 2, k + 2, str(1 - min(int(t[k + 2]), 1)))


def dropped_subscript(t: Tokens) -> Iterator[str]:
    """``a[i][j]`` with the subscripts exchanged."""
    for k in range(1, len(t)):
        if t[k] == "[" and t.kind(k - 1) == "word":
            first = t.closing(k)
            if first is not None and first + 1 < len(t) and t[first + 1] == "[":
                second = t.closing(first + 1)
                if second is not None:
                    a = t.text[t.spans[k][0] : t.spans[first][1]]
                    b = t.text[t.spans[first + 1][0] : t.spans[second][1]]
                    if a != b:
                        yield t.replaced(k, second, b + a)


INDICES = {"threadIdx": "blockIdx", "blockIdx": "threadIdx", "blockDim": "gridDim", "gridDim": "blockDim",
           "get_local_id": "get_group_id", "get_group_id": "get_local_id", "get_local_size": "get_num_groups",
           "get_num_groups": "get_local_size", "get_global_id": "get_local_id"}  # fmt: skip
SIGNEDNESS = {"unsigned": "int", "uint": "int", "ulong": "long"}
NARROWER = {"long": "int", "double": "float", "ulong": "uint", "int64_t": "int32_t"}
WIDER = {"float": "double"}
COMPARES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<"}
LOGIC = {"&&": "||", "||": "&&", "&": "|", "|": "&", "^": "|"}
FUNCTIONS = {"fmaxf": "fminf", "fminf": "fmaxf", "max": "min", "min": "max", "fmax": "fmin", "fmin": "fmax",
             "expf": "exp2f", "exp": "exp2", "exp2f": "expf", "rsqrtf": "sqrtf", "rsqrt": "sqrt", "sqrtf": "rsqrtf",
             "logf": "log2f", "log": "log2", "floorf": "ceilf", "floor": "ceil", "fabsf": "sqrtf"}  # fmt: skip
APPROXIMATE = {"expf": "__expf", "logf": "__logf", "sinf": "__sinf", "cosf": "__cosf", "exp": "native_exp",
               "log": "native_log"}  # fmt: skip
ROUNDING = {"__float2half": "__float2half_rz", "__float2half_rn": "__float2half_rz",
            "__float2bfloat16": "__float2bfloat16_rz", "rint": "trunc", "rintf": "truncf",
            "__double2float_rn": "__double2float_rz", "vstore_half_rte": "vstore_half_rtz"}  # fmt: skip
SHUFFLES = {"__shfl_down_sync": "__shfl_up_sync", "__shfl_up_sync": "__shfl_down_sync",
            "__shfl_xor_sync": "__shfl_down_sync",
            "__shfl_sync": "__shfl_xor_sync", "__shfl_xor": "__shfl_down", "__shfl_down": "__shfl_up"}  # fmt: skip
MASKS = {"0xffffffff": "0xffff", "0xffffffffu": "0xffffu", "0xffffffffffffffffull": "0xffffull"}
SYNCS = {"__syncthreads": "__syncwarp", "CLK_LOCAL_MEM_FENCE": "CLK_GLOBAL_MEM_FENCE"}
SPACES = {"__shared__": "", "__local": "__private"}
VECTORS = {"float4": "float2", "float2": "float4", "uint4": "uint2", "uint2": "uint4", "int4": "int2", "half2": "half"}
KEYWORDS = {"continue": "break", "break": "continue", "return": "continue"}
LANES = {"x": "y", "y": "x", "z": "w", "w": "z", "s0": "s1", "s1": "s0"}


def other_lane(t: Tokens) -> Iterator[str]:
    """``v.x`` of a vector printed as ``v.y``."""
    for k in range(2, len(t)):
        if t[k - 1] == "." and t[k] in LANES and t[k - 2] not in INDICES:
            yield t.replaced(k, k, LANES[t[k]])


def double_step(t: Tokens) -> Iterator[str]:
    """``++i`` printed as ``i += 2``."""
    for k in range(len(t) - 1):
        if t[k] == "++" and t.kind(k + 1) == "word":
            yield t.replaced(k, k + 1, f"{t[k + 1]} += 2")


C_LIKE: tuple[TextOperator, ...] = (
    TextOperator("text-parentheses", "precedence", unparenthesised),
    TextOperator("text-cast", "types", uncast),
    TextOperator("text-signedness", "types", swap(SIGNEDNESS)),
    TextOperator("text-unsigned-suffix", "types", numbers(_without_unsigned), blind=True),
    TextOperator("text-narrower", "types", swap(NARROWER)),
    TextOperator("text-wider", "types", swap(WIDER), blind=True),
    TextOperator("text-float-suffix", "types", numbers(_without_f)),
    TextOperator("text-rounding", "types", swap(ROUNDING), blind=True),
    TextOperator("text-integer-up", "literals", numbers(_integer(1))),
    TextOperator("text-integer-down", "literals", numbers(_integer(-1)), blind=True),
    TextOperator("text-float", "literals", numbers(_float_scaled), blind=True),
    TextOperator("text-axis", "geometry", other_axis),
    TextOperator("text-index", "geometry", swap(INDICES, "word")),
    TextOperator("text-subscripts", "memory", dropped_subscript, blind=True),
    TextOperator("text-space", "memory", swap(SPACES)),
    TextOperator("text-vector", "memory", swap(VECTORS), blind=True),
    TextOperator("text-lane", "memory", other_lane, blind=True),
    TextOperator("text-compare", "operators", swap(COMPARES, "op")),
    TextOperator("text-arithmetic", "operators", swap(ARITHMETIC, "op")),
    TextOperator("text-logic", "operators", swap(LOGIC, "op"), blind=True),
    TextOperator("text-update", "operators", plain_update),
    TextOperator("text-update-twice", "operators", doubled_update, blind=True),
    TextOperator("text-step", "operators", double_step),
    TextOperator("text-function", "functions", swap(FUNCTIONS, "word")),
    TextOperator("text-approximate", "functions", swap(APPROXIMATE, "word"), blind=True),
    TextOperator("text-arguments", "functions", swapped_arguments, blind=True),
    TextOperator("text-arms", "functions", swapped_arms),
    TextOperator("text-shuffle", "lanes", swap(SHUFFLES, "word")),
    TextOperator("text-mask", "lanes", swap(MASKS), blind=True),
    TextOperator("text-barrier", "sync", swap(SYNCS, "word")),
    TextOperator("text-statement", "sync", dropped_statement),
    TextOperator("text-jump", "sync", swap(KEYWORDS, "word"), blind=True),
)
"""Operators on CUDA, HIP and OpenCL text."""

PYTHON: tuple[TextOperator, ...] = (
    TextOperator("text-parentheses", "precedence", unparenthesised),
    TextOperator("text-integer-up", "literals", numbers(_integer(1))),
    TextOperator("text-integer-down", "literals", numbers(_integer(-1)), blind=True),
    TextOperator("text-float", "literals", numbers(_float_scaled), blind=True),
    TextOperator("text-compare", "operators", swap(COMPARES, "op")),
    TextOperator("text-arithmetic", "operators", swap({**ARITHMETIC, "//": "%"}, "op")),
    TextOperator("text-logic", "operators", swap({"and": "or", "or": "and"}, "word"), blind=True),
    TextOperator("text-update", "operators", plain_update),
    TextOperator("text-types", "types", swap({"float32": "float16", "int64": "int16", "uint32": "int16"}, "word")),
    TextOperator(
        "text-function", "functions", swap({"max": "min", "min": "max", "exp": "expm1", "sqrt": "exp"}, "word")
    ),
)
"""Operators on the numba backend's Python text."""
