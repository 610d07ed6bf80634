"""Bands: loops over a block's threads in a loop that is the block's, which may be given shared arrays and copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, For, If, Par, Reduce, Stmt
from ktc.ir.walk import map_body

from .tiles import is_blocked, paths


@dataclass(frozen=True)
class Band:
    """A loop over a block's threads. ``region``: the loop that is the block's around it; ``holder``: the statement of
    that loop which is ``loop``, or a condition of the whole block around it."""

    region: For | Par
    holder: Stmt
    loop: Par


def band_around(kernel: Kernel, inside: Stmt) -> Band | None:
    """The band that ``inside`` stands in; None where it stands in none that may be given shared arrays."""
    path = next(p for p in paths(kernel.body) if p[-1] is inside)
    at = next((k for k, s in enumerate(path) if isinstance(s, Par | Reduce) and not is_blocked(s)), 0)
    out = next((k for k in range(at - 1, -1, -1) if not isinstance(path[k], If)), -1)  # sides of the whole block
    loop, region = path[at], path[out]
    if out < 0 or not isinstance(region, For | Par) or not isinstance(loop, Par) or _has_blocks(loop):
        return None
    return Band(region, path[out + 1], loop)


def _has_blocks(s: Par) -> bool:
    return any(lv.kind in ("block", "cluster") for lv in s.dist)


def with_arrays(kernel: Kernel, region: For | Par, band: Stmt, arrays: Sequence[Stmt], instead: Body) -> Kernel:
    """``kernel`` with ``instead`` in the place of ``band``, which stands right in ``region``. ``arrays`` are declared
    (and filled, those that are for all rounds) before a serial loop, whose next rounds may want them, and inside a loop
    over blocks."""

    def placed(s: Stmt) -> Stmt | Body:
        if not isinstance(s, For | Par) or type(s) is not type(region) or s.var != region.var:
            return s
        body = tuple(x for y in s.body for x in (instead if y is band else (y,)))
        if isinstance(s, Par):
            return dataclasses.replace(s, body=(*arrays, *body))
        return (*arrays, dataclasses.replace(s, body=body))

    return kernel.with_(body=map_body(kernel.body, placed))


__all__ = ["Band", "band_around", "with_arrays"]
