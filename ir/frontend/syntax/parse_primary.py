"""Parsing the operands of expressions: names, literals, construction, C++ casts, folds, lambdas, initialisers."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from .cxx_ast import AutoType, Construct, CxxCast, Fold, Lambda, NamedType, NamePart, PackExpansion, QualName
from .lexer import Token, TokenList
from .parse_ambiguity import BASIC_TYPES
from .parse_decls import DeclParser, literal_operator

PRECEDENCE: dict[str, int] = {
    "LOR": 0, "LAND": 1, "OR": 2, "XOR": 3, "AND": 4, "EQ": 5, "NE": 5, "GT": 6, "GE": 6, "LT": 6, "LE": 6,
    "RSHIFT": 7, "LSHIFT": 7, "PLUS": 8, "MINUS": 8, "TIMES": 9, "DIVIDE": 9, "MOD": 9,
}  # fmt: skip
"""Binary operators, loosest first."""

ENDS_OPERAND = frozenset({
    "SEMI", "COMMA", "RPAREN", "RBRACKET", "RBRACE", "PLUS", "MINUS", "TIMES", "DIVIDE", "MOD", "LAND", "LOR", "EQ",
    "NE", "LE", "GE", "GT", "AND", "OR", "XOR", "CONDOP", "COLON", "EQUALS", "PLUSEQUAL", "MINUSEQUAL", "TIMESEQUAL",
    "DIVEQUAL", "RSHIFT",
})  # fmt: skip
"""Behind a name or literal, these leave it an operand of its own (``<`` may start template arguments)."""

STARTS_POSTFIX = frozenset({"LBRACKET", "LPAREN", "PERIOD", "ARROW", "PLUSPLUS", "MINUSMINUS"})
"""Behind a name that is no type, these go on with it."""

LITERALS = frozenset({
    "INT_CONST_DEC", "INT_CONST_OCT", "INT_CONST_HEX", "INT_CONST_BIN", "INT_CONST_CHAR", "FLOAT_CONST",
    "HEX_FLOAT_CONST", "CHAR_CONST", "WCHAR_CONST", "U8CHAR_CONST", "U16CHAR_CONST", "U32CHAR_CONST", "BOOL_CONST",
    "NULLPTR",
})  # fmt: skip


VALUES = (
    c_ast.ID, c_ast.Constant, c_ast.UnaryOp, c_ast.BinaryOp, c_ast.TernaryOp, c_ast.Cast, c_ast.ArrayRef,
    c_ast.StructRef, c_ast.FuncCall, QualName, CxxCast, Construct,
)  # fmt: skip
"""Expressions that may be the value of a statement expression."""


class PrimaryParser(DeclParser):
    """What operators are applied to."""

    _folds_of: TokenList | None = None
    _folds: frozenset[int] = frozenset()
    _constraints: list[Any]

    def _parse_primary_expression(self):
        tok = self._peek()
        if tok is None:
            self._parse_error("unexpected end of file", None)
        kind = tok.type
        coord = self._tok_coord(tok)
        if kind in ("ID", "TYPEID", "COLONCOLON"):
            return self._parse_name_expression()
        if kind == "DECLTYPE" and (name := self._try_decltype_member()) is not None:
            return self._named_or_constructed(name)
        if kind in BASIC_TYPES or kind in ("TYPENAME", "DECLTYPE"):
            spec, _, _ = self._parse_specifiers(allow_storage_and_function=False)
            return self._parse_construct(self._build_type_name(spec, None, coord))
        if kind == "CXX_CAST":
            self._advance()
            self._expect("LT")
            saved, self._no_gt = self._no_gt, True
            to = self._parse_type_name()
            self._no_gt = saved
            self._expect_gt()
            self._expect("LPAREN")
            expr = self._parse_bracketed(self._parse_expression)
            self._expect("RPAREN")
            return CxxCast(tok.value, to, expr, coord=coord)
        if kind == "LBRACKET":
            return self._parse_lambda()
        if kind == "LPAREN":
            self._advance()
            if self._peek_type() == "LBRACE":
                return self._parse_statement_expression(coord)
            if self._peek_type() == "ELLIPSIS":
                return self._parse_fold(coord)
            fold = self._try_binary_fold(coord)
            if fold is not None:
                return fold
            expr = self._parse_bracketed(self._parse_expression)
            self._expect("RPAREN")
            return expr
        if kind == "OPERATOR":
            return c_ast.ID(self._parse_operator_name(), coord)
        if kind == "THIS":
            self._advance()
            return c_ast.ID("this", coord)
        if kind == "LBRACE":
            return c_ast.InitList(self._parse_argument_list("RBRACE"), coord)
        if kind in LITERALS or kind.endswith("STRING_LITERAL"):
            literal = super()._parse_primary_expression()
            suffix = self._peek()
            if suffix is not None and suffix.type in ("ID", "TYPEID") and _is_joined(tok, suffix):
                self._advance()
                called = c_ast.ID(literal_operator(suffix.value), suffix)
                return c_ast.FuncCall(called, c_ast.ExprList([literal], coord), coord)
            return literal
        self._parse_error(f"expected an expression before '{tok.value}'", coord)

    def _parse_statement_expression(self, coord):
        """``({ statements; value; })``: a lambda that is called at once, whose result is the last expression."""
        self._push_scope()
        body = self._parse_bracketed(lambda: self._parse_compound_statement(new_scope=False))
        self._pop_scope()
        self._expect("RPAREN")
        items = body.block_items or []
        if items and isinstance(items[-1], VALUES):
            items[-1] = c_ast.Return(items[-1], coord)
        return c_ast.FuncCall(Lambda([("&", None, None)], None, body, None, None, False, coord=coord), None, coord)

    def _parse_fold(self, coord):
        """``(... op pack)``."""
        self._advance()
        op = self._advance().value
        pack = self._parse_bracketed(self._parse_cast_expression)
        self._expect("RPAREN")
        return Fold(op, PackExpansion(pack, coord=coord), None, False, coord=coord)

    def _try_binary_fold(self, coord):
        """``(pack op ...)``, ``(pack op ... op init)`` or ``(init op ... op pack)``; None (nothing read) if not one."""
        if not self._fold_ahead():
            return None
        left = self._parse_bracketed(self._parse_cast_expression)
        op = self._advance().value
        self._expect("ELLIPSIS")
        if self._accept("RPAREN"):
            return Fold(op, PackExpansion(left, coord=coord), None, True, coord=coord)
        self._advance()  # the same operator
        right = self._parse_bracketed(self._parse_cast_expression)
        self._expect("RPAREN")
        return Fold(op, PackExpansion(left, coord=coord), right, True, coord=coord)

    def _fold_ahead(self) -> bool:
        """Whether the bracket that is open holds ``op ...`` at its own depth."""
        stream = self._tokens
        if self._folds_of is not stream:
            self._folds_of, self._folds = stream, brackets_of_folds(stream)
        return id(stream._buffer[stream._index - 1]) in self._folds

    def _parse_name_expression(self):
        tok = self._peek()
        nxt = self._peek_type(2)
        if tok.type == "ID" and (nxt in ENDS_OPERAND or nxt in STARTS_POSTFIX):
            self._advance()
            return c_ast.ID(tok.value, self._tok_coord(tok))
        return self._named_or_constructed(self._parse_qual_name())

    def _try_decltype_member(self) -> QualName | None:
        """``decltype(x)::member``; None, with nothing read, if no ``::`` follows."""
        mark = self._mark()
        coord = self._tok_coord(self._advance())
        self._expect("LPAREN")
        of = AutoType(self._parse_bracketed(self._parse_expression), coord=coord)
        self._expect("RPAREN")
        if self._accept("COLONCOLON") is None:
            self._reset(mark)
            return None
        return QualName([NamePart("decltype", [of], coord=coord), *self._parse_qual_name().parts], False, coord=coord)

    def _named_or_constructed(self, name: QualName):
        """A name that was read, or the object that is made of the type it names."""
        nxt = self._peek_type()
        if nxt == "LBRACE" or (nxt == "LPAREN" and self._names_type(name)):  # braces follow nothing but a type
            spec = {
                "qual": [],
                "storage": [],
                "type": [NamedType(name, coord=name.coord)],
                "function": [],
                "alignment": [],
            }
            spec["type_attributes"] = []
            return self._parse_construct(self._build_type_name(spec, None, name.coord))
        if len(name.parts) == 1 and name.parts[0].args is None and not name.absolute:
            return c_ast.ID(name.parts[0].name, name.coord)
        return name

    def _parse_construct(self, typ):
        kind = self._peek_type()
        if kind not in ("LPAREN", "LBRACE"):
            tok = self._peek()
            self._parse_error(
                f"expected '(' after a type, before '{tok.value if tok else 'end of file'}'", self._here()
            )
        args = self._parse_argument_list("RPAREN" if kind == "LPAREN" else "RBRACE")
        return Construct(typ, args, kind == "LBRACE", coord=typ.coord)

    def _parse_initializer(self):
        if self._peek_type() == "LBRACE":
            coord = self._here()
            return c_ast.InitList(self._parse_argument_list("RBRACE"), coord)
        return self._parse_assignment_expression()

    def _parse_initializer_item(self):
        """An initialiser, or ``.member = initialiser``; ``[`` starts a lambda in C++, not a designator."""
        if self._peek_type() == "PERIOD":
            coord = self._here()
            self._advance()
            name = c_ast.ID(self._advance().value, coord)
            self._expect("EQUALS")
            return c_ast.NamedInitializer([name], self._parse_initializer(), coord)
        return self._parse_initializer()

    def _parse_lambda(self):
        coord = self._here()
        self._expect("LBRACKET")
        captures = []
        while self._peek_type() != "RBRACKET":
            captures.append(self._parse_capture())
            if not self._accept("COMMA"):
                break
        self._expect("RBRACKET")
        self._push_scope()
        outer, self._constraints = self._constraints, []
        template = self._parse_template_params() if self._peek_type() == "LT" else None
        self._constraints = outer  # it is called or not: there is no other one to choose
        while self._peek_type() in ("CUDA", "INLINE"):
            self._advance()  # [] __device__ (int i) { ... }
        params = None
        while self._peek_type() == "CUDA":  # ``[=] __device__ (int i) { ... }``
            self._advance()
        if self._peek_type() == "LPAREN":
            params = self._parse_function_decl(c_ast.TypeDecl(None, None, None, None, coord=coord)).args
            for p in params.params:
                if getattr(p, "name", None):
                    self._add_identifier(p.name, p.coord)
        mutable = False
        while self._peek_type() not in ("LBRACE", "ARROW", None):
            mutable |= self._advance().value == "mutable"  # or __device__, noexcept
        result = self._parse_type_name() if self._accept("ARROW") else None
        body = self._parse_bracketed(lambda: self._parse_compound_statement(new_scope=False))
        self._pop_scope()
        return Lambda(captures, params, body, result, template, mutable, coord=coord)

    def _parse_capture(self) -> tuple:
        """One capture as (mode, name, initialiser): mode ``=`` is by copy, ``&`` by reference; no name is all."""
        mode = "&" if self._accept("AND") else "="
        if mode == "=" and self._accept("EQUALS"):
            return mode, None, None
        if self._accept("TIMES"):
            mode = "*"
        if self._peek_type() in ("COMMA", "RBRACKET"):
            return mode, None, None
        name = self._advance().value
        self._accept("ELLIPSIS")
        init = self._parse_initializer() if self._accept("EQUALS") else None
        return mode, name, init

    def _unsupported(self, what: str, coord, hint: str):
        raise NotImplementedError


_FOLDED = frozenset({*PRECEDENCE, "COMMA"})


def _is_joined(tok: Token, behind: Token) -> bool:
    """Whether nothing stands between the two."""
    return tok.line == behind.line and tok.column + len(tok.value) == behind.column


def brackets_of_folds(stream: TokenList) -> frozenset[int]:
    """Identities of the ``(`` tokens that hold ``op ...`` at their own depth: one pass, for all of a text."""
    found: set[int] = set()
    open_: list[Token] = []
    before: Token | None = None
    for tok in stream._buffer:
        if tok is None:
            break
        kind = tok.type
        if kind in ("LPAREN", "LBRACKET", "LBRACE"):
            open_.append(tok)
        elif kind in ("RPAREN", "RBRACKET", "RBRACE"):
            if open_:
                open_.pop()
        elif kind == "ELLIPSIS" and open_ and before is not None and before.type in _FOLDED:
            found.add(id(open_[-1]))
        before = tok
    return frozenset(found)
