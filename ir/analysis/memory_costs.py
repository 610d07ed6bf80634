"""What one warp's access costs the memory system: sectors of global memory, bank conflicts of shared memory.

Counted for the first warp of a block from the addresses of its lanes, which are affine in the thread indices. Global
memory moves 32-byte sectors (CUDA C++ Best Practices Guide, "Coalesced access to global memory"): ``efficiency`` is
bytes asked for over bytes moved. Shared memory has 32 banks of 4 bytes that serve one word each per cycle; 8- and
16-byte accesses are served by halves and quarters of the warp. ``conflict`` is how many turns the worst bank takes
beyond what the access's width needs: 1 is free of conflicts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import Expr

from .access_nests import Access, accesses

SECTOR = 32
BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True)
class Request:
    """One textual access as a warp makes it. ``None``: not known (data-dependent, or sizes missing).

    ``sectors`` of 32 bytes that a global access touches, ``efficiency`` in 0..1, ``conflict`` turns of a shared one.
    """

    buffer: str
    mode: str
    space: str
    bytes_per_lane: int
    sectors: int | None = None
    efficiency: float | None = None
    conflict: int | None = None


def requests(kernel: Kernel, sizes: Mapping[str, int | float] | None = None) -> list[Request]:
    """Every global and shared access of a kernel in SPMD form, in source order.

    ``sizes`` gives scalar parameters by name; strides that need a missing one are not known.
    """
    env = kernel.environment({k: int(v) for k, v in (sizes or {}).items() if isinstance(v, int)})
    block = _block(kernel, env)
    return [_request(a, block, env) for a in accesses(kernel) if a.space in ("global", "shared")]


def _block(kernel: Kernel, env: Mapping[str, int]) -> tuple[int, int, int]:
    if kernel.launch is None:
        return (WARP, 1, 1)
    x, y, z = (evaluate(e, env) for e in kernel.launch.block)
    return (int(x) if x else WARP, int(y) if y else 1, int(z) if z else 1)


def _request(a: Access, block: Sequence[int], env: Mapping[str, int]) -> Request:
    width = a.width if isinstance(a.width, int) else evaluate(a.width, env)
    size = a.elem.bytes * int(width or 1)
    plain = Request(a.buffer.name, a.mode, a.space, size)
    offsets = lane_offsets(a, block, env)
    if offsets is None or width is None:
        return plain
    starts = [o * a.elem.bytes for o in offsets]
    if a.space == "shared":
        return Request(plain.buffer, plain.mode, plain.space, size, conflict=bank_conflict(starts, size))
    touched = {b for s in starts for b in range(s, s + size)}
    sectors = {b // SECTOR for b in touched}
    return Request(plain.buffer, plain.mode, plain.space, size, len(sectors), len(touched) / (SECTOR * len(sectors)))


def lane_offsets(a: Access, block: Sequence[int], env: Mapping[str, int]) -> list[int] | None:
    """Element offsets of the lanes of a block's first warp, relative to lane 0; None when not affine or not known."""
    strides: dict[str, int] = {}
    for name, stride in a.strides.items():
        if not name.startswith("thread."):
            continue
        value = evaluate(stride, env) if isinstance(stride, Expr) else None
        if value is None:
            return None
        strides[name] = int(value)
    out = []
    for lane in range(min(WARP, block[0] * block[1] * block[2])):
        x, y, z = lane % block[0], lane // block[0] % block[1], lane // (block[0] * block[1])
        out.append(sum(strides.get(f"thread.{axis}", 0) * i for axis, i in zip("xyz", (x, y, z))))
    return out


def bank_conflict(starts: Sequence[int], size: int) -> int:
    """Turns of the worst bank for byte addresses ``starts`` with ``size`` bytes each (one word served per turn)."""
    lanes = max(1, BANKS * BANK_BYTES // max(size, BANK_BYTES))
    worst = 1
    for first in range(0, len(starts), lanes):
        words: dict[int, set[int]] = defaultdict(set)
        for s in starts[first : first + lanes]:
            for word in range(s // BANK_BYTES, (s + size - 1) // BANK_BYTES + 1):
                words[word % BANKS].add(word)
        worst = max(worst, max(len(w) for w in words.values()))
    return worst
