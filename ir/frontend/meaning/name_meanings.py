"""What a name means that is no value: a type, a template, a pack, a function, something of the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

from ktc.ir.support.frozen import frozen
from ktc.ir.types import Type

from .values import Value


@frozen
class TypeVal(Value):
    """A name that is a type, with the qualifiers that only specialisations for ``const T`` and the like ask."""

    sort: ClassVar[str] = "a type"
    type: Type
    const: bool = field(default=False, compare=False)
    volatile: bool = field(default=False, compare=False)


TOP_QUALIFIERS = ("const", "volatile")
"""The qualifiers of a type itself, in the order of ``TypeVal``'s fields."""


@frozen
class EnumVal(TypeVal):
    """A name that is an enumeration; ``value`` gives an enumerator by its position."""

    enum: Any = field(default=None, compare=False)
    value: Callable[[int], Any] = field(default=None, compare=False)  # type: ignore[assignment]


@frozen
class TemplateVal(Value):
    """A class or alias template by name: its definitions, and what the names of the class around it mean."""

    name: str
    entities: tuple[Any, ...]
    bound: dict[str, Value] = field(default_factory=dict, compare=False, repr=False)
    owner: Any = None


@frozen
class PackVal(Value):
    """A parameter pack: several values or types."""

    items: tuple[Value, ...]


@frozen
class FunctionVal(Value):
    """A callable: ``call(args, node)`` lowers a call of it (lambdas and bound methods)."""

    sort: ClassVar[str] = "a function"
    call: Callable[..., Any] = field(compare=False)
    name: str = "lambda"
    entities: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    """The overloads that it is, for a function of the file: they are called where the value is used, which may be in
    another attempt at lowering than where it was made."""
    given: Any = field(default=None, compare=False, repr=False)
    """Their template arguments, or None."""


@frozen
class Closure(FunctionVal):
    """A lambda: its syntax, and the scope of what it has captured."""

    node: Any = field(default=None, compare=False, repr=False)
    scope: Any = field(default=None, compare=False, repr=False)


@frozen
class OpaqueVal(Value):
    """A host value that is not known; ``name`` is what a host parameter made of it is called. ``record``: the class of
    the object that it is, or points to, where that is known."""

    sort: ClassVar[str] = "a host object"
    name: str
    type: Type | None = None
    record: Type | None = None


@frozen
class LazyVal(Value):
    """A name whose meaning is worked out when it is looked up (host variables)."""

    resolve: Callable[[], Any] = field(compare=False)
