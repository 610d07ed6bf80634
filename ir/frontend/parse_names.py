"""Parsing names: qualified names, template arguments, and whether a name is a type."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ..diagnostics import KtcError
from .cxx_ast import NamedType, NamePart, PackExpansion, QualName
from .lexer import token
from .library import why_not_built
from .limits import MAX_TEMPLATE_NESTING
from .parse_tokens import TokenParser

TYPE_SUFFIXES = ("_t", "Type", "type", "_type")
"""Last components of unknown qualified names (``Traits<T>::value_type``) that are taken for types."""

BASIC_TYPES = frozenset({
    "VOID", "_BOOL", "CHAR", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "SIGNED", "UNSIGNED", "WCHAR",
})  # fmt: skip

DECL_WORDS = frozenset({
    *BASIC_TYPES, "STRUCT", "UNION", "ENUM", "CLASS", "CONST", "VOLATILE", "RESTRICT", "STATIC", "EXTERN", "REGISTER",
    "TYPEDEF", "AUTO", "CONSTEXPR", "INLINE", "_ALIGNAS", "CUDA", "CUDA_ARGS", "CXX_SPEC", "TYPENAME", "DECLTYPE",
    "_THREAD_LOCAL",
})  # fmt: skip
"""Token types that can only start a declaration."""

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
    _library_types: dict[str, frozenset[str]]
    """The types of each library namespace."""
    _no_gt: bool
    _template_depth = 0
    _no_template_args: set[int]
    _taken_apart: dict[int, Any]
    """Tokens such as ``>>`` that became two, by where they are in the buffer."""
    """Positions of ``<`` that were found not to start template arguments, so that backtracking stays linear."""

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
        """Whether the stream stands at ``<<<``."""
        a, b = self._peek(), self._peek(2)
        return (
            a is not None and b is not None and a.type == "LSHIFT" and b.type == "LT"
            and a.line == b.line and b.column == a.column + 2
        )  # fmt: skip

    # ------------------------------------------------------------------ is it a type?
    def _starts_type(self) -> bool:
        """Whether a type certainly starts here (in a cast or template argument, where an expression is possible)."""
        tok = self._peek()
        if tok is None:
            return False
        if tok.type in DECL_WORDS:
            return True
        if tok.type in ("TYPEID", "ID", "COLONCOLON"):
            if tok.type == "ID" and self._peek_type(2) not in ("COLONCOLON", "LT"):
                return False
            if tok.type == "TYPEID" and self._peek_type(2) not in ("COLONCOLON", "LT"):
                return True
            return self._scan_type_name()
        return False

    def _scan_type_name(self) -> bool:
        mark = self._mark()
        try:
            return self._names_type(self._parse_qual_name())
        except KtcError:
            return False
        finally:
            self._reset(mark)

    def _names_type(self, name: QualName) -> bool:
        """Whether a parsed qualified name denotes a type, by its last component."""
        last = name.parts[-1].name
        if len(name.parts) == 1:
            return self._is_type_in_scope(last)
        if last in self._enumerators.get(name.parts[-2].name, ()):
            return False  # whatever else is called so: ``Kind::Half``
        if last in self._library_types.get(name.parts[-2].name, ()) or why_not_built(name.text):
            return True
        if name.parts[0].name == "std" and last.endswith("_v"):
            return False
        if name.parts[0].name == "std" and last in STD_TYPES:
            return True
        if self._is_known(last):
            return self._is_type_in_scope(last)
        if last in self._member_types:
            return True
        return last.endswith(TYPE_SUFFIXES) and last not in ("is_same_type",)

    _member_types: set[str]
    _enumerators: dict[str, frozenset[str]]
    """The enumerators of each enumeration with a name."""

    def _starts_declaration(self, tok=None) -> bool:
        """Whether a declaration starts here, at a place where a statement or parameter may stand.

        Beyond known types: ``Unknown x`` and ``Unknown& x`` are declarations with a type that was not read; naming the
        type is left to the semantic analysis, which refuses it with its place.
        """
        tok = tok or self._peek()
        if tok is None:
            return False
        kind = tok.type
        if kind == "TYPENAME":
            return not self._constructs_dependent()
        if kind in DECL_WORDS:
            return not (kind in BASIC_TYPES and self._peek_type(2) in ("LPAREN", "LBRACE") and self._paren_is_cast())
        if kind == "ATTRIBUTE_BEGIN":
            return True
        if kind not in ("TYPEID", "ID", "COLONCOLON"):
            return False
        after = self._peek_type(2)
        if kind == "TYPEID" and after not in ("COLONCOLON", "LT"):
            return not (after in ("LPAREN", "LBRACE", "PERIOD") and self._paren_is_cast())
        if kind == "ID" and after not in (
            "COLONCOLON",
            "LT",
            "ID",
            "TIMES",
            "AND",
            "LAND",
            "ELLIPSIS",
            "CONST",
            "RESTRICT",
        ):
            return False
        if kind == "ID" and after in ("TIMES", "AND", "LAND", "ELLIPSIS") and self._is_known(tok.value):
            return False
        mark = self._mark()
        try:
            name = self._parse_qual_name()
            if self._names_type(name):
                return not (
                    self._peek_type() in ("LPAREN", "LBRACE", "COLONCOLON")
                    and len(name.parts) > 0
                    and self._paren_is_cast()
                )
            while self._peek_type() in ("TIMES", "AND", "LAND", "CONST", "RESTRICT", "ELLIPSIS"):
                if len(name.parts) == 1 and self._is_known(name.parts[0].name):
                    return False
                self._advance()
            return self._peek_type() in ("ID", "TYPEID") and self._peek_type(2) in _AFTER_DECLARED
        except KtcError:
            return False
        finally:
            self._reset(mark)

    def _constructs_dependent(self) -> bool:
        """At ``typename T::Inner(...)`` of a statement: an object that is made and used, as in ``.run()`` behind it."""
        mark = self._mark()
        try:
            self._advance()
            self._parse_qual_name()
            return self._peek_type() in ("LPAREN", "LBRACE") and self._paren_is_cast()
        except KtcError:
            return False
        finally:
            self._reset(mark)

    def _paren_is_cast(self) -> bool:
        """At ``T (`` of a statement: a functional cast rather than ``T (name)``, which nobody writes.

        ``T (*name)[`` and ``T (&name)[`` declare.
        """
        at = 2 if self._peek_type() != "LPAREN" else 1
        if self._peek_type(at) != "LPAREN" or self._peek_type(at + 1) not in ("TIMES", "AND"):
            return True
        at += 2
        while self._peek_type(at) in ("CONST", "RESTRICT", "VOLATILE"):
            at += 1
        declares = self._peek_type(at + 1) == "RPAREN" and self._peek_type(at + 2) in ("LBRACKET", "LPAREN")
        return not (self._peek_type(at) in ("ID", "TYPEID") and declares)

    def _parse_named_type(self) -> c_ast.Node:
        name = self._parse_qual_name()
        return NamedType(name, coord=name.coord)


_AFTER_DECLARED = frozenset({"SEMI", "EQUALS", "COMMA", "LPAREN", "LBRACE", "LBRACKET", "COLON", "COLONCOLON", "RPAREN",
                             "LT", "ATTRIBUTE_BEGIN", "CUDA_ARGS", None})  # fmt: skip
"""What may stand behind a name that is being declared."""

STD_TYPES = frozenset({
    "size_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "ptrdiff_t",
    "conditional_t", "enable_if_t", "remove_const_t", "remove_cv_t", "remove_reference_t", "decay_t", "array", "pair",
    "tuple", "vector", "string", "complex", "integral_constant", "true_type", "false_type", "make_unsigned_t",
    "underlying_type_t", "common_type_t", "remove_pointer_t", "add_const_t", "function", "optional", "numeric_limits",
    "is_same", "mt19937", "uniform_real_distribution", "chrono", "string_view", "initializer_list", "nullptr_t",
    "index_sequence", "integer_sequence", "remove_cvref_t", "invoke_result_t", "conditional", "enable_if", "ofstream",
    "ifstream", "stringstream", "ostringstream", "unique_ptr", "shared_ptr", "map", "set", "unordered_map",
    "is_floating_point",
})  # fmt: skip
