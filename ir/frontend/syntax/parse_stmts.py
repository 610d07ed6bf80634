"""Parsing statements: inline PTX, structured bindings, ``using``; recovery in host code."""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_parser import _ASSIGNMENT_OPS

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.ptx.ptx_functions import unescaped

from .case_labels import CaseRange
from .cxx_ast import Alias, Asm, Bad, Bindings
from .parse_control import ControlParser
from .parse_primary import STARTS_POSTFIX

_EXPRESSES = frozenset({*STARTS_POSTFIX, *_ASSIGNMENT_OPS})
"""Behind a name that is no type, at the start of a statement, these make it an expression."""

_FIRST_WORDS = {
    "IF": "_parse_if", "FOR": "_parse_for", "SWITCH": "_parse_switch", "WHILE": "_parse_while", "ASM": "_parse_asm",
    "TRY": "_parse_try",
}  # fmt: skip
"""The methods that parse statements which a keyword of their own begins."""


class StmtParser(ControlParser):
    """Statements. In host functions a statement that does not parse is skipped: only its launches matter. So it is in
    member functions, where it is an error of what calls them."""

    _host_body: bool

    def _parse_block_item_list(self):
        items: list = []
        while self._peek_type() not in ("RBRACE", None):
            self._forget_splits()
            mark, depth = self._mark(), len(self._scope_stack)
            try:
                item = self._parse_block_item()
            except KtcError as error:
                if not self._host_body:
                    raise
                del self._scope_stack[depth:]
                self._typedef_checked_token = None
                self._no_gt = False
                self._reset(mark)
                self._skip_statement()
                item = Bad(error, None, False, None, False)
            if isinstance(item, list):
                items.extend(i for i in item if i is not None)
            elif item is not None:
                items.append(item)
        return items

    def _skip_statement(self) -> None:
        """Skip to the end of a statement: a ``;`` or a closing brace at its own depth."""
        depth = 0
        while (tok := self._peek()) is not None:
            if tok.type in ("LBRACE", "LPAREN", "LBRACKET"):
                depth += 1
            elif tok.type in ("RBRACE", "RPAREN", "RBRACKET"):
                if depth == 0 and tok.type == "RBRACE":
                    return
                depth = max(0, depth - 1)  # a stray closing bracket is skipped
                if depth == 0 and tok.type == "RBRACE":
                    self._advance()
                    if self._peek_type() == "SEMI":
                        self._advance()
                    return
            self._advance()
            if tok.type == "SEMI" and depth == 0:
                return

    def _parse_block_item(self):
        kind = self._peek_type()
        if kind == "ID" and self._peek_type(2) in _EXPRESSES:
            return self._parse_expression_statement()
        if kind == "ATTRIBUTE_BEGIN":
            self._parse_attribute_specifier_sequence()
            return self._parse_block_item()
        if kind == "USING":
            return self._parse_using()
        if kind == "NAMESPACE":
            self._parse_namespace()  # an alias
            return []
        if kind == "_STATIC_ASSERT":
            return self._parse_static_assert()
        if kind in ("STRUCT", "CLASS", "UNION", "TYPEDEF"):
            return self._parse_simple_declaration()
        if kind == "AUTO" or kind in ("CONST", "CONSTEXPR"):
            bound = self._try_bindings()
            if bound is not None:
                return bound
        if self._starts_declaration():
            return self._parse_simple_declaration()
        return self._parse_statement()

    def _parse_static_assert(self):
        tok = self._expect("_STATIC_ASSERT")
        self._expect("LPAREN")
        cond = self._parse_bracketed(self._parse_constant_expression)
        message = None
        if self._accept("COMMA"):
            message = self._parse_unified_string_literal()
        self._expect("RPAREN")
        self._expect("SEMI")
        return c_ast.StaticAssert(cond, message, self._tok_coord(tok))

    def _try_bindings(self):
        """``auto [a, b] = init;``."""
        mark, coord, ref = self._mark(), self._here(), False
        while (kind := self._peek_type()) in ("CONST", "CONSTEXPR", "AUTO", "AND", "LAND"):
            ref = ref or kind in ("AND", "LAND")
            self._advance()
        if self._peek_type() != "LBRACKET":
            self._reset(mark)
            return None
        self._advance()
        names = []
        while self._peek_type() != "RBRACKET":
            names.append(self._advance().value)
            self._accept("COMMA")
        self._expect("RBRACKET")
        self._expect("EQUALS")
        init = self._parse_initializer()
        self._expect("SEMI")
        for n in names:
            self._add_identifier(n, None)
        return Bindings(names, init, ref, coord=coord)

    def _parse_statement(self):
        tok = self._peek()
        kind = tok.type if tok is not None else None
        if kind == "ATTRIBUTE_BEGIN":
            self._parse_attribute_specifier_sequence()
            return self._parse_statement()
        if kind in _FIRST_WORDS:
            return getattr(self, _FIRST_WORDS[kind])()
        if kind == "RETURN" and self._peek_type(2) == "LBRACE":
            self._advance()
            value = self._parse_initializer()
            self._expect("SEMI")
            return c_ast.Return(value, self._tok_coord(tok))
        if kind in ("ID", "TYPEID") and self._peek_type(2) == "COLON":
            return self._parse_label()
        if kind == "CONST" or (kind in ("INT", "FLOAT") and self._peek_type(2) == "ID"):
            decls = self._parse_simple_declaration()
            return c_ast.Compound(decls, self._tok_coord(tok))
        return super()._parse_statement()

    def _parse_labeled_statement(self):
        """``case 1:`` or ``default:`` and the statement it labels; a declaration (C++23) follows it, as with any label,
        so that what comes after it in the switch sees its name."""
        tok = self._advance()
        value = self._parse_constant_expression() if tok.type == "CASE" else None
        if value is not None and self._accept("ELLIPSIS"):
            value = CaseRange(value, self._parse_constant_expression(), coord=self._tok_coord(tok))
        self._expect("COLON")
        coord = self._tok_coord(tok)
        alone = self._peek_type() == "RBRACE" or self._starts_declaration()
        stmt = c_ast.EmptyStatement(coord) if alone else self._parse_pragmacomp_or_statement()
        return c_ast.Default([stmt], coord) if value is None else c_ast.Case(value, [stmt], coord)

    def _parse_label(self):
        """``name:`` and the statement it labels; a declaration (C23) follows it, so that it is in the block's scope."""
        tok = self._advance()
        self._expect("COLON")
        coord = self._tok_coord(tok)
        alone = self._peek_type() == "RBRACE" or self._starts_declaration()
        return c_ast.Label(tok.value, c_ast.EmptyStatement(coord) if alone else self._parse_statement(), coord)

    def _parse_asm(self):
        tok = self._expect("ASM")
        volatile = self._accept("VOLATILE") is not None
        self._expect("LPAREN")
        text = self._parse_unified_string_literal().value
        groups: list[list] = []
        while self._peek_type() in ("COLON", "COLONCOLON"):
            if self._advance().type == "COLONCOLON":
                groups.append([])
            group = []
            while self._peek_type() not in ("COLON", "COLONCOLON", "RPAREN", None):
                constraint = self._parse_unified_string_literal().value
                expr = None
                if self._accept("LPAREN"):
                    expr = self._parse_bracketed(self._parse_expression)
                    self._expect("RPAREN")
                group.append((constraint.strip('"'), expr))
                self._accept("COMMA")  # nvcc does without
            groups.append(group)
        self._expect("RPAREN")
        self._expect("SEMI")
        groups += [[]] * 3
        return Asm(unescaped(text.strip('"')), groups[0], groups[1], groups[2], volatile, coord=self._tok_coord(tok))

    def _parse_try(self):
        self._expect("TRY")
        body = self._parse_compound_statement()
        while self._accept("CATCH"):
            self._expect("LPAREN")
            self._skip_to_close()
            self._parse_compound_statement()
        return body

    def _parse_using(self):
        """``using namespace a;``, ``using a::b;``, ``using enum E;`` or ``using T = type;``."""
        from .cxx_ast import Using, UsingEnum

        tok = self._expect("USING")
        coord = self._tok_coord(tok)
        if self._accept("NAMESPACE"):
            name = self._parse_qual_name()
            self._expect("SEMI")
            for known in self._library_types.get(name.parts[-1].name, ()):
                self._add_typedef_name(known, coord)
            return Using(name, True, coord=coord)
        if self._accept("ENUM"):
            name = self._parse_qual_name()
            self._expect("SEMI")
            return UsingEnum(name, coord=coord)
        if self._peek_type() in ("ID", "TYPEID") and self._peek_type(2) in ("EQUALS", "ATTRIBUTE_BEGIN"):
            name_tok = self._advance()
            self._parse_attribute_specifier_sequence()
            self._expect("EQUALS")
            typ = self._parse_type_name()
            self._expect("SEMI")
            self._add_typedef_name(name_tok.value, coord)
            self._member_types.add(name_tok.value)
            return Alias(name_tok.value, typ, coord=coord)
        self._accept("TYPENAME")
        name = self._parse_qual_name()
        if self._peek_type() == "OPERATOR":
            self._parse_operator_name()
        self._expect("SEMI")
        if self._names_type(name):
            self._add_typedef_name(name.parts[-1].name, coord)
            if name.parts[0].name == "std":  # behind a type's name ``<`` is no operator
                self._templates.add(name.parts[-1].name)
        return Using(name, False, coord=coord)

    def _parse_namespace(self):
        raise NotImplementedError

    def _parse_simple_declaration(self) -> list:
        raise NotImplementedError
