"""Reading sources: decoding, and the comments that the preprocessor drops."""

from __future__ import annotations

import os
import re
from collections import defaultdict

from ..diagnostics import KtcError, Loc
from .limits import MAX_RAW_STRINGS, MAX_SOURCE_BYTES

_TOKEN = re.compile(
    r"""(?P<line>//(?:[^\\\n]|\\.|\\\n)*) | (?P<block>/\*.*?\*/) | (?P<skip>R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"
        | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')""",
    re.VERBOSE | re.DOTALL,
)


def read_source(path: str) -> str:
    """Text of ``path``: UTF-8, else Latin-1 (old benchmarks).

    Raises:
        KtcError: E-SOURCE-MISSING, E-SOURCE-READ, E-SOURCE-BINARY or E-SOURCE-SIZE.
    """
    try:
        with open(path, "rb") as f:
            data = f.read(MAX_SOURCE_BYTES + 1)
    except FileNotFoundError:
        raise KtcError(
            "E-SOURCE-MISSING", f"no such file: {path}", hint="give the path of a .cu file", exit_code=2
        ) from None
    except IsADirectoryError:
        raise KtcError(
            "E-SOURCE-READ", f"{path} is a folder", hint="give the .cu file inside it", exit_code=2
        ) from None
    except OSError as e:
        raise KtcError("E-SOURCE-READ", f"cannot read {path}: {e.strerror}", exit_code=2) from None
    if len(data) > MAX_SOURCE_BYTES:
        raise KtcError("E-SOURCE-SIZE", f"{path} is larger than {MAX_SOURCE_BYTES >> 20} MiB")
    if b"\0" in data:
        raise KtcError(
            "E-SOURCE-BINARY", f"{path} is not text (it has NUL bytes)", hint="give CUDA C++ source", exit_code=2
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    if text.count('R"') > MAX_RAW_STRINGS:
        raise KtcError("E-SOURCE-SIZE", f"{path} has more than {MAX_RAW_STRINGS} raw string literals")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Comments:
    """Comments of the sources read, by the line of code they belong to.

    A comment on a line of its own belongs to the next line of code, a trailing one to its own line. Texts are stored
    line by line, without comment markers.
    """

    def __init__(self) -> None:
        self._by_line: dict[tuple[str, int], list[str]] = defaultdict(list)

    def scan(self, text: str, file: str) -> None:
        """Record the comments of ``text``."""
        rows = text.split("\n")
        found = []
        line, pos = 1, 0
        for m in _TOKEN.finditer(text):
            line += text.count("\n", pos, m.start())
            pos = m.start()
            if m.lastgroup in ("line", "block"):
                found.append((line, pos - (text.rfind("\n", 0, pos) + 1), m.group()))
        own: set[int] = set()
        for line, col, body in found:
            if not rows[line - 1][:col].strip():
                own.update(range(line, line + body.count("\n") + 1))
        for line, _, body in found:
            at = line
            if line in own:
                while at <= len(rows) and ((at in own and not _code_after(rows[at - 1])) or not rows[at - 1].strip()):
                    at += 1
                if any(not r.strip() for r in rows[line - 1 : at - 1]) and at - line > 12:
                    continue  # a file header, far from any code
            self._by_line[file, at].extend(_clean(body))

    def at(self, loc: Loc | None) -> tuple[str, ...]:
        """Comments belonging to the code on the line of ``loc``."""
        return tuple(self._by_line.get((loc.file, loc.line), ())) if loc else ()


def _code_after(row: str) -> bool:
    """Whether ``row`` ends a block comment and goes on with code."""
    end = row.rfind("*/")
    return end >= 0 and bool(row[end + 2 :].strip())


def _clean(comment: str) -> list[str]:
    if comment.startswith("//"):
        return [re.sub(r"^/+[!<]*\s?", "", row).rstrip() for row in comment.split("\n")]
    rows = [re.sub(r"^\s*\*+ ?|^\s+", "", r).rstrip() for r in comment[2:-2].lstrip("*!<").split("\n")]
    return [r for r in rows if r]


def resolve_include(name: str, including: str, folders: tuple[str, ...]) -> str | None:
    """The file that ``#include "name"`` means, only from the including file's folder and ``folders``."""
    for folder in (os.path.dirname(including), *folders):
        path = os.path.normpath(os.path.join(folder or ".", name))
        if os.path.isfile(path):
            return path
    return None
