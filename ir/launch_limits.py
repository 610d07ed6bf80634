"""What every launch keeps to, on any device: threads of a warp and of a block, blocks of a grid, in all and by axis."""

from __future__ import annotations

from collections.abc import Iterator

from .fold import evaluate
from .kernel import Kernel, producer_threads
from .nodes import Expr

WARP = 32
"""Lanes of a logical warp, which is what programs mean by one; hardware may run several of them in lockstep."""

MAX_BLOCK = (1024, 1024, 64)

MAX_BLOCK_THREADS = 1024

MAX_GRID = ((1 << 31) - 1, 65535, 65535)
"""CUDA C++ Programming Guide, technical specifications per compute capability (the same from 5.0 to 10.0)."""

Limit = tuple[str, tuple[Expr, ...], int]
"""What is limited, the numbers of which the product is, and the most that it may be."""


def limits(kernel: Kernel) -> Iterator[Limit]:
    """What a launch of ``kernel`` may not exceed."""
    launch = kernel.launch
    if launch is None:
        return
    for level, extents, most in (("grid", launch.grid, MAX_GRID), ("block", launch.block, MAX_BLOCK)):
        yield from ((f"{level}.{axis}", (e,), n) for axis, e, n in zip("xyz", extents, most))
    room = MAX_BLOCK_THREADS - producer_threads(kernel)  # which are beside those of the launch, and of its bound
    bound = evaluate(launch.max_threads, kernel.knob_values) if launch.max_threads is not None else None
    yield "threads of a block", launch.block, room if bound is None else min(room, int(bound))
