"""Parsing classes and enumerations."""

from __future__ import annotations

import re

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError

from .cxx_ast import Function, NamedType, NamePart, QualName, Record, ScopedEnum
from .parse_stmts import StmtParser


class RecordParser(StmtParser):
    """Records and enums. ``_record`` is the stack of class names being parsed."""

    _class_types: dict[str, dict[str, bool]]
    """The names of types that each class knows: its derived classes know them too."""

    _packing = 0
    """Depth of ``#pragma pack``: records inside may have misaligned members."""

    def _note_pragma(self, text: str) -> None:
        m = re.match(r"pack\s*\(\s*(push|pop)?\s*,?\s*(\d*)", text)
        if m is None:
            return
        if m[1] == "push":
            self._packing += 1
        elif m[1] == "pop":
            self._packing = max(0, self._packing - 1)
        else:
            self._packing = 1 if m[2] else 0

    def _parse_record(self):
        kind = _RECORDS[self._advance().type]
        align: list = []
        self._skip_attributes(align)
        name, spec_args, coord = "", None, self._here()
        if "COLONCOLON" in (self._peek_type(), self._peek_type(2)) and self._peek_type() in (
            "ID",
            "TYPEID",
            "COLONCOLON",
        ):
            return self._parse_qualified_record(coord)
        if self._peek_type() in ("ID", "TYPEID"):
            name_tok = self._advance()
            name = name_tok.value
            if self._peek_type() == "LT":
                spec_args = self._parse_template_args()
                self._templates.add(name)
            elif self._peek_type() == "COLONCOLON":
                self._unsupported("a nested class defined outside its class", coord, "define it inside")
            self._skip_attributes(align)
            self._add_typedef_name(name, coord)
            if self._in_template > len(self._record):
                self._templates.add(name)
            if len(self._scope_stack) > 1 and self._in_template:
                self._scope_stack[0].setdefault(name, True)
            self._member_types.add(name)
        if self._peek_type() == "ID" and self._peek().value == "final":
            self._advance()
        bases = []
        if self._accept("COLON"):
            while self._peek_type() not in ("LBRACE", None):
                if self._peek_type() in ("ACCESS", "CXX_SPEC", "COMMA"):
                    self._advance()
                else:
                    bases.append(self._parse_named_type())
        if self._peek_type() != "LBRACE":
            if not name:
                self._parse_error("expected a name or a body", coord)
            return (
                elaborated(name, coord, spec_args)
                if self._peek_type() != "SEMI"
                else Record(kind, name, [], None, align, spec_args, coord=coord)
            )
        self._advance()
        self._push_scope()
        scope = self._scope_stack[-1]
        for base in bases:
            scope.update(self._class_types.get(base.name.parts[-1].name, {}))
        self._record.append(name)
        items: list = []
        while self._peek_type() not in ("RBRACE", None):
            items.extend(self._parse_member())
        self._record.pop()
        self._class_types[name] = {known: True for known, is_type in scope.items() if is_type}
        self._pop_scope()
        self._expect("RBRACE")
        self._skip_attributes(align)
        if self._packing:
            align.append("packed")
        return Record(kind, name, bases, items, align, spec_args, coord=coord)

    def _parse_qualified_record(self, coord) -> NamedType:
        """``struct ns::S<N>`` as a type: what is declared elsewhere is named."""
        named = self._parse_named_type()
        if self._peek_type() in ("LBRACE", "COLON"):
            self._unsupported("a nested class defined outside its class", coord, "define it inside")
        return named

    def _skip_attributes(self, align: list) -> None:
        while (kind := self._peek_type()) in (*_ATTRIBUTES, "_ALIGNAS"):
            if kind == "CUDA_ARGS":
                self._parse_cuda_args(lambda new, k: align.append(new) if k == "alignment" else None)
            elif kind == "_ALIGNAS":
                align.append(self._parse_alignment_specifier())
            else:
                self._parse_attribute_specifier_sequence()

    def _parse_member(self) -> list:
        """One member declaration of the record being parsed."""
        kind = self._peek_type()
        if kind == "ACCESS" and self._peek_type(2) == "COLON":
            self._advance()
            self._advance()
            return []
        if kind == "FRIEND" or self._friend_follows():
            return self._parse_friend()
        if kind == "SEMI":
            self._advance()
            return []
        if kind in ("TEMPLATE", "USING", "_STATIC_ASSERT", "PPPRAGMA", "ATTRIBUTE_BEGIN"):
            return self._parse_external_declaration()
        spec, saw_type, coord = self._parse_member_specifiers()
        name = self._record[-1]
        if self._peek_type() == "NOT":
            return self._parse_destructor(spec, coord)
        if not saw_type and self._peek_type() == "OPERATOR":
            return [self._parse_conversion(spec, coord)]
        if not saw_type and self._peek_type() in ("ID", "TYPEID") and self._peek().value == name:
            self._advance()
            decl = c_ast.TypeDecl(name, None, None, None, coord=coord)
            spec["type"] = [c_ast.IdentifierType(["void"], coord=coord)]
            decl = self._type_modify_decl(decl, self._parse_function_decl(decl))
            return [self._parse_function(spec, decl, "ctor")]
        types = [t for t in spec["type"] if isinstance(t, Record | c_ast.Enum)]
        if self._accept("SEMI"):
            return types
        decl = self._parse_cxx_declarator(abstract=self._peek_type() == "COLON")
        if isinstance(decl, c_ast.FuncDecl):
            return [self._parse_function(spec, decl, "function")]
        infos = [self._parse_bit_field(decl)]
        while self._accept("COMMA"):
            infos.append(self._parse_bit_field(self._parse_cxx_declarator(abstract=self._peek_type() == "COLON")))
        self._expect("SEMI")
        return [*types, *self._build_declarations(spec=spec, decls=infos, typedef_namespace=True)]

    def _parse_destructor(self, spec, coord) -> list:
        """A destructor; one that does not parse is the host's."""
        mark, depth = self._mark(), len(self._scope_stack)
        try:
            self._expect("NOT")
            self._advance()
            decl = c_ast.TypeDecl(f"~{self._record[-1]}", None, None, None, coord=coord)
            spec["type"] = [c_ast.IdentifierType(["void"], coord=coord)]
            decl = self._type_modify_decl(decl, self._parse_function_decl(decl))
            return [self._parse_function(spec, decl, "dtor")]
        except KtcError:
            del self._scope_stack[depth:]
            self._reset(mark)
            self._skip_external(KtcError("", ""))
            return []

    def _friend_follows(self) -> bool:
        """Whether ``friend`` stands behind words like ``__device__``."""
        at = 1
        while self._peek_type(at) in ("CUDA", "INLINE", "CONSTEXPR"):
            at += 1
        return at > 1 and self._peek_type(at) == "FRIEND"

    def _parse_friend(self) -> list:
        """A friend function with a body is a function beside the class; other friends say nothing here."""
        while self._advance().type != "FRIEND":
            pass  # __device__ and its like: every function with a body is one of the device here
        mark, depth = self._mark(), len(self._scope_stack)
        try:
            if self._peek_type() not in ("CLASS", "STRUCT", "TEMPLATE"):
                spec, _, _ = self._parse_declaration_specifiers(allow_no_type=True)
                decl = self._parse_cxx_declarator(abstract=False)
                if isinstance(decl, c_ast.FuncDecl):
                    fn = self._parse_function(spec, decl, "friend")
                    return [fn] if fn.body is not None else []
        except KtcError:
            del self._scope_stack[depth:]
        self._reset(mark)
        self._skip_external(KtcError("", ""))
        return []

    def _parse_bit_field(self, decl) -> dict:
        """A member's declarator with its width, if it is a bit-field, and its initialiser."""
        width = self._parse_conditional_expression() if self._accept("COLON") else None
        return {**self._parse_declarator_init(decl), "bitsize": width}

    def _parse_member_specifiers(self):
        """Specifiers, stopping before a constructor's own name."""
        name = self._record[-1]
        empty: dict[str, list] = {
            "qual": [],
            "storage": [],
            "type": [],
            "function": [],
            "alignment": [],
            "type_attributes": [],
        }
        mark = self._mark()
        functions: list[str] = []
        storage: list[str] = []
        while (kind := self._peek_type()) in ("CUDA", "INLINE", "CXX_SPEC", "CONSTEXPR", "STATIC", *_ATTRIBUTES):
            if kind in _ATTRIBUTES:
                self._skip_attributes([])
            else:
                (storage if kind in ("CONSTEXPR", "STATIC") else functions).append(self._advance().value)
        tok = self._peek()
        is_ctor = tok is not None and tok.value == name and self._peek_type(2) == "LPAREN"
        if is_ctor or (tok is not None and tok.type in ("NOT", "OPERATOR")):
            return {**empty, "function": functions, "storage": storage}, False, self._here()
        self._reset(mark)
        return self._parse_declaration_specifiers(allow_no_type=True)

    def _parse_conversion(self, spec, coord, owner: str = "") -> Function:
        """``operator T() const``; ``owner``: the class and ``::`` where it is defined outside of it."""
        self._expect("OPERATOR")
        to = self._parse_conversion_type()
        decl = c_ast.TypeDecl(f"{owner}operator type", None, None, None, coord=coord)
        spec["type"] = [c_ast.IdentifierType(["void"], coord=coord)]
        decl = self._type_modify_decl(decl, self._parse_function_decl(decl))
        fn = self._parse_function(spec, decl, "conversion")
        fn.decl.type.type = to.type
        return fn

    def _parse_enum_specifier(self):
        tok = self._expect("ENUM")
        scoped = self._accept("CLASS") or self._accept("STRUCT")
        name = self._advance().value if self._peek_type() in ("ID", "TYPEID") else None
        if name:
            self._add_typedef_name(name, None)
        underlying = self._parse_type_name() if self._accept("COLON") else None
        values = None
        if self._accept("LBRACE"):
            values = []
            while self._peek_type() not in ("RBRACE", None):
                item = self._advance()
                value = self._parse_conditional_expression() if self._accept("EQUALS") else None
                values.append(c_ast.Enumerator(item.value, value, self._tok_coord(item)))
                if not scoped:
                    self._add_identifier(item.value, None)
                self._accept("COMMA")
            self._expect("RBRACE")
            if name:
                self._enumerators[name] = self._enumerators.get(name, frozenset()) | {v.name for v in values}
        return (ScopedEnum if scoped else c_ast.Enum)(name, values, underlying, self._tok_coord(tok))


_ATTRIBUTES = ("CUDA_ARGS", "ATTRIBUTE_BEGIN")

_RECORDS = {"STRUCT": "struct", "CLASS": "class", "UNION": "union"}


def elaborated(name: str, coord, args: list | None = None) -> NamedType:
    """The type that ``struct name<args>`` is where it declares no class."""
    return NamedType(QualName([NamePart(name, args, coord=coord)], False, coord=coord), coord=coord)
