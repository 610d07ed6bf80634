"""Program text as HTML with its tokens in classes, a line at a time, by Pygments' lexers and one for the IR."""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import Any

from pygments.formatters import HtmlFormatter
from pygments.lexer import RegexLexer, words
from pygments.lexers import CLexer, CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text

KEYWORDS = (
    "kernel", "par", "for", "in", "reduce", "scan", "over", "let", "if", "else", "while", "yield", "return", "launch",
    "flags", "trace", "where", "as", "barrier", "shared", "host", "knob", "range",
)  # fmt: skip
TYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "bool")


class IrLexer(RegexLexer):
    """The text form of kernels (:mod:`ktc.ir.text`), and pass scripts."""

    name = "ktir"
    tokens = {  # noqa: RUF012  Pygments' protocol
        "root": [
            (r"#.*?$", Comment),
            (r'"[^"\n]*"', String),
            (r"\$\w+", Name.Variable),
            (words(KEYWORDS, prefix=r"\b", suffix=r"\b"), Keyword),
            (words(TYPES, prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (r"@ \[[^\]]*\]", Name.Decorator),
            (r"\b\d[\w.]*", Number),
            (r"[A-Za-z_][\w.]*(?=\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"[-+*/%<>=!&|^~?:,;.()\[\]{}]", Operator),
            (r"\s+|.", Text),
        ]
    }  # fmt: skip


LEXERS: dict[str, Any] = {
    "cuda": CudaLexer,
    "hip": CudaLexer,
    "opencl": CLexer,
    "numba": PythonLexer,
    "python": PythonLexer,
    "ir": IrLexer,
}
"""Language (a backend's name, or ``ir``) to its lexer; others are set as plain text."""

LONGEST = 200_000
"""Characters of a text that is highlighted; longer ones are set plain."""


@lru_cache(64)
def highlighted(text: str, language: str) -> tuple[str, ...]:
    """The lines of ``text`` as markup."""
    lexer = LEXERS.get(language)
    if lexer is None or len(text) > LONGEST:
        return tuple(escape(text).split("\n"))
    from pygments import highlight

    markup = highlight(text, lexer(stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True))
    return tuple(markup.split("\n"))


__all__ = ["LEXERS", "IrLexer", "highlighted"]
