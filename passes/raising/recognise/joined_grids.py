"""Grids of several axes that a source numbers through: the same blocks along one axis.

before, <<<dim3(gx, gy), 512>>>                               after, <<<gx * gy, 512>>>
    i = (blockIdx.x + blockIdx.y * gridDim.x) * 512 + t           i = blockIdx.x * 512 + t

Hosts launch such grids where an axis could not have more than 65535 blocks. Sources that ask for a place along one of
the axes by itself keep their grid. Index arithmetic is taken not to wrap: what comes out of raising is checked as a
whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise, permutations

from ktc.ir.analysis.defs import definitions
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import cast, fold_node, i32, is_const, mul, simplify
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Body, Decl, Expr, HwIndex, Stmt
from ktc.ir.types import U32
from ktc.ir.walk import all_exprs, keep, map_body, substitute, walk_expr, with_children
from ktc.passes.shared.equal_integers import same

from .coordinates import AXES


class _Apart(Exception):
    """A place along one axis is asked for by itself."""


def with_joined_grid(kernel: Kernel, launch: Launch) -> tuple[Kernel, Launch]:
    """``kernel`` and ``launch`` with as many axes of the grid as can be as one; both as they are where none can."""
    read = {x.axis for x in all_exprs(kernel.body) if isinstance(x, HwIndex) and x.level == "block"}
    long = [a for a, n in zip(AXES, launch.grid) if a in read and not is_const(simplify(n), 1)]
    if len(long) < 2 or launch.cluster is not None:
        return kernel, launch
    body = _by_places(kernel.body, launch)
    for order in (o for many in range(len(long), 1, -1) for o in permutations(long, many)):
        try:
            joined = map_body(body, lambda s, order=order: _joined(s, order, launch))  # type: ignore[misc]
        except _Apart:
            continue
        return kernel.with_(body=joined), _along_one(launch, order)
    return kernel, launch


def _by_places(body: Body, launch: Launch) -> Body:
    """``body`` with the extents of its grid put in, and places of blocks where variables stand for them."""

    def sized(e: Expr) -> Expr:
        if isinstance(e, HwIndex) and e.level == "grid_dim":
            return cast(launch.grid[AXES.index(e.axis)], U32)
        return fold_node(e)

    named = {s: e for s, e in definitions(body).items()
             if isinstance(x := without_index_casts(e), HwIndex) and x.level == "block"}  # fmt: skip
    body = map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in named else s)
    return map_body(substitute(body, named), keep, sized)


def _joined(s: Stmt, order: Sequence[str], launch: Launch) -> Stmt:
    """``s`` by the number of its block, which goes through the axes of ``order``, the fastest first.

    Raises:
        _Apart: where ``s`` asks for a place along one of them.
    """
    places = [HwIndex("block", axis) for axis in order]

    def on(e: Expr) -> Expr:
        if not any(x in places for x in walk_expr(e)):
            return e
        if _is_by_number(e, places, launch):
            return simplify(by_number(e))
        if e in places:
            raise _Apart
        return with_children(e, on)

    def by_number(e: Expr) -> Expr:
        if e in places:
            return HwIndex("block", min(order)) if e == places[0] else cast(i32(0), U32)
        return fold_node(with_children(e, by_number))

    return with_children(s, on)


def _is_by_number(e: Expr, places: Sequence[HwIndex], launch: Launch) -> bool:
    """Whether ``e`` is ``n * (x + gx * (y + gy * z)) + rest``, ``places`` being x, y and z."""
    form = linear_form(e, set(places))
    if form is None or set(form.coeffs) != set(places):
        return False
    weights = [form.coeffs[x] for x in places]
    extents = [launch.grid[AXES.index(x.axis)] for x in places]
    return all(same(mul(low, n), high) for (low, high), n in zip(pairwise(weights), extents))


def _along_one(launch: Launch, order: Sequence[str]) -> Launch:
    """``launch`` with the blocks of all axes of ``order`` along the first of them by name."""
    extents = dict(zip(AXES, launch.grid))
    blocks = reduce(mul, (extents[axis] for axis in sorted(order)))
    x, y, z = (blocks if a == min(order) else i32(1) if a in order else n for a, n in extents.items())
    return dataclasses.replace(launch, grid=(simplify(x), simplify(y), simplify(z)))


__all__ = ["with_joined_grid"]
