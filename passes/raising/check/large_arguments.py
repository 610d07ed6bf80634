"""Argument sets beyond the sizes that a source's constants speak of: more than a block or a tile holds at once.

A tree over 1024 threads that leaves half of them out, a tile of 512 elements that is filled once only, a branch for
rows beyond 2048: at a few hundred elements each looks like the loop it almost is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain
from math import inf, prod

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import evaluate
from ktc.ir.interp.execution.run_state import work_of
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Alloc, Const, Expr, HwIndex, Var
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import all_exprs, map_expr, used, walk, walk_expr
from ktc.passes.raising.recognise.statement_kinds import HOST_THREADS

from .invented_arguments import SIZES, Arguments, buffers, chooses
from .peaked_rows import PARTS as ROWS
from .peaked_rows import peaked
from .run_length import statements
from .small_launches import MAX_THREADS, acceptable, drawn, launched

LARGEST_REACH = 1 << 12
MOST_REACHES, MOST_VARIED = 2, 6
"""How many of the source's numbers, largest first, and how many of its parameters are tried."""

BLOCKS = (1024, 992, 512)
"""Sizes of a block beyond ``SIZES``: what a device takes at most, whole warps but no power of two, half of it."""

PARTS = (512, 336, 256, 192, 128, 96)
"""Sizes of each part of a block that the host computes from several: together more threads than a block usually has."""


MAX_WHOLE = 1 << 15
"""Threads of a launch in which one extent of the grid is as large as it gets."""

MAX_FAR = 1 << 18
"""Threads of a launch whose grid grows with the size that is just large enough, as that of square matrices does, where
a run of few statements is cheap all the same."""


def reaches(kernel: Kernel) -> list[int]:
    """Numbers that ``kernel`` compares, steps, indexes and allocates by, too large for ``SIZES`` to exceed them twice:
    the largest, and the threads of a block."""
    launch = kernel.launch
    assert launch is not None
    sizes = [evaluate(e, kernel.knob_values) for e in launch.block]
    block = {HwIndex("block_dim", a): Const(int(n), I32) for a, n in zip("xyz", sizes) if n is not None}
    threads = prod(int(n or 1) for n in sizes)
    found: set[int] = {threads}

    def known(e: Expr) -> Expr:
        return block.get(e, e) if isinstance(e, HwIndex) else e

    shapes = [n for s in walk(kernel.body) if isinstance(s, Alloc) and isinstance(s.sym.type, Array)
              for n in s.sym.type.shape]  # fmt: skip
    for e in (*all_exprs(kernel.body), *shapes):
        for x in walk_expr(e):
            if isinstance(x.type, Scalar) and x.type.is_int and not used(x):
                v = evaluate(map_expr(x, known), kernel.knob_values)
                found.add(int(v) if v is not None else 0)
    large = sorted((v for v in found if 2 * v > max(SIZES) and v <= LARGEST_REACH), reverse=True)
    return [*large[:MOST_REACHES], *(v for v in large[MOST_REACHES:] if v == threads)]


def far_arguments(kernel: Kernel, seed: int, within: float = inf) -> Iterator[Iterator[Arguments]]:
    """For every size in turn, sets in which it lies beyond what the source reaches at once, the best first.

    Other sizes are small, and a run takes at most ``within`` statements, as far as sizes say that. A size of a block is
    as large as a device takes; there is work for all of its threads.
    """
    launch = kernel.launch
    assert launch is not None
    yield from _whole_axes(kernel, seed, within)
    far = reaches(kernel)
    chosen = {s.name for e in launch.block for s in used(e)}
    varied = [p for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int]
    blocks = [p for p in varied if p.sym.name in chosen]
    for p in blocks[:1]:
        yield _sets(kernel, p, [(size, size + 1) for size in BLOCKS] + [(size, size) for size in BLOCKS], seed, within)
    if len(blocks) > 1:
        yield _computed_blocks(kernel, blocks, seed, within)
    if far:
        wide = [(2 * r + 3, rest) for r in far for rest in (3, 2)] + [(3 * r, 32) for r in far]
        near = [(r + r // 2 + 1, 3) for r in far]
        for p in [p for p in varied if p not in blocks and p.sym.type.bits >= 32][:MOST_VARIED]:  # type: ignore[attr-defined]
            yield chain(_sets(kernel, p, wide, seed, within), _sets(kernel, p, near, seed, within, MAX_FAR))
            if chooses(kernel):
                yield chain.from_iterable(_peaked(kernel, p, r, seed, within) for r in far)


def _peaked(kernel: Kernel, p: Param, reach: int, seed: int, within: float) -> Iterator[Arguments]:
    """Sets of many rows, each of which has its extremes in another part of ``reach``."""
    row = 2 * reach + 3
    for args in _sets(kernel, p, [(row, ROWS)], seed, within, MAX_FAR, ROWS):
        for whole in (True, False):
            yield {**args, **peaked(kernel, args, row, reach, seed, whole)}


def _computed_blocks(kernel: Kernel, parts: list[Param], seed: int, within: float) -> Iterator[Arguments]:
    """Sets in which a block that is computed from ``parts`` has many threads, the largest first, with work for all."""
    launch = kernel.launch
    assert launch is not None
    chosen, rng = {p.sym.name for p in parts}, random.Random(seed)
    counts = {s.name: [2] for e in launch.grid for s in used(e) if s.name not in chosen}
    for size in PARTS:
        at = {p.sym.name: [min(size, p.range[1] or size) if p in parts else 2 * size] for p in kernel.params}
        scalars = drawn(kernel, rng, at | counts)
        block = prod(int(evaluate(e, kernel.environment(scalars)) or 0) for e in launch.block)  # type: ignore[arg-type]
        if HOST_THREADS < block <= BLOCKS[0]:
            yield from _filled(kernel, scalars, chosen, seed, within)


def _whole_axes(kernel: Kernel, seed: int, within: float) -> Iterator[Iterator[Arguments]]:
    """For every number of blocks that is known to end somewhere, the set in which it is at its end, others at one."""
    launch = kernel.launch
    assert launch is not None
    counts = {e.sym for e in map(without_index_casts, launch.grid) if isinstance(e, Var)}
    ends = [p for p in kernel.params if p.host and p.sym in counts and p.range[1] is not None]
    rng = random.Random(seed)
    for p in ends:
        at = {q.sym.name: [(q.range[1] or 1) if q is p else 1 if q in ends else 3] for q in kernel.params}
        scalars = drawn(kernel, rng, at)
        threads = launched(kernel, scalars)
        if 0 < threads <= MAX_WHOLE and acceptable(kernel, scalars, scalars, within):
            yield iter(({**scalars, **buffers(kernel, seed, False, threads)},))


def _sets(
    kernel: Kernel,
    p: Param,
    sizes: list[tuple[int, int]],
    seed: int,
    within: float,
    most: int = MAX_THREADS,
    blocks: int = 2,
) -> Iterator[Arguments]:
    """Sets in which ``p`` is the first of ``sizes`` and other sizes the second; what only counts blocks is ``blocks``.
    ``most``: threads of the launch."""
    launch = kernel.launch
    assert launch is not None
    chosen = {s.name for e in launch.block for s in used(e)}
    counts = {e.sym for e in map(without_index_casts, launch.grid) if isinstance(e, Var)} - {p.sym}
    rng = random.Random(seed)
    for size, rest in sizes:
        at = {q.sym.name: [size if q is p else blocks if q.sym in counts else rest] for q in kernel.params}
        yield from _filled(kernel, drawn(kernel, rng, at), chosen, seed, within, most)


def _filled(
    kernel: Kernel,
    scalars: dict[str, int | float],
    chosen: set[str],
    seed: int,
    within: float,
    most: int = MAX_THREADS,
) -> Iterator[Arguments]:
    """``scalars`` with buffers, if they are a launch of so few threads; what is ``chosen`` makes no buffer longer."""
    threads = launched(kernel, scalars)
    data = {n: v for n, v in scalars.items() if n not in chosen}
    if not 0 < threads <= most or not acceptable(kernel, scalars, chosen, within):
        return
    if threads <= MAX_THREADS or statements(kernel, scalars, within) * work_of(threads) <= within:
        yield {**scalars, **buffers(kernel, seed, False, threads, data)}
