"""Finding kernel definitions in source text without parsing it: the count that coverage is measured against."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLANKED = re.compile(
    r"""//(?:[^\\\n]|\\.|\\\n)*
      | /\*.*?(?:\*/|\Z) | R"([^(\s]*)\(.*?\)\1" | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'""",
    re.VERBOSE | re.DOTALL,
)
_MARK = re.compile(r"\b(?:__global__|__kernel|kernel(?=\s+(?:__attribute__|void)\b))")
_LINE = re.compile(r'^[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)[ \t]+"([^"\n]*)"[^\n]*$', re.MULTILINE)
_NAME = re.compile(r"([A-Za-z_]\w*)\s*(<[^()<>;{}]*>)?\s*$")
_NOT_NAMES = frozenset({"__launch_bounds__", "__attribute__", "__declspec", "__align__", "__cluster_dims__",
                        "__maxnreg__", "reqd_work_group_size", "alignas", "decltype"})  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A kernel definition: its name and where its ``__global__`` stands."""

    name: str
    file: str
    line: int


def blanked(text: str) -> str:
    """``text`` with comments and literals replaced by spaces; line breaks stay."""
    return _BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def kernels_in(text: str, file: str) -> list[Found]:
    """Definitions (not declarations) of kernels in ``text``, whose ``#line`` directives are followed."""
    marks = [(m.end(), int(m.group(1)), m.group(2)) for m in _LINE.finditer(text)]
    plain = blanked(text)
    found = []
    for m in _MARK.finditer(plain):
        name = _defined(plain, m.end())
        if name is not None:
            found.append(Found(name, *_place(plain, m.start(), marks, file)))
    return found


def _defined(text: str, at: int) -> str | None:
    """The name of the function whose specifiers go on at ``at``, if a body follows its parameters."""
    name = None
    while at < len(text):
        c = text[at]
        if c == "(":
            head = _NAME.search(text, max(0, at - 400), at)
            close = _closing(text, at)
            if close is None:
                return None
            if head is not None and head.group(1) not in _NOT_NAMES:
                name = head.group(1)
            at = close + 1
        elif c == "{":
            return name
        elif c in ";}=":
            return None
        else:
            at += 1
    return None


def _closing(text: str, at: int) -> int | None:
    depth = 0
    for m in re.compile(r"[()]").finditer(text, at):
        depth += 1 if m.group() == "(" else -1
        if depth == 0:
            return m.start()
    return None


def _place(text: str, at: int, marks: list[tuple[int, int, str]], file: str) -> tuple[str, int]:
    last = None
    for mark in marks:
        if mark[0] > at:
            break
        last = mark
    if last is None:
        return file, 1 + text.count("\n", 0, at)
    return last[2] or file, last[1] + text.count("\n", last[0], at) - 1
