"""Tensor-core statements: matrix loads and multiply-accumulate on the fragments of whole warps.

A fragment is gathered from the lanes' registers into a matrix, by the layouts of :mod:`ktc.ir.fragments`, multiplied in
the value domain, and scattered back. So an element that a program puts into the wrong lane or slot gives a wrong
product in every domain, as it does on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.fold import zero
from ktc.ir.fragments import (
    FRAGMENTS,
    INSTRUCTIONS,
    MATRIX_ROW,
    PAIRED,
    Fragment,
    Layout,
    matrix_layout,
    paired_row,
    panel_of,
    row_of,
)
from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.memory.access import access
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import Expr, Load, MatrixLoad, Mma, Sym, TileMma, Var
from ktc.ir.types import scalar_of

from .frames import Active, Frame, spread
from .true_counts import all_true

if TYPE_CHECKING:
    from .statements import Machine


@cache
def _places(layout: Layout, warp: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each (lane, slot)."""
    held = np.array([[layout.element(lane, s) for s in range(layout.slots)] for lane in range(warp)])
    return held[..., 0], held[..., 1]


def _whole_warps(machine: Machine, frame: Frame, act: Active, what: str, size: int = WARP) -> bool:
    """Whether the active lanes are whole warps (or warpgroups); reports those that are not."""
    state = machine.state
    if state.geometry is None:
        raise Unsupported(f"{what} in parallel form", state.where())
    threads = state.by_thread(frame, act)[1] + state.first_thread
    whole = len(threads) % size == 0 and state.geometry.threads % size == 0
    if whole:
        warps = threads.reshape(-1, size)
        whole = all_true(warps == warps[:, :1] // size * size + np.arange(size))
    if not whole:
        _, position, counts = np.unique(threads // size, return_inverse=True, return_counts=True)
        partial = counts[position] % size != 0
        bad = partial if partial.any() else np.ones(len(threads), bool)
        state.report("warp-divergence", f"{what} needs every lane of its {size}", frame, act, bad)
    return whole


def matrix_load(machine: Machine, s: MatrixLoad, frame: Frame, act: Active) -> None:
    """``ldmatrix``: the first 8 lanes a matrix name rows, every lane receives 32 bits a matrix."""
    state, ev = machine.state, machine.ev
    if not _whole_warps(machine, frame, act, "a matrix load"):
        return
    lanes, n = frame.lanes(act), frame.count(act)
    elem = scalar_of(s.buffer.type)
    matrices, length = s.width * elem.bits // 32, row_of(elem)
    naming = np.flatnonzero((state.by_thread(frame, act)[1] + state.first_thread) % WARP < MATRIX_ROW * matrices)
    who = lanes[naming]
    index = [spread(ev(i, frame, act), n)[naming] for i in s.index]
    rows = spread(access(state, s.buffer, frame, who, index, length).read(), len(who))
    rows = rows.reshape(n // WARP, matrices, MATRIX_ROW, length)
    if s.trans and elem.bits == 8:
        values = _turned_bytes(rows).reshape(n, s.width)
    else:
        row, col = _places(matrix_layout(elem), WARP)
        if s.trans:
            row, col = col, row
        values = np.stack([rows[:, q][:, row, col] for q in range(matrices)], axis=2).reshape(n, s.width)
    target = [ev(i, frame, act) for i in s.dst_index]
    access(state, s.dst, frame, act, target, s.width).write(values)


def _turned_bytes(rows: np.ndarray) -> np.ndarray:
    """What each lane of each warp receives of four matrices of bytes that are one, transposed."""
    order = [[paired_row(q, r) for r in range(MATRIX_ROW)] for q in range(rows.shape[1])]
    whole = np.empty((len(rows), WARP, rows.shape[3]), rows.dtype)
    whole[:, np.array(order)] = rows
    row, col = _places(PAIRED, WARP)
    return whole[:, row, col]


def mma(machine: Machine, s: Mma, frame: Frame, act: Active) -> None:
    """``acc += a * b``, one k after another."""
    ev, f = machine.ev, INSTRUCTIONS[s.fragment]
    if not _whole_warps(machine, frame, act, "mma"):
        return
    n = frame.count(act)
    assert f.a is not None and f.b is not None
    a = _gather(ev(s.a, frame, act), n, f.a, (f.m, f.k))
    b = _gather(ev(s.b, frame, act), n, f.b, (f.k, f.n))
    _accumulate(machine, s.acc, f, a, b, frame, act)


def tile_mma(machine: Machine, s: TileMma, frame: Frame, act: Active) -> Callable[[], None]:
    """``wgmma``: as :func:`mma`, with operands gathered from shared memory through the permutation of its columns.

    Places are those of now; what is returned reads the tiles and changes the accumulators.
    """
    f = FRAGMENTS[s.fragment]
    if not _whole_warps(machine, frame, act, "a warpgroup's product", f.warp):
        return lambda: None
    n = frame.count(act)
    at = [[spread(machine.ev(x, frame, act), n).astype(np.int64) for x in index] for index in (s.a_index, s.b_index)]
    keep = spread(machine.ev.truth(s.keep, frame, act), n) if s.keep is not None else np.ones(n, bool)

    def product() -> None:
        i, k = np.divmod(np.arange(f.m * s.depth), s.depth)
        a = _tile(machine, s.a, at[0], i, k, (f.m, s.depth), f.warp, frame, act)
        if s.trans:
            j, k = np.divmod(np.arange(f.n * s.depth), s.depth)
            b = _tile(machine, s.b, at[1], j, k, (f.n, s.depth), f.warp, frame, act).transpose(0, 2, 1)
        else:
            k, j = np.divmod(np.arange(s.depth * f.n), f.n)
            b = _tile(machine, s.b, at[1], k, j, (s.depth, f.n), f.warp, frame, act)
        _accumulate(machine, s.acc, f, a, b, frame, act, keep)

    return product


def _tile(
    machine: Machine,
    sym: Sym,
    at: list[np.ndarray],
    row,
    col,
    shape: tuple[int, int],
    group: int,
    frame: Frame,
    act: Active,
):
    """The matrix (one a group) of elements (row, col) beside ``at``; the group's lanes share the reading."""
    n, parts = frame.count(act), len(row) // group
    groups = n // group
    reading = Frame(parts * n, frame, np.tile(frame.lanes(act), parts))
    r, c = (np.tile(x.reshape(parts, 1, group), (1, groups, 1)).reshape(-1) for x in (row, col))
    first = [np.tile(x, parts) for x in at]
    r, c = r + first[-2], c + first[-1]
    elem = scalar_of(sym.type)
    place = [*first[:-2], r, (c % panel_of(elem)) ^ (r % MATRIX_ROW * row_of(elem))]
    if len(at) > 2:  # columns in panels
        place[-3] = place[-3] + c // panel_of(elem)
    held = access(machine.state, sym, reading, None, place, 1).read()
    return held.reshape(parts, groups, group).swapaxes(0, 1).reshape(groups, *shape)


def _accumulate(
    machine: Machine, acc: tuple[Expr, ...], f: Fragment, a, b, frame: Frame, act: Active, keep=None
) -> None:
    """``acc += a @ b``, one k after another; a hardware step, ``f.k`` terms or a part of them, is truncated once."""
    state, ev, domain = machine.state, machine.ev, machine.state.domain
    n = frame.count(act)
    held = np.stack([spread(ev(x, frame, act), n) for x in acc], axis=1)
    if keep is not None and not keep.all():
        held = np.where(keep[:, None], held, domain.const(zero(f.accumulator).value, f.accumulator))
    total = _gather(held, n, f.c, (f.m, f.n), f.warp)
    a, b = (domain.cast(x.reshape(-1), t, f.accumulator).reshape(x.shape) for x, t in zip((a, b), f.operands))
    step = f.k // f.steps
    for start in range(0, a.shape[2], step):
        ks = slice(start, start + step)
        total = domain.multiplied(total, a[:, :, ks], b[:, ks], f.accumulator, f.truncates)
    row, col = _places(f.c, f.warp)
    results = total[:, row, col].reshape(n, f.c.slots)
    for slot, x in enumerate(acc):
        if isinstance(x, Var):
            machine.assign(x.sym, results[:, slot], frame, act)
        elif isinstance(x, Load):
            index = [ev(i, frame, act) for i in x.index]
            access(state, x.buffer, frame, act, index, 1).write(results[:, slot])


def _gather(held, n: int, layout: Layout, shape: tuple[int, int], warp: int = WARP) -> np.ndarray:
    """The matrices (one a warp) whose elements the lanes hold in slots."""
    values = spread(held, n).reshape(n // warp, warp, layout.slots)
    out = np.zeros((n // warp, *shape), values.dtype)
    row, col = _places(layout, warp)
    out[:, row, col] = values
    return out
