"""Loops with a producer: their copies run as far ahead as they may.

The producer is one thread a block, so its schedule is a choice. Taken here is the earliest one: a buffer is filled in
the instant in which the block gives it up. Together with products that read their tiles as late as they may
(``Machine._products_left``), a buffer that is given up too early gives wrong results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.fragments import MATRIX_ROW, panel_of, row_of
from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.memory.access import access
from ktc.ir.nodes import BulkCopy, For, Produce
from ktc.ir.types import scalar_of

from .frames import Active, Frame, spread

if TYPE_CHECKING:
    from .statements import Machine


class Producer:
    """The producer of one loop in SPMD form, for all blocks that run it: ``stages`` rounds ahead from the start."""

    def __init__(self, machine: Machine, s: For, frame: Frame, act: Active) -> None:
        produce = s.body[0]
        assert isinstance(produce, Produce)
        self._machine, self._loop, self._frame, self._produce = machine, s, frame, produce
        self._rounds = 0
        frame.declare(s.var, machine.ev(s.init, frame, act), act)
        first = self._next = frame.values[s.var]
        for _ in range(machine.state.int_of(produce.stages)):
            self._round(act)
        frame.values[s.var] = first

    def round_ends(self, live: Active) -> None:
        """The blocks of ``live`` give up a buffer, once they hold as many as they may; it is filled again."""
        self._rounds += 1
        if self._rounds > self._produce.hold:
            own = self._frame.values[self._loop.var]
            self._round(live)
            self._frame.values[self._loop.var] = own

    def _round(self, act: Active) -> None:
        """The next round of the producer, for the blocks in ``act`` that have one left."""
        machine, s, frame = self._machine, self._loop, self._frame
        frame.values[s.var] = self._next
        lanes = frame.lanes(act)
        lanes = lanes[spread(machine.ev.truth(s.cond, frame, lanes), len(lanes))]
        if len(lanes):
            machine.state.reached.add(id(self._produce))
            machine.body(self._produce.body, frame, lanes)
            frame.assign(s.var, machine.ev(s.step, frame, lanes), lanes)
        self._next = frame.values[s.var]


def bulk_copy(machine: Machine, s: BulkCopy, frame: Frame, act: Active) -> None:
    """The box, element by element; the threads of the block share the work of their producer."""
    state, ev = machine.state, machine.ev
    if state.geometry is None:
        raise Unsupported("a bulk copy in parallel form", s.loc)
    threads, lanes = state.geometry.threads, frame.lanes(act)
    n = len(lanes)
    if n % threads or (lanes.reshape(-1, threads) != lanes[::threads, None] + np.arange(threads)).any():
        message = "a producer stands for every thread of its block"
        state.report("barrier-divergence", message, frame, act, np.ones(n, bool))
        return
    wanted = (*s.dst_index, *s.origin, *s.extent, s.pitch)
    values = np.stack([spread(ev(e, frame, act), n).astype(np.int64) for e in wanted])
    own = values.reshape(len(wanted), -1, threads)
    if (own != own[:, :, :1]).any():
        message = f"threads of a block differ on where '{s.dst.name}' is filled from"
        state.report("barrier-divergence", message, frame, act, np.ones(n, bool))
        return
    together = own[:, : own.shape[1] // s.shared * s.shared, 0].reshape(len(wanted), -1, s.shared)
    if s.shared > 1 and ((together != together[:, :, :1]).any() or state.first_thread // threads % s.shared):
        message = f"blocks of a cluster share a box of '{s.dst.name}' and differ on where it is"
        state.report("barrier-divergence", message, frame, act, np.ones(n, bool))
        return
    elem = scalar_of(s.dst.type)
    width = panel_of(elem)
    rounds = -(-s.rows * width // threads)
    copying = Frame(rounds * n, frame, np.tile(lanes, rounds))
    *index, row0, col0, rows, cols, pitch = np.tile(values, (1, rounds))
    element = (np.arange(rounds)[:, None] * threads + np.arange(n) % threads).reshape(-1)
    here = element < s.rows * width
    r, c = np.divmod(element, width)
    row, col = row0 + r, col0 + c
    inside = here & (row >= 0) & (row < rows) & (col >= 0) & (col < cols)
    place = [*index[:-2], index[-2] + r, index[-1] + (c ^ r % MATRIX_ROW * row_of(elem))]
    target = access(state, s.dst, copying, copying.all[here], [i[here] for i in place], 1)
    read = access(state, s.src, copying, copying.all[inside], [(row * pitch + col)[inside]], 1).read()
    box = np.zeros(copying.n, np.asarray(read).dtype)
    box[inside] = read
    target.fill(box[here])
