"""Atomic read-modify-writes, in lane order; or the other way round (``State.backwards``), for nobody promises any."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.atomic_ops import ARITHMETIC, BIT_ORDERS, COMBINED_BY, TAKEN
from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.execution.frames import Active, Frame, spread
from ktc.ir.interp.execution.segmented_fold import fold_segments
from ktc.ir.interp.execution.true_counts import all_true
from ktc.ir.interp.sanitizer.races import BarrierOrder
from ktc.ir.nodes import Atomic

from .access import access

if TYPE_CHECKING:
    from ktc.ir.interp.execution.statements import Machine


def _combine(machine: Machine, op: str, old, value, t):
    """The value after one atomic, given the one before."""
    domain = machine.state.domain
    if op in ARITHMETIC:
        return domain.arith(ARITHMETIC[op], old, value, t)
    if op in ("min", "max"):
        return domain.call(op, [old, value], t)
    if op == "exch":
        return value
    if op == "load":
        return old
    if op in TAKEN:
        return domain.chosen(TAKEN[op].holds(lambda o, a, b: domain.compare(o, a, b, t), value, old), value, old, t)
    if op in BIT_ORDERS:
        signed, better = BIT_ORDERS[op]
        new, before = (domain.bit_order(x, t, signed) for x in (value, old))
        return domain.chosen(new > before if better == ">" else new < before, value, old, t)
    if op == "inc":  # wraps to 0 at the limit (CUDA)
        return np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
    if op == "dec":
        return np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
    raise Unsupported(f"no meaning for the atomic '{op}'", machine.state.where())


_FOLDABLE = {
    "sub": "add",
    **{op: op if by not in ("min", "max") else by for op, by in COMBINED_BY.items()},
    **{op: op for op in (*BIT_ORDERS, *(op for op in TAKEN if op[-1] in "sn"))},
}
"""By which atomic the operands of several lanes may be combined first."""

_RUNNING = {"add": np.positive, "sub": np.negative}
"""Operators of integers, which wrap: what the lanes before add to a place is a difference of sums."""


FREE_ROUNDS, ROUNDS_A_STATEMENT = 256, 8
"""Rounds in which lanes of one place have their turns: so many belong to the statement, and of the rest so many take as
long as one more statement."""


def _taking_turns(rounds: int) -> int:
    """Statements that ``rounds`` take as long as, beyond the one that they belong to."""
    return max(0, rounds - FREE_ROUNDS) // ROUNDS_A_STATEMENT


def _exchanged(given: np.ndarray, counts: np.ndarray, start: np.ndarray) -> np.ndarray:
    """What each lane finds, by places: what the one before it has ``given``, the first what was there."""
    found = np.empty(len(given), start.dtype)
    found[1:] = given[:-1]
    found[np.cumsum(counts) - counts] = start
    return found


def _running(added: np.ndarray, counts: np.ndarray, start: np.ndarray) -> np.ndarray:
    """What each lane finds, by places: ``start`` of its place and what the lanes before it ``added`` there."""
    before = np.cumsum(added, dtype=added.dtype) - added
    first = np.cumsum(counts) - counts
    return before + np.repeat(start - before[first], counts)


def _order(pos: np.ndarray, ok: np.ndarray | None, backwards: bool) -> np.ndarray:
    """The lanes that are ``ok``, by their places; those of one place by their number, or ``backwards``."""
    lanes = np.arange(len(pos)) if ok is None else np.flatnonzero(ok)
    lanes = lanes[::-1] if backwards else lanes
    return lanes[np.argsort(pos[lanes], kind="stable")]


def _runs(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of ``ordered``, each once, and how often it is there."""
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    first = new.nonzero()[0]
    counts = np.empty_like(first)
    np.subtract(first[1:], first[:-1], out=counts[:-1])
    counts[-1:] = len(ordered) - first[-1:]
    return ordered[first], counts


def _swapped(
    start: np.ndarray, counts: np.ndarray, value: np.ndarray, compare: np.ndarray, same: Callable[[Any, Any], Any]
) -> tuple[np.ndarray, np.ndarray, int]:
    """What each lane of a compare-and-swap finds, by places, what stays at each place, and in how many rounds.

    ``same``: whether two values have the same bits. One round for each swap that changes the most contended place: in a
    retry loop one lane has its way, and all behind it find what it has put there.
    """
    place = np.repeat(np.arange(len(counts)), counts)
    old, now = start[place], np.array(start)
    changes = ~(same(value, compare) & (value == compare))
    left, rounds = np.arange(len(place)), 0
    while len(hits := left[same(old[left], compare[left]) & changes[left]]):
        places, at = np.unique(place[hits], return_index=True)
        first = np.full(len(counts), len(place))
        first[places] = hits[at]
        now[places] = value[hits[at]]
        left = left[left > first[place[left]]]
        old[left] = now[place[left]]
        rounds += 1
    return old, now, rounds


def atomic(machine: Machine, s: Atomic, frame: Frame, act: Active) -> None:
    ev, state = machine.ev, machine.state
    place = access(state, s.buffer, frame, act, [ev(i, frame, act) for i in s.index], 1)
    buffer, t, n = place.buffer, place.buffer.elem, frame.count(act)
    value = np.array(spread(ev(s.value, frame, act), n))
    compare = np.array(spread(ev(s.compare, frame, act), n)) if s.compare is not None else value
    pos = np.array(np.broadcast_to(place.pos, (n,)))
    lanes = frame.lanes(act)
    ok = np.ones(n, bool) if place.ok is None else np.broadcast_to(place.ok, (n,))
    if isinstance(state.order, BarrierOrder) and buffer.shadow is not None and buffer.space == "global":
        buffer.shadow.touch_within_block(state, frame, lanes[ok], pos[ok], s.scope == "block")
    if s.op != "cas":
        place.note("atomic")
    if buffer.written is not None and not all_true(buffer.written[pos[ok]]):
        state.doubt(buffer.elem)
    old = np.zeros(n, buffer.data.dtype)
    state.stores_to(buffer.sym)
    order = _order(pos, None if place.ok is None else ok, state.backwards)
    where, counts = _runs(pos[order])
    before: Any = None if buffer.polls is None else buffer.data[where]
    if s.dst is None and s.op in _FOLDABLE:
        total = fold_segments(lambda a, b: _combine(machine, _FOLDABLE[s.op], a, b, t), value[order], counts)
        buffer.data[where] = _combine(machine, s.op, buffer.data[where], total, t)
    elif s.op in _RUNNING and t.is_int:
        old[order] = _running(_RUNNING[s.op](value[order]), counts, buffer.data[where])
        buffer.data[pos[order]] = _combine(machine, s.op, old[order], value[order], t)  # the last lane's stays
    elif s.op == "exch":
        old[order] = _exchanged(value[order], counts, buffer.data[where])
        buffer.data[pos[order]] = value[order]  # the last lane's stays
    elif s.op == "cas":
        old[order], buffer.data[where], rounds = _swapped(
            buffer.data[where], counts, value[order], compare[order], lambda a, b: state.domain.same_bits(a, b, t)
        )
        state.spend(_taking_turns(rounds))
    else:
        state.spend(_taking_turns(int(counts.max(initial=0))))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        by_rank, ends = order[np.argsort(rank, kind="stable")], np.cumsum(np.bincount(rank))
        for sel in np.split(by_rank, ends[:-1]) if len(order) else ():  # the r-th lane of every place at once
            old[sel] = buffer.data[pos[sel]]
            buffer.data[pos[sel]] = _combine(machine, s.op, old[sel], value[sel], t)
    if s.op == "cas":  # one that fails writes nothing
        changes = state.domain.same_bits(old, compare, t) & ok
        place.note("peek", only=~changes)
        place.note("atomic", only=changes)
    if isinstance(state.order, BarrierOrder):
        gives = changes if s.op == "cas" else np.full(n, s.op != "load")
        state.order.exchange(buffer.serial, pos[order], np.broadcast_to(lanes, (n,))[order], gives[order])
        if buffer.polls is not None:
            ids = (np.broadcast_to(lanes, (n,)) + state.order.first)[order]
            if s.op == "load":
                old[order] = buffer.polls.load(pos[order], old[order], ids, state.order)
            else:
                buffer.polls.update(where, before, ids[np.cumsum(counts) - 1], state.order.now)
    if buffer.written is not None and s.op != "load":
        buffer.written[where] = True
    if s.dst is not None:
        machine.assign(s.dst, old, frame, act)
