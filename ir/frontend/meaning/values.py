"""What an expression means while it is being lowered: a value, a place, a pointer, an aggregate, a function, a type."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ktc.ir.nodes import Expr, Sym
from ktc.ir.support.frozen import frozen
from ktc.ir.types import Type


class Value:
    """Base class."""

    __slots__ = ()
    sort: ClassVar[str] = "this"
    """What messages call such a thing."""


@frozen
class RVal(Value):
    """A scalar or vector value; ``type`` is always ``expr.type``.

    ``scoped``: the scoped enumeration, as syntax, that an enumerator is of: it is no number unless it is cast.
    """

    sort: ClassVar[str] = "a value"
    expr: Expr
    scoped: Any = field(default=None, compare=False, repr=False)

    @property
    def type(self) -> Type:
        return self.expr.type


@frozen
class VarPlace(Value):
    """A scalar or vector variable. ``moved``: of ``std::move``, no name means it."""

    sym: Sym
    const: bool = False
    moved: bool = False

    @property
    def type(self) -> Type:
        return self.sym.type


@frozen
class ElemPlace(Value):
    """An element of a buffer. ``width > 1``: that many consecutive elements of the buffer, seen as ``type``.

    ``moved``: of ``std::move``, no name means it.
    """

    buffer: Sym
    index: tuple[Expr, ...]
    type: Type
    width: int = 1
    cache: str = ""
    moved: bool = False


@frozen
class LanePlace(Value):
    """One lane of a vector place."""

    base: Value
    lane: Expr
    type: Type


@frozen
class PtrVal(Value):
    """A pointer: ``prefix`` indexes all dimensions of the buffer but the last, ``offset`` the last one.

    ``offset`` counts elements of the buffer (not of ``elem``) and is None for 0. ``elem`` is what the pointer points
    to. ``flat``: the buffer has several dimensions and ``offset`` runs over all of them, row-major. ``volatile``: what
    it points to is, whatever the buffer was declared as.
    """

    sort: ClassVar[str] = "a pointer"
    buffer: Sym
    prefix: tuple[Expr, ...]
    offset: Expr | None
    elem: Type
    const: bool = False
    flat: bool = False
    volatile: bool = False

    def at(self, offset: Expr | None, elem: Type) -> PtrVal:
        """A pointer into the same buffer at ``offset``, to an ``elem``."""
        return PtrVal(self.buffer, self.prefix, offset, elem, self.const, self.flat, self.volatile)


@dataclass(eq=False)
class PtrVar(Value):
    """A pointer variable that changes: ``offset`` is an integer variable, ``start.buffer`` the buffer at this point.

    ``owner`` is the block that declares it: in its straight-line code, and in that of functions called from there, it
    may move to another buffer. It may begin as ``nullptr``.
    With ``which`` (an integer variable) it points into one of ``choices``, or nowhere (-1).
    """

    sort: ClassVar[str] = "a pointer"
    offset: Sym
    start: PtrVal | NullVal
    owner: Any = None
    which: Sym | None = None
    choices: tuple[PtrVal, ...] = ()
    key: Any = None
    """Says to a later attempt at lowering that this variable must hold an address."""


@frozen
class PtrToPlace(Value):
    """``&x`` of a scalar or vector variable, seen as ``elem``."""

    sort: ClassVar[str] = "a pointer"
    place: Value
    elem: Type


def named(v: Any, const: bool = False) -> Any:
    """``v`` as what a name means; through a name that is ``const`` it does not change."""
    if isinstance(v, RecordVal) and (v.temporary or v.moved or (const and not v.const)):
        return replace(v, temporary=False, moved=False, const=v.const or const)
    if isinstance(v, VarPlace | ElemPlace) and v.moved:
        return replace(v, moved=False)
    return v


def moved(v: Any) -> Any:
    """``v`` as what ``std::move`` makes of it."""
    if isinstance(v, RecordVal):
        return replace(v, moved=True, temporary=False)
    return replace(v, moved=True) if isinstance(v, VarPlace | ElemPlace) else v


def pointing_to_const(v: Any, const: bool) -> Any:
    """The pointer ``v`` as one whose target does, or does not, change through it."""
    if isinstance(v, PtrVal) and v.const != const:
        return replace(v, const=const)
    if isinstance(v, PtrToPlace) and const:
        return replace(v, place=named(v.place, const=True))
    return v


@frozen
class ArrayVal(Value):
    """An array (or a row of one) by name; decays to a pointer to its first element."""

    sort: ClassVar[str] = "an array"
    buffer: Sym
    prefix: tuple[Expr, ...]
    type: Type
    volatile: bool = False


@frozen
class FlatArray(Value):
    """An array inside a flat buffer: ``start`` points to its first element, ``type`` is its C++ type."""

    sort: ClassVar[str] = "an array"
    start: PtrVal
    type: Any


@frozen
class LaneArray(Value):
    """An array that is the lanes of a vector: ``base`` is the vector's place, ``type`` the array's C++ type."""

    sort: ClassVar[str] = "an array"
    base: Value
    type: Any


@frozen
class PointerArray(Value):
    """An array of pointers that nobody changes, as a kernel is passed it in a struct: those ``choices``. ``key``: what
    is hinted where more is done with it than asking for an element."""

    sort: ClassVar[str] = "an array"
    choices: tuple[PtrVal, ...]
    type: Any
    key: Any


@frozen
class PtrSlot(Value):
    """A pointer that is kept in memory: ``place`` holds its 64 bits."""

    sort: ClassVar[str] = "a pointer"
    place: Value
    type: Any


@frozen
class BitPlace(Value):
    """A bit-field: ``count`` bits of the integer place ``base`` from bit ``first``."""

    base: Value
    first: int
    count: int
    type: Any


@frozen
class ChoicePtr(Value):
    """A pointer into one of several buffers: ``which`` (i32) says into which; -1 is ``nullptr``."""

    sort: ClassVar[str] = "a pointer"
    which: Expr
    choices: tuple[PtrVal, ...]


@frozen
class ChoicePlace(Value):
    """What a :class:`ChoicePtr` points to: the place ``which`` of ``choices``."""

    which: Expr
    choices: tuple[Value, ...]
    type: Type


@dataclass
class RecordVal(Value):
    """An aggregate, kept as one value or place per field. ``at`` points to it when it is in memory.

    ``whole`` is the class of the object that this is the base part of: what virtual calls look at. ``key`` says to a
    later attempt at lowering that this variable must lie in memory. ``const``: seen through a name that does not let it
    change. ``temporary``: the result of an expression, which no name means. ``moved``: of ``std::move``. ``owner`` is
    the block that made it: in its straight-line code members that are pointers are values that are replaced; ``moves``
    says to a later attempt that they must be variables.
    """

    type: Type
    fields: dict[str, Value] = field(default_factory=dict)
    at: PtrVal | None = None
    whole: Type | None = None
    key: Any = None
    const: bool = False
    temporary: bool = False
    moved: bool = False
    owner: Any = field(default=None, compare=False, repr=False)
    moves: Any = None

    def __hash__(self) -> int:
        return id(self)


@frozen
class ListVal(Value):
    """A braced list whose meaning depends on what it initialises."""

    sort: ClassVar[str] = "a list"
    items: tuple[Any, ...]


@frozen
class Dim3Val(Value):
    sort: ClassVar[str] = "a dim3"
    x: Expr
    y: Expr
    z: Expr


@frozen
class NullVal(Value):
    """``nullptr``; ``elem``: what it would point to, where it was declared with a type."""

    sort: ClassVar[str] = "nullptr"
    elem: Any = None


@frozen
class UnboundRef(Value):
    """A reference member before its constructor binds it."""

    sort: ClassVar[str] = "a reference that no constructor binds"
    elem: Any


@frozen
class SubVec(Value):
    """``type.n`` consecutive lanes of the vector variable ``sym``, from ``lane``."""

    sym: Sym
    lane: Expr
    type: Any


@frozen
class SwizzlePlace(Value):
    """Several lanes of a vector place, in any order: ``v.wzyx``."""

    base: Value
    lanes: tuple[int, ...]
    type: Any


@frozen
class ViewPlace(Value):
    """A variable whose bits are used as ``type``."""

    sym: Sym
    type: Type


def describe(v: Value) -> str:
    """What sort of thing a value is, for messages."""
    return f"'{v.type}'" if isinstance(v, RecordVal) else v.sort
