"""Block and warp barriers: check that everyone who must be here is, and tell the race detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.execution.frames import Active, Frame, spread
from ktc.ir.interp.execution.warp_collectives import bits_per_warp
from ktc.ir.nodes import Barrier

from .races import BarrierOrder

if TYPE_CHECKING:
    from ktc.ir.interp.execution.statements import Machine

FULL = np.uint32(0xFFFFFFFF)


def barrier(machine: Machine, s: Barrier, frame: Frame, act: Active) -> None:
    state = machine.state
    if state.geometry is None:
        raise Unsupported("a barrier in parallel form", s.loc)
    lanes = frame.lanes(act)
    if s.scope == "grid":
        _everyone_here(machine, frame, act, lanes)
        if isinstance(state.order, BarrierOrder):
            state.order.grid_barrier(lanes)
        return
    if s.scope == "block":
        all_here(machine, frame, act, lanes, state.geometry.threads)
        if isinstance(state.order, BarrierOrder):
            state.order.block_barrier(lanes, s.memory)
            if s.flags is not None:
                flags = spread(machine.ev(s.flags, frame, act), len(lanes)).astype(np.int64)
                state.order.lacking(lanes, flags)
        return
    masks = _mask_here(machine, s, frame, act, lanes)
    if isinstance(state.order, BarrierOrder):
        state.order.warp_barrier(lanes, masks)


def all_here(
    machine: Machine, frame: Frame, act: Active, lanes: np.ndarray, threads: int, what: str = "barrier"
) -> None:
    """All live threads of each block that reaches the barrier (or ``what`` else) reach it together."""
    if act is None:
        return
    live = frame.n if frame.exited is None else frame.n - int(frame.exited.sum())
    if len(lanes) == live:
        return
    alive = np.ones(frame.n, bool) if frame.exited is None else ~frame.exited
    expected = alive.reshape(-1, threads).sum(1)
    present = np.bincount(lanes // threads, minlength=len(expected))
    partial = (present > 0) & (present < expected)
    if partial.any():
        block = int(np.argmax(partial))
        message = f"{present[block]} of {expected[block]} live threads of the block reach this {what}"
        machine.state.report("barrier-divergence", message, frame, act, partial[lanes // threads])


def _everyone_here(machine: Machine, frame: Frame, act: Active, lanes: np.ndarray) -> None:
    """Every thread of the grid reaches a grid barrier: one that has left would be waited for."""
    if len(lanes) < frame.n:
        missing = np.broadcast_to(True, len(lanes))
        message = f"{len(lanes)} of {frame.n} threads of the grid reach this barrier"
        machine.state.report("barrier-divergence", message, frame, act, missing)


def _mask_here(machine: Machine, s: Barrier, frame: Frame, act: Active, lanes: np.ndarray) -> np.ndarray | None:
    """All live lanes that the mask names reach the warp barrier together, with one mask; None if it names all."""
    state = machine.state
    assert state.geometry is not None
    mask = spread(FULL if s.mask is None else machine.ev(s.mask, frame, act), len(lanes)).astype(np.int64) & int(FULL)
    alive = np.ones(frame.n, bool) if frame.exited is None else ~frame.exited
    alive[lanes] = False
    away = np.flatnonzero(alive)
    threads = state.geometry.threads
    lane = lanes % threads % 32
    absent = np.zeros_like(mask)
    if len(away):
        absent = bits_per_warp(away, away % threads % 32, np.True_, frame.n)[lanes - lane]
        bad = (mask & absent) != 0
        if bad.any():
            why = "the mask names live lanes that do not reach this warp barrier"
            state.report("warp-divergence", why, frame, act, bad)
    if (mask == int(FULL)).all():
        return None
    present = bits_per_warp(lanes, lane, np.True_, frame.n)[lanes - lane]
    if not ((present | absent) & ~mask).any():
        return None
    with_mask = np.zeros_like(mask)
    for m in np.unique(mask):
        mine = mask == m
        with_mask[mine] = bits_per_warp(lanes, lane, mine, frame.n)[(lanes - lane)[mine]]
    bad = with_mask != mask & present
    if bad.any():
        why = "lanes meet at this warp barrier whose masks do not name each other"
        state.report("warp-divergence", why, frame, act, bad)
    return mask
