"""Packed indices: integers whose bits are taken apart, some of which say at a time which element of a table is meant.

    y[8 * i + 1] = table[words[i] >> 4 & 15]

Whatever such an integer holds, nothing beyond the table is reached: any bits will do, and as one small number for each
most parts of it would say the first element.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.fields import children
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Binary, Expr, For, If, Load, Store, Sym, Var, While
from ktc.ir.types import Scalar
from ktc.ir.walk import stmt_exprs, walk, walk_expr

from ..given_values import definitions, made_of, staged

MOST = 1 << 16
"""Values of a part; one that has more is hardly an index into a table."""


def packed_values(k: Kernel, buffer: Sym) -> int:
    """How many values a part of an element of ``buffer`` can have that says where something is; 0 where no part does,
    or where whole elements do, or decide how long a loop goes on or whether something is done."""
    sources = definitions(k) | staged(k)
    left, seen, most = list(_deciding(k)), set[Sym](), 0
    while left:
        e = left.pop()
        if (values := _values(e)) and any(isinstance(x, Load) and x.buffer == buffer for x in made_of([e], sources)):
            most = max(most, values)
            continue
        if isinstance(e, Load) and e.buffer == buffer:
            return 0
        named = e.sym if isinstance(e, Var) else e.buffer if isinstance(e, Load) else None
        if named is not None and named not in seen:
            seen.add(named)
            left += sources.get(named, ())
        left += children(e)
    return most if most <= MOST else 0


def _deciding(k: Kernel) -> Iterator[Expr]:
    """What says where something is, how long a loop goes on, or whether anything is done."""
    for s in walk(k.body):
        yield from s.index if isinstance(s, Store | Atomic) else ()
        yield from stmt_exprs(s) if isinstance(s, If | For | While) else ()
        yield from (i for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load) for i in x.index)


def _values(e: Expr) -> int:
    """How many values ``e`` can have whatever it is made of, by the bits that it takes: 16 of ``word & 15``."""
    match e:
        case Binary("&", a, b):
            masks = [n for x in (a, b) if (n := evaluate(x, {})) is not None]
            return int(masks[0]) + 1 if len(masks) == 1 and masks[0] > 0 else 0
        case Binary(">>", a, b) if isinstance(t := a.type, Scalar) and t.is_int and not t.is_signed:
            by = evaluate(b, {})
            return 1 << t.bits - int(by) if by is not None and 0 < by < t.bits else 0
    return 0


__all__ = ["packed_values"]
