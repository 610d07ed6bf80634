"""Reading and writing buffers under an active set, with the sanitizer's checks on the way."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.execution.frames import Active, Frame, spread
from ktc.ir.interp.execution.run_state import State
from ktc.ir.interp.execution.true_counts import all_true, any_true
from ktc.ir.nodes import Sym
from ktc.ir.types import Ptr, Vec

from .memory_spaces import Buffer

PLACE = np.dtype(np.int64)
WIDEST_ACCESS = 16
"""Bytes of the widest access: wider vectors move by several."""


class Access:
    """Where each active lane touches ``buffer``: ``pos`` indexes ``buffer.data``, one entry or row of ``moved`` a lane.

    ``pos`` is 0-d when all lanes touch the same place of a global buffer. Lanes out of bounds are reported and get
    ``ok`` False; their ``pos`` is clamped to somewhere inside.
    """

    def __init__(self, state: State, buffer: Buffer, frame: Frame, act: Active, index: list, width: int) -> None:
        self.state, self.buffer, self.frame, self.act = state, buffer, frame, act
        flat, ok, self.moved = buffer.locate(index, width)
        self.ok, self.is_vector = ok, self.moved > 1
        if state.reach is not None:
            state.reach.note(buffer.sym, flat, self.moved, frame.count(act))
        if ok is not None:
            self._out_of_bounds(flat, ok)
            flat = np.where(ok, flat, 0)
        self._check_alignment(flat, width)
        self.column: slice | None = None
        """The places of all lanes, where each touches the same scalar of its own row."""
        if buffer.owner is frame and act is None and ok is None and flat.ndim == 0 and not self.is_vector:
            self.column = buffer.column(flat)
            return
        if buffer.owner is not None:
            flat = buffer.places(frame, act, flat)
        self.pos = flat[..., None] + np.arange(self.moved) * buffer.step if self.is_vector else flat
        if ok is not None:
            self.pos = np.minimum(self.pos, len(buffer.data) - 1)

    @cached_property
    def pos(self) -> np.ndarray:
        assert self.column is not None
        return np.arange(self.column.start, self.column.stop, self.column.step or 1)

    def _out_of_bounds(self, flat, ok) -> None:
        bad = np.broadcast_to(~ok, (self.frame.count(self.act),))
        if not bad.size:
            return
        first = int(np.broadcast_to(flat, bad.shape)[int(np.argmax(bad))])
        b = self.buffer
        if b.null:
            message = f"{b.sym.name}[{first}] is accessed, but {b.sym.name} is null"
            self.state.report("null-pointer", message, self.frame, self.act, bad, buffer=b.sym.name, index=first)
            return
        if b.layout is not None:
            row, place = divmod(first, b.layout.pitch)
            message = f"{b.sym.name}[{row}][{place}] is outside its rows of {b.layout.length} elements"
            self.state.report("out-of-bounds", message, self.frame, self.act, bad, buffer=b.sym.name, index=place)
            return
        extent = "x".join(map(str, b.dims)) if b.dims is not None else str(b.size // b.lanes)
        message = f"{b.sym.name}[{first}] is outside its {extent} elements"
        self.state.report("out-of-bounds", message, self.frame, self.act, bad, buffer=b.sym.name, index=first)

    def _check_alignment(self, flat, width: int) -> None:
        """Wide accesses move an aligned power-of-two size, in pieces of at most 16 bytes.

        Pointer parameters may promise a base alignment.
        """
        b = self.buffer
        size = self.moved * b.elem.bytes
        if width == 1 or not self.state.sanitize or size & (size - 1):
            return
        size = min(size, WIDEST_ACCESS)
        bad = np.asarray((flat * b.elem.bytes) % size != 0)
        base_too_weak = 0 < b.align < size
        if self.ok is not None:
            bad = bad & self.ok
        if base_too_weak or any_true(bad):
            bad = bad | base_too_weak
            why = (
                f"the base is only {b.align}-byte aligned"
                if base_too_weak
                else "the index is not a multiple of the width"
            )
            message = f"a {size}-byte access to {b.sym.name}: {why}"
            self.state.report("misaligned", message, self.frame, self.act, bad, buffer=b.sym.name)

    def read(self):
        b = self.buffer
        where: slice | np.ndarray = self.pos if self.column is None else self.column
        value = b.data.take(self.pos) if self.column is None else b.data[self.column].copy()
        if b.written is not None and not self.state.is_doubtful(b.elem) and not all_true(b.written[where]):
            self.state.doubt(b.elem)
        self.note("read")
        if self.is_vector:
            value = value.reshape(1, -1) if self.pos.ndim == 1 else value
        return value

    def write(self, value, atomic: bool = False) -> None:
        """Store one value per lane; lanes out of bounds are dropped."""
        self._put(value, "atomic" if atomic else "write")

    def fill(self, value) -> None:
        """:meth:`write` by a producer: whoever reads has waited for it, so no thread's access is concurrent."""
        self._put(value, "")

    def _put(self, value, how: str) -> None:
        b, n = self.buffer, self.frame.count(self.act)
        value = spread(value, n)
        if value.ndim == 2 and not self.is_vector:
            value = value[:, 0]  # a vector of one
        if value.ndim == 2 and value.shape[1] != self.moved:
            what = f"a vector of {value.shape[1]} is stored to {self.moved} elements of {b.sym.name}"
            raise KtcError("E-INTERP-TYPE", what, self.state.where())
        pos: slice | np.ndarray = self._places(n) if self.column is None else self.column
        if self.ok is not None and isinstance(pos, np.ndarray):
            keep = np.broadcast_to(self.ok, (n,))
            pos, value = pos[keep], value[keep]
        if how:
            self.note(how, value)
        if b.data.dtype.fields is not None and not isinstance(pos, slice):
            b.data.put(pos, value)  # by an index, numpy copies records field by field
        else:
            b.data[pos] = value
        self.state.stores_to(b.sym)
        if b.written is not None:
            b.written[pos] = True

    def _places(self, n: int) -> np.ndarray:
        """``pos`` with one entry or row for each of ``n`` lanes."""
        shape = (n, self.moved) if self.is_vector else (n,)
        return self.pos if np.shape(self.pos) == shape else np.broadcast_to(self.pos, shape)

    def note(self, how: str, value=None, only: np.ndarray | None = None) -> None:
        """Tell the race detector (see :meth:`ktc.ir.interp.sanitizer.races.Shadow.touch`) of the access, or of the
        lanes ``only`` of it."""
        b = self.buffer
        if b.shadow is None or self.state.order is None or self.frame is b.owner:
            return
        n = self.frame.count(self.act)
        pos = self._places(n)
        frame, lanes = self.state.by_thread(self.frame, self.act)
        if self.ok is not None or only is not None:
            keep = np.broadcast_to(True if self.ok is None else self.ok, (n,))
            keep = keep if only is None else keep & only
            pos, lanes = pos[keep], lanes[keep]
        if pos.ndim == 2:
            lanes = np.repeat(lanes, pos.shape[1])
            pos = pos.reshape(-1)
        old = None if value is None else b.data[pos]
        b.shadow.touch(self.state, frame, lanes, pos, how, None if value is None else np.reshape(value, -1), old)


def read_only(state: State, sym: Sym, index: list) -> Any:
    """The elements of a parameter that nobody writes to, where all of them are there; None where there is more to it
    (:class:`Access`)."""
    b = state.buffers.get(sym)
    if b is None or b.shadow is not None or b.written is not None or b.owner is not None or state.is_noting:
        return None
    if len(index) != 1 or not isinstance(sym.type, Ptr) or isinstance(sym.type.elem, Vec):
        return None
    at = index[0] if index[0].dtype is PLACE else index[0].astype(PLACE)
    return b.data.take(at) if b.holds(at) else None


def own_places(state: State, sym: Sym, frame: Frame, act: Active, index: list) -> tuple[Buffer, Any] | None:
    """The array of each lane's own that ``sym`` is, and where in it its lanes touch one element each; None where there
    is more to it (:class:`Access`): some are not there, accesses are noted, or other lanes' order matters."""
    b = state.buffers.get(sym)
    if b is None or b.owner is None or b.shadow is not None or state.reach is not None or b.data.dtype.fields:
        return None
    flat, ok, moved = b.locate([i if i.dtype is PLACE else i.astype(PLACE) for i in index], 1)
    if ok is not None or moved > 1:
        return None
    if act is None and flat.ndim == 0 and b.owner is frame:
        return b, b.column(flat)
    return b, b.places(frame, act, flat)


def read_own(state: State, own: tuple[Buffer, Any]) -> np.ndarray:
    """What is at these places (:func:`own_places`)."""
    b, where = own
    if b.written is not None and not state.is_doubtful(b.elem) and not all_true(b.written[where]):
        state.doubt(b.elem)
    return b.data[where].copy() if type(where) is slice else b.data.take(where)


def write_own(state: State, own: tuple[Buffer, Any], value: Any) -> None:
    """Store ``value``, one for all or one a lane, to these places (:func:`own_places`)."""
    b, where = own
    b.data[where] = value
    if b.written is not None:
        b.written[where] = True
    state.stores_to(b.sym)


def access(state: State, sym: Sym, frame: Frame, act: Active, index: list, width: int) -> Access:
    """Resolve a ``Load``/``Store`` of a buffer symbol. ``index``: evaluated integers of any type."""
    buffer = state.buffers.get(sym)
    if buffer is None:
        raise Unsupported(f"'{sym.name}' is not a buffer here", state.where())
    return Access(state, buffer, frame, act, [i if i.dtype is PLACE else i.astype(PLACE) for i in index], width)
