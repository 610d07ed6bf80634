"""Sizes of a launch that a source compares: ``stride == width``, ``scale_stride == 0``, ``heads == 2 * groups``.

Numbers drawn one by one hardly ever are equal, and zero is no size: what a source does then would stay unchecked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used, walk_expr
from ktc.passes.raising.recognise.guards import VARYING

from .invented_arguments import Arguments, buffers, scalars_of
from .small_launches import MAX_THREADS, acceptable, launched

MOST_TIED = 4
"""How many comparisons are looked at: their subsets are tried, all of them together first."""

BASES = 3
"""How many sets of other sizes a subset is tried with."""


def ties_of(kernel: Kernel) -> list[tuple[str, Expr]]:
    """Integer parameters that ``kernel`` compares for equality, with what they are compared with: numbers that the
    launcher knows."""
    params = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)}
    named = definitions(kernel.body)
    out: dict[tuple[str, Expr], None] = {}
    for e in (x for whole in all_exprs(kernel.body) for x in walk_expr(expand(whole, named))):
        if not isinstance(e, Binary) or e.op not in ("==", "!="):
            continue
        for side, other in ((e.a, e.b), (e.b, e.a)):
            v = without_index_casts(side)
            mine = isinstance(v, Var) and v.sym in params and isinstance(v.sym.type, Scalar) and v.sym.type.is_int
            if (
                mine
                and used(other) <= params - used(side)
                and not any(isinstance(x, VARYING) for x in walk_expr(other))
            ):
                out.setdefault((v.sym.name, other))  # type: ignore[attr-defined]
                break
    return list(out)


def tied_arguments(
    kernel: Kernel, sets: Sequence[Arguments], seed: int, within: float = math.inf
) -> Iterator[Arguments]:
    """``sets`` with fresh buffers, in which some such comparisons hold, for runs of at most ``within`` statements."""
    ties = ties_of(kernel)[:MOST_TIED]
    for count in range(len(ties), 0, -1):
        for chosen, args in itertools.product(itertools.combinations(ties, count), sets[:BASES]):
            scalars = scalars_of(args)
            if _tied(kernel, scalars, (*chosen, *chosen)):  # twice: one may set what another compares with
                threads, names = launched(kernel, scalars), {name for name, _ in chosen}
                if 0 < threads <= MAX_THREADS and acceptable(kernel, scalars, names, within):
                    yield {**scalars, **buffers(kernel, seed + count, False, threads)}


def _tied(kernel: Kernel, scalars: dict[str, int | float], ties: Sequence[tuple[str, Expr]]) -> bool:
    """Makes ``ties`` hold, one after the other; False where what is known of a parameter forbids it."""
    facts = {p.sym.name: p for p in kernel.params}
    for name, other in ties:
        value = evaluate(other, kernel.environment(scalars))
        (low, high), step = facts[name].range, facts[name].divisible_by
        if value is None or value % step or not _within(value, low, high):
            return False
        scalars[name] = int(value)
    return True


def _within(value: int | float, low: int | None, high: int | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


__all__ = ["tied_arguments", "ties_of"]
