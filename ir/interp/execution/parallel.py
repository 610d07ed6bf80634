"""``par`` and ``reduce``: every iteration becomes a lane of a child frame; distributions have no meaning here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.analysis.accumulators import in_two_sweeps
from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.sanitizer.races import IterationOrder
from ktc.ir.nodes import Acc, Expr, Par, Reduce, Scan, Sym
from ktc.ir.types import scalar_of

from .frames import Active, Frame, spread
from .segmented_fold import fold_segments

if TYPE_CHECKING:
    from .statements import Machine

LANES = 1 << 17
"""Most iterations that run at once; longer loops run in pieces, which independence allows."""


def _children(
    machine: Machine, var: Sym, lo: Expr, hi: Expr, frame: Frame, act: Active
) -> Iterator[tuple[Frame, np.ndarray]]:
    """Child frames covering ``lo..hi`` of each active lane, with each iteration's position in the active set."""
    state, ev = machine.state, machine.ev
    if state.geometry is not None:
        raise Unsupported("a par loop inside a thread program", state.where())
    n = frame.count(act)
    start = spread(ev(lo, frame, act), n).astype(np.int64)
    trips = np.maximum(spread(ev(hi, frame, act), n).astype(np.int64) - start, 0)
    ends = np.cumsum(trips)
    lanes, dtype = frame.lanes(act), state.domain.dtype(scalar_of(var.type))
    total = int(ends[-1]) if n else 0
    order = state.order if isinstance(state.order, IterationOrder) else None
    instance = order.begin(frame.n) if order else 0
    for first in range(0, total, LANES):
        flat = np.arange(first, min(first + LANES, total))
        owner = np.searchsorted(ends, flat, side="right")
        child = Frame(len(flat), frame, lanes[owner])
        number = flat - (ends[owner] - trips[owner])
        child.values[var] = (start[owner] + number).astype(dtype)
        if order:
            order.enter(child, instance, number, trips[owner])
        yield child, owner


def par(machine: Machine, s: Par, frame: Frame, act: Active) -> None:
    for child, _ in _children(machine, s.var, s.lo, s.hi, frame, act):
        machine.body(s.body, child, None)


def reduce(machine: Machine, s: Reduce, frame: Frame, act: Active) -> None:
    for sweep in in_two_sweeps(s):
        _reduce(machine, sweep, frame, act)


def _reduce(machine: Machine, s: Reduce, frame: Frame, act: Active) -> None:
    n = frame.count(act)
    totals = [np.array(spread(machine.ev(a.init, frame, act), n)) for a in s.accs]
    for child, owner in _children(machine, s.var, s.lo, s.hi, frame, act):
        live = machine.body(s.body, child, None)
        touched, counts = np.unique(owner if live is None else owner[live], return_counts=True)
        for total, acc in zip(totals, s.accs):
            values = np.array(spread(machine.ev(acc.value, child, live), child.count(live)))
            partial = fold_segments(lambda a, b, acc=acc: _combine(machine, acc, a, b), values, counts)
            total[touched] = _combine(machine, acc, total[touched], partial)
    for total, acc in zip(totals, s.accs):
        frame.declare(acc.sym, total, act)


def scan(machine: Machine, s: Scan, frame: Frame, act: Active) -> None:
    """Prefixes are taken position by position, those of all outer lanes at once."""
    n, acc = frame.count(act), s.acc
    total = np.array(spread(machine.ev(acc.init, frame, act), n))
    for child, owner in _children(machine, s.var, s.lo, s.hi, frame, act):
        machine.body(s.body, child, None)
        values = np.array(spread(machine.ev(acc.value, child, None), child.n))
        seen = np.empty_like(values)
        lanes, starts, counts = np.unique(owner, return_index=True, return_counts=True)
        for k in range(int(counts.max()) if len(counts) else 0):
            here = counts > k
            at, to = starts[here] + k, lanes[here]
            before = total[to]
            total[to] = _combine(machine, acc, before, values[at])
            seen[at] = before if s.exclusive else total[to]
        child.declare(acc.sym, seen, None)
        machine.body(s.then, child, None)
    frame.declare(acc.sym, total, act)


def _combine(machine: Machine, acc: Acc, a, b):
    t = scalar_of(acc.sym.type)
    if acc.op in ("min", "max"):
        return machine.state.domain.call(acc.op, [a, b], t)
    return machine.state.domain.arith(acc.op, a, b, t)
