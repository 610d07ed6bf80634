"""Parsing C++20 constraints: ``concept C = ...``, ``template <C T>``, ``requires C<T>`` before or behind a function.

A constraint is kept as an expression over the template parameters, which calls evaluate to leave overloads out.
``requires { ... }``, which asks whether code would compile, is refused.
"""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from .cxx_ast import Fold, NamedType, NamePart, PackExpansion, QualName
from .parse_records import RecordParser

STD_CONCEPTS = frozenset({"integral", "signed_integral", "unsigned_integral", "floating_point", "same_as"})
"""The concepts of ``<concepts>`` that :mod:`ktc.ir.frontend.meaning.resolve` knows the meaning of."""


class ConstraintParser(RecordParser):
    """Constraints of templates."""

    _concepts: set[str]
    _constraints: list[Any]

    def _parse_concept(self, coord) -> list[c_ast.Decl]:
        """``concept C = expression;``: what ``constexpr bool C = expression;`` is."""
        self._advance()
        name = self._advance().value
        self._expect("EQUALS")
        self._refuse_requires()
        value = self._parse_conditional_expression()
        self._expect("SEMI")
        self._concepts.add(name)
        kind = c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["bool"], coord), coord)
        return [c_ast.Decl(name, ["const"], [], ["constexpr"], [], kind, value, None, coord)]

    def _parse_requires(self) -> list[Any]:
        """``requires expression``, if that is here."""
        tok = self._peek()
        if tok is None or tok.value != "requires":
            return []
        self._advance()
        return [self._parse_constraint()]

    def _parse_constraint(self) -> Any:
        """Primary expressions joined by ``&&`` and ``||``."""
        left = self._parse_constraint_operand()
        while self._peek_type() in ("LAND", "LOR"):
            op = self._advance()
            left = c_ast.BinaryOp(op.value, left, self._parse_constraint_operand(), self._tok_coord(op))
        return left

    def _parse_constraint_operand(self) -> Any:
        self._refuse_requires()
        if self._peek_type() in ("ID", "TYPEID", "COLONCOLON"):
            return self._parse_qual_name()  # a function's body may follow, which is no list of its members
        saved, self._no_gt = self._no_gt, False
        node = self._parse_primary_expression()
        self._no_gt = saved
        return node

    def _refuse_requires(self) -> None:
        tok = self._peek()
        if tok is not None and tok.value == "requires":
            self._unsupported("a requires-expression", self._here(), "name the types that are meant")

    def _try_constrained_param(self) -> tuple[QualName, bool, str] | None:
        """The concept, whether it is a pack, and the name, where ``C T``, ``C<X> T`` or ``C... T`` begins."""
        tok = self._peek()
        if tok is None or tok.type not in ("ID", "TYPEID"):
            return None
        if tok.value != "std" and not self._concepts:
            return None
        mark = self._mark()
        concept = self._parse_qual_name()
        last = concept.parts[-1].name
        if last not in (STD_CONCEPTS if concept.parts[0].name == "std" else self._concepts):
            self._reset(mark)
            return None
        pack = self._accept("ELLIPSIS") is not None
        name = self._advance().value if self._peek_type() in ("ID", "TYPEID") else ""
        return concept, pack, name

    def _constrain(self, concept: QualName, pack: bool, name: str) -> None:
        """Note what ``concept name`` asks of a parameter: its concept with it as the first argument."""
        at = concept.coord
        first = NamedType(QualName([NamePart(name, None, coord=at)], False, coord=at), coord=at)
        typename = c_ast.Typename(None, [], None, c_ast.TypeDecl(None, [], None, first, at), at)
        last = concept.parts[-1]
        asked = NamePart(last.name, [typename, *(last.args or [])], coord=at)
        node: Any = QualName([*concept.parts[:-1], asked], concept.absolute, coord=at)
        self._constraints.append(Fold("&&", PackExpansion(node, coord=at), None, True, coord=at) if pack else node)
