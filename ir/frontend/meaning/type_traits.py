"""``<type_traits>`` and ``<concepts>`` as tables: what they ask of resolved types, and by what names."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.types import VOID, Scalar, Type, Vec

from .cxx_types import NULLPTR_T, CArray, Pointer, RecordType, Reference


def is_integral(a: Type) -> bool:
    return isinstance(a, Scalar) and (a.is_int or a.kind == "bool")


def is_floating(a: Type) -> bool:
    """16- and 8-bit floats are classes."""
    return isinstance(a, Scalar) and a.kind == "float" and a.bits >= 32


def is_arithmetic(a: Type) -> bool:
    return is_integral(a) or is_floating(a)


def is_class(a: Type) -> bool:
    if isinstance(a, RecordType):
        return a.syntax.kind != "union"
    return isinstance(a, Vec) or (isinstance(a, Scalar) and not is_arithmetic(a))


PREDICATES: dict[str, Callable[..., bool]] = {
    "is_same": lambda a, b: a == b,
    "is_floating_point": is_floating,
    "is_integral": is_integral,
    "is_arithmetic": is_arithmetic,
    "is_fundamental": lambda a: is_arithmetic(a) or a in (VOID, NULLPTR_T),
    "is_signed": lambda a: is_arithmetic(a) and a.kind in ("int", "float"),
    "is_unsigned": lambda a: is_integral(a) and a.kind != "int",
    "is_pointer": lambda a: isinstance(a, Pointer),
    "is_null_pointer": lambda a: a == NULLPTR_T,
    "is_void": lambda a: a == VOID,
    "is_array": lambda a: isinstance(a, CArray),
    "is_class": is_class,
    "is_union": lambda a: isinstance(a, RecordType) and a.syntax.kind == "union",
    "is_reference": lambda a: isinstance(a, Reference),
    "is_lvalue_reference": lambda a: isinstance(a, Reference) and not a.rvalue,
    "is_rvalue_reference": lambda a: isinstance(a, Reference) and a.rvalue,
}
"""``std::is_*`` traits over resolved types."""

CONCEPTS = {
    "integral": ("is_integral",),
    "signed_integral": ("is_integral", "is_signed"),
    "unsigned_integral": ("is_integral", "is_unsigned"),
    "floating_point": ("is_floating_point",),
    "same_as": ("is_same",),
    "derived_from": ("is_base_of",),
}
"""The traits that make up a concept of ``<concepts>``."""

JOINED: dict[str, Callable[..., bool]] = {
    "conjunction": lambda values: all(values),
    "disjunction": lambda values: any(values),
    "negation": lambda values: not next(iter(values)),
}
"""Traits of traits: the rest is not asked once the answer is known."""

VALUES = frozenset({*PREDICATES, *JOINED, "is_trivially_copyable", "is_pod", "is_const", "is_base_of", "is_convertible",
                    "is_empty"})  # fmt: skip
"""All traits that are a value."""

OF_OBJECTS = frozenset({"remove_reference", "remove_cvref", "decay"})
OF_CONST = frozenset({"remove_const", "remove_volatile", "remove_cv", "add_const", "add_volatile", "type_identity"})
UNWRAP = frozenset(name + suffix for name in OF_OBJECTS | OF_CONST for suffix in ("", "_t"))
"""Traits that take at most references (:data:`OF_OBJECTS`) away: top-level ``const`` is no part of types."""

SEQUENCES = frozenset({"make_integer_sequence", "make_index_sequence", "index_sequence_for"})
MAX_SEQUENCE = 4096
"""Numbers of a ``std::integer_sequence``."""
