"""Types of the IR.

Scalars follow the machine, not C's spelling: ``f16 bf16 f32 f64 e4m3 e5m2 i8..i64 u8..u64 bool``. A front-end maps
C++ types onto these; a printer maps them back to its language.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .nodes import Expr

SPACES = ("global", "shared", "local", "const", "generic")
"""Address spaces. ``local`` is private to a thread; in parallel form it is private to the iteration that owns it."""


@dataclass(frozen=True)
class Type:
    """Base class of all types."""


@dataclass(frozen=True, eq=False)
class Scalar(Type):
    """A number: ``kind`` is float | bfloat | e4m3 | e5m2 | int | uint | bool, ``bits`` its storage width.

    The one exception, :data:`EVENT`, names asynchronous copies of a block: no arithmetic, no conversion.

    There is one object of each scalar type, so that comparing types, as everything does all the time, is cheap.
    """

    kind: str
    bits: int

    def __new__(cls, kind: str, bits: int) -> Scalar:
        found = _MADE.get((kind, bits))
        return found if found is not None else _MADE.setdefault((kind, bits), super().__new__(cls))

    if not TYPE_CHECKING:  # checkers narrow types by `==` only where it is the usual one
        __eq__ = object.__eq__
        __hash__ = object.__hash__

    def __reduce__(self) -> Any:
        return Scalar, (self.kind, self.bits)

    @cached_property
    def name(self) -> str:
        """The IR's spelling, such as ``f16`` or ``u32``."""
        return _PREFIX[self.kind].format(bits=self.bits)

    @cached_property
    def is_float(self) -> bool:
        return self.kind in ("float", "bfloat", "e4m3", "e5m2")

    @cached_property
    def is_int(self) -> bool:
        """Integers of either signedness; ``bool`` is not one."""
        return self.kind in ("int", "uint")

    @cached_property
    def is_signed(self) -> bool:
        return self.kind not in ("uint", "bool", "event")

    @cached_property
    def extremes(self) -> tuple[int, int]:
        """The least and the largest number of an integer type."""
        half = 1 << (self.bits - 1)
        return (-half, half - 1) if self.is_signed else (0, 2 * half - 1)

    @cached_property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    def __str__(self) -> str:
        return self.name


_MADE: dict[tuple[str, int], Scalar] = {}

_PREFIX = {
    "float": "f{bits}",
    "bfloat": "bf{bits}",
    "e4m3": "e4m3",
    "e5m2": "e5m2",
    "int": "i{bits}",
    "uint": "u{bits}",
    "bool": "bool",
    "event": "copyevent",
}

F16, F32, F64 = Scalar("float", 16), Scalar("float", 32), Scalar("float", 64)
BF16, E4M3, E5M2 = Scalar("bfloat", 16), Scalar("e4m3", 8), Scalar("e5m2", 8)
I8, I16, I32, I64 = (Scalar("int", b) for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar("uint", b) for b in (8, 16, 32, 64))
BOOL = Scalar("bool", 8)
SIGNIFICANT_BITS = {F64: 53, F32: 24, F16: 11, BF16: 8, E4M3: 4, E5M2: 3}
"""Bits of a significand, with the leading one: all whole numbers up to two to its power are values of the type."""

EVENT = Scalar("event", 32)
"""OpenCL's ``event_t``: what a ``GroupCopy`` gives and a ``GroupWait`` takes; 0 is no event."""

SCALARS: dict[str, Scalar] = {
    t.name: t for t in (F16, F32, F64, BF16, E4M3, E5M2, I8, I16, I32, I64, U8, U16, U32, U64, BOOL, EVENT)
}


@dataclass(frozen=True)
class Void(Type):
    """The type of an expression evaluated for its effect."""

    def __str__(self) -> str:
        return "void"


VOID = Void()


@dataclass(frozen=True)
class Vec(Type):
    """``n`` consecutive elements moved as one. ``n`` is an int, or an expression over knobs."""

    elem: Scalar
    n: int | Expr


@dataclass(frozen=True)
class Ptr(Type):
    """A pointer parameter: a buffer of ``elem`` in ``space``."""

    elem: Type
    space: str = "global"
    const: bool = False
    restrict: bool = False
    volatile: bool = False


@dataclass(frozen=True)
class Array(Type):
    """A declared array. ``shape`` holds expressions (constants, knobs, parameters); row-major."""

    elem: Type
    shape: tuple[Expr, ...]
    space: str = "local"


@dataclass(frozen=True)
class Struct(Type):
    """A plain aggregate: ``fields`` is ((name, type), ...)."""

    name: str
    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Opaque(Type):
    """A type ktc carries but does not understand; only the backend of its own language can print it."""

    spelling: str


def element_of(t: Type) -> Type:
    """What one subscript of a buffer of type ``t`` yields (the scalar, for arrays of vectors fully indexed)."""
    if isinstance(t, Ptr | Array | Vec):
        return t.elem
    raise TypeError(f"not a buffer type: {t}")


def is_signed_integer(t: object) -> bool:
    """Whether ``t`` is a type of signed integers, of which differences may be negative."""
    return isinstance(t, Scalar) and t.is_int and t.is_signed


def scalar_of(t: Type) -> Scalar:
    """The scalar at the bottom of ``t``."""
    while not isinstance(t, Scalar):
        t = element_of(t)
    return t
