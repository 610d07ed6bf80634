"""Atomics by which the iterations of an inner loop update what their row alone chooses: the gradient of a pixel's
weight, summed over channels, beside those of the channels, which go where the data say.

    par p: par c                                           par p: reduce(+) t over c      one atomic a row
      atomic add dw[p], x[f * m + c] * dy[p * m + c]         atomic add dw[p], t
      atomic add dx[f * m + c], w[p] * dy[p * m + c]       par p: par c                   as they were
                                                             atomic add dx[f * m + c], w[p] * dy[p * m + c]

The threads of a row take its elements side by side, and its sums meet in registers. What they update side by side, they
update one by one: lanes a vector apart would each touch a sector of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ktc.agent.embedded.nest_shapes import Idea
from ktc.agent.embedded.trials import after
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import Atomic, Par, Reduce, bodies
from ktc.ir.walk import walk
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.places import place_of

GAIN = 15.0
"""What one atomic a row is worth against one an element, which wait for each other."""

SHARED = (("block.{axis}", "thread.x $T", "a block a row"),)
ALONE = (("thread.y $ROWS:(4,8,2), block.{axis}", "thread.x $LANES:(32,16,8)", "a warp a row"),)
"""Levels of the row, and of what its threads share: of long rows and of short ones."""

LONG = 16 * WARP
"""Elements of a row from which on there are enough for a block."""

AXES = "xyz"


def inner_updates(kernel: Kernel, seen: Sequence[KernelFacts], able: Callable[[str], bool]) -> Iterator[Idea]:
    """Steps on ``kernel`` with why and a guess of the gain. ``seen``: facts of ``kernel`` at the sizes that it is tuned
    for; ``able`` says whether steps can be lowered."""
    for loop in (s for s in loops(kernel) if isinstance(s, Par)):
        around = _around(kernel, loop)
        own = f"reduce-atomics{{loop={place_of(kernel, loop)}}}"
        summed = after(kernel, own) if 0 < len(around) <= len(AXES) else None
        if summed is None:
            continue
        for row, levels, why in SHARED + ALONE if _is_long(loop, seen) else ALONE + SHARED:
            for wide in ("vec $V, ", ""):
                steps = f"{own} | {_mapped(summed, kernel, loop, around, row, levels, wide)}"
                if able(steps):
                    yield steps, f"what a row's iterations all update, as sums of the row: {why}", GAIN
                    break
        return


def _around(kernel: Kernel, loop: Par) -> list[Par]:
    """Parallel loops around ``loop``, outermost first."""
    return [s for s in walk(kernel.body) if isinstance(s, Par) and any(x is loop for b in bodies(s) for x in walk(b))]


def _is_long(loop: Par, seen: Sequence[KernelFacts]) -> bool:
    trips = [x.typical for f in seen for x in f.loops if x.name == loop.var.name]
    return any(n is None or n >= LONG for n in trips)


def _mapped(summed: Kernel, kernel: Kernel, loop: Par, around: Sequence[Par], row: str, levels: str, wide: str) -> str:
    """The step that gives the levels ``row`` to the innermost loop ``around``, blocks to the others, and ``levels`` to
    what is left of ``loop`` and to the sums, in vectors (``wide``) where nothing is updated atomically."""
    old = {s.var for s in loops(kernel)}
    each = {place_of(summed, s): f"block.{a}" for s, a in zip(around, AXES[1:] + AXES[:1])}
    each[place_of(summed, around[-1])] = row.format(axis=AXES[0])
    for s in _inner(summed, around[-1]):
        if isinstance(s, Par) and s.var not in old:
            each[place_of(summed, s)] = "seq"  # which of the row's elements
        elif isinstance(s, Reduce) or s.var == loop.var:
            updates = any(isinstance(x, Atomic) for x in walk(s.body))
            ahead = "unroll $U:(1,2,4), " if updates else wide
            each[place_of(summed, s)] = f"{ahead}{levels}, seq"
    return f"map{{{' '.join(f'{name}=[{of}]' for name, of in each.items())}}}"


def _inner(kernel: Kernel, row: Par) -> list[Loop]:
    """The parallel loops in the loop that ``row`` has become."""
    here = next(s for s in loops(kernel) if s.var == row.var)
    return [s for s in loops(kernel) if any(x is s for b in bodies(here) for x in walk(b))]


__all__ = ["inner_updates"]
