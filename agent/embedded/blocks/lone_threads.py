"""Loops that one thread goes through for its block, as first versions of kernels have them, shared by all its threads.

    par r in 0..rows @ [block.x]
      par j in 0..n @ [thread.x 256, seq]
        s[j] = exp(x[r * n + j])
      for j_1 in 0..n                           parallelize{loop=j_1 map=[thread.x 256, seq]}
        total += s[j_1]

The source says ``if (threadIdx.x == 0)`` around such a loop, or each thread goes through all of it. It takes as many
steps as the block's other loops have elements, so that nothing else matters: all ideas begin with the loop shared.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Const, For, If, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.named_loops import Loop
from ktc.passes.core.places import place_of
from ktc.passes.shared.serial_sums import known_count

from ..trials import after

SHORT = 32
"""Iterations of a loop of constant length up to which it stays one thread's."""


def shared_by_the_block(raised: Kernel) -> tuple[str, Kernel]:
    """The steps, each with a bar behind it, that share the loops of lone threads like the first loop of their block
    that its threads share, and the kernel after them; '' and ``raised`` where there are none."""
    steps, kernel = "", raised
    for block in [s for s in walk(raised.body) if isinstance(s, Par) and _level(s, "block")]:
        own = list(_of_block(block.body))
        threads = next(filter(None, (_threads(s) for s in own if not isinstance(s, For))), "")
        for loop in own if threads else ():
            if not isinstance(loop, For) or _is_short(loop):
                continue
            step = f"parallelize{{loop={place_of(kernel, loop)} map=[{threads}, seq]}}"
            done = after(kernel, step)
            if done is not None:
                steps, kernel = f"{steps}{step} | ", done
    return steps, kernel


def _of_block(body: Body) -> Iterator[For | Loop]:
    """The outermost loops of ``body``, under conditions too."""
    for s in body:
        if isinstance(s, For | Par | Reduce):
            yield s
        elif isinstance(s, If):
            yield from _of_block((*s.then, *s.orelse))


def _level(loop: Loop, kind: str) -> bool:
    return any(lv.kind == kind for lv in loop.dist)


def _threads(loop: Loop) -> str:
    """The levels by which all threads of a block share ``loop``; '' where they do not, or their number is open."""
    levels = [lv for lv in loop.dist if lv.kind == "thread"]
    known = all(isinstance(lv.n, Const) for lv in levels)
    return ", ".join(f"thread.{lv.axis} {lv.n.value}" for lv in levels if isinstance(lv.n, Const)) if known else ""


def _is_short(loop: For) -> bool:
    count = known_count(loop)
    return count is not None and count <= SHORT


__all__ = ["shared_by_the_block"]
