"""Blocks of two dimensions where two loops share what they read: a value that a loop does not move comes from memory
once a row (or column) of threads, and from the cache for the others.

For sums inside two parallel loops of which each leaves some operand where it is, and which no tiling takes: a sum under
a condition (causal scores), over a range of its own, of more than a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.places import place_of

from .nest_shapes import Idea

GAIN = 3.0
"""What threads side by side in two dimensions are worth over threads in a line, where the cache holds the operands."""

DOWN, ACROSS = "thread.y $TY:(4,8,16,32), block.y", "thread.x $TX:(8,16,32), block.x"
SUMMED = ("vec $V, unroll $U:(1,2,4), seq", "unroll $U:(2,4,8,16), seq")
"""Levels of the loop that sums, best first: wide accesses if it moves by one element."""


def planes(kernel: Kernel, able: Callable[[str], bool]) -> Iterator[Idea]:
    """Steps for ``kernel`` with why and a guess of the gain; ``able`` says whether steps can be lowered."""
    found = accesses(kernel)
    for summed in (s for s in walk(kernel.body) if isinstance(s, For | Reduce)):
        pair = _plane(found, summed)
        if pair is None:
            continue
        down, across = (place_of(kernel, s) for s in pair)
        steps = (
            f"map{{{down}=[{DOWN}] {across}=[{ACROSS}] {place_of(kernel, summed)}=[{levels}]}}" for levels in SUMMED
        )
        first = next((s for s in steps if able(s)), None)
        if first is not None:
            yield first, f"a block is a tile of '{down}' and '{across}', which share what they read", GAIN
        return


def _plane(found: list[Access], summed: For | Reduce) -> tuple[Par, Par] | None:
    """The two innermost parallel loops around ``summed``, that along which results are contiguous last, if each leaves
    something where it is that the other moves."""
    inside = [a for a in _within(found, summed) if a.space == "global"]
    around = [x.stmt for x in inside[0].axes if isinstance(x.stmt, Par)] if inside else []
    if len(around) < 2:
        return None
    outer, inner = around[-2:]
    moved = [(a.moves(outer.var.name), a.moves(inner.var.name)) for a in inside]
    if (True, False) not in moved or (False, True) not in moved:
        return None
    stored = [a for a in _within(found, inner) if a.mode == "write"]
    turn = bool(stored) and all(a.pattern(outer.var.name) == "unit" for a in stored)
    return (inner, outer) if turn else (outer, inner)


def _within(found: list[Access], loop: For | Par | Reduce) -> list[Access]:
    return [a for a in found if any(x.stmt is loop for x in a.axes)]


__all__ = ["planes"]
