"""Buffers as large as what a source reads and writes of them, and places in them that lie close together.

An access beyond its buffer is a defect of the invented arguments, not of the source, and nothing is compared of what it
should have stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ktc.ir.interp.run import RunResult
from ktc.ir.kernel import Kernel
from ktc.ir.types import scalar_of

from .invented_arguments import MOST_ELEMENTS, Arguments

NEAR = 64
"""Places close together: no two of so many in a row are alike."""


def with_room(
    kernel: Kernel, args: Arguments, seed: int, run: Callable[[Arguments], RunResult], most: int = MOST_ELEMENTS
) -> tuple[Arguments, RunResult]:
    """``args`` as ``kernel`` needs them, and what ``run`` makes of these: buffers of more elements, up to twice
    ``most``, or smaller indices."""
    first, near = args, False
    while True:
        result = run(args)
        beyond = [f for f in result.findings if f.kind == "out-of-bounds" and f.buffer in args and f.index]
        size = max((np.size(args[f.buffer]) for f in beyond), default=0)
        least = max((f.index or 0 for f in beyond), default=0)
        if not beyond or least < size:
            return args, result
        if least < most:
            reached = {b: max(f.index or 0 for f in beyond if f.buffer == b) for b in {f.buffer for f in beyond}}
            args = enlarged(args, {b: 2 * index for b, index in reached.items()})
        elif near or (closer := nearby(kernel, first, seed)) is first:
            return args, result
        else:
            args, near = closer, True


def enlarged(args: Arguments, elements: Mapping[str, int]) -> Arguments:
    """``args`` with buffers of at least so many ``elements``, by name: their values over again."""
    return {n: _fixed(np.resize(v, elements[n])) if isinstance(v, np.ndarray) and v.size < elements.get(n, 0) else v
            for n, v in args.items()}  # fmt: skip


def nearby(kernel: Kernel, args: Arguments, seed: int) -> Arguments:
    """``args`` with whole numbers that may be places to scatter to small, though few neighbours are alike; ``args``
    itself where they are."""
    rng = np.random.default_rng(seed)
    out: Arguments = {}
    for p in kernel.params:
        t, values = scalar_of(p.sym.type), args.get(p.sym.name)
        if isinstance(values, np.ndarray) and t.is_int and t.bits >= 32 and values.max(initial=0) >= NEAR:
            rounds = -(-values.size // NEAR)
            small = np.concatenate([rng.permutation(NEAR) for _ in range(rounds)])[: values.size]
            out[p.sym.name] = _fixed(small.astype(values.dtype))
    return {**args, **out} if out else args


def _fixed(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False  # what an interpreter makes of it is made once
    return values


__all__ = ["with_room"]
