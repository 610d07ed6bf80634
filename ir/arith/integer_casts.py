"""Ways to look through conversions, each named by what it keeps and under which assumption.

=============================  ====================  ===============================================================
function                       what is left keeps    provided that
=============================  ====================  ===============================================================
``without_implicit``           its value             (nothing): the source had none there, and a language's own rules
                                                     convert alike
``without_implicit_integers``  its value             as above, and what is left is an integer
``without_widening``           its value             (nothing): the type holds every value
``without_index_casts``        its value             indices of 32 bits and more fit both types: see :mod:`.affine`
``without_integer_casts``      its value             the integer fits every type on the way
``keeping_low_bits``           its lowest bits       (nothing)
``without_casts``              its shape             (anything): for names, and for guesses that a check follows
``Facts.plain``                its value             what its :class:`~.trust.Trust` assumes: facts show that it fits
=============================  ====================  ===============================================================

Verification keeps its own: it judges what these helped to prove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktc.ir.fold import cast, is_const
from ktc.ir.nodes import Binary, Cast, Const, Expr
from ktc.ir.types import I64, Scalar, Type

from .interval import Interval


def without_casts(e: Expr) -> Expr:
    """``e`` without any conversion around it: its shape, not its value."""
    return _through(e, lambda c: True)


def without_implicit(e: Expr) -> Expr:
    """``e`` without conversions around it that the source did not spell out."""
    return _through(e, lambda c: c.style == "implicit")


def without_implicit_integers(e: Expr) -> Expr:
    """``e`` without conversions between integers around it that the source did not spell out."""
    return _through(e, lambda c: c.style == "implicit" and is_integer_cast(c))


def without_integer_casts(e: Expr) -> Expr:
    """``e`` without conversions between integers around it: its value, if that fits every type on the way."""
    return _through(e, is_integer_cast)


def without_index_casts(e: Expr) -> Expr:
    """``e`` without conversions between integers of 32 bits and more: its value, if it is an index."""
    return _through(e, is_index_cast)


def without_widening(e: Expr) -> Expr:
    """``e`` without conversions around it that keep every value of what they convert."""
    return _through(e, lambda c: is_integer_cast(c) and holds_every_value(c.to, c.x.type))


def of_one_type(operands: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """Integer ``operands`` in one type that holds the value of each: theirs, or 64 bits where they differ; numbers take
    the type of what stands beside them. None where no type does, or an operand is no integer."""
    if not all(_is_int(x.type) for x in operands):
        return None
    types = {x.type for x in operands if not is_const(x)} or {x.type for x in operands}
    t = types.pop() if len(types) == 1 else I64
    if not isinstance(t, Scalar) or not all(_held(x, t) for x in operands):
        return None
    return tuple(cast(x, t) for x in operands)


def _held(x: Expr, t: Scalar) -> bool:
    return int(x.value) in Interval.of_type(t) if isinstance(x, Const) else holds_every_value(t, x.type)


def keeping_low_bits(e: Expr, bits: int) -> Expr:
    """``e`` without conversions around it that keep its lowest ``bits``."""
    return _through(e, lambda c: is_integer_cast(c) and min(_bits(c.to), _bits(c.x.type)) >= bits)


def is_integer_cast(e: Cast) -> bool:
    """Whether ``e`` converts the value of an integer into an integer type."""
    return e.style != "bit" and _is_int(e.to) and _is_int(e.x.type)


def is_index_cast(e: Cast) -> bool:
    """Whether ``e`` converts between integers of 32 bits and more."""
    return is_integer_cast(e) and min(_bits(e.to), _bits(e.x.type)) >= 32


def holds_every_value(to: Type, source: Type) -> bool:
    """Whether the integer type ``to`` holds every value of ``source``."""
    if not isinstance(to, Scalar) or not isinstance(source, Scalar) or not to.is_int:
        return False
    if source.kind == "bool":
        return True
    if to.is_signed == source.is_signed:
        return to.bits >= source.bits
    return to.is_signed and to.bits > source.bits


def _through(e: Expr, passed: Callable[[Cast], bool]) -> Expr:
    while isinstance(e, Cast) and passed(e):
        e = e.x
    return e


def _is_int(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_int


def _bits(t: Type) -> int:
    return t.bits if isinstance(t, Scalar) else 0


def factors_of(e: Expr) -> Iterator[Expr]:
    """The factors of the product ``e``, index casts dropped."""
    e = without_index_casts(e)
    if isinstance(e, Binary) and e.op == "*":
        yield from (*factors_of(e.a), *factors_of(e.b))
    else:
        yield e


__all__ = [
    "factors_of",
    "holds_every_value", "is_index_cast", "is_integer_cast", "keeping_low_bits", "without_casts", "without_implicit",
    "without_implicit_integers", "without_index_casts", "without_integer_casts", "without_widening",
]  # fmt: skip
