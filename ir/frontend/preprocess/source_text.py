"""Reading sources: decoding, and the comments that the preprocessor drops."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend.input_limits import MAX_RAW_STRINGS, MAX_SOURCE_BYTES

_TOKEN = re.compile(
    r"""(?P<line>//(?:[^\\\n]|\\.|\\\n)*) | (?P<block>/\*.*?\*/) | (?P<open>/\*.*)
        | (?P<skip>R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"
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
        found = list(_comments_in(text))
        if not found:
            return
        rows = text.split("\n")
        own: set[int] = set()
        for line, column, body in found:
            row = rows[line - 1]
            if len(row) - len(row.lstrip()) >= column:
                own.update(range(line, line + body.count("\n") + 1))
        code_at, blanks = _next_code(rows, own)
        for line, _, body in found:
            at = code_at[line] if line in own else line
            if at - line > 12 and blanks[at - 1] > blanks[line - 1]:
                continue  # a file header, far from any code
            self._by_line[file, at].extend(_clean(body))

    def at(self, loc: Loc | None) -> tuple[str, ...]:
        """Comments belonging to the code on the line of ``loc``."""
        return tuple(self._by_line.get((loc.file, loc.line), ())) if loc else ()


def _comments_in(text: str) -> Iterator[tuple[int, int, str]]:
    """Comments with the line and the column (from 0) where they start."""
    line, start, counted = 1, 0, 0
    for m in _TOKEN.finditer(text):
        if m.lastgroup not in ("line", "block"):
            continue
        pos = m.start()
        if breaks := text.count("\n", counted, pos):
            line += breaks
            start = text.rfind("\n", counted, pos) + 1
        counted = pos
        yield line, pos - start, m.group()


def _next_code(rows: list[str], own: set[int]) -> tuple[list[int], list[int]]:
    """By line: the first line from there on with code, and how many lines up to it are blank."""
    code_at = [len(rows) + 1] * (len(rows) + 2)
    blanks = [0] * (len(rows) + 2)
    for line in range(len(rows), 0, -1):
        row = rows[line - 1]
        passed = not row.strip() or (line in own and not _code_after(row))
        code_at[line] = code_at[line + 1] if passed else line
    for line, row in enumerate(rows, 1):
        blanks[line] = blanks[line - 1] + (not row.strip())
    return code_at, blanks


def _code_after(row: str) -> bool:
    """Whether ``row`` ends a block comment and goes on with code."""
    end = row.rfind("*/")
    return end >= 0 and bool(row[end + 2 :].strip())


def _clean(comment: str) -> list[str]:
    if comment.startswith("//"):
        return [re.sub(r"^/+[!<]*\s?", "", row).rstrip() for row in comment.split("\n")]
    rows = [re.sub(r"^\s*\*+ ?|^\s+", "", r).rstrip() for r in comment[2:-2].lstrip("*!<").split("\n")]
    return [r for r in rows if r]
