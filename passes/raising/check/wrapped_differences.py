"""Sizes at which differences of unsigned numbers wrap: ``c - 1u < w - 2u`` is no bound of ``c`` where ``w`` is 1.

Sources hardly mean anything there, and are defined all the same: rows of one element that threads beyond them write.
Drawn sizes are rarely so, and then mostly several of them at once, where accesses leave their buffers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Cast, Expr, Sym
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used

from .small_launches import acceptable, drawn, launched

OTHERS = (3, 2)
"""What other sizes are meanwhile: rows and columns that have an inside, if hardly one."""

MOST = 4
"""Sizes, of those that wrap."""


def wrapping(kernel: Kernel) -> dict[Sym, int]:
    """The sizes from which ``kernel`` takes a number, as unsigned ones, and the largest at which that wraps."""
    sizes = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
    found: dict[Sym, int] = {}
    for e in all_exprs(kernel.body):
        if (less := _unsigned_difference(e)) is None:
            continue
        by, left = evaluate(less.b, kernel.knob_values), used(less.a)
        if by is not None and len(left) == 1 and left <= sizes and by >= 1:
            size = next(iter(left))
            found[size] = max(found.get(size, 0), int(by) - 1)
    return {s: n for s, n in found.items() if n >= 1}


def _unsigned_difference(e: Expr) -> Binary | None:
    """A difference that is unsigned, or is taken for it."""
    inner = e.x if isinstance(e, Cast) else e
    unsigned = isinstance(e.type, Scalar) and e.type.is_int and not e.type.is_signed
    return inner if unsigned and isinstance(inner, Binary) and inner.op == "-" else None


def wrapped_sizes(kernel: Kernel, seed: int, within: float, most: int) -> Iterator[dict[str, int | float]]:
    """Sizes of which one is so small that a difference wraps, and a launch at them."""
    rng = random.Random(seed)
    for size, largest in list(wrapping(kernel).items())[:MOST]:
        for n in dict.fromkeys((1, largest)):
            for rest in OTHERS:
                at = {p.sym.name: [n if p.sym == size else rest] for p in kernel.params}
                scalars = drawn(kernel, rng, at)
                if 0 < launched(kernel, scalars) <= most and acceptable(kernel, scalars, within=within):
                    yield scalars


__all__ = ["wrapped_sizes", "wrapping"]
