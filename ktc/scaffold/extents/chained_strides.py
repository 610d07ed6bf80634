"""Strides that are products of sizes which bound nothing, one after the other, as the extents that they step over.

    x[i3 * (a * b * c) + i2 * (a * b) + i1 * a + i0]     // i0 < w, i1 < h, i2 < d: a is w, b is h, c is d

One of them alone makes no array of the sum; all together do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from ..size_polynomials import Polynomial


def chained(extents: Iterable[Polynomial], free: Collection[str]) -> dict[str, str]:
    """The sizes among ``free`` that arrays' ``extents``, sums over sizes, have as strides, with what they step over."""
    found: dict[str, str] = {}
    for extent in extents:
        steps = sorted((p for p, n in extent.items() if n == -1), key=len)  # what the last index takes off of each
        for below, above in zip(((), *steps), steps):
            stride, bound = _beyond(above, below), _bounds(extent, below)
            if stride in free and bound is not None and bound != stride and bound not in found:
                found.setdefault(stride, bound)
    return found


def _beyond(product: tuple[str, ...], part: tuple[str, ...]) -> str:
    """The one factor of ``product`` that is not in ``part``; '' if it is not one."""
    rest = Counter(product) - Counter(part)
    return next(iter(rest)) if len(part) + 1 == len(product) == len(part) + rest.total() else ""


def _bounds(extent: Polynomial, step: tuple[str, ...]) -> str | None:
    """What bounds the index that moves by ``step``; None if that is not one size."""
    found = {_beyond(p, step) for p, n in extent.items() if n == 1} - {""}
    return found.pop() if len(found) == 1 else None


__all__ = ["chained"]
