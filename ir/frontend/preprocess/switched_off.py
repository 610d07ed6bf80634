"""Declarations that a preprocessor condition leaves out: which macro would bring in a name that nothing declares."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ktc.ir.diagnostics import KtcError, Loc

UNKNOWN = re.compile(r"unknown (?:name|type|function) '([\w:]+)'|'([\w:]+)' is declared but has no definition")
"""Refusals for which a declaration may only be switched off; the name is qualified as it was written."""

_IF = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b\s*(.*)")
_TRUE = re.compile(r"(!?)\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))\s*(?://.*|/\*.*)?")
_DEFINED = re.compile(r"(!?)\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))\s*(?://.*|/\*.*)?")


def switched_off(error: KtcError, sources: Mapping[str, str], defined: Collection[str]) -> tuple[str, Loc] | None:
    """The macro that is not ``defined`` and under which one of ``sources`` (text by path) declares the name that
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
    return "" if off is None else f"it is declared at {off[1]} where {off[0]} is defined: give -D {off[0]}"


def hiding(name: str, sources: Mapping[str, str], defined: Collection[str]) -> str:
    """The macro that is not ``defined`` and under which one of ``sources`` (text by path) declares ``name``; '' if
    there is none."""
    found = (_under(text, name, defined) for text in sources.values() if name in text)
    return next((macro for macro, _ in filter(None, found)), "")


def other_branches(text: str, line: int) -> list[str]:
    """The macros each of which, if it were defined, would lead around ``line`` of ``text``, an ``#error`` in a chain
    of conditions: A and B of ``#ifdef A .. #elif defined(B) .. #else`` there, A under ``#ifndef A``."""
    chains: list[list[str | None]] = []
    for row in text.split("\n")[: line - 1]:
        if (m := _IF.match(row)) is None:
            continue
        word, rest = m.groups()
        if word in ("ifdef", "ifndef", "if"):
            chains.append([_asked(word, rest)])
        elif word == "endif":
            del chains[-1:]
        elif chains:
            chains[-1].append(_asked("if", rest) if word == "elif" else None)
    *before, here = chains[-1] if chains else [None]
    around = [here[1:]] if here is not None and here.startswith("!") else []
    return [*(m for m in before if m is not None and not m.startswith("!")), *around]


def _under(text: str, name: str, defined: Collection[str]) -> tuple[str, int] | None:
    """(macro, line) of the first declaration of ``name`` for which exactly one macro is missing."""
    declares = re.compile(
        rf"^\s*(?!return\b)(?:[\w:<>,*&\[\]]+[\s*&]+)+{name}\s*(?:<[^;]*>\s*)?[(=;{{]"
        rf"|\b(?:struct|class|using|enum)\s+{name}\b"
        rf"|^\s*#\s*define\s+{name}\b"
    )
    asked: list[str | None] = []
    for number, line in enumerate(text.split("\n"), 1):
        m = _IF.match(line)
        if m is None:
            if name in line and declares.search(line):
                missing = [x for x in asked if x is not None and x[0] != "!" and x not in defined]
                if len(missing) == 1:
                    return missing[0], number
            continue
        word, rest = m.groups()
        if word in ("ifdef", "ifndef", "if"):
            asked.append(_asked(word, rest))
        elif word == "endif":
            del asked[-1:]
        elif asked:
            asked[-1] = _asked("if", rest) if word == "elif" else _otherwise(asked[-1])
    return None


def _asked(word: str, condition: str) -> str | None:
    """The macro that must be defined for the group to be read, '!M' for one that must not be, None if it is not so
    simple."""
    if word in ("ifdef", "ifndef"):
        name = re.match(r"\w+", condition)
        return None if name is None else ("" if word == "ifdef" else "!") + name[0]
    m = _DEFINED.fullmatch(condition.strip()) or _TRUE.fullmatch(condition.strip())
    return None if m is None else m[1] + (m[2] or m[3])


def _otherwise(asked: str | None) -> str | None:
    """What ``#else`` asks for."""
    if asked is None:
        return None
    return asked[1:] if asked.startswith("!") else "!" + asked
