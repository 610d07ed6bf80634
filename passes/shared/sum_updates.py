"""Serial loops that do nothing but add something to a variable: what they add, and its terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.nodes import Assign, Binary, Body, Decl, Expr, For, Var
from ktc.ir.purity import is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, used
from ktc.passes.core.refusals import Refusal


@dataclass(frozen=True)
class SumUpdate:
    """The body of such a loop: ``front`` names values, then ``update`` is ``s = s op added``."""

    front: Body
    update: Assign
    op: str
    added: Expr


def sum_update(loop: For, code: str) -> SumUpdate:
    """What ``loop`` adds up.

    Raises:
        Refusal: with ``code``; it does something else.
    """
    *front, update = loop.body or (None,)
    value = update.value if isinstance(update, Assign) and isinstance(update.sym.type, Scalar) else None
    if not isinstance(update, Assign) or not isinstance(value, Binary) or value.op not in ("+", "-"):
        raise Refusal(code, f"'{loop.var.name}' does not end in 's += ..'", places(loop))
    if value.a != Var(update.sym) or update.sym in used(value.b):
        raise Refusal(code, f"'{loop.var.name}' does not end in 's += ..'", places(loop))
    named = all(isinstance(d, Decl) and d.init is not None and is_removable(d.init) for d in front)
    if not named or assigned(loop.body) != {update.sym}:
        raise Refusal(code, f"'{loop.var.name}' does more than add up", places(loop))
    return SumUpdate(loop.body[:-1], update, value.op, value.b)


def terms(e: Expr, sign: str = "+") -> Iterator[tuple[str, Expr]]:
    """The terms of ``e``, each with the operation that adds it: ``sign`` is that of all of ``e``."""
    if isinstance(e, Binary) and e.op in ("+", "-"):
        yield from terms(e.a, sign)
        yield from terms(e.b, sign if e.op == "+" else "-" if sign == "+" else "+")
    else:
        yield sign, e


__all__ = ["SumUpdate", "sum_update", "terms"]
