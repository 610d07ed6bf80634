"""Maxima and sums below them that the source keeps in one sweep: of which rows two sweeps say the same, and how one
sweep comes back where no pass follows ``raise``.

A maximum that begins at minus infinity, in threads that may have nothing of a row, meets inf - inf when such threads'
parts are joined: for rows shorter than the threads that share them the source leaves NaN. The launcher checks the
length, and falls back to the source.
"""

from __future__ import annotations

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import cast, fold_node, i32, product, simplify, sub
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Acc, Binary, Const, Level, Reduce, Unary
from ktc.ir.types import Scalar
from ktc.ir.walk import used, walk
from ktc.passes.raising.raise_report import Region


def long_rows(raised: Kernel) -> tuple[list[Assume], tuple[Region, ...]] | None:
    """What must hold of the lengths of rows so that every thread has an element, and how to say it; None where lengths
    are not known to the launcher."""
    params = {p.sym for p in raised.params}
    named = definitions(raised.body)
    facts: dict[Assume, str] = {}
    for s in walk(raised.body):
        if not isinstance(s, Reduce) or not any(_begins_at_infinity(a) for a in s.accs):
            continue
        sizes = [lv.n for lv in s.dist if lv.kind in THREAD_LEVELS]
        length = simplify(expand(sub(s.hi, s.lo), named))
        if None in sizes or used(length) - params:
            return None
        team = simplify(product([n for n in sizes if n is not None] or [i32(1)]))
        t = length.type
        assert isinstance(t, Scalar)
        fact = Assume(fold_node(Binary(">=", length, cast(team, t))), "guessed")
        if not isinstance(fact.expr, Const) and not same_value(length, team):
            facts[fact] = s.var.name
    regions = tuple(
        Region("assumed", f"'{n}' has an element for each of its threads", "in shorter rows the source leaves NaN")
        for n in dict.fromkeys(facts.values())
    )
    return list(facts), regions


def _begins_at_infinity(a: Acc) -> bool:
    t = a.sym.type
    if a.op != "max" or not isinstance(t, Scalar) or not t.is_float:
        return False
    start = a.init.x if isinstance(a.init, Unary) and a.init.op == "-" else a.init
    return isinstance(start, Const) and abs(start.value) == identity("min", t).value


def one_sweep(raised: Kernel) -> tuple[str, ...]:
    """The step that makes one sweep of a maximum and the sum below it again, every thread with its own."""
    from ktc.passes.reductions.online_reduction import pairs

    steps = []
    for p in pairs(raised.body):
        threads = [lv for lv in p.top.dist if lv.kind in THREAD_LEVELS]
        if len(threads) == 1 and isinstance(n := threads[0].n, Const) and _is_strided(p.top.dist):
            lv = threads[0]
            name = f"{lv.kind}.{lv.axis}" if lv.axis else lv.kind
            steps.append(f"online-reduction{{loop={p.top.var.name} map=[{name} {n.value}] own=thread}}")
    return tuple(dict.fromkeys(steps))


def _is_strided(dist: tuple[Level, ...]) -> bool:
    return [lv.kind for lv in dist] == ["thread", "seq"]


__all__ = ["long_rows", "one_sweep"]
