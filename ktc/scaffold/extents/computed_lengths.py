"""Lengths that a kernel computes from its sizes and goes from row to row by: ``pairs = n * (n - 1) / 2``.

Probes show how far such rows reach at a few sizes, where a square over 2 does as well as the number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Sym, Var

from ..given_values import definitions, made_of
from ..inner_strides import accesses
from ..size_polynomials import polynomial, text_of
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
    p = polynomial(text)
    sizes = [product for product in p if product]
    if len(sizes) != 1 or p[sizes[0]] != 1 or len(sizes[0]) != 1 or not sizes[0][0].isidentifier():
        return text
    return f"({text_of(p)})" if () in p else sizes[0][0]


__all__ = ["computed_lengths", "folded"]
