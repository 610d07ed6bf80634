"""Sizes before and after something is resized: those of which the host makes a scale, ``(float)height / out``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from ktc.ir.workload import reference

from ..model import Draft
from ..windows import names_in

SCALE = 2
"""How many times as large what is resized becomes."""

SCALED = 2
"""Axes that become larger: of images, not of how many there are."""


def resized(d: Draft, sizes: Mapping[str, int], legal: Callable[[Mapping[str, int]], bool]) -> dict[str, int]:
    """``sizes`` with outputs ``SCALE`` times as large as inputs along axes that the host says the scales of: resized to
    what it was, an image says little of how long that takes. As they are where that is no legal launch."""
    found = dict(sizes)
    for k, (before, after) in enumerate(_axes(d)):
        wanted = max(sizes[after] // SCALE, 1) if k < SCALED else sizes[after]
        found[before] = wanted if wanted % d.steps.get(before, 1) == 0 else found[before]
    return found if found != sizes and legal(found) else dict(sizes)


def _axes(d: Draft) -> list[tuple[str, str]]:
    """The extent of an input and that of the output, of each axis that has a scale."""
    outputs = [e for b, e in d.shapes.items() if e is not None and d.role(d.kernel.param(b)) != "in"]
    after = {n for e in outputs for text in e.shape for n in names_in(text)}
    found = dict[str, str]()
    for name in d.roles.reals:
        pair = _quotient(d.real(name) or "")
        inside = [n for n in pair if n in after]
        if len(pair) == 2 and len(inside) == 1 and set(pair) <= {*d.names}:
            found.setdefault(next(n for n in pair if n not in after), inside[0])
    return list(found.items())


def _quotient(text: str) -> list[str]:
    """The two names of ``a / b``, or of ``(a - 1) / (b - 1)``, where corners stay corners; none of any other."""
    match reference.parse(text):
        case ast.BinOp(left=a, op=ast.Div(), right=b):
            return [n for side in (a, b) if (n := _whole_or_less_one(side))]
        case ast.IfExp(body=a, orelse=b):
            return _quotient(ast.unparse(a)) or _quotient(ast.unparse(b))
    return []


def _whole_or_less_one(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.BinOp(left=ast.Name(id=name), op=ast.Sub(), right=ast.Constant(value=1)):
            return name
    return ""


__all__ = ["resized"]
