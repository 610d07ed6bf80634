"""Buffers that the host makes longer than the sizes of the probes show: up to whole blocks, ``cdiv(n, 256) * 256``.

What a kernel touches at sizes that blocks divide is a product of sizes; at others it may go on to the end of the last
block, as far as the host's own formula says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Draft
from ..probe import Prober, Seen
from ..shapes import Extent
from .allocated_extents import allocated_extents

ODD = (1, 3)
"""How much larger than those of a probe the sizes are at which buffers are looked at again."""


def lengthened(d: Draft, probe: Prober, seen: Sequence[Seen]) -> dict[str, Extent | None]:
    """The shapes of ``d``, with the host's own length for buffers that are not known, seem to be of a fixed length (one
    element for each block, in probes of one block) or are touched beyond their shape at odd sizes, where that is long
    enough in all runs."""
    out, told = dict(d.shapes), allocated_extents(probe, d.names)
    if not seen or not told:
        return out
    runs = [*seen, *_odd(d, probe, seen[0].sizes)]
    for name, length in told.items():
        known = d.shapes.get(name)
        short = known is None or not known.factors or any(s.extent(name) > known.value(s.sizes) for s in runs)
        if short and any(s.extent(name) for s in runs) and all(s.extent(name) <= length.value(s.sizes) for s in runs):
            out[name] = length
    return out


def _odd(d: Draft, probe: Prober, even: Mapping[str, int]) -> list[Seen]:
    own = {n for n in d.names if n in d.roles.sizes and n not in d.roles.windows}
    found: list[Seen] = []
    for more in ODD:
        sizes = {n: v + more * (n in own) for n, v in even.items()}
        if probe.launches(sizes):
            fills = d.fills(probe, sizes)
            found += [s] if (s := probe.look(sizes, fills)) is not None else []
    return found


__all__ = ["lengthened"]
