"""What a condition says, taken apart: comparisons that hold, each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.nodes import NEGATED, Binary, Cast, Const, Expr, Sym, Unary, Var
from ktc.ir.types import BOOL, Scalar

from .enclosures import is_integer


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
        case Binary(op=op, a=a, b=b) if op in NEGATED and is_integer(a.type):
            yield e if holds else Binary(NEGATED[op], a, b)
        case Var(sym=s) if s in names and s.type == BOOL:
            yield from parts(names[s], holds, names)
            yield e if holds else Unary("!", e)
        case _ if e.type == BOOL:
            yield e if holds else Unary("!", e)
        case _ if isinstance(e.type, Scalar) and e.type.is_int:
            yield Binary("!=" if holds else "==", e, Const(0, e.type))


__all__ = ["parts"]
