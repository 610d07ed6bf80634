"""Parsing names: qualified names and template arguments."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.input_limits import MAX_TEMPLATE_NESTING

from .cxx_ast import NamedType, NamePart, PackExpansion, QualName
from .lexer import token
from .parse_tokens import TokenParser

_OPERANDS = frozenset({
    "MINUS", "PLUS", "NOT", "LNOT", "INT_CONST_DEC", "INT_CONST_OCT", "INT_CONST_HEX", "INT_CONST_BIN", "FLOAT_CONST",
    "HEX_FLOAT_CONST", "CHAR_CONST", "BOOL_CONST",
})  # fmt: skip
"""After these, ``a < b > x`` with an undeclared ``a`` is two comparisons, not a template-id."""

_CONDITIONS = frozenset({"&&", "||", "<", ">", "<=", ">=", "==", "!="})


def _is_condition(arg: Any) -> bool:
    """Whether what was read as a template argument is a comparison, which is hardly ever meant as one."""
    return isinstance(arg, c_ast.BinaryOp) and arg.op in _CONDITIONS


class NameParser(TokenParser):
    """Names. ``_templates`` are the names of class and function templates; pycparser's scopes know which are types."""

    _templates: set[str]
    _namespace_aliases: dict[str, list[NamePart]]
    _no_gt: bool
    _template_depth = 0
    _no_template_args: set[int]
    """Positions of ``<`` that were found not to start template arguments, so that backtracking stays linear."""
    _taken_apart: dict[int, Any]
    """Tokens such as ``>>`` that became two, by where they are in the buffer."""

    # ------------------------------------------------------------------ knowledge
    def _add_typedef_name(self, name, coord) -> None:
        self._scope_stack[-1][name] = True
        self._typedef_checked_token = None

    def _add_identifier(self, name, coord) -> None:
        self._scope_stack[-1][name] = False
        self._typedef_checked_token = None

    def _is_known(self, name: str) -> bool:
        return any(name in scope for scope in self._scope_stack)

    # ------------------------------------------------------------------ qualified names
    def _parse_qual_name(self) -> QualName:
        """``::``? part (``::`` part)*, each part with template arguments when its name is a template's."""
        start = self._peek()
        if start is not None and start.type in ("ID", "TYPEID") and self._peek_type(2) not in ("LT", "COLONCOLON"):
            self._advance()
            return QualName([NamePart(start.value, None, coord=start)], False, coord=start)
        absolute = self._accept("COLONCOLON") is not None
        parts = [self._parse_name_part(qualified=absolute)]
        if parts[0].name in self._namespace_aliases and self._peek_type() == "COLONCOLON":
            parts = list(self._namespace_aliases[parts[0].name])
        while self._peek_type() == "COLONCOLON" and self._peek_type(2) in (
            "ID",
            "TYPEID",
            "TEMPLATE",
            "OPERATOR",
            "NOT",
        ):
            self._advance()
            explicit = self._accept("TEMPLATE") is not None
            if self._peek_type() in ("OPERATOR", "NOT"):
                break
            parts.append(self._parse_name_part(qualified=True, explicit=explicit))
        return QualName(parts, absolute, coord=self._tok_coord(start) if start else None)

    def _parse_name_part(self, qualified: bool = False, explicit: bool = False, member: bool = False) -> NamePart:
        """A name with the template arguments that follow it; ``member``: after ``.`` or ``->``, where C++ itself asks
        for the word ``template`` unless the member is known to be one."""
        tok = self._advance()
        if tok.type not in ("ID", "TYPEID"):
            self._parse_error(f"expected a name before '{tok.value}'", self._tok_coord(tok))
        args = None
        if self._peek_type() == "LT":
            name = tok.value
            if explicit or name in self._templates:
                args = self._try_template_args(certain=explicit or (tok.type == "TYPEID" and not member))
            elif qualified or member or not self._is_known(name):
                args = self._try_template_args(certain=False, guess=True, member=member)
        return NamePart(tok.value, args, coord=self._tok_coord(tok))

    def _try_template_args(self, certain: bool, guess: bool = False, member: bool = False) -> list | None:
        """Template arguments at ``<``, or None (nothing consumed) if this ``<`` is less-than."""
        if self._is_launch():
            return None
        mark = self._mark()
        if mark in self._no_template_args and not certain:
            return None
        try:
            args = self._parse_template_args()
        except KtcError:
            if certain:
                raise
            self._take_back(mark)
            self._no_template_args.add(mark)
            return None
        nxt = self._peek()
        unlikely = member and (nxt is None or nxt.type != "LPAREN" or any(map(_is_condition, args)))
        if guess and (unlikely or nxt is None or nxt.type in _OPERANDS):
            self._take_back(mark)
            return None
        return args

    def _take_back(self, mark: int) -> None:
        """Return to ``mark``, where ``>>`` and ``>=`` that were taken apart since are whole again."""
        self._reset(mark)
        for index in sorted((i for i in self._taken_apart if i >= mark), reverse=True):
            self._tokens._buffer[index : index + 2] = [self._taken_apart.pop(index)]

    def _forget_splits(self) -> None:
        """Between statements that no template argument holds, nothing is taken back any more."""
        if not self._template_depth:
            self._taken_apart.clear()

    def _parse_template_args(self) -> list:
        tok = self._expect("LT")
        args: list = []
        saved, self._no_gt = self._no_gt, True
        self._template_depth += 1
        try:
            if self._template_depth > MAX_TEMPLATE_NESTING:
                self._parse_error("template arguments nest too deep", self._tok_coord(tok))
            while not self._at_gt():
                args.append(self._parse_template_arg())
                if self._accept("ELLIPSIS"):
                    args[-1] = PackExpansion(args[-1], coord=args[-1].coord)
                if not self._accept("COMMA"):
                    break
        finally:
            self._no_gt = saved
            self._template_depth -= 1
        self._expect_gt()
        return args

    def _parse_template_arg(self):
        if self._starts_type():
            mark = self._mark()
            try:
                typ = self._parse_type_name()
                if self._at_gt() or self._peek_type() in ("COMMA", "ELLIPSIS"):
                    return typ
            except KtcError:
                pass
            self._reset(mark)
        return self._parse_conditional_expression()

    def _at_gt(self) -> bool:
        return self._peek_type() in ("GT", "RSHIFT", "GE", "RSHIFTEQUAL")

    def _expect_gt(self) -> None:
        """Consume one ``>``, splitting ``>>`` and friends in the token buffer."""
        tok = self._peek()
        if tok is not None and tok.type in ("RSHIFT", "GE", "RSHIFTEQUAL"):
            rest = {"RSHIFT": "GT", "GE": "EQUALS", "RSHIFTEQUAL": "GE"}[tok.type]
            first = token("GT", ">", tok.line, tok.column, tok.file)
            second = token(rest, tok.value[1:], tok.line, tok.column + 1, tok.file)
            stream = self._tokens
            stream._buffer[stream._index : stream._index + 1] = [first, second]
            self._taken_apart = {i + (i > stream._index): t for i, t in self._taken_apart.items()}
            self._taken_apart[stream._index] = tok
            self._no_template_args.clear()  # positions have moved
        self._expect("GT")

    def _is_launch(self) -> bool:
        """Whether the stream stands at ``<<<``, which formatters that do not know it write as ``<< <``."""
        return self._peek_type() == "LSHIFT" and self._peek_type(2) == "LT"

    def _parse_named_type(self) -> c_ast.Node:
        name = self._parse_qual_name()
        return NamedType(name, coord=name.coord)

    def _starts_type(self) -> bool:
        raise NotImplementedError
