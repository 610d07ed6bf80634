"""Blocks of a few shapes among which the host chooses by sizes: ``<<<rows, n <= 64 ? 64 : n <= 128 ? 128 : 256>>>``.

Loops that are understood of one of these shapes most often say what the kernel does in all of them: a row is summed up,
by however many threads. A kernel is raised as if it were always launched in one shape, and what comes of it is compared
with the kernel as it is launched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.fold import evaluate, simplify
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Const, Expr, Select
from ktc.ir.walk import map_expr, walk_expr

MOST_THREADS = 128
"""Of several shapes the largest is tried that has no more threads than this along its axis: others take long."""

Truths = dict[Expr, bool]


def in_a_block(kernel: Kernel) -> Kernel | None:
    """``kernel`` as if its host chose the same shape of the block whatever the sizes are; None where it does not
    choose, or not among numbers."""
    launch = kernel.launch
    if launch is None:
        return None
    truths: Truths = {}
    for extent in launch.block:
        for e in walk_expr(_told(extent, truths)):
            if isinstance(e, Select) and (ways := [*_ways(e, {})]):
                fitting = [way for way in ways if way[0] <= MOST_THREADS] or ways
                truths |= max(fitting, key=lambda way: way[0])[1]
                break
    if not truths:
        return None
    told = _in_launch(launch, truths)
    if any(evaluate(e, kernel.knob_values) is None for e in told.block):
        return None
    return kernel.with_(launch=told)


def _in_launch(launch: Launch, truths: Truths) -> Launch:
    gx, gy, gz, x, y, z = (_told(e, truths) for e in (*launch.grid, *launch.block))
    shared = None if launch.dynamic_shared is None else _told(launch.dynamic_shared, truths)
    return dataclasses.replace(launch, grid=(gx, gy, gz), block=(x, y, z), dynamic_shared=shared)


def _told(e: Expr, truths: Truths) -> Expr:
    """``e`` where these conditions are true, or false."""

    def chosen(x: Expr) -> Expr:
        return (x.a if truths[x.cond] else x.b) if isinstance(x, Select) and x.cond in truths else x

    return simplify(map_expr(e, chosen)) if truths else e


def _ways(e: Expr, truths: Truths) -> Iterator[tuple[int, Truths]]:
    """The numbers among which ``e`` chooses, each with the conditions of it; none where one is no number."""
    if isinstance(e, Const):
        yield int(e.value), truths
    elif isinstance(e, Select):
        for way, holds in ((e.a, True), (e.b, False)):
            found = [*_ways(way, {**truths, e.cond: holds})]
            if not found:
                return
            yield from found


__all__ = ["in_a_block"]
