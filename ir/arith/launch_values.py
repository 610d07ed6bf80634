"""What a launch gives: hardware indices and knobs, by what is trusted of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktc.ir.kernel import producer_threads
from ktc.ir.nodes import Expr, HwIndex, Knob

from .congruence import ANYTHING, Congruence
from .enclosures import type_interval
from .interval import Interval

if TYPE_CHECKING:
    from .kernel_facts import Facts

EXTENT_OF = {"thread": "block_dim", "block": "grid_dim"}
"""The size that an index is below."""


def index_interval(e: HwIndex, facts: Facts) -> Interval:
    """What a hardware index lies in on every device, and in the launches that are trusted to be."""
    t = facts.trust
    blocks = t.grid_blocks if t.threads is None else min(t.grid_blocks, t.threads)
    limits = {
        "thread": Interval(0, t.block_threads - 1), "block_dim": Interval(1, t.block_threads),
        "block": Interval(0, blocks - 1), "grid_dim": Interval(1, blocks),
    }  # fmt: skip
    limit = limits.get(e.level, type_interval(e.type))
    said = launched_extent(HwIndex(EXTENT_OF.get(e.level, e.level), e.axis), facts)
    if said is None:
        return limit
    extent = facts.interval(said)
    own = Interval(0, None if extent.high is None else extent.high - 1) if e.level in EXTENT_OF else extent
    met = limit.meet(own)
    return limit if met.is_empty else met


def launched_extent(e: HwIndex, facts: Facts) -> Expr | None:
    """What the kernel's launch says that ``e``, the size of a block or a grid, is, if that is trusted."""
    launch = facts.kernel.launch if facts.trust.launch else None
    if launch is None or (e.level == "block_dim" and producer_threads(facts.kernel)):
        return None
    return (launch.block if e.level == "block_dim" else launch.grid)["xyz".index(e.axis)]


def knob_interval(e: Knob, facts: Facts) -> Interval:
    """All values that a knob may be given, or the one that it keeps."""
    values = _values(e, facts)
    return Interval(min(values), max(values)) if values else type_interval(e.type)


def knob_residue(e: Knob, facts: Facts) -> Congruence:
    """What all values that a knob may be given leave when they are divided."""
    first, *others = [Congruence.point(n) for n in _values(e, facts)] or [ANYTHING]
    for c in others:
        first = first.join(c)
    return first


def _values(e: Knob, facts: Facts) -> list[int]:
    for k in facts.kernel.knobs:
        if k.name == e.name:
            if facts.trust.bound_knobs and k.value is not None:
                return [k.value]
            return [*k.domain, k.default, *([] if k.value is None else [k.value])]
    return []


__all__ = ["EXTENT_OF", "index_interval", "knob_interval", "knob_residue", "launched_extent"]
