"""Tensor-core statements: matrix loads and multiply-accumulate on the fragments of whole warps.

A fragment is gathered from the lanes' registers into a matrix, by the layouts of :mod:`ktc.ir.fragments`, multiplied in
the value domain, and scattered back. So an element that a program puts into the wrong lane or slot gives a wrong
product in every domain, as it does on the device.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..fragments import FRAGMENTS, MATRIX, MATRIX_ROW, Layout
from ..nodes import Load, MatrixLoad, Mma, Var
from .access import access
from .domain import Unsupported
from .frames import Active, Frame, spread

if TYPE_CHECKING:
    from .statements import Machine

WARP = 32


@cache
def _places(layout: Layout, warp: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each (lane, slot)."""
    held = np.array([[layout.element(lane, s) for s in range(layout.slots)] for lane in range(warp)])
    return held[..., 0], held[..., 1]


def _whole_warps(machine: Machine, frame: Frame, act: Active, what: str) -> bool:
    """Whether the active lanes are whole warps; reports those that are not."""
    state = machine.state
    if state.geometry is None:
        raise Unsupported(f"{what} in parallel form", state.where())
    lanes = frame.lanes(act)
    warp = (lanes + state.first_thread) // WARP
    _, position, counts = np.unique(warp, return_inverse=True, return_counts=True)
    partial = counts[position] != WARP
    if partial.any() or state.geometry.threads % WARP:
        bad = partial if partial.any() else np.ones(len(lanes), bool)
        state.report("warp-divergence", f"{what} needs every lane of a full warp", frame, act, bad)
        return False
    return True


def matrix_load(machine: Machine, s: MatrixLoad, frame: Frame, act: Active) -> None:
    """``ldmatrix``: the first 8 lanes a matrix name rows, every lane receives two elements a matrix."""
    state, ev = machine.state, machine.ev
    if not _whole_warps(machine, frame, act, "a matrix load"):
        return
    lanes, n = frame.lanes(act), frame.count(act)
    matrices = s.width // 2
    naming = np.flatnonzero((lanes + state.first_thread) % WARP < MATRIX_ROW * matrices)
    who = lanes[naming]
    index = [spread(ev(i, frame, act), n)[naming] for i in s.index]
    rows = spread(access(state, s.buffer, frame, who, index, MATRIX_ROW).read(), len(who))
    rows = rows.reshape(n // WARP, matrices, MATRIX_ROW, MATRIX_ROW)
    row, col = _places(MATRIX, WARP)
    if s.trans:
        row, col = col, row
    values = np.stack([rows[:, q][:, row, col] for q in range(matrices)], axis=2).reshape(n, s.width)
    target = [ev(i, frame, act) for i in s.dst_index]
    access(state, s.dst, frame, act, target, s.width).write(values)


def mma(machine: Machine, s: Mma, frame: Frame, act: Active) -> None:
    """``acc += a * b``, one k after another."""
    state, ev, domain = machine.state, machine.ev, machine.state.domain
    f = FRAGMENTS[s.fragment]
    if not _whole_warps(machine, frame, act, "mma"):
        return
    n = frame.count(act)
    a = _gather(ev(s.a, frame, act), n, f.a, (f.m, f.k))
    b = _gather(ev(s.b, frame, act), n, f.b, (f.k, f.n))
    held = np.stack([spread(ev(x, frame, act), n) for x in s.acc], axis=1)
    shape = (n // WARP, f.m, f.n)
    total = _gather(held, n, f.c, (f.m, f.n)).reshape(-1)
    terms = [total]
    for k in range(f.k):
        left = np.broadcast_to(a[:, :, k, None], shape).reshape(-1)
        right = np.broadcast_to(b[:, k, None, :], shape).reshape(-1)
        left, right = (domain.cast(x, f.operand, f.accumulator) for x in (left, right))
        product = domain.arith("*", left, right, f.accumulator)
        terms.append(product)
        total = domain.arith("+", total, product, f.accumulator)
    total = domain.truncated(total, terms, f.accumulator).reshape(shape)
    row, col = _places(f.c, WARP)
    results = total[:, row, col].reshape(n, f.c.slots)
    for slot, x in enumerate(s.acc):
        if isinstance(x, Var):
            machine.assign(x.sym, results[:, slot], frame, act)
        elif isinstance(x, Load):
            index = [ev(i, frame, act) for i in x.index]
            access(state, x.buffer, frame, act, index, 1).write(results[:, slot])


def _gather(held, n: int, layout: Layout, shape: tuple[int, int]) -> np.ndarray:
    """The matrices (one a warp) whose elements the lanes hold in slots."""
    values = spread(held, n).reshape(n // WARP, WARP, layout.slots)
    out = np.zeros((n // WARP, *shape), values.dtype)
    row, col = _places(layout, WARP)
    out[:, row, col] = values
    return out
