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
from ktc.ir.nodes import Const, Expr, HwIndex, Sym, Var, fresh
from ktc.ir.types import U32, scalar_of
from ktc.ir.walk import map_expr, walk_expr

from .access_nests import Access, Axis, accesses

SECTOR = 32
BANKS = 32
BANK_BYTES = 4
APART = (1 << 32) + 1
"""Elements between two addresses of which only is known that they differ: in other sectors, and in other banks."""


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
    return requests_of(kernel, [a for a in accesses(kernel) if a.space in ("global", "shared")], sizes or {})


def requests_of(kernel: Kernel, found: Sequence[Access], sizes: Mapping[str, int | float]) -> list[Request]:
    """The same of the accesses ``found`` in ``kernel``."""
    env = kernel.environment({k: int(v) for k, v in sizes.items() if isinstance(v, int)})
    block = _block(kernel, env)
    return [_request(a, block, env) for a in found]


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
    """Element offsets of the lanes of a block's first warp, relative to lane 0; None when they are not known. Where
    they go by what is read from memory, threads that have read by different indices are far apart.

    Addresses that are not affine in the thread indices (quotients and remainders of a flat index) are evaluated, in the
    first block and the first iteration of every loop.
    """
    strides: dict[str, int] = {}
    for name, stride in a.strides.items():
        if not name.startswith("thread."):
            continue
        value = evaluate(stride, env) if isinstance(stride, Expr) else None
        value = APART if name in a.scattered else value
        if value is None:
            return _evaluated(a, block, env)
        strides[name] = int(value)
    return [sum(strides.get(f"thread.{axis}", 0) * i for axis, i in zip("xyz", at)) for at in _lanes(block)]


def _lanes(block: Sequence[int]) -> list[tuple[int, int, int]]:
    """Thread indices (x, y, z) of a block's first warp."""
    lanes = range(min(WARP, block[0] * block[1] * block[2]))
    return [(i % block[0], i // block[0] % block[1], i // (block[0] * block[1])) for i in lanes]


def _evaluated(a: Access, block: Sequence[int], env: Mapping[str, int]) -> list[int] | None:
    """Element offsets relative to lane 0 with every other index at zero; None where memory decides."""
    if a.flat is None:
        return None
    values = at_lanes(a.flat, a.axes, block, env, _lanes(block))
    known = [v for v in values if v is not None]
    return [v - known[0] for v in known] if len(known) == len(values) else None


def at_lanes(
    e: Expr, axes: Sequence[Axis], block: Sequence[int], env: Mapping[str, int], lanes: Sequence[tuple[int, int, int]]
) -> list[int | None]:
    """``e`` at each thread index (x, y, z) of ``lanes`` in the first block and the first iteration of the loops among
    ``axes``; None where it is not known."""
    counters = {x.index for x in axes if isinstance(x.index, Sym)}
    dims = dict(zip("xyz", block))

    def first(x: Expr) -> Expr:
        if isinstance(x, Var) and x.sym in counters:
            return Const(0, scalar_of(x.type))
        if isinstance(x, HwIndex) and x.level in ("block", "block_dim"):
            return Const(0 if x.level == "block" else dims[x.axis], x.type)
        return x

    at_first = map_expr(e, first)
    if not any(isinstance(x, HwIndex) and x.level == "thread" for x in walk_expr(at_first)):
        value = evaluate(at_first, env)
        return [None if value is None else int(value)] * len(lanes)
    asked = map_expr(at_first, _by_thread)
    names = [v.sym.name for v in THREAD.values()]
    values = (evaluate(asked, {**env, **dict(zip(names, place))}) for place in lanes)
    return [None if value is None else int(value) for value in values]


THREAD = {axis: Var(fresh(f"threadIdx.{axis}", U32)) for axis in "xyz"}
"""What stands for a thread's index while an expression is evaluated at many: no variable of a kernel is called so."""


def _by_thread(e: Expr) -> Expr:
    return THREAD[e.axis] if isinstance(e, HwIndex) and e.level == "thread" else e


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
