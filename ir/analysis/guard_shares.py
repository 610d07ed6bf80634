"""Which share of a launch's warps, lanes and rounds executes what stands behind a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import Const, Expr, HwIndex, If, Sym, Var, fresh
from ktc.ir.types import scalar_of
from ktc.ir.walk import map_expr, substitute_expr, used, walk, walk_expr

from .access_nests import Axis, visits
from .memory_costs import at_lanes
from .operation_counts import Counts

MOST_PLACES = 64
"""Rounds of a loop and blocks that a condition is looked at in, together."""

ASKED = 3
"""Threads that are asked of each warp but a block's first one."""


def guard_shares(kernel: Kernel, count: Counts) -> dict[int, tuple[float, float]]:
    """By identity of a statement behind conditions on thread indices, loops' counters, blocks or sizes: the share of
    warps (in all rounds of all blocks) that execute it, and of the first such warp's lanes. What is not known counts
    whole."""
    extents = [count.value(d) or 1 for d in kernel.launch.block] if kernel.launch is not None else [1, 1, 1]
    threads = extents[0] * extents[1] * extents[2]
    places = [(i % extents[0], i // extents[0] % extents[1], i // (extents[0] * extents[1])) for i in range(threads)]
    others = (places[i : i + WARP] for i in range(WARP, threads, WARP))
    asked = [(w[0], w[len(w) // 2], w[-1]) for w in others]
    seen = [*places[:WARP], *(place for warp in asked for place in warp)]
    out: dict[int, tuple[float, float]] = {}
    for v in visits(kernel):
        if not isinstance(v.stmt, If):
            continue
        cond = substitute_expr(v.stmt.cond, v.env)
        truths = at_lanes(cond, v.axes, extents, count.env, seen)
        if None in truths:
            continue
        if len({bool(t) for t in truths}) == 1:
            share = _share(cond, v.axes, count)
            shares = [(share, 1.0), (1 - share, 1.0)] if share is not None else []
        else:
            shares = [_of_threads([bool(t) == wanted for t in truths]) for wanted in (True, False)]
        for body, (warps, lanes) in zip((v.stmt.then, v.stmt.orelse), shares):
            for s in walk(body):
                w, n = out.get(id(s), (1.0, 1.0))
                out[id(s)] = (w * warps, n * lanes)
    return out


def _of_threads(holds: Sequence[bool]) -> tuple[float, float]:
    """The share of warps with a thread of which it holds, and of the lanes of the first warp, if that has one.

    Of the others the first, the middle and the last thread are asked: an edge is at one end of a warp."""
    first, rest = holds[:WARP], holds[WARP:]
    others = [any(rest[i : i + ASKED]) for i in range(0, len(rest), ASKED)]
    lanes = sum(first) / len(first) if any(first) else 1.0
    return (any(first) + sum(others)) / (1 + len(others)), lanes


def _share(cond: Expr, axes: Sequence[Axis], count: Counts) -> float | None:
    """The share of blocks, and of rounds of the innermost loop that ``cond`` hangs on, in which it holds for the first
    thread, in the first round of the other loops; None where it is not known. Of sizes alone: in all or in none."""
    asked = [x for x in axes if isinstance(x.index, Sym) and x.index in used(cond)][-1:]
    blocks = {e for e in walk_expr(cond) if isinstance(e, HwIndex) and e.level == "block"}
    asked += [x for x in axes if x.index in blocks]
    if not asked:
        holds = evaluate(cond, count.env)
        return None if holds is None else float(bool(holds))
    trips = [count.trip(x) or 0 for x in asked]
    if min(trips) < 1 or max(trips) < 2:
        return None
    each = int(MOST_PLACES ** (1 / len(asked)))
    varied = {x.index: Var(fresh(f"place.{n}", x.index.type)) for n, x in enumerate(asked)}
    others: dict[Sym | HwIndex, Expr] = {x.index: _zero(x.index) for x in axes if isinstance(x.index, Sym)}
    names, at = [v.sym.name for v in varied.values()], _at(cond, {**others, **varied})
    places = list(product(*(_spread(t, each) for t in trips)))
    truths = [evaluate(at, {**count.env, **dict(zip(names, (i for i, _ in p)))}) for p in places]
    weights = [prod(n for _, n in p) for p in places]
    return None if None in truths else sum(n for n, holds in zip(weights, truths) if holds) / sum(weights)


def _spread(trip: int, most: int) -> list[tuple[int, float]]:
    """At most ``most`` iterations of ``trip``, each with how many it stands for: the first and the last, where edges
    are, for themselves alone."""
    n = min(trip, most)
    inner = (trip - 2) / max(1, n - 2)
    return [(i * (trip - 1) // max(1, n - 1), inner if 0 < i < n - 1 else 1.0) for i in range(n)]


def _zero(index: Sym | HwIndex) -> Expr:
    return Const(0, scalar_of(index.type))


def _at(cond: Expr, values: Mapping[Sym | HwIndex, Expr]) -> Expr:
    """``cond`` with ``values`` for indices, and zero for other blocks and threads."""

    def value(x: Expr) -> Expr:
        if isinstance(x, Var):
            return values.get(x.sym, x)
        return values.get(x, _zero(x)) if isinstance(x, HwIndex) and x.level in ("block", "thread") else x

    return map_expr(cond, value)


__all__ = ["guard_shares"]
