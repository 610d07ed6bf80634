"""Declarations that a preprocessor condition leaves out: which macro would bring in a name that nothing declares."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from ktc.ir.diagnostics import KtcError, Loc

UNKNOWN = re.compile(r"unknown (?:name|type|function) '([\w:]+)'|'([\w:]+)' is declared but has no definition")
"""Refusals for which a declaration may only be switched off; the name is qualified as it was written."""

MOST = 3
"""Macros that are given together for one declaration."""

Asked: TypeAlias = tuple[str, ...]
"""What a condition asks for, all of it: macros that must be defined, with ``!`` those that must not be, and ``A=B`` for
one that must be at least as much as another macro or number says."""

_WITH_CUDA = re.compile(
    r"^[ \t]*#[ \t]*(?:el)?if[^\n]*?\b((?:[A-Z][A-Z0-9]*_)*(?:WITH|USE|HAVE|ENABLE|BUILD)_CUDA)\b", re.M
)

_IF = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b\s*(.*)")
_TRUE = re.compile(r"(!?)\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))\s*(?://.*|/\*.*)?")
_LEAST = re.compile(r"()\(?\s*([A-Za-z_]\w*)\s*>=\s*(\w+)\s*\)?\s*(?://.*|/\*.*)?")
_DEFINED = re.compile(r"(!?)\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))\s*(?://.*|/\*.*)?")


def switched_off(
    error: KtcError, sources: Mapping[str, str], defined: Collection[str]
) -> tuple[tuple[str, ...], Loc] | None:
    """The macros that are not ``defined`` and under which one of ``sources`` (text by path) declares the name that
    ``error`` misses, and where; None if there is none."""
    m = UNKNOWN.search(error.message)
    if m is None:
        return None
    name = (m[1] or m[2]).split("::")[-1]
    for path, text in sources.items():
        if name in text:
            found = _under(text, name, defined)
            if found is not None:
                return found[0], Loc(path, found[1], 1)
    return None


def hint_of(error: KtcError, sources: Mapping[str, str], defined: Collection[str]) -> str:
    """What to do about a name that is switched off, '' where none is."""
    off = switched_off(error, sources, defined)
    if off is None:
        return ""
    several = " and ".join(off[0]) + (" are" if len(off[0]) > 1 else " is")
    return f"it is declared at {off[1]} where {several} defined: give {' '.join(f'-D {m}' for m in off[0])}"


def hiding(name: str, sources: Mapping[str, str], defined: Collection[str]) -> tuple[str, ...]:
    """The macros that are not ``defined`` and under which one of ``sources`` (text by path) declares ``name``, as they
    are given with ``-D``; none if there are none."""
    found = (_under(text, name, defined) for text in sources.values() if name in text)
    return next((macros for macros, _ in filter(None, found)), ())


def asking_for_cuda(sources: Iterable[str], defined: Collection[str]) -> list[str]:
    """The macros that are not ``defined``, by which conditions of ``sources`` ask whether the project is built with
    CUDA: ``WITH_CUDA``, ``PROJECT_USE_CUDA``."""
    asked = {m[1] for text in sources if "_CUDA" in text for m in _WITH_CUDA.finditer(text)}
    return sorted(asked.difference(defined))


def saying_cuda(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that say of a project that it is built with CUDA, beside others for another platform each:
    ``GOOGLE_CUDA``, ``USE_CUDA``."""
    return [n for n in names if re.fullmatch(r"(?:[A-Z0-9]+_)*CUDA", n)]


def other_branches(text: str, line: int) -> list[str]:
    """The macros each of which, if it were defined, would lead around ``line`` of ``text``, an ``#error`` in a chain
    of conditions: A and B of ``#ifdef A .. #elif defined(B) .. #else`` there, A under ``#ifndef A``."""
    *before, here = _chain_at(text, line)
    around = _demanded(before, here)
    return [*(m for ms in before if len(ms) == 1 for m in ms if not m.startswith("!")), *around]


def demanded_number(text: str, line: int) -> dict[str, str]:
    """The macro that a build has to define, whose lack the ``#error`` at ``line`` of ``text`` is about (``#ifndef M``),
    with the least of the numbers that ``text`` compares it with, 0 where it does so with none: such a macro switches a
    feature on or off."""
    *before, here = _chain_at(text, line)
    numbers = {name: re.findall(rf"\b{name}\s*==\s*(\d+)\b", text) for name in _demanded(before, here)}
    return {name: min(found, key=int, default="0") for name, found in numbers.items()}


def _demanded(before: list[Asked], here: Asked) -> list[str]:
    return [here[0][1:]] if not before and len(here) == 1 and here[0].startswith("!") else []


def _chain_at(text: str, line: int) -> list[Asked]:
    """What the groups of the chain of conditions that ``line`` of ``text`` stands in ask for, its own last."""
    chains: list[list[Asked]] = []
    for row in text.split("\n")[: line - 1]:
        if (m := _IF.match(row)) is None:
            continue
        word, rest = m.groups()
        if word in ("ifdef", "ifndef", "if"):
            chains.append([_asked(word, rest)])
        elif word == "endif":
            del chains[-1:]
        elif chains:
            chains[-1].append(_asked("if", rest) if word == "elif" else ())
    return chains[-1] if chains else [()]


def _under(text: str, name: str, defined: Collection[str]) -> tuple[tuple[str, ...], int] | None:
    """(macros, line) of the first declaration of ``name`` for which one to :data:`MOST` macros are missing."""
    declares = re.compile(
        rf"^\s*(?!return\b)(?:[\w:<>,*&\[\]]+[\s*&]+)+{name}\s*(?:<[^;]*>\s*)?[(=;{{]"
        rf"|\b(?:struct|class|using|enum)\s+{name}\b"
        rf"|^\s*#\s*define\s+{name}\b"
    )
    asked: list[Asked] = []
    for number, line in enumerate(text.split("\n"), 1):
        m = _IF.match(line)
        if m is None:
            if name in line and declares.search(line):
                open_ = (x for xs in asked for x in xs if x[0] != "!" and x.partition("=")[0] not in defined)
                missing = tuple(dict.fromkeys(open_))
                if 0 < len(missing) <= MOST:
                    return missing, number
            continue
        word, rest = m.groups()
        if word in ("ifdef", "ifndef", "if"):
            asked.append(_asked(word, rest))
        elif word == "endif":
            del asked[-1:]
        elif asked:
            asked[-1] = _asked("if", rest) if word == "elif" else _otherwise(asked[-1])
    return None


def _asked(word: str, condition: str) -> Asked:
    """The macros that must be defined for the group to be read, '!M' for one that must not be; none if it is not so
    simple."""
    if word in ("ifdef", "ifndef"):
        name = re.match(r"\w+", condition)
        return () if name is None else (("" if word == "ifdef" else "!") + name[0],)
    parts = [*map(str.strip, condition.split("&&"))]
    found = [_DEFINED.fullmatch(part) or _TRUE.fullmatch(part) or _LEAST.fullmatch(part) for part in parts]
    return tuple(_asked_by(m) for m in found if m is not None) if all(found) else ()


def _asked_by(m: re.Match) -> str:
    return f"{m[2]}={m[3]}" if m.re is _LEAST else m[1] + (m[2] or m[3])


def _otherwise(asked: Asked) -> Asked:
    """What ``#else`` asks for."""
    if len(asked) != 1:
        return ()
    return (asked[0][1:] if asked[0].startswith("!") else "!" + asked[0],)
