"""Tokens of CUDA C++: pycparser's lexer plus C++ keywords, and a fast path for the tokens that most text is made of.

The fast path is one regular expression; whatever it does not match (literals with prefixes, attributes, directives,
errors) is left to pycparser's own ``token()``, so that both give the same tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pycparser.c_lexer import CLexer, _fixed_tokens
from pycparser.c_lexer import Token as PlainToken
from pycparser.c_parser import _TokenStream

CXX_KEYWORDS = {
    "__restrict__": "RESTRICT", "__restrict": "RESTRICT", "__inline__": "INLINE", "__inline": "INLINE",
    "__forceinline__": "INLINE", "__noinline__": "INLINE", "__volatile__": "VOLATILE", "__const__": "CONST",
    "__device__": "CUDA", "__host__": "CUDA", "__global__": "CUDA", "__shared__": "CUDA", "__constant__": "CUDA",
    "__managed__": "CUDA", "__grid_constant__": "CUDA", "__launch_bounds__": "CUDA_ARGS", "__align__": "CUDA_ARGS",
    "__cluster_dims__": "CUDA_ARGS", "__maxnreg__": "CUDA_ARGS", "__attribute__": "CUDA_ARGS",
    "__attribute": "CUDA_ARGS", "__declspec": "CUDA_ARGS",
    "template": "TEMPLATE", "typename": "TYPENAME", "namespace": "NAMESPACE", "using": "USING", "class": "CLASS",
    "operator": "OPERATOR", "new": "NEW", "delete": "DELETE", "this": "THIS", "public": "ACCESS",
    "private": "ACCESS", "protected": "ACCESS", "friend": "FRIEND", "explicit": "CXX_SPEC", "virtual": "CXX_SPEC",
    "mutable": "CXX_SPEC", "consteval": "CXX_SPEC", "constinit": "CXX_SPEC", "static_cast": "CXX_CAST",
    "reinterpret_cast": "CXX_CAST", "const_cast": "CXX_CAST", "dynamic_cast": "CXX_CAST", "decltype": "DECLTYPE",
    "__typeof__": "DECLTYPE", "noexcept": "NOEXCEPT", "throw": "THROW", "try": "TRY", "catch": "CATCH",
    "asm": "ASM", "__asm__": "ASM", "__asm": "ASM", "wchar_t": "WCHAR", "_Atomic": "ID", "typeof": "DECLTYPE",
}  # fmt: skip
"""C++ and CUDA keywords by token type; the rest are pycparser's C23 ones."""

ALTERNATIVE = {"and": ("LAND", "&&"), "or": ("LOR", "||"), "not": ("LNOT", "!")}

IGNORED = ("__extension__",)
"""Words that say nothing about what follows."""

_OPERATORS = {t.literal: t.tok_type for t in _fixed_tokens}

_PLAIN = sorted(_OPERATORS.keys() - {"[", "/", "/=", "."}, key=lambda op: (-len(op), op))

_ALONE = "".join(op for op in _PLAIN if len(op) == 1 and sum(other[0] == op for other in _OPERATORS) == 1)
"""Operators that no longer one starts with: most of a text's."""

_FAST = re.compile(
    rf"""[ \t\f\v]*+(?:
        ([A-Za-z_]\w*+(?!['"$])
          |[{re.escape(_ALONE)}]|\[(?!\s*\[)|{"|".join(re.escape(op) for op in _PLAIN if op not in _ALONE)}
          |/=?(?![/*=])|\.(?!\d))
      | ((?:\n[ \t]*+)+)
      | ((?:0|[1-9]\d*+)[uUlL]{{0,3}}+)(?![\w.'$])
      | ((?:\d++\.\d*+|\.\d++)(?:[eE][+-]?\d++)?[fF]?+|\d++[eE][+-]?\d++[fF]?+)(?![\w.'$])
      | ()
    )""",
    re.VERBOSE | re.ASCII,
)
"""Words and operators, line breaks, decimal integers, decimal floats, anything else: groups 1 to 5."""


class Token:
    """A token, which is the coordinate of nodes too: every node would need another object for its place.

    It is made without arguments and then filled (see :func:`token`): an initialiser would more than double the time.
    """

    __slots__ = ("column", "file", "line", "type", "value")

    type: str
    value: str
    line: int
    column: int
    file: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def token(type: str, value: str, line: int, column: int, file: str) -> Token:
    tok = Token()
    tok.type, tok.value, tok.line, tok.column, tok.file = type, value, line, column, file
    return tok


class CudaLexer(CLexer):
    """pycparser's lexer in its C23 dialect with the keywords above; ``[[...]]`` attributes are kept as tokens."""

    _pos: int
    _lineno: int
    _line_start: int

    def __init__(self, error_func, *, dialect="c23") -> None:
        super().__init__(self._illegal, dialect=dialect)
        self.words: Mapping[str, tuple[str, str] | None] = {}
        self._pending: list[PlainToken] = []
        self._keyword_map.update(CXX_KEYWORDS)
        for word in ("offsetof", "_Generic", "_BitInt", "typeof_unqual"):
            self._keyword_map.pop(word, None)

    def _illegal(self, message: str, line: int, column: int) -> None:
        """A character that starts no token becomes one of type ILLEGAL: the parser refuses it, or recovery skips it."""
        self._pending.append(PlainToken("ILLEGAL", message, line, column, self.filename))

    def token(self):
        """The next token, with the word operators spelled as symbols."""
        if self._pending:
            return self._pending.pop(0)
        tok = super().token()
        if self._pending:
            if tok is not None:
                self._pending.append(tok)
            return self._pending.pop(0)
        if tok is not None and (tok.value in self.words or tok.value in IGNORED):
            new = self.words.get(tok.value)
            if new is None:
                return self.token()
            tok.type, tok.value = new
        if tok is not None and tok.type == "ID" and tok.value in ALTERNATIVE:
            tok.type, tok.value = ALTERNATIVE[tok.value]
        return tok

    def tokens(self) -> list[Token]:
        """All tokens of the input."""
        text, find = self._lexdata, _FAST.finditer
        out: list[Token] = []
        append = out.append
        types = self._types()
        pos, line, start, file = self._pos, self._lineno, self._line_start, self._filename
        while True:
            for m in find(text, pos):
                kind = m.lastindex or 0
                if kind == 1:
                    value = m[1]
                    type = types.get(value, "ID")
                    if not type:  # a word that is not what it seems
                        if (other := self.words.get(value, ALTERNATIVE.get(value))) is None:
                            continue
                        type, value = other
                elif kind == 2:
                    breaks = m[2]
                    line += breaks.count("\n")
                    start = m.end() - len(breaks) + breaks.rfind("\n") + 1
                    continue
                elif kind == 5:
                    break
                else:
                    value = m[kind]
                    type = "FLOAT_CONST" if kind == 4 else "INT_CONST_OCT" if value[0] == "0" else "INT_CONST_DEC"
                tok = Token()
                tok.type = type
                tok.value = value
                tok.line = line
                tok.column = m.start(kind) - start + 1
                tok.file = file
                append(tok)
            self._pos, self._lineno, self._line_start = m.end(), line, start
            while (slow := self.token()) is not None:
                append(token(slow.type, slow.value, slow.lineno, slow.column, slow.filename))
                if not (self._in_attribute or self._pending or self._pending_tok):
                    break
            else:
                return out
            pos, line, start, file = self._pos, self._lineno, self._line_start, self._filename

    def _types(self) -> dict[str, str]:
        """Types of keywords and operators; none of words that are not what they seem: the dialect's, and the operators
        that are spelled as words."""
        return {**self._keyword_map, **_OPERATORS, **dict.fromkeys((*ALTERNATIVE, *IGNORED, *self.words), "")}


class TokenList(_TokenStream):
    """All tokens in one list, with ends beyond the last, so that looking ahead is an index."""

    LOOKAHEAD = 8

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(lambda: None)
        self._buffer = [*tokens, *[None] * self.LOOKAHEAD]

    def peek(self, k: int = 1) -> Token | None:
        return self._buffer[self._index + k - 1]

    def next(self) -> Token | None:
        tok = self._buffer[self._index]
        if tok is not None:
            self._index += 1
        return tok
