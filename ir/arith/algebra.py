"""One walk over integer expressions, for every way to say what an integer is.

An *algebra* says what constants, leaves and operators are in it: numbers (:mod:`.concrete`), intervals and congruences
(:mod:`.enclosures`). The walk asks it bottom-up, once for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Select, Unary

T = TypeVar("T")


class Algebra(Protocol[T]):
    """What a value is, node by node; each method gets the node and the values of its operands."""

    def leaf(self, e: Expr) -> T:
        """A variable, a hardware index, a knob, or whatever else is no integer operator."""
        ...

    def constant(self, e: Const) -> T: ...

    def unary(self, e: Unary, x: T) -> T: ...

    def binary(self, e: Binary, a: T, b: T) -> T: ...

    def select(self, e: Select, cond: T, a: T, b: T) -> T: ...

    def convert(self, e: Cast, x: T) -> T:
        """A conversion of a value (never of bits)."""
        ...

    def call(self, e: Call, args: Sequence[T]) -> T: ...


Memo = dict[int, tuple[Expr, Any]]
"""Values by the identity of a node, which is kept alive beside its value."""


def value(e: Expr, algebra: Algebra[T], memo: Memo | None = None) -> T:
    """The value of ``e`` in ``algebra``; ``memo`` keeps those of its parts for the next question."""
    known: Memo = {} if memo is None else memo
    found = known.get(id(e))
    if found is not None:
        return found[1]  # type: ignore[no-any-return]
    cls = type(e)
    if cls is Binary:
        assert isinstance(e, Binary)
        result = algebra.binary(e, value(e.a, algebra, known), value(e.b, algebra, known))
    else:
        rule = _RULES.get(cls)
        result = algebra.leaf(e) if rule is None else rule(e, algebra, known)
    known[id(e)] = (e, result)
    return result


def _select(e: Select, algebra: Algebra[T], memo: Memo) -> T:
    return algebra.select(e, value(e.cond, algebra, memo), value(e.a, algebra, memo), value(e.b, algebra, memo))


def _cast(e: Cast, algebra: Algebra[T], memo: Memo) -> T:
    return algebra.leaf(e) if e.style == "bit" else algebra.convert(e, value(e.x, algebra, memo))


def _call(e: Call, algebra: Algebra[T], memo: Memo) -> T:
    return algebra.call(e, [value(a, algebra, memo) for a in e.args])


_RULES: dict[type, Callable[[Any, Any, Memo], Any]] = {
    Const: lambda e, algebra, memo: algebra.constant(e),
    Unary: lambda e, algebra, memo: algebra.unary(e, value(e.x, algebra, memo)),
    Select: _select,
    Cast: _cast,
    Call: _call,
}

__all__ = ["Algebra", "Memo", "value"]
