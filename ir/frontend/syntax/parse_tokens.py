"""Looking at tokens: pycparser's helpers over a list of all tokens. Most of parsing is these few lines."""

from __future__ import annotations

from typing import Any, NoReturn

from pycparser.c_parser import CParser

from .lexer import Token, TokenList


class TokenParser(CParser):
    """``_peek`` and friends. An identifier is classified (ID or TYPEID) whenever it is looked at, in today's scopes."""

    _tokens: TokenList  # type: ignore[assignment]
    _typedef_checked_token: Token | None  # type: ignore[assignment]
    _scope_stack: list[dict[str, bool]]

    def _peek(self, k: int = 1) -> Any:
        stream = self._tokens
        tok = stream._buffer[stream._index + k - 1]
        if tok is not None and tok is not self._typedef_checked_token and tok.type in _NAMES:
            self._classify(tok)
        return tok

    def _peek_type(self, k: int = 1) -> str | None:
        stream = self._tokens
        tok = stream._buffer[stream._index + k - 1]
        if tok is None:
            return None
        if tok is not self._typedef_checked_token and tok.type in _NAMES:
            self._classify(tok)
        return tok.type

    def _classify(self, tok: Token) -> None:
        name = tok.value
        for scope in reversed(self._scope_stack):
            if name in scope:
                tok.type = "TYPEID" if scope[name] else "ID"
                break
        else:
            tok.type = "ID"
        self._typedef_checked_token = tok

    def _advance(self) -> Token:
        stream = self._tokens
        tok = stream._buffer[stream._index]
        if tok is None:
            self._parse_error("unexpected end of file", self.clex.filename)
        stream._index += 1
        if tok is not self._typedef_checked_token and tok.type in _NAMES:
            self._classify(tok)
        return tok

    def _accept(self, token_type: str) -> Token | None:
        stream = self._tokens
        tok = stream._buffer[stream._index]
        if tok is None:
            return None
        if tok.type in _NAMES and tok is not self._typedef_checked_token:
            self._classify(tok)
        if tok.type != token_type:
            return None
        stream._index += 1
        return tok

    def _expect(self, token_type: str) -> Token:
        stream = self._tokens
        tok = stream._buffer[stream._index]
        if tok is not None and tok.type == token_type and token_type not in _NAMES:
            stream._index += 1
            return tok
        tok = self._advance()
        if tok.type != token_type:
            self._parse_error(f"before: {tok.value}", tok)
        return tok

    def _mark(self) -> int:
        return self._tokens._index

    def _reset(self, mark: int) -> None:
        self._tokens._index = mark

    def _tok_coord(self, tok: Token) -> Token:
        return tok

    def _parse_error(self, msg: str, coord) -> NoReturn:
        raise NotImplementedError


_NAMES = frozenset({"ID", "TYPEID"})
