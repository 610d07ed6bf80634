"""A device's launch limits as constraints on knobs: what cannot be launched is never compiled."""

from __future__ import annotations

from ktc.backends.base import DeviceInfo
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import add, cast, i32, mul, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Binary, Const, Expr
from ktc.ir.types import I64, Array, scalar_of
from ktc.ir.walk import walk

GRID_YZ = 65_535
"""Blocks along y and z (CUDA programming guide, compute capabilities table; HIP has the same)."""

LOCAL_BYTES = 4096
"""Private arrays beyond this spill on every GPU: 1024 registers of 4 bytes, four times what a thread can have."""


def device_limits(kernel: Kernel, device: DeviceInfo) -> list[Expr]:
    """Conditions over knobs and parameters: threads a block, shared and private bytes, blocks along y and z."""
    from ktc.passes.lowering import materialise

    try:
        lowered = materialise(kernel)
    except KtcError:
        return []
    if lowered.launch is None:
        return []
    x, y, z = lowered.launch.block
    out = [_at_most(mul(mul(_wide(x), _wide(y)), _wide(z)), device.max_threads_per_block)]
    out += [_at_most(_wide(n), GRID_YZ) for n in lowered.launch.grid[1:]]
    shared: Expr = Const(0, I64)
    for s in walk(lowered.body):
        if isinstance(s, Alloc) and isinstance(s.sym.type, Array):
            size = _bytes(s.sym.type)
            if s.sym.type.space == "shared":
                shared = add(shared, size)
            elif s.sym.type.space == "local":
                out.append(_at_most(size, LOCAL_BYTES))
    if device.shared_per_block:
        out.append(_at_most(shared, device.shared_per_block))
    return [c for c in map(simplify, out) if not (isinstance(c, Const) and c.value)]


def _bytes(t: Array) -> Expr:
    size: Expr = Const(scalar_of(t).bytes, I64)
    lanes = getattr(t.elem, "n", 1)
    for n in (*t.shape, lanes if not isinstance(lanes, int) else i32(lanes)):
        size = mul(size, _wide(n))
    return size


def _wide(e: Expr) -> Expr:
    return cast(e, I64)


def _at_most(e: Expr, limit: int) -> Expr:
    return Binary("<=", e, Const(limit, I64))
