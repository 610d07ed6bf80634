"""Planes whose neighbouring threads are a row of memory apart.

    par y @ [thread.y], x @ [thread.x]: out[x * n + y] = f(in[x * n + y])      par x @ [thread.y], y @ [thread.x]: ..

The loop along which memory runs takes the threads' fast axis and goes inside; what else a planner thinks of begins
there. Where some accesses run along one loop and some along the other, see :mod:`.turned`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Par
from ktc.ir.walk import walk
from ktc.passes.core.places import place_of

from .trials import after

LEVELS = "[thread.y 8, block.y]", "[thread.x 32, block.x]"
"""Where the loop across memory and the one along it begin."""


def along_memory(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The steps that turn the axes of a plane, with a bar behind them, and ``raised`` after them."""
    found = [a for a in accesses(raised) if a.space == "global"]
    for outer in (s for s in walk(raised.body) if isinstance(s, Par) and len(s.body) == 1):
        inner = outer.body[0]
        if isinstance(inner, Par) and _fast(inner) and not _fast(outer) and _runs_along(found, outer, inner):
            across, along = place_of(raised, inner), place_of(raised, outer)
            steps = f"interchange{{outer={along}}} | map{{{across}={LEVELS[0]} {along}={LEVELS[1]}}}"
            done = after(raised, steps)
            if done is not None:
                yield f"{steps} | ", done


def _fast(s: Par) -> bool:
    return any(lv.kind == "thread" and lv.axis == "x" for lv in s.dist)


def _runs_along(found: list[Access], outer: Par, inner: Par) -> bool:
    """Whether accesses that both move run along ``outer``, and none along ``inner``: what one of them moves is read a
    row or a column at a time, which is little beside the plane."""
    inside = [a for a in found if any(x.stmt is inner for x in a.axes)]
    mine = [a for a in inside if a.moves(outer.var.name) and a.moves(inner.var.name)]
    unit = [[a for a in mine if a.pattern(s.var.name) == "unit"] for s in (outer, inner)]
    return bool(unit[0]) and not unit[1]


__all__ = ["along_memory"]
