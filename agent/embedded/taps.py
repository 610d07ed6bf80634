"""Windows around an element, gone through by short serial loops: written out, their places are worked out once.

    par y in 0..h @ [thread.y 16, block.y]
      par x in 0..w @ [thread.x 16, block.x]
        for i in -3..4
          for j in -3..4
            s += f(in[clamp(y + i) * w + clamp(x + j)])

Only tiles at the edges of the image need to ask where these are (``split-edges``). What depends on the tap alone is
then in a table, or known when the loops are unrolled, and rows in one thread share what they read. Where edges cannot
be told apart, rows and columns of the window are still worked out once for all taps of a row or a column of it. What is
left is arithmetic: where it has quotients or functions that the device approximates, these come first, since nothing
else in such a kernel costs as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Par
from ktc.ir.walk import walk
from ktc.passes.core.places import place_of
from ktc.passes.scalar.fast_math import present
from ktc.passes.shared.serial_sums import known_count

from .nest_shapes import Idea, in_tiles
from .rows import outermost
from .trials import after

MOST_TAPS = 128
"""Iterations of all the loops that are written out."""

TILE = {"y": "$TY:(4,8)", "x": "$TX:(16,32)"}
INSIDE = {"y": "unroll $UY:(1,2,4), thread.y $RY:(2,4)", "x": "thread.x $TX:(16,32)"}
"""Elements of a tile by axis, and the levels that take them: rows in one thread share rows of their windows. Tiles are
small, so that some without an edge are found in what verification runs."""

BLOCK = {"y": "$TY:(2,4,8)", "x": "$TX:(32,64,128)"}
"""Threads of a block by axis."""


def taps(raised: Kernel) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain."""
    spread = [s for s in walk(raised.body) if isinstance(s, Par) and [lv.kind for lv in s.dist] == ["thread", "block"]]
    axes = [s.dist[0].axis or "x" for s in spread]
    if not spread or not set(axes) <= BLOCK.keys() or len(set(axes)) < len(axes):
        return
    nest = _nest(raised, spread[-1])
    if not nest:
        return
    unrolled = "".join(f" | unroll{{loop={name} factor={n}}}" for name, n in nest)
    levels = (f"{s.var.name}=[thread.{a} {BLOCK[a]}, block.{s.dist[1].axis or 'x'}]" for s, a in zip(spread, axes))
    fast = f" | fast-math{{fns={','.join(functions)}}}" if (functions := present(raised)) else ""
    for steps, why, gain in (
        (_apart(raised, spread, axes, nest), "a window written out where no edge is near", 4.0),
        (f"map{{{' '.join(levels)}}}", "a window written out: its rows and columns are worked out once", 2.0),
    ):
        if steps and fast:
            yield f"{steps}{unrolled}{fast}", f"{why}, approximations of the device", gain + 1
        if steps:
            yield f"{steps}{unrolled}", why, gain


def _apart(raised: Kernel, spread: Sequence[Par], axes: Sequence[str], nest: Sequence[tuple[str, int]]) -> str:
    """Steps by which tiles that no edge touches have code of their own; '' where there are no edges to be told."""
    names = [s.var.name for s in spread]
    steps = in_tiles(names, [TILE[a] for a in axes], [INSIDE[a] for a in axes])
    steps += f" | split-edges{{loop={names[-1]}_tile}}"
    if after(raised, steps) is None:
        return ""
    table = f"{steps} | tabulate{{loop={','.join(name for name, _ in reversed(nest))}}}"
    return table if after(raised, table) is not None else steps


def _nest(raised: Kernel, inner: Par) -> list[tuple[str, int]]:
    """The loops over a window in ``inner`` and their lengths, innermost first; none where there are several windows, or
    a window is long."""
    out: list[tuple[str, int]] = []
    inside = outermost(inner.body)
    while len(inside) == 1:
        (loop,) = inside
        n = known_count(loop)
        if n is None:
            return []
        out.append((place_of(raised, loop), n))
        inside = outermost(loop.body)
    return out[::-1] if not inside and out and 1 < prod(n for _, n in out) <= MOST_TAPS else []


__all__ = ["taps"]
