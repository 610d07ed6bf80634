"""Asynchronous copies: issued now, visible when their group is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.interp.execution.frames import Active, Frame, spread
from ktc.ir.nodes import AsyncCopy

from .access import access

if TYPE_CHECKING:
    from ktc.ir.interp.execution.statements import Machine


class CopyQueue:
    """Groups in flight, oldest first. Lanes run in lockstep, so one queue serves all of them."""

    def __init__(self) -> None:
        self._open: list[Callable[[], None]] = []
        self._groups: list[list[Callable[[], None]]] = []

    def issue(self, machine: Machine, s: AsyncCopy, frame: Frame, act: Active) -> None:
        state, ev = machine.state, machine.ev
        width = state.int_of(s.width)
        target = access(state, s.dst, frame, act, [ev(i, frame, act) for i in s.dst_index], width)
        lanes = frame.lanes(act)
        valid = spread(ev.truth(s.valid, frame, act), len(lanes)) if s.valid is not None else np.ones(len(lanes), bool)
        reading = act if valid.all() else lanes[valid]
        source = access(state, s.src, frame, reading, [ev(i, frame, reading) for i in s.src_index], width)
        value = source.read()
        if not valid.all():
            read = spread(value, int(valid.sum()))
            value = np.zeros((len(lanes), *read.shape[1:]), read.dtype)
            value[valid] = read
        self._open.append(lambda: target.write(value))

    def commit(self) -> None:
        self._groups.append(self._open)
        self._open = []

    def wait(self, pending: int) -> None:
        while len(self._groups) > pending:
            for write in self._groups.pop(0):
                write()
