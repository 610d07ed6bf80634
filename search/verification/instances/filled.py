"""Sizes at which blocks of a launch, or rounds of its loops, are full to the last element; and one element more.

Where tiles are laid from a border on (a stencil leaves the first and the last row alone), a tile of ``T`` is full for
``T + 2`` rows: no multiple of any number that the kernel is made of, and none that is near one is as telling. Tiles
laid one row too early leave out the last row there, and nowhere else. And sizes at which several blocks come: one that
begins at its number's row in place of its thread's is right until its number is beyond the halo.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import combinations, islice
from typing import TYPE_CHECKING

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For
from ktc.ir.sequences import launch_extents
from ktc.ir.walk import walk, walk_expr
from ktc.search.verification.integers.formulas import increment
from ktc.search.verification.integers.reaching import arguments, least_value

if TYPE_CHECKING:
    from .instances import Instance, Maker

FEW = 2
"""Elements of a block or round, in steps of their size, below which nothing of one is left over."""

SEVERAL = 6
"""Blocks along an axis, if scenarios have as many: the last of them have numbers beyond the halos that there are."""

TOGETHER = tuple(sorted(2**k + beside for k in range(2, 9) for beside in (0, 1, 4)))
"""What several sizes are where none alone gives several blocks: vectors divide some of these, tiles none but few."""

MOST_TOGETHER = 4
"""How many sizes these are at most."""

Count = Callable[[Mapping[str, int]], int | None]
"""How many blocks or rounds there are for these sizes; None if that hangs on something else."""


def filled(maker: Maker) -> Iterator[dict[str, int]]:
    """Sizes such that one block or round is full, that one element more is there, and that two are: along each at
    once, and along one alone where that is more than can be afforded."""
    kernel, base = maker.kernels[1], maker.few()
    counts = [*_blocks(kernel, maker), *_rounds(kernel, maker)] if base and kernel.is_spmd else []
    found = {n: ends for n in maker.names if (ends := _ends(maker, n, base, counts))}
    for at in (0, 1, 2):
        for which in range(max(map(len, found.values()), default=0)):
            full = {n: ends[min(which, len(ends) - 1)][at] for n, ends in found.items()}
            yield {**base, **full}
            if maker.make({**base, **full}) is None:
                yield from ({**base, n: v} for n, v in full.items())


def several_blocks(maker: Maker, tried: Collection[Mapping[str, int]]) -> Iterator[dict[str, int]]:
    """For each axis of the grid that scenarios give several blocks, and nothing ``tried`` beside sizes that are more
    than a halo: the cheapest sizes that give it as many (of :data:`SEVERAL`)."""
    kernel, base = maker.kernels[1], maker.few()
    telling = [s for s in tried if all(s[n] >= v for n, v in base.items())]
    usual = [{n: int(s.sizes[n]) for n in maker.names} for s in maker.workload.scenarios]
    for count in _blocks(kernel, maker) if base and kernel.is_spmd else ():
        most = min(SEVERAL, max((count(sizes) or 0 for sizes in usual), default=0))
        several = _beyond(count, most - 1)
        if most > 1 and not any(map(several, telling)):
            values = {n: least_value(maker, base, n, several) for n in maker.names}
            made = [i for n, v in values.items() if v and (i := maker.make({**base, n: v})) is not None]
            made = made or list(islice(_together(maker, base, several), 1))
            yield from (dict(i.sizes) for i in sorted(made, key=lambda i: i.cost)[:1])


def _together(maker: Maker, base: Mapping[str, int], enough: Callable[[Mapping[str, int]], bool]) -> Iterator[Instance]:
    """Instances in which as few as may be, but several, sizes are larger than in ``base``, alike as far as may be, and
    as small as is ``enough``: an extent that is the lesser of two sizes grows with neither alone."""
    for names in (some for many in range(2, MOST_TOGETHER + 1) for some in combinations(maker.names, many)):
        larger = ({**base, **{n: maker.near(n, v) for n in names}} for v in TOGETHER)
        wanted = (s for s in larger if all(s[n] >= v for n, v in base.items()) and enough(s))
        yield from islice((made for sizes in wanted if (made := maker.make(sizes)) is not None), 1)


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


def _blocks(kernel: Kernel, maker: Maker) -> Iterator[Count]:
    """The extents of each launch's grid, and of blocks, which sizes may decide too."""
    for e in launch_extents(kernel):
        yield _count(e, kernel, maker)


def _rounds(kernel: Kernel, maker: Maker) -> Iterator[Count]:
    """The rounds of loops up to what sizes alone decide."""
    for s in walk(kernel.body):
        if isinstance(s, For) and isinstance(s.cond, Binary) and s.cond.op == "<":
            by = increment(s)
            stride = evaluate(by, kernel.knob_values) if by is not None else None
            tiles = any(isinstance(e, Binary) and e.op == "/" for e in walk_expr(s.cond.b))
            yield _count(s.cond.b, kernel, maker, 1 if tiles or not stride or stride < 1 else int(stride))


def _count(e: Expr, kernel: Kernel, maker: Maker, by: int = 1) -> Count:
    def count(sizes: Mapping[str, int]) -> int | None:
        n = evaluate(e, arguments(maker.workload, sizes, kernel))
        return None if n is None else -(-int(n) // by)

    return count


__all__ = ["filled", "several_blocks"]
