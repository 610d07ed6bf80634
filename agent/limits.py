"""The space of a template on one device and one set of sizes: passes' constraints, guards, launch limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ktc.driver.printing import prints_loops
from ktc.ir.fold import cast, i32, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Binary, Const, Decl, Expr
from ktc.ir.types import I64, Array, Vec, scalar_of
from ktc.ir.walk import knobs_in, walk
from ktc.search.space.device_limits import space_of
from ktc.search.space.knob_space import Space

if TYPE_CHECKING:
    from ktc.search.target import DeviceInfo

MAX_BLOCK = 1024
"""Threads a block, as the IR's verifier has it (CUDA and HIP on every architecture)."""

PRIVATE_BYTES = 1024
"""Private arrays of a thread: 255 registers of 4 bytes (CUDA, compute capability 3.5 and later; 512 on CDNA), rounded
up. What is larger is spilled to memory, which no kernel wins with."""


def space_for(kernel: Kernel, device: DeviceInfo, sizes: Mapping[str, int | float]) -> Space:
    """The configurations worth compiling. ``sizes``: scalar arguments by name; guards must hold for them.

    Raises:
        KtcError: E-SPACE-EMPTY, E-SPACE-LARGE, or why the template cannot be lowered.
    """
    from ktc.passes.lowering import materialise

    lowered = materialise(kernel)
    room = own_cache(device) if prints_loops(device.profile) else PRIVATE_BYTES
    limits = (*private_limits(lowered, room), *portable_block(lowered))
    return space_of(lowered.with_(constraints=(*lowered.constraints, *limits)), device, [sizes])


def portable_block(lowered: Kernel) -> list[Expr]:
    """At most 1024 threads a block: the IR's own limit, whatever a device allows."""
    if lowered.launch is None:
        return []
    x, y, z = (cast(e, I64) for e in lowered.launch.block)
    return [Binary("<=", mul(mul(x, y), z), Const(MAX_BLOCK, I64))]


def private_limits(lowered: Kernel, room: int) -> list[Expr]:
    """Each private array whose size depends on knobs fits ``room`` bytes: a thread's registers, a core's cache."""
    out: list[Expr] = []
    for s in walk(lowered.body):
        if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array) and s.sym.type.space == "local":
            size = _bytes(s.sym.type)
            if knobs_in(size):
                out.append(Binary("<=", size, Const(room, I64)))
    return out


def own_cache(device: DeviceInfo) -> int:
    """Bytes of the cache that a core of a CPU has for itself; an eighth of the last one where that is not known."""
    return int(device.extra.get("core_l2_bytes", 0)) or max(device.l2_bytes // 8, 256 << 10)


def _bytes(t: Array) -> Expr:
    size: Expr = Const(scalar_of(t).bytes, I64)
    lanes = t.elem.n if isinstance(t.elem, Vec) else 1
    for n in (*t.shape, lanes if isinstance(lanes, Expr) else i32(lanes)):
        size = mul(size, cast(n, I64))
    return size
