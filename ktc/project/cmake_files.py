"""The commands of a CMakeLists.txt that are certain to run: on Linux, with GCC, all options at their defaults.

Read as text, nothing is run. A condition on anything else is neither true nor false, and what stands under it is left
out, as is what stands in functions and loops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Truth: TypeAlias = "bool | None"
"""Of a condition; None where it cannot be told."""

_PART = re.compile(r"""\#[^\n]* | (?P<word>"(?:[^"\\]|\\.)*" | [^\s()"\#]+ | [()])""", re.X | re.S)
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_REFERENCE = re.compile(r"\$\{(\w+)\}")

PLATFORM = {
    **dict.fromkeys(("UNIX", "LINUX"), "1"), **dict.fromkeys(("WIN32", "MSVC", "APPLE", "MINGW", "CYGWIN"), "0"),
    "CMAKE_CROSSCOMPILING": "0", "CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SIZEOF_VOID_P": "8",
    **dict.fromkeys(("CMAKE_SYSTEM_PROCESSOR", "CMAKE_HOST_SYSTEM_PROCESSOR"), "x86_64"),
    **dict.fromkeys(("CMAKE_C_COMPILER_ID", "CMAKE_CXX_COMPILER_ID"), "GNU"),
    **dict.fromkeys(("CUDA_FOUND", "CUDAToolkit_FOUND", "HAVE_CUDA"), "1"),
    **dict.fromkeys(("CMAKE_CURRENT_SOURCE_DIR", "CMAKE_CURRENT_LIST_DIR"), "."),
}  # fmt: skip
"""Variables that CMake or its modules set, where CUDA is there."""

_TRUE = frozenset({"ON", "YES", "TRUE", "Y"})
_FALSE = frozenset({"", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"})

_BLOCKS = ("foreach", "while", "function", "macro")


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a CMakeLists.txt that run whatever cannot be told here, in order: each its name in lower case and
    its arguments, with the variables put in that are known."""
    state = _State()
    for name, words in _calls(text):
        if state.entered(name, words):
            continue
        if name in ("option", "cmake_dependent_option", "set", "unset"):
            state.assign(name, words)
        if state.runs:
            yield name, [state.put_in(_bare(w)) for w in words]


def _calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """All commands as they are written; brackets inside their arguments are words of their own."""
    name, words, depth = "", list[str](), 0
    for word in _words(text):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word == ")":
            yield name.lower(), words
        elif depth == 0:
            name, words = word, []
        elif (depth, word) != (1, "("):
            words.append(word)


def _bare(word: str) -> str:
    return word[1:-1] if word.startswith('"') else word


@dataclass
class _State:
    """What is known where a command stands: its variables, and for each block around it whether it is entered, and
    whether one of its branches was before."""

    values: dict[str, str | None] = field(default_factory=lambda: dict[str, "str | None"](PLATFORM))
    blocks: list[tuple[Truth, Truth]] = field(default_factory=list)

    @property
    def runs(self) -> Truth:
        return _all(entered for entered, _ in self.blocks)

    def entered(self, name: str, words: list[str]) -> bool:
        """Whether the command begins or ends a block, which is then noted."""
        if name == "if":
            holds = self.condition(words)
            self.blocks.append((holds, holds))
        elif name in _BLOCKS:
            self.blocks.append((None, None))
        elif name in ("else", "elseif") and self.blocks:
            _, before = self.blocks.pop()
            holds = True if name == "else" else self.condition(words)
            self.blocks.append((_all([_not(before), holds]), _any([before, holds])))
        elif name.startswith("end") and name[3:] in ("if", *_BLOCKS):
            self.blocks[-1:] = []
        else:
            return False
        return True

    def assign(self, name: str, words: list[str]) -> None:
        if not words or self.runs is False:
            return
        if name == "set":
            value = self.put_in(_bare(words[1])) if len(words) == 2 or words[2:3] == ["CACHE"] else None
        else:
            value = self.default(name, words[1:])
        known = self.runs and value is not None and "$" not in value
        self.values[words[0]] = value if known else None

    def default(self, name: str, words: list[str]) -> str | None:
        """The value of an option, of which ``words`` give a description, a default, and where that counts."""
        value = _bare(words[1]) if len(words) > 1 else "OFF"
        if name == "unset" or name == "option" or len(words) < 4:
            return None if name == "unset" else value
        counts = _all(self.condition(_words(part)) for part in _bare(words[2]).split(";"))
        return None if counts is None else value if counts else _bare(words[3])

    def put_in(self, word: str) -> str:
        """``word`` with the values of variables; those that are not known stay references."""
        known = {n: v for n, v in self.values.items() if v is not None}
        return _REFERENCE.sub(lambda m: known.get(m[1], m[0]), word)

    def condition(self, words: list[str]) -> Truth:
        rest = [*words]
        holds = self._either(rest)
        return None if rest else holds

    def _either(self, rest: list[str]) -> Truth:
        found = [self._both(rest)]
        while rest[:1] == ["OR"]:
            del rest[0]
            found.append(self._both(rest))
        return _any(found)

    def _both(self, rest: list[str]) -> Truth:
        found = [self._one(rest)]
        while rest[:1] == ["AND"]:
            del rest[0]
            found.append(self._one(rest))
        return _all(found)

    def _one(self, rest: list[str]) -> Truth:
        """The condition that ``rest`` begins with, which is taken from it."""
        word = rest.pop(0) if rest else ""
        if word == "NOT":
            return _not(self._one(rest))
        if word == "(":
            holds = self._either(rest)
            del rest[:1]
            return holds
        if rest and rest[0] not in ("AND", "OR", ")"):
            operator, other = rest.pop(0), rest.pop(0) if rest else ""
            if operator in ("STREQUAL", "EQUAL"):
                a, b = self._value(word), self._value(other, other)
                return None if a is None or b is None else a == b
            return None  # a test with a word of its own (DEFINED x), or a comparison of versions
        return _truth(self._value(word))

    def _value(self, word: str, unknown: str | None = None) -> str | None:
        """What ``word`` stands for in a condition: text, a constant, or the value of the variable that it names, which
        is ``unknown`` where no command gave it one."""
        put_in = self.put_in(_bare(word))
        if "$" in put_in:
            return None
        if put_in in self.values and word == put_in:
            return self.values[put_in]
        return unknown if word == put_in and _NAME.match(word) and word.upper() not in _TRUE | _FALSE else put_in


def _words(text: str) -> list[str]:
    return [m["word"] for m in _PART.finditer(text) if m["word"]]


def _truth(value: str | None) -> Truth:
    if value is None:
        return None
    upper = value.upper()
    if upper in _TRUE or upper in _FALSE or upper.endswith("-NOTFOUND"):
        return upper in _TRUE
    return float(value) != 0 if re.fullmatch(r"-?\d+(\.\d+)?", value) else None


def _not(x: Truth) -> Truth:
    return None if x is None else not x


def _all(items: Iterator[Truth] | list[Truth]) -> Truth:
    found = list(items)
    return False if False in found else None if None in found else True


def _any(items: list[Truth]) -> Truth:
    return _not(_all([_not(x) for x in items]))


__all__ = ["commands"]
