"""Sizes at which blocks of a launch, or rounds of its loops, are full to the last element; and one element more.

Where tiles are laid from a border on (a stencil leaves the first and the last row alone), a tile of ``T`` is full for
``T + 2`` rows: no multiple of any number that the kernel is made of, and none that is near one is as telling. Tiles
laid one row too early leave out the last row there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For
from ktc.ir.walk import walk, walk_expr

from .formulas import increment
from .reaching import arguments, least_value

if TYPE_CHECKING:
    from .instances import Maker

FEW = 2
"""Elements of a block or round, in steps of their size, below which nothing of one is left over."""

Count = Callable[[Mapping[str, int]], int | None]
"""How many blocks or rounds there are for these sizes; None if that hangs on something else."""


def filled(maker: Maker) -> Iterator[dict[str, int]]:
    """All sizes such that one block or round is full along each, that one element more is there, and that two are."""
    kernel, base = maker.kernels[1], maker.few()
    counts = list(_counts(kernel, maker)) if base and not kernel.is_parallel else []
    found = {n: _ends(maker, n, base, counts) for n in maker.names}
    for at in (0, 1, 2):
        for which in range(max(map(len, found.values()), default=0)):
            yield {n: ends[min(which, len(ends) - 1)][at] if ends else base[n] for n, ends in found.items()}


def _ends(maker: Maker, name: str, base: Mapping[str, int], counts: list[Count]) -> list[tuple[int, int, int]]:
    """Of each count that hangs on the size ``name``: the last value of one block, the first of two, the last of two."""
    step, out = maker.step[name], dict[int, tuple[int, int, int]]()
    for count in counts:
        two, three = (least_value(maker, base, name, _beyond(count, n)) for n in (1, 2))
        one = two - step
        if one > FEW * step and three > two:
            out.setdefault(one, (one, two, three - step))
    return list(out.values())


def _beyond(count: Count, most: int) -> Callable[[Mapping[str, int]], bool]:
    """Whether there are more than so many blocks or rounds, as far as that is known."""

    def more(sizes: Mapping[str, int]) -> bool:
        n = count(sizes)
        return n is None or n > most

    return more


def _counts(kernel: Kernel, maker: Maker) -> Iterator[Count]:
    """The extents of the grid, and the rounds of loops up to what sizes alone decide."""

    def of(e: Expr, by: int = 1) -> Count:
        def count(sizes: Mapping[str, int]) -> int | None:
            n = evaluate(e, arguments(maker.workload, sizes, kernel))
            return None if n is None else -(-int(n) // by)

        return count

    for e in kernel.launch.grid if kernel.launch is not None else ():
        yield of(e)
    for s in walk(kernel.body):
        if isinstance(s, For) and isinstance(s.cond, Binary) and s.cond.op == "<":
            by = increment(s)
            stride = evaluate(by, kernel.knob_values) if by is not None else None
            tiles = any(isinstance(e, Binary) and e.op == "/" for e in walk_expr(s.cond.b))
            yield of(s.cond.b, 1 if tiles or not stride or stride < 1 else int(stride))


__all__ = ["filled"]
