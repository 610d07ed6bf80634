"""Arrays declared in the kernel: shared (a row per block), private (a row per thread or iteration)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.fold import evaluate
from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.execution.frames import Active, Frame
from ktc.ir.interp.sanitizer.shadow import Shadow
from ktc.ir.nodes import Expr, Sym
from ktc.ir.types import Array, Vec, scalar_of

from .memory_spaces import Buffer, base_of

if TYPE_CHECKING:
    from ktc.ir.interp.execution.statements import Machine


def allocate(machine: Machine, sym: Sym, frame: Frame, act: Active, dynamic: bool = False) -> None:
    """Create (or, for a private array declared in a loop, poison again) the storage of ``sym``."""
    state = machine.state
    t = sym.type
    if not isinstance(t, Array):
        raise Unsupported(f"'{sym.name}' is not an array", state.where())
    shared = t.space == "shared" and state.geometry is not None
    old = state.buffers.get(sym)
    if old is not None and old.owner is (frame.parent if shared else frame):
        if not shared:
            _poison(machine, old, frame.lanes(act))
        return
    elem = scalar_of(t)
    lanes = state.int_of(t.elem.n) if isinstance(t.elem, Vec) else 1
    dims = tuple(_extent(machine, d, frame, act) for d in t.shape)
    bytes_each = elem.bytes * lanes
    if dynamic:
        dims = _dynamic_dims(machine, sym, dims, bytes_each)
    size = int(np.prod(dims, dtype=np.int64)) * lanes
    owner = frame.parent if shared else frame
    assert owner is not None
    data = state.domain.poison(elem, max(owner.n * size, 1), state.seed)
    buffer = Buffer(sym, elem, lanes, dims, size, data, owner, np.zeros(len(data), bool), space=t.space)
    iterations = state.geometry is None
    if state.sanitize and state.order is not None and (shared or iterations):
        buffer.shadow = Shadow(len(data), local=shared, owner=owner)
    buffer.side_by_side = not shared and buffer.shadow is None and owner.n * size > 0
    before = state.shared_used - size * elem.bytes if dynamic and state.geometry is not None else 0
    buffer.base = base_of(len(state.buffers)) + before
    state.buffers[sym] = buffer


def _extent(machine: Machine, e: Expr, frame: Frame, act: Active) -> int:
    """An extent: over knobs and parameters, or over values that are the same for all lanes."""
    known = evaluate(e, machine.state.env)
    if known is not None:
        return int(known)
    values = np.unique(machine.ev(e, frame, act))
    if len(values) != 1:
        raise Unsupported("an array whose extent differs between lanes", machine.state.where())
    return int(values[0])


def _dynamic_dims(machine: Machine, sym: Sym, dims: tuple[int, ...], bytes_each: int) -> tuple[int, ...]:
    """Dynamic shared arrays follow one another in the launch's bytes; one without an extent takes what is left, and so
    does one of a single element where nothing is: that is declared and, as in a launch with none of it, not touched."""
    state = machine.state
    if state.geometry is None:  # parallel form: the launch is not derived yet
        return dims
    start = -(-state.shared_used // bytes_each) * bytes_each
    total = state.geometry.dynamic_shared
    if not dims or dims == (0,) or (dims == (1,) and total == 0):
        dims = (max(total - start, 0) // bytes_each,)
    state.shared_used = start + int(np.prod(dims, dtype=np.int64)) * bytes_each
    if state.shared_used > total:
        message = f"{sym.name} ends at byte {state.shared_used} of {total} of dynamic shared memory"
        state.findings.add("shared-overflow", message, state.stmt, buffer=sym.name)
    return dims


def _poison(machine: Machine, buffer: Buffer, lanes: np.ndarray) -> None:
    state = machine.state
    if buffer.size:
        buffer.rows[lanes] = state.domain.poison(buffer.elem, buffer.size, state.seed)
        assert buffer.written is not None
        buffer.in_rows(buffer.written)[lanes] = False
