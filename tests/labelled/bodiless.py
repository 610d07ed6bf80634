"""Functions that a kernel calls and that have no body: GPUVerify takes their results as anything at all.

A run can only try some results. Every such function gets a body that gives a number made of its arguments and a seed:
with seed 0 it gives 0, so that loops over such results end. Parameters are read, nothing is written.
"""

from __future__ import annotations

import re

_SCALARS = "bool|char|uchar|short|ushort|int|uint|unsigned|long|ulong|float|double|size_t"
_PROTOTYPE = re.compile(
    r"^[ \t]*(?P<head>(?:(?:__device__|extern|static|inline)\s+)*"
    rf"(?P<type>void|(?:unsigned\s+|signed\s+)?(?P<scalar>{_SCALARS})(?P<lanes>[234]|8|16)?)\s+)"
    r"(?P<name>\w+)\s*\((?P<params>[^;{}()]*)\)\s*;",
    re.M,
)
SEEDS = (0, 1, 2)


def bodiless(text: str) -> list[str]:
    """The names of functions that ``text`` declares and defines nowhere, but for those that do not return."""
    found = [m.group("name") for m in _PROTOTYPE.finditer(text)]
    return [f for f in dict.fromkeys(found) if not f.startswith("__") and not _defined(text, f)]


def _defined(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\s*\([^;{{}}()]*\)\s*{{", text) is not None


def with_bodies(text: str, seed: int) -> str:
    """``text`` with a body for each of :func:`bodiless`, on the line of its declaration."""
    names = set(bodiless(text))

    def define(m: re.Match[str]) -> str:
        if m.group("name") not in names:
            return m.group()
        params = [p.strip() for p in m.group("params").split(",") if p.strip() not in ("", "void")]
        named = [p if _has_name(p) else f"{p} ktc_{k}" for k, p in enumerate(params)]
        numbers = [re.findall(r"\w+", p)[-1] for p in named if "*" not in p and _is_number(p)]
        mixed = " + ".join([str(3 * seed), *(f"{seed} * (int){n}" for n in numbers)])
        result = (
            ""
            if m.group("type") == "void"
            else f"return ({m.group('type')})(({mixed}) & {2 * seed + 1 if seed else 0});"
        )
        newlines = "\n" * m.group().count("\n")
        return f"{m.group('head').strip()} {m.group('name')}({', '.join(named)}) {{ {result} }}{newlines}"

    return _PROTOTYPE.sub(define, text)


def _has_name(param: str) -> bool:
    words = re.findall(r"\w+", param)
    known = {*_SCALARS.split("|"), "const", "global", "local", "__global", "__local", "signed", "restrict"}
    return len(words) > 1 and words[-1] not in known and not re.fullmatch(rf"({_SCALARS})\d+", words[-1])


def _is_number(param: str) -> bool:
    return re.match(rf"(?:const\s+)?(?:unsigned|signed|{_SCALARS})\b", param) is not None
