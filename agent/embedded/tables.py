"""Values that all threads of a block compute alike: powers of a time step, weights of a filter's taps.

    par j in 0..n @ [thread.x 256, block.x]
      for t in 1..steps
        v[j] = v[j] / (1.0 - pow(b, t)) + g[j]

They depend on the counters of serial loops alone, and are most of what each thread does. A block computes each once,
and its threads read a table (``tabulate``): of a tile of the loop where that is long, of all of it where it is short.
A private array that each thread fills alike is such a table already, which a block needs once (``share-array``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, For, Par
from ktc.ir.storage import is_local_array
from ktc.ir.walk import walk
from ktc.passes.core.places import place_of
from ktc.passes.shared.serial_sums import known_count

from .nest_shapes import Idea, in_tiles
from .rows import outermost
from .trials import after, wherever, with_fast_quotients

THREADS, PLANE = "$R:(32,64,128,256)", ("$TY:(4,8,16)", "$TX:(32,64)")
"""Threads of a block along a line, and of one over a plane, rows first."""

SEVERAL = {"y": ("$TY:(8,16,32)", "unroll $UY:(2,4,1), thread.y $RY:(4,8)"),
           "x": ("$TX:(64,128,256)", "unroll $UX:(2,1,4), thread.x $RX:(32,64,128)")}  # fmt: skip
"""Tiles by axis, and the levels that take them: several elements a thread, for what a block fills before it begins."""

STEPS = "$C:(64,128,256)"
"""Iterations of a long loop that a table is for."""

TAPS = 64
"""Iterations of a loop of constant length up to which a table holds all of them."""


def tables(raised: Kernel) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain."""
    before, kernel = wherever(raised, "promote")  # what is updated again and again, in variables
    spread = [s for s in walk(kernel.body) if isinstance(s, Par) and {"thread", "block"} <= {lv.kind for lv in s.dist}]
    if not 1 <= len(spread) <= len(PLANE):
        return
    sizes = (THREADS,) if len(spread) == 1 else PLANE
    names = [p.var.name for p in spread]
    axes = "yx"[-len(names) :]
    steps = before + in_tiles(names, sizes, [f"thread.{a} {size}" for a, size in zip(axes, sizes)])
    several = before + in_tiles(names, *zip(*(SEVERAL[a] for a in axes)))
    for array in (s.sym.name for s in walk(spread[-1].body) if isinstance(s, Alloc) and is_local_array(s.sym)):
        for tiled, more in ((several, ", for several elements a thread"), (steps, "")):
            idea = f"{tiled} | share-array{{array={array}}}"
            if after(raised, idea) is None:
                continue
            why = f"an array that all threads fill alike, filled once a block{more}"
            if fast := with_fast_quotients(raised, idea):
                yield fast, f"{why}, quotients without branches", 17.0
            yield idea, why, 16.0
    for loop in outermost(spread[-1].body):
        name = place_of(kernel, loop)
        taps = [place_of(kernel, s) for s in _short(loop)]
        if taps:
            idea = f"{steps} | tabulate{{loop={','.join(taps)}}}"
        else:
            tiled = f"{steps} | tile{{loops={name} sizes={STEPS}}} | register-tile{{loop={name}_tile}}"
            idea = f"{tiled} | tabulate{{loop={name}}} | unroll{{loop={name} factor=$U:(1,2,4)}}"
        if after(raised, idea) is not None:
            why = "what all threads compute alike, once a block"
            fast = "" if taps else with_fast_quotients(raised, idea)
            yield from ([(fast, f"{why}, quotients without branches", 8.0)] if fast else [])
            yield idea, why, 4.0


def _short(loop: For) -> Sequence[For]:
    """``loop`` and what it alone holds, as far as these loops have a known, small number of iterations."""
    count = known_count(loop)
    if count is None or count > TAPS:
        return []
    inner = [s for s in loop.body if isinstance(s, For)]
    return [loop, *(_short(inner[0]) if len(inner) == 1 else [])]


__all__ = ["tables"]
