"""Asynchronous copies: issued now, visible when their group is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..nodes import AsyncCopy
from .access import access
from .frames import Active, Frame

if TYPE_CHECKING:
    from .statements import Machine


class CopyQueue:
    """Groups in flight, oldest first. Lanes run in lockstep, so one queue serves all of them."""

    def __init__(self) -> None:
        self._open: list[Callable[[], None]] = []
        self._groups: list[list[Callable[[], None]]] = []

    def issue(self, machine: Machine, s: AsyncCopy, frame: Frame, act: Active) -> None:
        state, ev = machine.state, machine.ev
        width = state.int_of(s.width)
        source = access(state, s.src, frame, act, [ev(i, frame, act) for i in s.src_index], width)
        target = access(state, s.dst, frame, act, [ev(i, frame, act) for i in s.dst_index], width)
        value = source.read()
        self._open.append(lambda: target.write(value))

    def commit(self) -> None:
        self._groups.append(self._open)
        self._open = []

    def wait(self, pending: int) -> None:
        while len(self._groups) > pending:
            for write in self._groups.pop(0):
                write()
