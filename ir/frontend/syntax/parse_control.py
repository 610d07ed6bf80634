"""Parsing C++ forms of control flow: conditions that declare, ``if constexpr``, ranges."""

from __future__ import annotations

from pycparser import c_ast
from pycparser.ast_transforms import fix_switch_cases

from .cxx_ast import IfConstexpr, RangeFor
from .parse_exprs import ExprParser


class ControlParser(ExprParser):
    """``if``, ``switch``, ``while`` and ``for``."""

    def _parse_switch(self):
        tok = self._expect("SWITCH")
        coord = self._tok_coord(tok)
        self._push_scope()
        init, cond = self._parse_condition()
        body = self._parse_pragmacomp_or_statement()
        self._pop_scope()
        stmt = c_ast.Switch(cond, body, coord)
        fixed = fix_switch_cases(stmt)
        return fixed if init is None else c_ast.Compound([*init, fixed], coord)

    def _parse_while(self):
        tok = self._expect("WHILE")
        self._expect("LPAREN")
        if self._starts_declaration():
            return self._parse_declaring_while(tok)
        cond = self._parse_bracketed(self._parse_expression)
        self._expect("RPAREN")
        return c_ast.While(cond, self._parse_pragmacomp_or_statement(), self._tok_coord(tok))

    def _parse_declaring_while(self, tok):
        """``while (T x = e) body``: a loop that declares, tests and leaves."""
        coord = self._tok_coord(tok)
        self._push_scope()
        decls = self._parse_condition_declaration()
        self._expect("RPAREN")
        body = self._parse_pragmacomp_or_statement()
        self._pop_scope()
        leave = c_ast.If(c_ast.UnaryOp("!", c_ast.ID(decls[-1].name, coord), coord), c_ast.Break(coord), None, coord)
        return c_ast.While(c_ast.Constant("bool", "true", coord), c_ast.Compound([*decls, leave, body], coord), coord)

    def _parse_if(self):
        tok = self._expect("IF")
        is_constexpr = self._accept("CONSTEXPR") is not None
        self._push_scope()
        init, cond = self._parse_condition()
        then = self._parse_pragmacomp_or_statement()
        orelse = self._parse_pragmacomp_or_statement() if self._accept("ELSE") else None
        self._pop_scope()
        coord = self._tok_coord(tok)
        if is_constexpr:
            return IfConstexpr(init, cond, then, orelse, coord=coord)
        stmt = c_ast.If(cond, then, orelse, coord)
        return stmt if init is None else c_ast.Compound([*init, stmt], coord)

    def _parse_condition(self):
        """``(init; cond)``, ``(T x = e)`` or ``(cond)`` of an if or switch: its declarations or None, what decides."""
        self._expect("LPAREN")
        saved, self._no_gt = self._no_gt, False
        init = self._parse_condition_declaration() if self._starts_declaration() else None
        if init is not None and self._peek_type() == "RPAREN":
            cond = c_ast.ID(init[-1].name, init[-1].coord)
        else:
            cond = self._parse_expression()
        self._expect("RPAREN")
        self._no_gt = saved
        return init, cond

    def _parse_condition_declaration(self):
        spec, _, _ = self._parse_declaration_specifiers(allow_no_type=True)
        decls = self._build_declarations(spec=spec, decls=[self._parse_init_declarator()], typedef_namespace=True)
        self._accept("SEMI")
        return decls

    def _parse_for(self):
        tok = self._expect("FOR")
        coord = self._tok_coord(tok)
        self._expect("LPAREN")
        saved, self._no_gt = self._no_gt, False
        self._push_scope()
        if self._peek_type() != "SEMI" and self._starts_declaration():
            spec, _, _ = self._parse_declaration_specifiers(allow_no_type=True)
            first = self._parse_init_declarator()
            if self._accept("COLON"):
                decl = self._build_declarations(spec=spec, decls=[first], typedef_namespace=True)[0]
                rng = self._parse_expression()
                self._expect("RPAREN")
                self._no_gt = saved
                stmt = self._parse_pragmacomp_or_statement()
                self._pop_scope()
                return RangeFor(decl, rng, stmt, coord=coord)
            infos = [first]
            while self._accept("COMMA"):
                infos.append(self._parse_init_declarator())
            init = c_ast.DeclList(self._build_declarations(spec=spec, decls=infos, typedef_namespace=True), coord)
        else:
            init = self._parse_expression_opt()
        self._expect("SEMI")
        cond = self._parse_expression_opt()
        self._expect("SEMI")
        step = self._parse_expression_opt()
        self._expect("RPAREN")
        self._no_gt = saved
        stmt = self._parse_pragmacomp_or_statement()
        self._pop_scope()
        return c_ast.For(init, cond, step, stmt, coord)
