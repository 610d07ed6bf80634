"""Layers that each thread walks through one after another, though none needs another one: stencils of a volume whose
threads are spread over its planes, with values of neighbouring layers in registers or loaded again.

The normal form has a parallel loop over the layers, so blocks take some of them each: more threads wait for memory at a
time, and a thread may stack rows as well as layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.named_loops import loops

from .trials import wherever


def side_by_side(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The kernel with parallel loops for all that its threads go through, and the steps that lead to it; nothing if
    some of that cannot be parallel, or nothing is gone through."""
    before, normal = wherever(raised, "normalise")
    inside = [s for s in walk(normal.body) if isinstance(s, For | Reduce)]
    if before and not inside and any(isinstance(s, Par) and _is_walked(s) for s in loops(normal)):
        yield before, normal


def _is_walked(loop: Par) -> bool:
    return all(level.kind == "seq" for level in loop.dist)


__all__ = ["side_by_side"]
