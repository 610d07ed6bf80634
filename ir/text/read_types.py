"""Parse trees of types to types, and what every reader has: scopes of names, and errors with a place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from lark import Token

from ktc.ir import nodes as n
from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.nodes import Expr, Sym
from ktc.ir.types import SCALARS, VOID, Array, Opaque, Ptr, Scalar, Struct, Type, Vec

from .syntax import SPACE_WORDS

Node = Any
"""A lark ``Tree`` or ``Token`` (or None, where the grammar has an optional part). lark types children loosely."""

_SPACES = {word: space for space, word in SPACE_WORDS.items()}


class TypeReader:
    """Names, errors and types. ``scopes`` maps names to symbols, innermost last; ``knobs`` may be read bare."""

    def __init__(self, file: str, text: str, names: Mapping[str, Sym | n.Knob] | None = None) -> None:
        self.file, self.text = file, text
        self.scopes: list[dict[str, Sym | n.Knob]] = [dict(names or {})]

    # ------------------------------------------------------------------------------------------- errors and names

    def loc(self, at: Node) -> Loc:
        line, col = (at.line, at.column) if isinstance(at, Token) else (at.meta.line, at.meta.column)
        return Loc(self.file, line or 1, col or 1)

    def fail(self, at: Node, message: str, hint: str = "", code: str = "E-TEXT") -> NoReturn:
        raise KtcError(code, message, self.loc(at), hint, source=self.text)

    def lookup(self, name: Node) -> Sym | n.Knob:
        key = plain(name)
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        known = sorted({k for scope in self.scopes for k in scope})
        self.fail(name, f"unknown name '{key}'", f"known here: {', '.join(known) or 'nothing'}", "E-TEXT-NAME")

    def symbol(self, name: Node) -> Sym:
        s = self.lookup(name)
        if not isinstance(s, Sym):
            self.fail(name, f"'{plain(name)}' is a knob, not a variable")
        return s

    def buffer(self, name: Node) -> Sym:
        s = self.symbol(name)
        if not isinstance(s.type, Ptr | Array | Vec):
            self.fail(name, f"'{s.name}' of type {s.type} cannot be subscripted", code="E-TEXT-TYPE")
        return s

    def sint(self, t: Node) -> int:
        sign, digits = t.children
        try:
            value = int(str(digits), 0)
        except ValueError:
            self.fail(digits, f"'{digits}' is not a plain integer")
        return value if sign is None else -value

    # ------------------------------------------------------------------------------------------------------- types

    def type(self, t: Node) -> Type:
        return getattr(self, "t_" + t.data)(t)

    def t_scalar(self, t: Node) -> Scalar:
        return SCALARS[str(t.children[0])]

    def t_void(self, t: Node) -> Type:
        return VOID

    def t_vec(self, t: Node) -> Vec:
        elem, count = str(t.children[0]).rsplit("x", 1)
        return Vec(SCALARS[elem], int(count))

    def t_vec_of(self, t: Node) -> Vec:
        return Vec(SCALARS[str(t.children[0])[:-1]], self.expr(t.children[1]))

    def t_struct(self, t: Node) -> Struct:
        fields = tuple((plain(f.children[0]), self.type(f.children[1])) for f in t.children[1:] if f is not None)
        return Struct(plain(t.children[0]), fields)

    def t_opaque(self, t: Node) -> Opaque:
        return Opaque(unquote(t.children[0]))

    def t_pointer(self, t: Node, space: str = "global") -> Ptr:
        elem, const, volatile, restrict = t.children
        return Ptr(self.type(elem), space, const is not None, restrict is not None, volatile is not None)

    def t_array_type(self, t: Node, space: str = "local") -> Array:
        elem, shape = t.children
        return Array(self.type(elem), self.exprs(shape), space)

    def t_spaced(self, t: Node) -> Type:
        word, inner = t.children
        read = {"pointer": self.t_pointer, "array_type": self.t_array_type}.get(inner.data)
        if read is None:
            self.fail(word, f"'{word}' belongs before a pointer or an array type")
        return read(inner, _SPACES[str(word)])

    # ------------------------------------------------------------------- what types need, given by ExprReader

    def expr(self, t: Node) -> Expr:
        raise NotImplementedError

    def exprs(self, t: Node) -> tuple[Expr, ...]:
        raise NotImplementedError


def plain(name: Node) -> str:
    """A NAME token's text without backticks."""
    return str(name).strip("`")


def unquote(token: Node) -> str:
    return json.loads(str(token))
