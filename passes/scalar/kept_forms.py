"""Clean-up around what lowering recognises by its form: the copies of producers and the products of tensor cores.

A name for part of an index, or a shift for a division, would hide the box that is copied or the tile that is
multiplied; a variable that grows from round to round would mean nothing to a producer, which runs ahead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.nodes import Body, Produce, Reduce, Stmt
from ktc.ir.walk import map_body, walk
from ktc.passes.shared.mma import is_mma


def spared(body: Body, change: Callable[[Body], Body]) -> Body:
    """``change(body)`` with producers and products as they are in ``body``."""
    products = {s.var: s for s in walk(body) if isinstance(s, Reduce) and is_mma(s)}
    producers: list[Stmt] = []

    def take(s: Stmt) -> Stmt:
        if not isinstance(s, Produce):
            return s
        producers.append(s)
        return dataclasses.replace(s, body=())

    changed = change(map_body(body, take))
    given = iter(producers)

    def give(s: Stmt) -> Stmt:
        if isinstance(s, Reduce):
            return products.get(s.var, s)
        return next(given) if isinstance(s, Produce) else s

    return map_body(changed, give) if products or producers else changed


__all__ = ["spared"]
