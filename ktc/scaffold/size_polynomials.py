"""Polynomials over sizes: what the largest index of a buffer is, and the dimensions that it is made of.

A polynomial maps products to numbers: ``3 * n * d + 1`` is ``{("d", "n"): 3, (): 1}``. A factor is a size or any text
that a workload can evaluate: ``(n / 4)``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from ktc.ir.workload.reference import parse

Polynomial = dict[tuple[str, ...], int]

MOST_PRODUCTS = 64
"""A polynomial of more products is no shape that anybody writes."""


def number(n: int) -> Polynomial:
    return {(): n} if n else {}


def named(text: str) -> Polynomial:
    return {(text,): 1}


def plus(a: Mapping[tuple[str, ...], int], b: Mapping[tuple[str, ...], int], times_b: int = 1) -> Polynomial:
    """``a + times_b * b``."""
    out = dict(a)
    for product, n in b.items():
        out[product] = out.get(product, 0) + times_b * n
    return {p: n for p, n in out.items() if n}


def times(a: Mapping[tuple[str, ...], int], b: Mapping[tuple[str, ...], int]) -> Polynomial:
    out: Polynomial = {}
    for p, n in a.items():
        for q, m in b.items():
            key = tuple(sorted((*p, *q)))
            out[key] = out.get(key, 0) + n * m
    return {p: n for p, n in out.items() if n}


def polynomial(text: str) -> Polynomial:
    """The polynomial that an integer expression of a workload is; what is no sum or product in it is a factor."""

    def of(e: ast.AST) -> Polynomial:
        match e:
            case ast.Constant(value=int() as n):
                return number(n)
            case ast.BinOp(left=a, op=ast.Add() | ast.Sub() as op, right=b):
                return plus(of(a), of(b), 1 if isinstance(op, ast.Add) else -1)
            case ast.BinOp(left=a, op=ast.Mult(), right=b):
                return times(of(a), of(b))
            case ast.Name(id=name):
                return named(name)
            case ast.Call():
                return named(ast.unparse(e))
        return named(f"({ast.unparse(e)})")

    return of(parse(text))


def text_of(p: Mapping[tuple[str, ...], int]) -> str:
    """The polynomial as a workload writes it, its longest products first, what is taken off last."""
    parts = []
    for product, n in sorted(p.items(), key=lambda i: (i[1] < 0, -len(i[0]), i[0])):
        factors = [str(abs(n))] if abs(n) != 1 or not product else []
        parts.append(("-" if n < 0 else "+") + " " + " * ".join([*factors, *product]))
    return " ".join(parts).removeprefix("+ ").replace("- ", "-", 1 if parts and parts[0][0] == "-" else 0) or "0"


def quotient(p: Mapping[tuple[str, ...], int], by: Mapping[tuple[str, ...], int]) -> Polynomial | None:
    """``p`` divided by ``by``, a sum with one size alone in it; None if there is a rest."""
    name = next(
        (q[0] for q, n in by.items() if len(q) == 1 and n == 1 and not any(q[0] in o for o in by if o != q)), None
    )
    if name is None:
        return None
    rest, out = dict(p), dict[tuple[str, ...], int]()
    while True:
        leading = max((q for q in rest if name in q), key=lambda q: q.count(name), default=None)
        if leading is None:
            return out if not rest else None
        factors = list(leading)
        factors.remove(name)
        part = {tuple(factors): rest[leading]}
        out = plus(out, part)
        rest = plus(rest, times(part, by), -1)
        if len(rest) > MOST_PRODUCTS:
            return None


def dimensions(p: Polynomial, candidates: Iterable[Polynomial]) -> tuple[int, list[str]]:
    """A number and factors whose product ``p`` is: of the ``candidates``, of the sizes, and what is left when it is
    divided by those."""
    left, found = p, []
    for by in (*candidates, *map(named, sorted({f for product in p for f in product}))):
        while len(left) > 1 and (q := quotient(left, by)) is not None:
            left = q
            found.append(text_of(by))
    if len(left) != 1:
        return 1, [text_of(left), *reversed(found)]
    ((product, count),) = left.items()
    return count, [*product, *reversed(found)]


def divided(p: Mapping[tuple[str, ...], int], by: str) -> Polynomial:
    """``p / by`` as a factor."""
    text = text_of(p)
    return named(f"({text} / {by})" if text.isidentifier() else f"(({text}) / {by})")
