"""Members of one object in terms of each other: a divisor, and what its constructor makes of it to divide by.

    d: width * height                                     d: width * height
    shift: ceil_log2(width * height)              is      shift: ceil_log2(d)

The second says that they belong together, whatever the object was made of.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import cast
from ktc.ir.nodes import Const, Expr, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import map_expr, used, walk_expr


def in_terms_of_each_other(
    passed: Iterable[tuple[str, Expr]], objects: Mapping[str, tuple[Hashable, Sym]]
) -> Iterator[tuple[str, Expr]]:
    """What is ``passed`` for parameters, those that are members of one object made of the simplest of them.
    ``objects``: such parameters, each with what tells the object from others."""
    found = [*passed]
    own = {sym for _, sym in objects.values()}
    simplest: dict[Hashable, tuple[str, Expr]] = {}
    for name, e in found:
        known = objects.get(name)
        if known is None or isinstance(without_casts(e), Const) or used(e) & own:
            continue  # made of one of them already
        shortest = simplest.get(known[0])
        if shortest is None or _length(e) < _length(shortest[1]):
            simplest[known[0]] = name, without_casts(e)
    for name, e in found:
        known = objects.get(name)
        first, part = simplest.get(known[0], ("", e)) if known is not None else ("", e)
        yield name, e if first in ("", name) or used(e) & own else _named(e, part, objects[first][1])


def _length(e: Expr) -> int:
    return sum(1 for _ in walk_expr(e))


def _named(e: Expr, part: Expr, sym: Sym) -> Expr:
    """``e`` with the parameter ``sym`` in the place of ``part``."""

    def named(x: Expr) -> Expr:
        if without_casts(x) != part or not isinstance(x.type, Scalar):
            return x
        return cast(Var(sym), x.type)

    return map_expr(e, named)


__all__ = ["in_terms_of_each_other"]
