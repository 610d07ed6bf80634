"""Preprocessed text from tokens, with ``#line`` wherever the count of lines would not give the place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ktc.ir.diagnostics import KtcError, Loc

from .pp_tokens import SPACE, Token

MAX_GAP = 7
"""From this many skipped lines on, ``#line`` says where it goes on."""

_GROWS = frozenset("+-*/%&|^<>=!:.")
"""Punctuation of which two can become another operator, or a comment, when nothing stands between them."""


def rendered(tokens: Iterable[Token], limit: Callable[[], int], file: str) -> str:
    """The text of ``tokens``: lines of blanks are left out, blanks inside a line become one.

    Raises:
        KtcError: E-PP-EXPANSION when it would be longer than ``limit()`` characters.
    """
    out: list[str] = []
    source: str | None = None
    at = size = 0
    row: list[str] = []
    last: Token | None = None
    place: Token | None = None
    for token in tokens:
        kind, value = token.type, token.value
        if kind != SPACE and kind != "CPP_LINECONT":
            if not value:
                continue
            if place is None:
                place = token
            elif last is not None and _merges(last, token):
                row.append(" ")
            row.append(value)
            last = token
            continue
        if value[:1] != "\n":
            if value and (not row or last is not None):
                row.append(" " if row else value)
            last = None if value else last
            continue
        if place is not None:
            line = "".join(row).rstrip()
            skipped = place.lineno - at
            if place.source != source or skipped >= MAX_GAP or (skipped < 0 and not place.expanded):
                source = place.source
                out.append(f'#line {place.lineno} "{source}"\n')
                at = place.lineno
            else:  # what a macro expands to has the line of the call: its arguments go on below that
                out.append("\n" * skipped)
                at = max(at, place.lineno)
            out.append(line)
            out.append("\n")
            at += line.count("\n") + 1
            size += len(out[-3]) + len(line) + 1
            if size > limit():
                message = f"the source is larger than {limit() >> 20} MiB after macro expansion"
                raise KtcError("E-PP-EXPANSION", message, Loc(file, 1), "split it, or give fewer headers with -I")
        row, last, place = [], None, None
    return "".join(out)


def _merges(a: Token, b: Token) -> bool:
    """Whether ``a`` and ``b``, neighbours now, would be read as something else: one word, or ``--`` from ``-X``."""
    x, y = a.value[-1], b.value[0]
    if a.value == b.value == ".":
        return False  # of an ellipsis in a macro: two of them are nothing else
    if x in _GROWS and y in _GROWS:
        return a.expanded or b.expanded
    return _is_word(x) and b.type in _WORDS


def _is_word(c: str) -> bool:
    return c.isalnum() or c == "_"


_WORDS = frozenset({"CPP_ID", "CPP_INTEGER"})
