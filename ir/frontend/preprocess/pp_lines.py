"""What needs the preprocessor and what does not: lines without macros pass as text, macros are expanded one by one.

Most lines of a source have neither a directive nor a macro's name. They are recognised by one regular expression and a
look into the table of macros, and stay text. Of the rest, only the tokens from a macro's name to the end of its
arguments are worth expanding together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from .pp_tokens import SPACE, TEXT, Token, tokens_of

_PLAIN = re.compile(
    r"""([^\n"'\#\\/]*+(?:(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|/(?![/*]))[^\n"'\#\\/]*+)*)
        (?://[^\n]*(?<!\\))?\n""",
    re.VERBOSE,
)
"""A line with no directive, block comment or continuation: group 1 is what stands before its comment."""

_WORD = re.compile(r"[A-Za-z_$][\w$]*+")

POSITIONAL = ("__LINE__", "__COUNTER__")
"""Names that the preprocessor replaces though they are in no table."""


def grouped(text: str, source: str, macros: Set[str]) -> Iterator[list[Token]]:
    """The lines of ``text``, each as its tokens up to the line's end; runs of lines without macros as one ``TEXT``.

    ``macros`` is looked at when a line is reached: a directive before it has been obeyed by then. Blanks at the end of
    a line, also behind a backslash, are dropped.
    """
    text = "\n".join([row.rstrip() for row in text.splitlines()]) + "\n"
    at, line, end = 0, 1, len(text)
    words, plain = _WORD.findall, _PLAIN.match
    while at < end:
        run: list[str] = []
        first = line
        while at < end and (m := plain(text, at)) is not None:
            row = m[1]
            if row and (not macros.isdisjoint(words(row)) or "__LINE__" in row or "__COUNTER__" in row):
                break
            run.append(row.rstrip())
            at = m.end()
            line += 1
        if run:
            ending = Token(SPACE, "\n", line - 1, source)
            blank = not any(run)
            yield [ending] if blank else [Token(TEXT, "\n".join(run), first, source), ending]
            continue
        tokens: list[Token] = []
        for token, behind in tokens_of(text, line, source, at, one_line=True):
            tokens.append(token)
            at = behind
        last = tokens[-1]
        if last.value != "\n":  # a comment or string left open at the end of the file
            tokens.append(Token(SPACE, "\n", last.lineno, source))
        line = last.lineno + 1
        yield tokens


def pieces(tokens: list[Token], macros: Set[str], whole: bool = False) -> Iterator[tuple[list[Token], bool]]:
    """``tokens`` cut where no macro call can reach across, each piece with whether there is a macro's name in it.

    A call is a name with ``(`` behind it, perhaps lines later, up to the bracket that closes it. ``whole`` says that a
    macro's text has brackets that do not match: then calls may end anywhere, and nothing is cut behind the first name.
    """
    stack = tokens[::-1]
    piece: list[Token] = []
    found, depth = False, 0
    while stack:
        token = stack.pop()
        kind = token.type
        if kind == TEXT:
            if found and (depth or whole or token.value.lstrip().startswith("(")):
                opened = [t for t, _ in tokens_of(token.value, token.lineno, token.source)]
                stack.extend(reversed(opened))
                continue
        elif kind == "CPP_ID":
            found = found or token.value in macros or token.value in POSITIONAL
        elif found and kind == "CPP_OTHER":
            depth += (token.value == "(") - (token.value == ")" and depth > 0)
        piece.append(token)
        if not found:
            if kind == TEXT or len(piece) > 256:
                yield piece, False
                piece = []
        elif not depth and not whole and kind != SPACE and not _opens(stack):
            yield piece, True
            piece = []
            found = False
    if piece:
        yield piece, found


def _opens(stack: list[Token]) -> bool:
    """Whether the next token that is no blank is a ``(``."""
    for token in reversed(stack):
        if token.type == TEXT:
            return token.value.lstrip().startswith("(")
        if not token.type.startswith(BLANKS):
            return token.value == "("
    return False


BLANKS = (SPACE, "CPP_LINECONT", "CPP_COMMENT")

_CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|else|elif|endif)\b", re.MULTILINE)


def has_other_side(text: str) -> bool:
    """Whether the guard that a header begins with has an ``#else``, which is what a second inclusion gets: such a
    header is not to be read only once."""
    depth = 0
    for m in _CONDITIONAL.finditer(text):
        if depth == 0 and m[1] != "ifndef":
            return False
        if m[1] in ("else", "elif") and depth == 1:
            return True
        depth += {"endif": -1, "else": 0, "elif": 0}.get(m[1], 1)
    return False
