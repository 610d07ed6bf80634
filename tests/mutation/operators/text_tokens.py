"""The tokens of printed text, C-like or Python, as the text operators see them."""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|#[^\n]*)|(?P<string>\"[^\"\n]*\")"
    r"|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<op><<=|>>=|\+\+|--|->|::|\*\*|//|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)"
)
"""Tokens of C-like text and of Python alike, comments with the white space."""


@dataclass(frozen=True)
class Tokens:
    """``text[start:stop]`` of every token that is not white space, within the span that may be mutated."""

    text: str
    spans: tuple[tuple[int, int, str], ...]

    def __getitem__(self, k: int) -> str:
        a, b, _ = self.spans[k]
        return self.text[a:b]

    def __len__(self) -> int:
        return len(self.spans)

    def kind(self, k: int) -> str:
        return self.spans[k][2]

    def replaced(self, first: int, last: int, new: str) -> str:
        """The text with tokens ``first`` to ``last`` replaced by ``new``."""
        return self.text[: self.spans[first][0]] + new + self.text[self.spans[last][1] :]

    def closing(self, k: int) -> int | None:
        """The token that closes the bracket at ``k``."""
        pairs = {"(": ")", "[": "]", "{": "}"}
        depth = 0
        for j in range(k, len(self)):
            depth += (self[j] == self[k]) - (self[j] == pairs[self[k]])
            if not depth:
                return j
        return None


def tokens(text: str, start: int) -> Tokens:
    """The tokens of ``text`` from ``start`` on."""
    spans = []
    for m in TOKEN.finditer(text, start):
        if m.lastgroup != "space":
            spans.append((m.start(), m.end(), str(m.lastgroup)))
    return Tokens(text, tuple(spans))


def function_start(text: str, entry: str) -> int:
    """Where the kernel's own function begins: the helpers above it are fixed text with tests of their own."""
    m = re.search(rf"^(?:__global__|__kernel|template|extern|@|def )[^\n]*\b{re.escape(entry)}\b", text, re.M)
    if m is None:
        m = re.search(rf"\b{re.escape(entry)}(?:_grid|_block)?\s*\(", text)
    return m.start() if m else 0
