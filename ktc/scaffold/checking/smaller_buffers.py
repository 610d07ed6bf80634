"""Sizes of probes at which buffers have room in memory: a cache of pages for every part of every sequence has a product
of five sizes, of which each is small."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.types import scalar_of
from ktc.ir.workload.input_data import numpy_dtype

from ..model import Draft
from ..probe import MOST_BYTES, Prober, Seen
from ..roles import buffers_of

HALVINGS = 6
"""How often sizes are halved."""


def with_room_in_memory(d: Draft, probe: Prober, seen: list[Seen]) -> list[Seen]:
    """``seen``, or the same at sizes that are halved until the buffers of the first few fit."""
    if not seen or any(e is None for e in d.shapes.values()):
        return seen
    own = {n for n in d.names if n in d.roles.sizes} - {*d.roles.windows, *d.given}
    for k in range(HALVINGS + 1):
        sizes = [{n: max(v >> k, min(v, 2)) if n in own else v for n, v in s.sizes.items()} for s in seen]
        if all(_bytes(d, at) <= MOST_BYTES and probe.launches(at) for at in sizes[:3]):
            looks = [probe.look(at, d.fills(probe, at)) for at in sizes] if k else seen
            return [s for s in looks if s is not None] or seen
    return seen


def _bytes(d: Draft, sizes: Mapping[str, int]) -> int:
    elements = d.elements(sizes)
    widths = {p.sym.name: numpy_dtype(scalar_of(p.sym.type).name).itemsize for p in buffers_of(d.kernel)}
    return sum(elements[b] * width for b, width in widths.items())


__all__ = ["with_room_in_memory"]
