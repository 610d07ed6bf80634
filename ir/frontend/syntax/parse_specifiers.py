"""Parsing declaration specifiers: storage, qualifiers, types, CUDA's words, attributes."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from .cxx_ast import AutoType, NamedType, TypeOf
from .parse_ambiguity import BASIC_TYPES, AmbiguityParser

QUALIFIERS = ("CONST", "VOLATILE", "RESTRICT")

_STORAGE = ("STATIC", "EXTERN", "REGISTER", "TYPEDEF", "CONSTEXPR", "_THREAD_LOCAL")


class SpecifierParser(AmbiguityParser):
    """Specifiers. CUDA's qualifiers travel in ``Decl.funcspec``; ``__launch_bounds__`` there as a (name,
    args) pair."""

    _need_type = False

    _specifiers: dict[str, list] | None = None
    """Those that were read last: what stands behind a pointer's star may add to them."""

    def _parse_specifiers(self, *, allow_storage_and_function):
        spec: Any = None
        saw_type = False
        first = None
        need_type, self._need_type = self._need_type, False

        def add(new, kind):
            nonlocal spec
            if spec is None:
                spec = {k: [] for k in ("qual", "storage", "type", "function", "alignment", "type_attributes")}
            spec[kind].append(new)

        while (tok := self._peek()) is not None:
            kind = tok.type
            coord = self._tok_coord(tok)
            if kind == "ATTRIBUTE_BEGIN":
                self._parse_attribute_specifier_sequence()
                continue
            if kind in QUALIFIERS:
                add(self._advance().value.strip("_"), "qual")
            elif kind in _STORAGE:
                need_type = need_type or kind == "TYPEDEF"  # known or not, what stands here is its type
                add(self._advance().value, "storage")
            elif kind in ("INLINE", "CXX_SPEC", "CUDA"):
                add(self._advance().value, "function")
            elif kind == "CUDA_ARGS":
                self._parse_cuda_args(add)
            elif kind == "_ALIGNAS":
                add(self._parse_alignment_specifier(), "alignment")
            elif kind in BASIC_TYPES and not (saw_type and not isinstance(spec["type"][-1], c_ast.IdentifierType)):
                add(c_ast.IdentifierType([self._advance().value], coord), "type")
                saw_type = True
            elif saw_type:
                break
            elif kind == "AUTO":
                self._advance()
                add(AutoType(None, coord=coord), "type")
                saw_type = True
            elif kind == "DECLTYPE" and self._peek_type(3) == "AUTO":
                self._unsupported("'decltype(auto)'", coord, "write auto, auto&& or the type itself")
            elif kind == "DECLTYPE" and (member := self._try_decltype_member()) is not None:
                add(NamedType(member, coord=coord), "type")
                saw_type = True
            elif kind == "DECLTYPE":
                add(self._parse_decltype(coord), "type")
                saw_type = True
            elif kind in ("STRUCT", "UNION", "CLASS"):
                add(self._parse_record(), "type")
                saw_type = True
            elif kind == "ENUM":
                add(self._parse_enum_specifier(), "type")
                saw_type = True
            elif kind == "TYPENAME":
                self._advance()
                if self._peek_type() != "DECLTYPE":  # typename decltype(x)::type is read as what follows
                    add(self._parse_named_type(), "type")
                    saw_type = True
            elif kind in ("TYPEID", "ID", "COLONCOLON"):
                if kind == "ID" and not need_type and not self._starts_declaration():
                    break
                add(self._parse_named_type(), "type")
                saw_type = True
            else:
                break
            first = first or coord
        self._specifiers = spec
        return spec, saw_type, first

    def _parse_cuda_args(self, add) -> None:
        tok = self._advance()
        args = []
        if self._accept("LPAREN"):
            if tok.value in ("__attribute__", "__attribute", "__declspec"):
                self._parse_attributes(add)
            else:
                while self._peek_type() != "RPAREN":
                    args.append(self._parse_bracketed(self._parse_conditional_expression))
                    if not self._accept("COMMA"):
                        break
                self._expect("RPAREN")
        if tok.value == "__align__" and args:
            add(c_ast.Alignas(args[0], self._tok_coord(tok)), "alignment")
        elif tok.value in ("__launch_bounds__", "__cluster_dims__", "__maxnreg__"):
            add((tok.value, args), "function")

    def _parse_alignment_specifier(self) -> c_ast.Alignas:
        """``alignas(16)``; ``alignas(float)``, which asks for what ``alignas(alignof(float))`` does."""
        found = super()._parse_alignment_specifier()
        if isinstance(found.alignment, c_ast.Typename):
            found.alignment = c_ast.UnaryOp("alignof", found.alignment, found.coord)
        return found

    def _parse_attributes(self, add) -> None:
        """``__attribute__((...))`` after its first bracket: packing and alignment count, the rest is skipped."""
        depth = 1
        while depth:
            tok = self._advance()
            depth += (tok.type == "LPAREN") - (tok.type == "RPAREN")
            word = str(tok.value).strip("_")
            if word == "packed":
                add("packed", "alignment")
            elif word in ("aligned", "align") and self._peek_type() == "LPAREN":
                self._advance()
                add(c_ast.Alignas(self._parse_bracketed(self._parse_conditional_expression), self._tok_coord(tok)),
                    "alignment")  # fmt: skip
                self._expect("RPAREN")

    def _skip_to_close(self) -> None:
        """Skip to the ``)`` that closes an already consumed ``(``."""
        depth = 1
        while depth:
            kind = self._advance().type
            depth += (kind == "LPAREN") - (kind == "RPAREN")

    def _parse_decltype(self, coord) -> AutoType:
        """``decltype(expr)`` and GNU's ``typeof(expr)``, which is never a reference."""
        word = self._advance().value
        self._expect("LPAREN")
        in_parentheses = self._peek_type() == "LPAREN"
        expr = self._parse_bracketed(self._parse_expression)
        self._expect("RPAREN")
        if word != "decltype":
            return TypeOf(expr, coord=coord)
        named = isinstance(expr, c_ast.ID | c_ast.StructRef) and in_parentheses
        return AutoType(c_ast.ExprList([expr], coord) if named else expr, coord=coord)

    def _parse_bracketed(self, parse):
        """Run ``parse`` inside brackets, where ``>`` is an operator again."""
        saved, self._no_gt = self._no_gt, False
        try:
            return parse()
        finally:
            self._no_gt = saved
