"""The launches of a kernel in a source's text, and the text with other calls in their place; nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_SKIPPED = re.compile(
    r"""//(?:[^\\\n]|\\.|\\\n)* | /\*.*?\*/ | R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"
        | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'""",
    re.VERBOSE | re.DOTALL,
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*\n", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|endif)\b", re.MULTILINE)


@dataclass(frozen=True)
class LaunchText:
    """``callee<<<config>>>(arguments)`` between ``start`` and ``end`` of a text, its parts as they are written."""

    start: int
    end: int
    callee: str
    config: str
    arguments: str


def blanked(text: str) -> str:
    """``text`` with comments and literals as blanks, of the same length: what is found in it is code."""
    return _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def launches(text: str, kernel: str) -> list[LaunchText]:
    """The launches of the function ``kernel`` (without namespace) by its name, in order."""
    code = blanked(text)
    found = []
    for m in re.finditer(rf"(?<![\w.>])(?:\w+\s*::\s*|::\s*)*{re.escape(kernel)}\b", code):
        at = _behind_template(code, m.end())
        opening = re.compile(r"\s*<<\s*<").match(code, at)
        if opening is None:
            continue
        closing = _end_of_config(code, opening.end())
        arguments = re.compile(r">>\s*>\s*\(").match(code, closing) if closing >= 0 else None
        if arguments is None:
            continue
        end = _closing(code, arguments.end(), ")")
        if end >= 0:
            found.append(
                LaunchText(
                    m.start(), end + 1, text[m.start() : at].strip(), text[opening.end() : closing],
                    text[arguments.end() : end],
                )
            )  # fmt: skip
    return found


def replaced(text: str, found: list[LaunchText], call: Callable[[LaunchText], str]) -> str:
    """``text`` with ``call`` of each launch in its place."""
    out, at = [], 0
    for launch in found:
        out += [text[at : launch.start], call(launch)]
        at = launch.end
    return "".join([*out, text[at:]])


def with_include(text: str, line: str, behind: int = 0) -> str:
    """``text`` with ``line`` behind its first include that no condition guards, or before everything; if ``behind`` is
    not 0, on the next line after that place."""
    if behind:
        end = text.find("\n", behind) + 1 or len(text)
        return f"{text[:end]}{line}\n{text[end:]}"
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)
    for m in _INCLUDE.finditer(code):
        if not guarded(code, m.start()):
            return f"{text[: m.end()]}{line}\n{text[m.end() :]}"
    return f"{line}\n{text}"


def guarded(code: str, at: int) -> bool:
    """Whether the place ``at`` of ``code`` stands under a condition of the preprocessor."""
    opened = [c[1] for c in _CONDITION.finditer(code, 0, at)]
    return opened.count("endif") != len(opened) - opened.count("endif")


def _behind_template(code: str, at: int) -> int:
    """The end of template arguments that begin at ``at``; ``at`` where there are none."""
    m = re.compile(r"\s*<(?!<)").match(code, at)
    if m is None:
        return at
    depth, k = 1, m.end()
    while k < len(code) and depth:
        if code[k] in "([{":
            k = _closing(code, k + 1, {"(": ")", "[": "]", "{": "}"}[code[k]])
            if k < 0:
                return at
        elif code.startswith("<<<", k) or code[k] == ";":
            return at
        else:
            depth += (code[k] == "<") - (code[k] == ">")
        k += 1
    return k if depth == 0 else at


def _end_of_config(code: str, at: int) -> int:
    """Where the ``>>>`` stands, as formatters write it, that ends a launch's configuration; -1 where none does."""
    while (at := _closing(code, at, ">>")) >= 0 and re.compile(r">>\s*>").match(code, at) is None:
        at += 2
    return at


def _closing(code: str, at: int, what: str) -> int:
    """Where ``what`` closes what was opened before ``at``; -1 where nothing does."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    while at < len(code):
        if code.startswith(what, at):
            return at
        if code[at] in pairs:
            at = _closing(code, at + 1, pairs[code[at]])
            if at < 0:
                return -1
        elif code[at] in ")]};":
            return -1
        at += 1
    return -1
