"""How large sizes may become before an array of a fixed length is too short for them.

``__constant__ float centers[1024]`` holds ``clusters * features`` numbers: the probes are small enough for any array,
and the scenarios must not outgrow it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ktc.ir.kernel import Kernel, Param

from ..probe import Seen
from ..roles import buffers_of, lanes_of
from ..shapes import Extent, fit


def used_parts(
    k: Kernel, seen: Sequence[Seen], names: Sequence[str], quotients: Collection[tuple[str, str]]
) -> tuple[tuple[Extent, int], ...]:
    """For each buffer of a fixed length, how much of it sizes need, and how long it is; none for those of which the
    probes show no formula."""
    out: list[tuple[Extent, int]] = []
    for p in buffers_of(k):
        length = _length(p)
        if length and len(seen) > 1:
            part = fit([(s.sizes, s.extent(p.sym.name)) for s in seen], names, quotients)
            if part is not None and part.exact and part.factors:
                out.append((part, length))
    return tuple(out)


def _length(p: Param) -> int:
    """Elements of a buffer whose length the source says; 0 for others."""
    return p.extent * lanes_of(p) if p.extent else len(p.init or ())


__all__ = ["used_parts"]
