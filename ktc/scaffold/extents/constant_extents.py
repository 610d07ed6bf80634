"""Buffers of kernels without sizes (``#define N 2048``, and no parameter but pointers): how long they are.

Nothing can be made smaller for a probe, and the launch as it is may have more threads than a probe may. Then the source
is all that there is: buffers are as long as the host allocates them, or as the largest index reaches, where every
access is followed and comes to a number.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.kernel import Kernel

from ..largest_index import Largest
from ..roles import lanes_of
from ..shapes import Extent
from ..size_polynomials import Polynomial


def constant_extents(
    k: Kernel, shapes: Mapping[str, Extent | None], allocated: Mapping[str, Extent]
) -> dict[str, Extent | None]:
    """``shapes``, and of those that are not known the ``allocated``, or how far the accesses reach."""
    out = dict(shapes)
    for b, reach in _reach(k).items():
        if b not in out or out[b] is not None:
            continue
        least = reach * lanes_of(k.param(b)) if reach is not None else 0
        held = allocated[b].value({}) if b in allocated else 0
        if held and held >= least:
            out[b] = allocated[b]
        elif least:
            out[b] = Extent((), times=least, exact=True)
    return out


def _reach(k: Kernel) -> dict[str, int | None]:
    """One more than the largest index into each buffer; None where it is not known, or no number."""
    largest, found = Largest(k, {}), dict[str, int | None]()
    for buffer, index, bounds in largest.accesses():
        most = largest.most(index, bounds)
        last = _number(most) if most is not None else None
        before = found.get(buffer.name, 0)
        found[buffer.name] = max(before, last + 1) if last is not None and before is not None else None
    return found


def _number(p: Polynomial) -> int | None:
    """The value of a polynomial without names; None for others."""
    return p.get((), 0) if not p.keys() - {()} else None


__all__ = ["constant_extents"]
