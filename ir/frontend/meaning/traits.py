"""``<type_traits>`` and ``<concepts>`` in the current scope: their answers, and the types that they make of others."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pycparser import c_ast

from ktc.ir.fold import common_type
from ktc.ir.frontend.syntax.cxx_ast import NamedType, NamePart, QualName, is_const
from ktc.ir.frontend.syntax.program import functions_of
from ktc.ir.nodes import Const
from ktc.ir.types import BOOL, U64, VOID, Scalar, Type, Vec

from .cxx_types import NULLPTR_T, CArray, ListType, Pointer, RecordType, Reference, decayed, show
from .name_meanings import TypeVal
from .template_args import TemplateArguments
from .type_traits import (
    CONCEPTS,
    JOINED,
    MAX_SEQUENCE,
    OF_OBJECTS,
    PREDICATES,
    SEQUENCES,
    UNWRAP,
    VALUES,
    is_arithmetic,
    is_class,
)
from .values import RVal


class Traits(TemplateArguments):
    """What the traits answer in the current scope."""

    # provided by the other mixins
    const_int: Any
    instantiate_record: Any
    fields_of: Any
    bases_of: Any
    derives: Any
    copies_by_code: Any
    copies_inside: Any

    # ------------------------------------------------------------------ questions
    def concept(self, name: str, args: list, node: Any) -> bool | None:
        """Whether a concept of the standard library holds, None for an unknown one."""
        if name == "derived_from" and len(args) == 2:
            args = args[::-1]
        traits = CONCEPTS.get(name)
        return None if traits is None else all(self.predicate(t, args, node) for t in traits)

    def predicate(self, name: str, args: list, node: Any) -> bool | None:
        """Value of ``std::is_same`` and friends, None for an unknown trait or where the answer is not known here."""
        if name in JOINED and args:
            return JOINED[name](bool(self._value_of(a)) for a in args)
        if name == "is_same" and len(args) == 2 and len({_const(a) for a in args}) == 2:
            return False
        if name in ("is_trivially_copyable", "is_pod") and len(args) == 1:
            return self._trivial(self.arg_type(args[0]), name == "is_pod")
        if name == "is_const" and len(args) == 1:
            return (isinstance(args[0], c_ast.Typename) and self._qualified(args[0], "const")) or None
        if name in ("is_base_of", "is_convertible") and len(args) == 2:
            return getattr(self, f"_{name}")(*(self.arg_type(a) for a in args))
        if name == "is_empty" and len(args) == 1:
            t = self.arg_type(args[0])
            return isinstance(t, RecordType) and is_class(t) and self._is_empty(t, node)
        test = PREDICATES.get(name)
        return None if test is None else bool(test(*(self.arg_type(a) for a in args)))

    def _value_of(self, trait: Any) -> int:
        """``trait::value``."""
        inner = trait.type.type if isinstance(trait, c_ast.Typename) else trait
        name = inner.name if isinstance(inner, NamedType) else inner
        if not isinstance(name, QualName):
            self.fail("E-SEMA-TYPE", "this is no trait", trait)
        return int(self.const_int(QualName([*name.parts, NamePart("value", None)], False, coord=name.coord), "a trait"))

    def _is_base_of(self, base: Type, t: Type) -> bool:
        return isinstance(base, RecordType) and (base == t or bool(self.derives(t, base)))

    def _is_convertible(self, a: Type, b: Type) -> bool | None:
        """Known of equal types and of numbers alone."""
        a, b = (t.elem if isinstance(t, Reference) and not isinstance(t.elem, RecordType) else t for t in (a, b))
        return True if a == b or (is_arithmetic(a) and is_arithmetic(b)) else None

    def _is_empty(self, t: RecordType, node: Any) -> bool:
        return not self.fields_of(t, node) and all(self._is_empty(b, node) for b in self.bases_of(t))

    def _trivial(self, t: Type, plain: bool) -> bool | None:
        """Whether ``t`` is copied as its bytes are, and, ``plain``, needs no code to begin; None where unknown."""
        if not isinstance(t, RecordType):
            return isinstance(t, Scalar | Vec | Pointer) or None
        kinds = {f.kind for f, _ in functions_of(t.decl[0].node.items)}
        if plain and "ctor" in kinds:
            return None
        return not (self.copies_by_code(t) or self.copies_inside(t) or "dtor" in kinds)

    # ------------------------------------------------------------------ types of types
    def std_type(self, last: str, args: list | None, node: Any) -> Type | None:
        """The type ``std::last<args>``, None where it is none of these."""
        args = args or []
        if last in UNWRAP and len(args) == 1:
            return self._unwrapped(last.removesuffix("_t"), self.arg_type(args[0]))
        if last == "void_t":
            for a in args:
                self.arg_type(a)
            return VOID
        if last == "initializer_list" and len(args) == 1:
            return ListType(self.arg_type(args[0]))
        if last in ("conditional_t", "conditional") and len(args) == 3:
            return self.arg_type(args[1] if self.const_int(args[0], "a condition") else args[2])
        if last in ("enable_if_t", "enable_if") and args:
            if not self.const_int(args[0], "a condition"):
                self.fail("E-SEMA-SFINAE", "this overload is disabled by std::enable_if", node)
            return self.arg_type(args[1]) if len(args) > 1 else VOID
        if last in ("remove_pointer_t", "remove_pointer") and args:
            t = self.arg_type(args[0])
            return t.elem if isinstance(t, Pointer) else t
        if last in ("remove_extent_t", "remove_extent") and args:
            t = self.arg_type(args[0])
            return t.elem if isinstance(t, CArray) else t
        if last in ("underlying_type_t", "underlying_type") and args:
            return self.arg_type(args[0])
        if last in SEQUENCES and args:
            return self._sequence(last, args, node)
        if last in ("make_unsigned_t", "make_signed_t", "make_unsigned", "make_signed") and args:
            t = self.arg_type(args[0])
            return Scalar("uint" if "un" in last else "int", t.bits) if isinstance(t, Scalar) else None
        if last in ("common_type_t", "common_type") and args:
            types = [self._unwrapped("decay", self.arg_type(a)) for a in args]
            if all(t == types[0] for t in types):
                return types[0]
            return reduce(common_type, types) if all(isinstance(t, Scalar) for t in types) else None  # type: ignore[arg-type]
        if args and last in VALUES and (value := self.predicate(last, args, node)) is not None:
            constant = [TypeVal(BOOL), RVal(Const(value, BOOL))]
            return self.instantiate_record(self.program.records["integral_constant"], constant, node)
        return NULLPTR_T if last == "nullptr_t" else None

    def _unwrapped(self, trait: str, t: Type) -> Type:
        """``t`` without what the trait takes away."""
        if trait not in OF_OBJECTS:
            return t
        t = t.elem if isinstance(t, Reference) else t
        return decayed(t) if trait == "decay" else t

    def _sequence(self, name: str, args: list, node: Any) -> Type:
        """``std::make_index_sequence<N>`` and its like: the numbers from 0 on."""
        given = self.template_args(args, node)
        t = given[0].type if isinstance(given[0], TypeVal) and name == "make_integer_sequence" else U64
        count = len(given) if name == "index_sequence_for" else self.const_int(args[-1], "the length of a sequence")
        if not 0 <= count <= MAX_SEQUENCE or not isinstance(t, Scalar):
            self.fail("E-SEMA-TEMPLATE", f"a sequence of {count} numbers of type '{show(t)}'", node)
        numbers = [RVal(Const(i, t)) for i in range(count)]
        return self.instantiate_record(self.program.records["integer_sequence"], [TypeVal(t), *numbers], node)


def _const(node: Any) -> bool:
    """Whether a type is written as a constant one, at its top level: types here do not say."""
    return isinstance(node, c_ast.Typename) and isinstance(node.type, c_ast.TypeDecl) and is_const(node.type)
