"""Bands: loops over a block's threads in a loop that is the block's, which may be given shared arrays and copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, For, Par, Stmt
from ktc.ir.walk import map_body


def with_arrays(kernel: Kernel, region: For | Par, band: Stmt, arrays: Sequence[Alloc], instead: Body) -> Kernel:
    """``kernel`` with ``instead`` in the place of ``band``, which stands right in ``region``. ``arrays`` are declared
    before a serial loop, whose next rounds may want them, and inside a loop over blocks."""

    def placed(s: Stmt) -> Stmt | Body:
        if not isinstance(s, For | Par) or type(s) is not type(region) or s.var != region.var:
            return s
        body = tuple(x for y in s.body for x in (instead if y is band else (y,)))
        if isinstance(s, Par):
            return dataclasses.replace(s, body=(*arrays, *body))
        return (*arrays, dataclasses.replace(s, body=body))

    return kernel.with_(body=map_body(kernel.body, placed))


__all__ = ["with_arrays"]
