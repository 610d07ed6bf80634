"""Lengths that a kernel computes from its sizes and goes from row to row by: ``pairs = n * (n - 1) / 2``.

Probes show how far such rows reach at a few sizes, where a square over 2 does as well as the number of pairs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Sym, Var

from ..given_values import definitions, made_of
from ..inner_strides import accesses
from ..windows import names_in, spelled


def computed_lengths(k: Kernel) -> list[str]:
    """The formulas over parameters of ``k``, other than products of them, by which an index is multiplied."""
    sources, params = definitions(k), {p.sym for p in k.params}
    found: dict[str, None] = {}
    for by in _factors((index for _, index in accesses(k)), sources):
        given = [] if by in params else sources.get(by, [])
        if len(given) == 1:
            text = spelled(given[0], params, sources)
            if text is not None and " - " in text and names_in(text):
                found[text] = None
    return list(found)


def _factors(indices: Iterator[Expr], sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[Sym]:
    """The variables that something is multiplied by in ``indices``, and in what those are made of."""
    for part in made_of(indices, sources, places=False):
        if isinstance(part, Binary) and part.op == "*":
            yield from (x.sym for side in (part.a, part.b) for x in [without_casts(side)] if isinstance(x, Var))


def folded(text: str) -> str:
    """A formula with its numbers added up, where it is one size and numbers: ``H - 2`` of ``H - 3 + 1``."""
    names, total = list[str](), 0

    def add(e: ast.expr, sign: int) -> bool:
        nonlocal total
        match e:
            case ast.Constant(int() as v):
                total += sign * v
                return True
            case ast.Name(name) if sign > 0:
                names.append(name)
                return True
            case ast.BinOp(a, ast.Add() | ast.Sub() as op, b):
                return add(a, sign) and add(b, sign if isinstance(op, ast.Add) else -sign)
        return False

    if not add(ast.parse(text, mode="eval").body, 1) or len(names) != 1:
        return text
    return f"({names[0]} {'-' if total < 0 else '+'} {abs(total)})" if total else names[0]


__all__ = ["computed_lengths", "folded"]
