"""Preprocessing tokens, and the lexer that pcpp is given instead of its own.

pcpp asks its lexer what types words, integers, strings, spaces, line ends and ``##`` have, and compares values for the
rest; so whole runs of punctuation are one token here. Numbers are C's preprocessing numbers: no macro hides in ``5UL``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktc.ir.diagnostics import KtcError, Loc

TEXT = "CPP_TEXT"
"""The type of whole lines without macros, kept as one token."""

SPACE = "CPP_WS"
"""Blanks, and line ends: pcpp gives comments this type once they are replaced."""

_TOKEN = re.compile(
    r"""(?P<CPP_ID>[A-Za-z_$][\w$]*+)
      | (?P<CPP_WS>[ \t]++|\n)
      | (?P<CPP_INTEGER>0[xX](?:[pP][+-]|'\w|[\w.])*|\.?\d(?:[eE][+-]|'\w|[\w.])*)
      | (?P<CPP_OP>(?:[+*%|&~^=!?:;{}\[\]]|-(?!>))+|->|<<<|>>>|<<=?|>>=?|<=|>=|/=)
      | (?P<CPP_STRING>"(?:[^"\\\n]|\\[\s\S])*")
      | (?P<CPP_CHAR>'(?:[^'\\\n]|\\[\s\S])*')
      | (?P<CPP_COMMENT1>/\*)
      | (?P<CPP_COMMENT2>//(?:\\[ \t]*+\n|[^\n])*)
      | (?P<CPP_LINECONT>\\[ \t]*+\n)
      | (?P<CPP_DPOUND>\#\#)
      | (?P<CPP_OTHER>[\s\S])""",
    re.VERBOSE,
)
_RAW_STRING = re.compile(r'"([^()\\\s]{0,16})\([\s\S]*?\)\1"')
_RAW_PREFIX = frozenset({"R", "LR", "uR", "UR", "u8R"})
_CONTINUED = re.compile(r"\\[ \t]*\n")


class Token:
    """One token: ``expanded`` if a macro put it where it is, ``painted`` if it is the name of a macro and stands for
    itself, as that macro's body holds it."""

    __slots__ = ("expanded", "lineno", "painted", "source", "type", "value")

    def __init__(self, type: str, value: str, lineno: int, source: str = "") -> None:
        self.type = type
        self.value = value
        self.lineno = lineno
        self.source = source
        self.expanded = self.painted = False

    def __copy__(self) -> Token:
        new = self.moved(self)
        new.expanded = self.expanded
        return new

    def moved(self, place: Token) -> Token:
        """The token as part of what a macro puts in place of ``place``."""
        new = Token(self.type, self.value, place.lineno, place.source)
        new.expanded = True
        new.painted = self.painted
        return new

    def __repr__(self) -> str:
        return f"{self.type}({self.value!r}, {self.lineno})"


def tokens_of(text: str, line: int, source: str, at: int = 0, one_line: bool = False) -> Iterator[tuple[Token, int]]:
    """Tokens of ``text`` from offset ``at``, which is on ``line``, each with the offset behind it.

    With ``one_line`` the token that ends the line is the last. Every character becomes part of some token.

    Raises:
        KtcError: E-PP-DIRECTIVE for a comment without an end.
    """
    match, end = _TOKEN.match, len(text)
    while at < end:
        m = match(text, at)
        assert m is not None
        kind = m.lastgroup or ""
        value = m[0]
        at = m.end()
        if kind == "CPP_WS":
            yield Token(kind, value, line, source), at
            if value == "\n":
                if one_line:
                    return
                line += 1
            continue
        if kind == "CPP_ID" and value in _RAW_PREFIX and (raw := _RAW_STRING.match(text, at)):
            kind, value, at = "CPP_STRING", value + raw[0], raw.end()
            yield Token(kind, value, line, source), at
            line += value.count("\n")
            continue
        if kind == "CPP_LINECONT":
            yield Token(kind, value[1:-1], line, source), at
            line += 1
            continue
        if kind == "CPP_COMMENT1":
            closing = text.find("*/", at)
            if closing < 0:
                raise KtcError("E-PP-DIRECTIVE", "a comment without an end", Loc(source, line))
            value, at = text[at - 2 : closing + 2], closing + 2
        breaks = value.count("\n") if kind in _MULTILINE else 0
        if breaks and kind == "CPP_STRING":
            value = _CONTINUED.sub("", value)
        yield Token(kind, value, line, source), at
        line += breaks


_MULTILINE = frozenset({"CPP_STRING", "CPP_CHAR", "CPP_COMMENT1", "CPP_COMMENT2"})


class Lexer:
    """The part of a ``ply`` lexer that pcpp uses."""

    def __init__(self) -> None:
        self.lineno = 1
        self._tokens: Iterator[tuple[Token, int]] = iter(())

    def input(self, text: str) -> None:
        self._tokens = tokens_of(text, self.lineno, "")

    def token(self) -> Token | None:
        found = next(self._tokens, None)
        return None if found is None else found[0]

    def clone(self) -> Lexer:
        return Lexer()
