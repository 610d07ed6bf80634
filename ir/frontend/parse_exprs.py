"""Parsing expressions: C++ casts, construction, template-ids, launches, lambdas."""

from __future__ import annotations

from pycparser import c_ast

from ..diagnostics import KtcError
from .cxx_ast import Construct, CxxCast, Fold, Lambda, Launch, NamedType, PackExpansion, QualName
from .parse_decls import DeclParser
from .parse_names import BASIC_TYPES

PRECEDENCE = {
    "LOR": 0, "LAND": 1, "OR": 2, "XOR": 3, "AND": 4, "EQ": 5, "NE": 5, "GT": 6, "GE": 6, "LT": 6, "LE": 6,
    "RSHIFT": 7, "LSHIFT": 7, "PLUS": 8, "MINUS": 8, "TIMES": 9, "DIVIDE": 9, "MOD": 9,
}  # fmt: skip
"""Binary operators, loosest first."""

_ENDS_ARGS = frozenset({"GT", "GE", "RSHIFT"})
"""Not operators while template or launch arguments are being read."""


class ExprParser(DeclParser):
    """Expressions. ``_no_gt`` is set inside ``<...>`` and ``<<<...>>>``, and cleared inside brackets."""

    def _starts_expression(self, tok=None) -> bool:
        tok = tok or self._peek()
        if tok is None:
            return False
        return tok.type in _CXX_EXPR_START or super()._starts_expression(tok)

    def _parse_binary_expression(self, min_prec: int = 0, lhs=None):
        lhs = self._parse_cast_expression() if lhs is None else lhs
        while (tok := self._peek()) is not None:
            prec = PRECEDENCE.get(tok.type)
            if prec is None or prec < min_prec or (self._no_gt and tok.type in _ENDS_ARGS):
                break
            self._advance()
            rhs = self._parse_cast_expression()
            while (nxt := self._peek()) is not None:
                next_prec = PRECEDENCE.get(nxt.type, -1)
                if next_prec <= prec or (self._no_gt and nxt.type in _ENDS_ARGS):
                    break
                rhs = self._parse_binary_expression(next_prec, rhs)
            lhs = c_ast.BinaryOp(tok.value, lhs, rhs, self._tok_coord(tok))
        return lhs

    def _parse_assignment_expression(self):
        if self._peek_type() == "THROW":
            tok = self._advance()
            if self._starts_expression():
                self._parse_assignment_expression()
            return c_ast.FuncCall(c_ast.ID("throw", self._tok_coord(tok)), None, self._tok_coord(tok))
        return super()._parse_assignment_expression()

    def _parse_conditional_expression(self):
        expr = self._parse_binary_expression()
        if tok := self._accept("CONDOP"):
            iftrue = self._parse_bracketed(self._parse_expression)
            self._expect("COLON")
            return c_ast.TernaryOp(expr, iftrue, self._parse_assignment_expression(), self._tok_coord(tok))
        return expr

    def _parse_cast_expression(self):
        """Most operands are one name or literal with an operator or a closing bracket behind it."""
        tok = self._peek()
        kind = tok.type if tok is not None else None
        if kind == "ID":
            if self._peek_type(2) in _ENDS_OPERAND:
                self._advance()
                return c_ast.ID(tok.value, self._tok_coord(tok))
            return self._parse_postfix_expression()
        if kind in _LITERALS and self._peek_type(2) in _ENDS_OPERAND and kind != "NULLPTR":
            return self._parse_constant()
        return super()._parse_cast_expression()

    def _try_parse_paren_type_name(self):
        """``( type )`` if it certainly is one; an ``(int(x) + y)`` or ``(a * b)`` is not."""
        if self._peek_type() != "LPAREN":
            return None
        mark = self._mark()
        lparen = self._advance()
        if not self._starts_type():
            self._reset(mark)
            return None
        try:
            typ = self._parse_bracketed(self._parse_type_name)
        except KtcError:
            self._reset(mark)
            return None
        if self._accept("RPAREN") is None:
            self._reset(mark)
            return None
        return typ, mark, lparen, []

    def _parse_unary_expression(self):
        tok = self._peek()
        if tok is not None and tok.type == "SIZEOF" and self._peek_type(2) == "ELLIPSIS":
            self._advance()
            self._advance()
            self._expect("LPAREN")
            name = c_ast.ID(self._advance().value, self._tok_coord(tok))
            self._expect("RPAREN")
            return c_ast.UnaryOp("sizeof...", name, self._tok_coord(tok))
        if tok is not None and tok.type in ("NEW", "DELETE"):
            self._unsupported(
                f"'{tok.value}'", self._tok_coord(tok), "device memory cannot be allocated in a kernel here"
            )
        if tok is not None and tok.type == "_ALIGNOF":
            self._advance()
            self._expect("LPAREN")
            typ = self._parse_bracketed(self._parse_type_name)
            self._expect("RPAREN")
            return c_ast.UnaryOp("alignof", typ, self._tok_coord(tok))
        if tok is not None and tok.type in _PREFIX:
            self._advance()
            return c_ast.UnaryOp(tok.value, self._parse_cast_expression(), self._tok_coord(tok))
        return super()._parse_unary_expression()

    def _parse_postfix_expression(self):
        typed = self._try_parse_paren_type_name() if self._peek_type() == "LPAREN" else None
        expr = None
        if typed is not None:
            if self._peek_type() == "LBRACE":
                args = self._parse_argument_list("RBRACE")
                expr = Construct(typed[0], args, True, coord=self._tok_coord(typed[2]))
            else:
                self._reset(typed[1])
        if expr is None:
            expr = self._parse_primary_expression()
        while True:
            tok = self._peek()
            kind = tok.type if tok is not None else None
            if kind == "LBRACKET":
                self._advance()
                sub = self._parse_bracketed(self._parse_expression)
                self._expect("RBRACKET")
                expr = c_ast.ArrayRef(expr, sub, self._tok_coord(tok))
            elif kind == "LPAREN":
                args = self._parse_argument_list("RPAREN")
                expr = c_ast.FuncCall(expr, c_ast.ExprList(args, expr.coord), expr.coord)
            elif kind in ("PERIOD", "ARROW"):
                self._advance()
                explicit = self._accept("TEMPLATE") is not None
                if self._peek_type() == "OPERATOR":
                    field = c_ast.ID(self._parse_operator_name(), self._tok_coord(tok))
                else:
                    part = self._parse_name_part(explicit=explicit)
                    field = (
                        c_ast.ID(part.name, part.coord)
                        if part.args is None
                        else QualName([part], False, coord=part.coord)
                    )
                expr = c_ast.StructRef(expr, tok.value, field, self._tok_coord(tok))
            elif kind in ("PLUSPLUS", "MINUSMINUS"):
                self._advance()
                expr = c_ast.UnaryOp("p" + tok.value, expr, self._tok_coord(tok))
            elif kind == "LSHIFT" and self._is_launch():
                expr = self._parse_launch(expr)
            else:
                return expr

    def _parse_launch(self, callee):
        tok = self._advance()
        self._advance()
        saved, self._no_gt = self._no_gt, True
        config = [self._parse_assignment_expression()]
        while self._accept("COMMA"):
            config.append(self._parse_assignment_expression())
        self._no_gt = saved
        self._expect("RSHIFT")
        self._expect("GT")
        if self._peek_type() != "LPAREN":
            self._parse_error("expected the kernel's arguments after '>>>'", self._here())
        return Launch(callee, config, self._parse_argument_list("RPAREN"), coord=self._tok_coord(tok))

    def _parse_primary_expression(self):
        tok = self._peek()
        if tok is None:
            self._parse_error("unexpected end of file", None)
        kind = tok.type
        coord = self._tok_coord(tok)
        if kind in ("ID", "TYPEID", "COLONCOLON"):
            return self._parse_name_expression()
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
                self._unsupported("a statement expression '({ ... })'", coord, "write it as a function")
            if self._peek_type() == "ELLIPSIS":
                return self._parse_fold(coord)
            fold = self._try_binary_fold(coord)
            if fold is not None:
                return fold
            expr = self._parse_bracketed(self._parse_expression)
            self._expect("RPAREN")
            return expr
        if kind == "THIS":
            self._advance()
            return c_ast.ID("this", coord)
        if kind == "LBRACE":
            return c_ast.InitList(self._parse_argument_list("RBRACE"), coord)
        if kind in _LITERALS or kind.endswith("STRING_LITERAL"):
            return super()._parse_primary_expression()
        self._parse_error(f"expected an expression before '{tok.value}'", coord)

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
        buffer, at, depth = self._tokens._buffer, self._mark(), 0
        while (tok := buffer[at]) is not None:
            if tok.type in ("LPAREN", "LBRACKET", "LBRACE"):
                depth += 1
            elif tok.type in ("RPAREN", "RBRACKET", "RBRACE"):
                if depth == 0:
                    return False
                depth -= 1
            elif tok.type == "SEMI":
                return False
            elif tok.type == "ELLIPSIS" and depth == 0:
                before = buffer[at - 1]
                return before is not None and before.type in (*PRECEDENCE, "COMMA")
            at += 1
        return False

    def _parse_name_expression(self):
        tok = self._peek()
        nxt = self._peek_type(2)
        if tok.type == "ID" and (nxt in _AFTER_NAME or (nxt == "LPAREN" and not self._is_type_in_scope(tok.value))):
            self._advance()
            return c_ast.ID(tok.value, self._tok_coord(tok))
        name = self._parse_qual_name()
        nxt = self._peek_type()
        functor = nxt == "LBRACE" and len(name.parts) > 1 and name.parts[-1].args is not None
        if functor or (nxt in ("LPAREN", "LBRACE") and self._names_type(name)):
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
        params = None
        if self._peek_type() == "LPAREN":
            params = self._parse_function_decl(c_ast.TypeDecl(None, None, None, None, coord=coord)).args
            for p in params.params:
                if getattr(p, "name", None):
                    self._add_identifier(p.name, p.coord)
        while self._peek_type() not in ("LBRACE", "ARROW", None):
            self._advance()  # mutable, __device__, noexcept
        if self._accept("ARROW"):
            self._parse_type_name()
        body = self._parse_bracketed(lambda: self._parse_compound_statement(new_scope=False))
        self._pop_scope()
        return Lambda(captures, params, body, coord=coord)

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


_PREFIX = ("PLUSPLUS", "MINUSMINUS", "AND", "TIMES", "PLUS", "MINUS", "NOT", "LNOT")

_ENDS_OPERAND = frozenset({
    "SEMI", "COMMA", "RPAREN", "RBRACKET", "RBRACE", "PLUS", "MINUS", "TIMES", "DIVIDE", "MOD", "LAND", "LOR", "EQ",
    "NE", "LE", "GE", "GT", "AND", "OR", "XOR", "CONDOP", "COLON", "EQUALS", "PLUSEQUAL", "MINUSEQUAL", "TIMESEQUAL",
    "DIVEQUAL", "RSHIFT",
})  # fmt: skip
"""Behind a name or literal, these leave it an operand of its own (``<`` may start template arguments)."""

_AFTER_NAME = _ENDS_OPERAND | {"LBRACKET", "PERIOD", "ARROW", "PLUSPLUS", "MINUSMINUS"}

_LITERALS = frozenset({
    "INT_CONST_DEC", "INT_CONST_OCT", "INT_CONST_HEX", "INT_CONST_BIN", "INT_CONST_CHAR", "FLOAT_CONST",
    "HEX_FLOAT_CONST", "CHAR_CONST", "WCHAR_CONST", "U8CHAR_CONST", "U16CHAR_CONST", "U32CHAR_CONST", "BOOL_CONST",
    "NULLPTR",
})  # fmt: skip

_CXX_EXPR_START = frozenset({
    "TYPEID", "COLONCOLON", "CXX_CAST", "LBRACKET", "THIS", "TYPENAME", "DECLTYPE", "LBRACE", "THROW", "NEW", "DELETE",
    *BASIC_TYPES,
})  # fmt: skip
