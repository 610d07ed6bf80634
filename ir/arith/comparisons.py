"""Conditions: taken apart into what holds by itself, and comparisons that others imply.

i < n && j < m      i < n, j < m
i + 1 < n           holds where i + 2 < n does
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ktc.ir.nodes import NEGATED, Binary, Cast, Const, Expr, Sym, Unary, Var
from ktc.ir.types import BOOL, Scalar, is_signed_integer

from .enclosures import is_integer
from .polynomial import Polynomial, constant, minus, plus, polynomial


def parts(e: Expr, holds: bool, names: Mapping[Sym, Expr]) -> Iterator[Expr]:
    """Conditions that hold where ``e`` comes out as ``holds``; ``names``: what variables stand for."""
    match e:
        case Cast(to=to, x=x) if to == BOOL and is_integer(x.type):
            yield from parts(x, holds, names)
        case Unary(op="!", x=x):
            yield from parts(x, not holds, names)
        case Binary(op="&&" | "||" as op, a=a, b=b):
            if (op == "&&") == holds:
                yield from parts(a, holds, names)
                yield from parts(b, holds, names)
        case Binary(op="!=" | "==" as op, a=a, b=Const(0)) if (said := _truth(a, names)) is not None:
            yield from parts(said, holds == (op == "!="), names)
        case Binary(op=op, a=a, b=b) if op in NEGATED and is_integer(a.type):
            yield e if holds else Binary(NEGATED[op], a, b)
        case Var(sym=s) if s in names and s.type == BOOL:
            yield from parts(names[s], holds, names)
            yield e if holds else Unary("!", e)
        case _ if e.type == BOOL:
            yield e if holds else Unary("!", e)
        case _ if (said := _truth(e, names)) is not None:
            yield from parts(said, holds, names)
        case _ if isinstance(e.type, Scalar) and e.type.is_int:
            yield Binary("!=" if holds else "==", e, Const(0, e.type))


def _truth(e: Expr, names: Mapping[Sym, Expr]) -> Expr | None:
    """The condition that the integer ``e`` is 1 or 0 for, by what ``names`` stand for; None where it is any number."""
    match e:
        case Cast(x=x) if is_integer(e.type):
            return x if x.type == BOOL else _truth(x, names)
        case Var(sym=s) if s in names and is_integer(s.type):
            return _truth(names[s], names)
    return None


def follows(x: Expr, known: Iterable[Expr]) -> bool:
    """Whether the comparison ``x`` holds wherever all of ``known`` do: one of them is as strict, or stricter."""
    mine = below_zero(x)
    if mine is None:
        return False
    for k in known:
        theirs = below_zero(k)
        gap = None if theirs is None else minus(mine, theirs)
        if gap is not None and set(gap) <= {()} and gap.get((), 0) <= 0:
            return True
    return False


def below_zero(x: Expr) -> Polynomial | None:
    """``p`` where ``x``, a comparison of signed integers, is ``p < 0``; None for other conditions."""
    if not isinstance(x, Binary) or any(not is_signed_integer(e.type) for e in (x.a, x.b)):
        return None
    a, b = polynomial(x.a), polynomial(x.b)
    match x.op:
        case "<":
            return minus(a, b)
        case ">":
            return minus(b, a)
        case "<=":
            return plus(minus(a, b), constant(-1))
        case ">=":
            return plus(minus(b, a), constant(-1))
    return None


__all__ = ["below_zero", "follows", "parts"]
