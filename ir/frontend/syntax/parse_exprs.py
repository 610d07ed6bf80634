"""Parsing expressions: C++ casts, construction, template-ids, launches, lambdas."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast
from pycparser.c_parser import _ASSIGNMENT_OPS

from ktc.ir.diagnostics import KtcError

from .cxx_ast import Construct, Launch, NamePart, QualName
from .parse_ambiguity import BASIC_TYPES
from .parse_primary import ENDS_OPERAND, LITERALS, PRECEDENCE, STARTS_POSTFIX, PrimaryParser

_ENDS_ARGS = frozenset({"GT", "RSHIFT"})
"""Not operators while template or launch arguments are being read."""


class ExprParser(PrimaryParser):
    """Expressions. ``_no_gt`` is set inside ``<...>`` and ``<<<...>>>``, and cleared inside brackets."""

    def _starts_expression(self, tok=None) -> bool:
        tok = tok or self._peek()
        if tok is None:
            return False
        return tok.type in _CXX_EXPR_START or super()._starts_expression(tok)

    def _parse_binary_expression(self, min_prec: int = 0, lhs=None):
        lhs = self._parse_cast_expression() if lhs is None else lhs
        stream = self._tokens  # operators are no names: they need no classifying
        while (tok := stream._buffer[stream._index]) is not None:
            prec = PRECEDENCE.get(tok.type)
            if prec is None or prec < min_prec or (self._no_gt and tok.type in _ENDS_ARGS):
                break
            stream._index += 1
            rhs = self._parse_cast_expression()
            while (nxt := stream._buffer[stream._index]) is not None:
                next_prec = PRECEDENCE.get(nxt.type, -1)
                if next_prec <= prec or (self._no_gt and nxt.type in _ENDS_ARGS):
                    break
                rhs = self._parse_binary_expression(next_prec, rhs)
            lhs = c_ast.BinaryOp(tok.value, lhs, rhs, self._tok_coord(tok))
        return lhs

    def _parse_expression(self):
        expr = self._parse_assignment_expression()
        if not self._accept("COMMA"):
            return expr
        exprs = [expr, self._parse_assignment_expression()]
        while self._accept("COMMA"):
            exprs.append(self._parse_assignment_expression())
        return c_ast.ExprList(exprs, expr.coord)

    def _parse_expression_statement(self):
        if not self._starts_expression():
            return super()._parse_expression_statement()
        expr = self._parse_expression()
        self._expect("SEMI")
        return expr

    def _parse_assignment_expression(self):
        if self._peek_type() == "THROW":
            tok = self._advance()
            if self._starts_expression():
                self._parse_assignment_expression()
            return c_ast.FuncCall(c_ast.ID("throw", self._tok_coord(tok)), None, self._tok_coord(tok))
        expr = self._parse_binary_expression()
        stream = self._tokens
        op = stream._buffer[stream._index]
        if op is None:
            return expr
        if op.type == "CONDOP":
            return self._parse_choice(expr)
        if op.type not in _ASSIGNMENT_OPS:
            return expr
        stream._index += 1
        return c_ast.Assignment(op.value, expr, self._parse_assignment_expression(), expr.coord)

    def _parse_conditional_expression(self):
        expr = self._parse_binary_expression()
        return self._parse_choice(expr) if self._peek_type() == "CONDOP" else expr

    def _parse_choice(self, cond):
        """``cond ? a : b`` from the question mark on."""
        tok = self._advance()
        iftrue = self._parse_bracketed(self._parse_expression)
        self._expect("COLON")
        return c_ast.TernaryOp(cond, iftrue, self._parse_assignment_expression(), self._tok_coord(tok))

    def _parse_cast_expression(self):
        """Most operands are a name or literal, or start with a name that is no type."""
        tok = self._peek()
        kind = tok.type if tok is not None else None
        if kind == "ID" or kind in LITERALS:
            stream = self._tokens
            behind = stream._buffer[stream._index + 1]
            if behind is not None:
                after = behind.type
                if after in ENDS_OPERAND and kind != "NULLPTR":
                    if kind != "ID":
                        return self._parse_constant()
                    stream._index += 1
                    return c_ast.ID(tok.value, tok)
                if kind == "ID" and after in STARTS_POSTFIX:
                    stream._index += 1
                    return self._parse_postfixes(c_ast.ID(tok.value, tok))
            if kind == "ID":
                return self._parse_postfix_expression()
        return super()._parse_cast_expression()

    def _parse_constant(self):
        """A literal; most are plain decimal numbers."""
        tok = self._peek()
        if tok.type == "INT_CONST_DEC" and tok.value.isdigit():
            self._tokens._index += 1
            return c_ast.Constant("int", tok.value, tok)
        return super()._parse_constant()

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
        return self._parse_postfixes(self._parse_primary_expression() if expr is None else expr)

    def _parse_postfixes(self, expr):
        """Subscripts, calls, members and increments behind ``expr``."""
        stream = self._tokens
        while True:
            tok: Any = stream._buffer[stream._index]
            kind = tok.type if tok is not None else None
            if kind == "LBRACKET":
                stream._index += 1
                saved, self._no_gt = self._no_gt, False
                try:
                    sub = self._parse_expression()
                finally:
                    self._no_gt = saved
                self._expect("RBRACKET")
                expr = c_ast.ArrayRef(expr, sub, tok)
            elif kind == "LPAREN":
                args = self._parse_argument_list("RPAREN")
                expr = c_ast.FuncCall(expr, c_ast.ExprList(args, expr.coord), expr.coord)
            elif kind in ("PERIOD", "ARROW"):
                expr = self._parse_member_of(expr)
            elif kind in ("PLUSPLUS", "MINUSMINUS"):
                self._advance()
                expr = c_ast.UnaryOp("p" + tok.value, expr, tok)
            elif kind == "LSHIFT" and self._is_launch():
                expr = self._parse_launch(expr)
            else:
                return expr

    def _parse_member_of(self, expr):
        """``.name`` or ``->name``, with the template arguments that follow it."""
        tok = self._advance()
        explicit = self._accept("TEMPLATE") is not None
        owner = []
        while self._peek_type() in ("ID", "TYPEID") and self._peek_type(2) == "COLONCOLON":  # x.Base::member
            name = self._advance()
            owner.append(NamePart(name.value, None, coord=name))
            self._advance()
        if owner:
            name = self._advance()
            field = QualName([*owner, NamePart(name.value, None, coord=name)], False, coord=name)
            return c_ast.StructRef(expr, tok.value, field, tok)
        if self._peek_type() == "OPERATOR":
            part = NamePart(self._parse_operator_name(), None, coord=tok)
            if explicit and self._peek_type() == "LT":
                part.args = self._parse_template_args()
        elif self._peek_type() in ("ID", "TYPEID") and self._peek_type(2) != "LT":
            name = self._advance()
            return c_ast.StructRef(expr, tok.value, c_ast.ID(name.value, name), tok)
        else:
            part = self._parse_name_part(explicit=explicit, member=True)
        field = c_ast.ID(part.name, part.coord) if part.args is None else QualName([part], False, coord=part.coord)
        return c_ast.StructRef(expr, tok.value, field, tok)

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


_PREFIX = ("PLUSPLUS", "MINUSMINUS", "AND", "TIMES", "PLUS", "MINUS", "NOT", "LNOT")

_CXX_EXPR_START = frozenset({
    "TYPEID", "COLONCOLON", "CXX_CAST", "LBRACKET", "THIS", "TYPENAME", "DECLTYPE", "LBRACE", "THROW", "NEW", "DELETE",
    *BASIC_TYPES,
})  # fmt: skip
