"""Which share of a launch's warps, lanes and rounds executes what stands behind a condition."""

from __future__ import annotations

from collections.abc import Sequence

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import Const, Expr, HwIndex, If, Sym, Var
from ktc.ir.types import scalar_of
from ktc.ir.walk import map_expr, substitute_expr, used, walk

from .access_nests import Axis, visits
from .memory_costs import at_lanes
from .operation_counts import Counts

MOST_ROUNDS = 64
"""Rounds of a loop that a condition is looked at in."""


def guard_shares(kernel: Kernel, count: Counts) -> dict[int, tuple[float, float]]:
    """By identity of a statement behind conditions on the thread index or on a loop's counter: the share of warps (in
    all rounds) that execute it, and of the first such warp's lanes. What is not known counts whole."""
    extents = [count.value(d) or 1 for d in kernel.launch.block] if kernel.launch is not None else [1, 1, 1]
    threads = extents[0] * extents[1] * extents[2]
    places = [(i % extents[0], i // extents[0] % extents[1], i // (extents[0] * extents[1])) for i in range(threads)]
    seen = [*places[:WARP], *places[WARP::WARP]]
    out: dict[int, tuple[float, float]] = {}
    for v in visits(kernel):
        if not isinstance(v.stmt, If):
            continue
        cond = substitute_expr(v.stmt.cond, v.env)
        truths = at_lanes(cond, v.axes, extents, count.env, seen)
        if None in truths:
            continue
        if len({bool(t) for t in truths}) == 1:
            rounds = _rounds(cond, v.axes, count)
            shares = [(rounds, 1.0), (1 - rounds, 1.0)] if rounds is not None else []
        else:
            shares = [_of_threads([bool(t) == wanted for t in truths]) for wanted in (True, False)]
        for body, (warps, lanes) in zip((v.stmt.then, v.stmt.orelse), shares):
            for s in walk(body):
                w, n = out.get(id(s), (1.0, 1.0))
                out[id(s)] = (w * warps, n * lanes)
    return out


def _of_threads(holds: Sequence[bool]) -> tuple[float, float]:
    """The share of warps with a thread of which it holds, and of the lanes of the first warp, if that has one."""
    first, others = holds[:WARP], holds[WARP:]
    lanes = sum(first) / len(first) if any(first) else 1.0
    return (any(first) + sum(others)) / (1 + len(others)), lanes


def _rounds(cond: Expr, axes: Sequence[Axis], count: Counts) -> float | None:
    """The share of the rounds of the innermost loop that ``cond`` hangs on in which it holds, in the first round of the
    others; None where it hangs on none, or is not known."""
    counters = {x.index: x for x in axes if isinstance(x.index, Sym)}
    asked = [x for x in axes if x.index in used(cond)]
    trip = count.trip(asked[-1]) if asked else None
    if not trip or trip < 2:
        return None
    mine = asked[-1].index

    def at(n: int) -> Expr:
        def value(x: Expr) -> Expr:
            if isinstance(x, Var) and x.sym in counters:
                return Const(n if x.sym is mine else 0, scalar_of(x.type))
            return Const(0, x.type) if isinstance(x, HwIndex) and x.level in ("block", "thread") else x

        return map_expr(cond, value)

    truths = [evaluate(at(n), count.env) for n in range(min(trip, MOST_ROUNDS))]
    return None if None in truths else sum(map(bool, truths)) / len(truths)


__all__ = ["guard_shares"]
