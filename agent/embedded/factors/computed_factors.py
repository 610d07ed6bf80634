"""Ideas for sums of products of which a factor is computed: weights in few bits, unpacked and scaled for each term.

The tile is that of a product of words as they lie in memory; what is computed has a table of the block in the place of
a copy, so that each of its values is made once and read by all rows of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, For, Par, Reduce
from ktc.ir.types import BF16, F16, Scalar
from ktc.ir.walk import walk
from ktc.passes.shared.serial_sums import counted_to
from ktc.passes.shared.tiles import paths
from ktc.passes.tensor.contractions import WORDS

from ..nest_shapes import Idea
from ..thread_products import COPIED, Size, ThreadTile, in_order

GAIN = 5.0
"""As of plain products: it only ranks the ideas."""

LANES = 4
"""Words that a copy takes at once, and that pad a row that is turned over."""

TRIED = 3
"""Tiles proposed."""

COPIED_TYPES = (*WORDS, F16, BF16)
"""Types of elements that are copied as they lie, and converted where they are multiplied."""


@dataclass(frozen=True)
class Sums:
    """A serial loop that adds up, the two parallel loops around it, and the arrays of words that it reads as they lie:
    each with whether its terms lie side by side."""

    terms: For
    down: Par
    across: Par
    copied: tuple[tuple[str, bool], ...]


def computed_factors(
    raised: Kernel, units: int, facts: Sequence[KernelFacts], applies: Callable[[str], bool]
) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain: of each tile, the best staging that ``applies``."""
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for sums in sums_of_factors(raised):
        down, across, terms = (trips.get(x.var.name) for x in (sums.down, sums.across, sums.terms))
        size = Size(down, across, terms, 1, units)
        found = (next(filter(applies, _schedules(sums, t)), None) for t in in_order(COPIED, size))
        for _, steps in zip(range(TRIED), (x for x in found if x is not None)):
            yield (
                steps,
                "what a factor is computed of is read, unpacked and scaled once a block, not by each thread",
                GAIN,
            )


def sums_of_factors(kernel: Kernel) -> Iterator[Sums]:
    """Loops that add up right inside of two parallel loops, of which some values know one only."""
    seen = accesses(kernel)
    for path in paths(kernel.body):
        s, around = path[-1], [p for p in path if isinstance(p, Par)]
        if not isinstance(s, For) or counted_to(s) is None or len(around) < 2:
            continue
        if any(isinstance(x, For | Par | Reduce) for x in walk(s.body)) or not isinstance(s.body[-1], Assign):
            continue
        down, across = around[-2:]
        mine = [a for a in seen if a.mode == "read" and any(y.stmt is s for y in a.axes)]
        stored = [a for a in seen if a.mode != "read" and {p.var.name for p in (down, across)} <= _names(a)]
        if stored and all(a.pattern(down.var.name) == "unit" for a in stored):
            down, across = across, down
        sides = [_along(a, s) & {down.var.name, across.var.name} for a in mine if s.var.name in _along(a, s)]
        if {down.var.name} in sides and {across.var.name} in sides and all(len(x) < 2 for x in sides):
            yield Sums(s, down, across, tuple(_copied(mine, s)))


def _names(a: Access) -> set[str]:
    return {x.name for x in a.axes}


def _along(a: Access, s: For) -> set[str]:
    """The loops around ``a`` that its place depends on."""
    return {x.name for x in a.axes if a.pattern(x.name) != "broadcast"}


def _copied(reads: Sequence[Access], s: For) -> Iterator[tuple[str, bool]]:
    """Arrays of words that are all that the sum reads along a loop around it: no factor is computed of more."""
    terms = [a for a in reads if s.var.name in _along(a, s)]
    for a in terms:
        t = getattr(a.buffer.type, "elem", None)
        alone = sum(_along(x, s) == _along(a, s) for x in terms) == 1
        if alone and isinstance(t, Scalar) and t in COPIED_TYPES and a.pattern(s.var.name) in ("unit", "strided"):
            yield a.buffer.name, a.pattern(s.var.name) == "unit"


def _schedules(sums: Sums, t: ThreadTile) -> Iterator[str]:
    """What is tried for one tile, best first."""
    term, stem = sums.terms.var.name, sums.terms.var.stem
    k = f"{stem}_tile.*"
    tiles = (
        f"tile{{loops={sums.down.var.name},{sums.across.var.name} sizes={t.down},{t.across}}}"
        f" | map{{{sums.down.var.name}=[{t.down_levels}] {sums.across.var.name}=[{t.across_levels}]}}"
        f" | tile{{loops={term} sizes={t.terms} tail=cut}} | register-tile{{loop={k}}}"
        f" | stage-factors{{loop={k}}} | pad-shared{{array=factor_s.* by={LANES}}}"
    )
    last = f"unroll{{loop={stem}.* factor={t.terms}}} | launch-bounds{{blocks=$M:(1,2,3)}}"
    ahead = f"multi-buffer{{loop={term}_tile stages=2}} | "
    for wide in (f" vec={LANES}", ""):
        copies = "".join(
            f" | stage-shared{{array={name} loop={k}{' transpose=yes' * turned}{wide}}}"
            + f" | pad-shared{{array={name}_s.* by={LANES}}}" * turned
            for name, turned in sums.copied
        )
        yield f"{tiles}{copies} | {ahead}{last}"
        yield f"{tiles}{copies} | {last}"
    yield f"{tiles} | {last}"


__all__ = ["Sums", "computed_factors", "sums_of_factors"]
