"""Copies by a block as a whole, in flight until the block waits for their event.

A copy takes part in races as an agent of its own: nothing that its block did since its last barrier is ordered before
it, not even by the thread that issued it, and nothing later is ordered after it until the wait. Its values are read
when it is issued and appear at the wait, so results differ too where a kernel looks at them before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.execution.frames import Active, Frame, spread
from ktc.ir.interp.sanitizer.barriers import all_here
from ktc.ir.interp.sanitizer.races import BarrierOrder
from ktc.ir.nodes import Expr, GroupCopy, GroupWait, Stmt, Sym

from .access import access
from .memory_spaces import Buffer

if TYPE_CHECKING:
    from ktc.ir.interp.execution.statements import Machine

FIRST_EVENT = 1 << 20
"""Events count from here: no small number that a kernel makes up is one."""


@dataclass
class _Flight:
    """One copy by each of some blocks.

    ``row_block``: the block of each entry of ``pos``; by block: ``takes_part``, ``agents`` (-1: none), ``landed``.
    """

    event: int
    issued: Stmt
    buffer: Buffer
    pos: np.ndarray
    value: np.ndarray
    row_block: np.ndarray
    takes_part: np.ndarray
    agents: np.ndarray
    landed: np.ndarray


class GroupCopies:
    """The copies that the blocks of one batch have issued."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flights: list[_Flight] = []
        self.next_event = FIRST_EVENT

    def issue(self, s: GroupCopy, frame: Frame, act: Active) -> None:
        state = self.machine.state
        blocks, leaders, agreed = self._meet(frame, act)
        room = [len(state.buffers[b].data) for b in (s.dst, s.src) if b in state.buffers]
        count = np.minimum(agreed(s.count), min(room, default=0) + 1)  # one too many is enough to be told
        rows = np.repeat(leaders, count)
        k = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        stride = np.repeat(agreed(s.stride), count) if s.stride is not None else 1

        def places(buffer: Sym, index: tuple[Expr, ...]) -> list:
            at = [np.repeat(agreed(i), count) for i in index]
            shared = getattr(buffer.type, "space", "") == "shared"
            return [*at[:-1], at[-1] + k * (1 if shared else stride)]

        event = self._event(s, agreed, frame, act, blocks)
        frame.assign(s.event, np.int32(event), act)
        whole = frame.n // self.machine.state.geometry.threads  # type: ignore[union-attr]
        takes_part, agents = np.zeros(whole, bool), np.full(whole, -1, np.int64)
        takes_part[blocks] = True
        order = state.order if isinstance(state.order, BarrierOrder) else None
        if order is not None:
            agents[blocks] = order.board(leaders)
            order.acting = agents
        try:
            target = access(state, s.dst, frame, rows, places(s.dst, s.dst_index), 1)
            value = access(state, s.src, frame, rows, places(s.src, s.src_index), 1).read()
            value = np.array(spread(value, len(rows)))
            if target.ok is not None:
                value = value[np.broadcast_to(target.ok, (len(rows),))]
            target.note("write", value)
        finally:
            if order is not None:
                order.acting = None
        pos = np.broadcast_to(target.pos, (len(rows), *value.shape[1:]))
        row_block = rows // max(state.geometry.threads, 1)  # type: ignore[union-attr]
        if target.ok is not None:
            ok = np.broadcast_to(target.ok, (len(rows),))
            pos, row_block = pos[ok], row_block[ok]
        landed = np.zeros(whole, bool)
        self.flights.append(_Flight(event, s, target.buffer, pos, value, row_block, takes_part, agents, landed))

    def wait(self, s: GroupWait, frame: Frame, act: Active) -> None:
        blocks, _, agreed = self._meet(frame, act)
        events = agreed(s.event)
        known = np.zeros(len(blocks), bool)
        for f in self.flights:
            named = f.takes_part[blocks] & (events == f.event)
            known |= named
            here = np.zeros(len(f.landed), bool)
            here[blocks[named]] = True
            self._land(f, here & ~f.landed)
        if not known.all():
            bad = ~known[np.searchsorted(blocks, frame.lanes(act) // self._threads())]
            self.machine.state.report(
                "invalid-event", "no copy of this block gave the event waited for", frame, act, bad
            )

    def end(self) -> None:
        """The blocks are done: what is still in flight was never waited for."""
        state = self.machine.state
        for f in self.flights:
            lost = f.takes_part & ~f.landed
            if lost.any():
                count = int(lost.sum())
                message = f"the copy into {f.buffer.sym.name} is in flight when the kernel ends"
                state.findings.add("unwaited-copy", message, f.issued, buffer=f.buffer.sym.name, count=count)

    # ------------------------------------------------------------------------------------------------------ helpers

    def _threads(self) -> int:
        geometry = self.machine.state.geometry
        if geometry is None:
            raise Unsupported("a copy by the block in parallel form", self.machine.state.where())
        return max(geometry.threads, 1)

    def _meet(self, frame: Frame, act: Active):
        """The blocks here (in the batch), a thread of each, and a function to evaluate what they must agree on."""
        threads, lanes = self._threads(), frame.lanes(act)
        all_here(self.machine, frame, act, lanes, threads, "copy or wait of the block")
        blocks, at, member = np.unique(lanes // threads, return_index=True, return_inverse=True)

        def agreed(e: Expr) -> np.ndarray:
            value = spread(self.machine.ev(e, frame, act), len(lanes))
            bad = value != value[at][member]
            if bad.any():
                message = "threads of a block reach its copy or wait with different operands"
                self.machine.state.report("barrier-divergence", message, frame, act, bad)
            return value[at].astype(np.int64)

        return blocks, lanes[at], agreed

    def _event(self, s: GroupCopy, agreed, frame: Frame, act: Active, blocks: np.ndarray) -> int:
        """The event of a copy: that of ``after``, else a new one."""
        after = agreed(s.after) if s.after is not None else np.zeros(len(blocks), np.int64)
        named = int(after[0]) if len(after) else 0
        if named and (after == named).all() and any(f.event == named for f in self.flights):
            return named
        if after.any():
            bad = np.broadcast_to(True, (frame.count(act),))
            self.machine.state.report("invalid-event", "a copy joins an event that is of no copy", frame, act, bad)
        self.next_event += 1
        return self.next_event - 1

    def _land(self, f: _Flight, blocks: np.ndarray) -> None:
        if not blocks.any():
            return
        rows = blocks[f.row_block]
        f.buffer.data[f.pos[rows]] = f.value[rows]
        self.machine.state.stores_to(f.buffer.sym)
        if f.buffer.written is not None:
            f.buffer.written[f.pos[rows]] = True
        f.landed |= blocks
        order = self.machine.state.order
        if isinstance(order, BarrierOrder):
            order.landed(f.agents[blocks])
