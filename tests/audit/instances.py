"""Launches and arguments to audit a raised kernel on, made without a look at those that raising tries itself."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from ktc.ir.fold import evaluate, i32
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import HwIndex, Var, fresh
from ktc.ir.types import I32, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs, used, walk_expr
from ktc.ir.workload.input_data import numpy_dtype

MAX_THREADS, MAX_FIXED = 1 << 14, 1 << 18
"""Threads of a launch; of one whose size no argument changes."""

MAX_ELEMENTS = 1 << 18
PRIMES = (2, 3, 5, 7, 11, 13, 17, 31, 37, 61, 67, 97, 101, 127, 131, 251, 257, 509)
BLOCKS = {1: (128, 1, 1), 2: (16, 8, 1), 3: (8, 4, 2)}
"""Block shapes for kernels whose launch is not in their file, by how many axes they use."""

VALUES = ("small", "signed", "ties", "wide")


def with_launch(kernel: Kernel) -> Kernel:
    """``kernel`` with a launch: its own, or a usual block and a grid of open size on every axis it uses."""
    if kernel.launch is not None:
        return kernel
    used = {x.axis for e in all_exprs(kernel.body) for x in walk_expr(e) if isinstance(x, HwIndex)}
    axes = 3 if "z" in used else 2 if "y" in used else 1
    sizes = [fresh(f"grid_{a}", I32) for a in "xyz"[:axes]]
    grid = tuple(Var(sizes[k]) if k < axes else i32(1) for k in range(3))
    block = tuple(i32(n) for n in BLOCKS[axes])
    params = (*kernel.params, *(Param(s, range=(1, 7), host=True) for s in sizes))
    return kernel.with_(params=params, launch=Launch(grid, block, i32(4096)))  # type: ignore[arg-type]


def argument_sets(kernel: Kernel, count: int, seed: int) -> Iterator[tuple[str, dict]]:
    """``count`` argument sets of small launches, each with the kind of its values; fewer if none can be found."""
    rng = random.Random(f"{seed} {kernel.name}")
    made = 0
    for attempt in range(60 * count):
        if made == count:
            return
        scalars = _scalars(kernel, rng, attempt)
        if not _small(kernel, scalars):
            continue
        values = VALUES[made % len(VALUES)]
        buffers = _buffers(kernel, values, np.random.default_rng(rng.randrange(1 << 30)))
        made += 1
        yield values, {**scalars, **buffers}


def _scalars(kernel: Kernel, rng: random.Random, attempt: int) -> dict[str, int | float]:
    pool = _sizes(kernel, rng, attempt)
    out: dict[str, int | float] = {}
    for p in kernel.params:
        t = p.sym.type
        if not isinstance(t, Scalar):
            continue
        if t.is_float:
            out[p.sym.name] = rng.choice((0.5, -1.0, 3.0, 2.0))
        elif t.kind == "bool":
            out[p.sym.name] = rng.randrange(2)
        else:
            lo, hi = p.range
            fit = [n for n in pool if (lo is None or n >= lo) and (hi is None or n <= hi) and n % p.divisible_by == 0]
            n = rng.choice(fit) if fit else (lo or p.divisible_by)
            out[p.sym.name] = min(n, 127) if t.bits == 8 else n
    return out


def _sizes(kernel: Kernel, rng: random.Random, attempt: int) -> list[int]:
    """Around multiples of the block, primes, one; now and then one size for all, or small ones only."""
    launch = kernel.launch
    assert launch is not None
    blocks = [n for e in launch.block if isinstance(n := evaluate(e, kernel.knob_values), int) and n > 1] or [32]
    near = [max(1, b * k + d) for b in (*blocks, 32) for k in (1, 2) for d in (-1, 0, 1)]
    kind = attempt % 6
    if kind == 0:
        return [rng.choice((*PRIMES, *near))]
    if kind == 1:
        return [1, 2, 3, 4, 5]
    if kind == 2:
        return [n for n in near if n % 4 == 0] or near
    return [1, *near, *PRIMES] if kind == 3 else [n for n in (*near, *PRIMES, 4, 8, 64) if n < 140]


def _small(kernel: Kernel, scalars: dict[str, int | float]) -> bool:
    env = kernel.environment(scalars)
    launch = kernel.launch
    assert launch is not None
    threads = 1
    for e in (*launch.grid, *launch.block):
        n = evaluate(e, env)
        if n is None or n < 1:
            return False
        threads *= int(n)
    fixed = not any(used(e) for e in (*launch.grid, *launch.block))
    small = threads <= (MAX_FIXED if fixed else MAX_THREADS)
    return small and all(evaluate(a.expr, env) in (True, None) for a in kernel.assumptions)


def _buffers(kernel: Kernel, values: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    out = {}
    for p in kernel.params:
        if not isinstance(p.sym.type, Ptr) or p.init:
            continue
        t = scalar_of(p.sym.type)
        lanes = p.sym.type.elem.n if isinstance(p.sym.type.elem, Vec) else 1
        size = MAX_ELEMENTS * (lanes if isinstance(lanes, int) else 1)
        size = p.extent or size
        if t.is_int and t.bits >= 32 and values == "wide":
            got = rng.permutation(size)  # places to scatter to
        elif values == "ties":
            got = rng.integers(0, 3, size)
        elif values == "small" or not t.is_signed:
            got = rng.integers(0, 9, size)
        elif values == "signed":
            got = rng.integers(-7, 8, size)
        else:
            got = rng.integers(-20000, 20000, size) if t.bits >= 32 else rng.integers(-50, 50, size)
        out[p.sym.name] = got.astype(numpy_dtype(t.name))
    return out
