"""Occupancy: how many warps of a kernel one multiprocessor holds, and what limits it.

The arithmetic of NVIDIA's occupancy calculator: registers are given out per warp in units of 256, shared memory per
block in units of 128 bytes plus a reserved 1 KiB (compute capability 8.0 and later), and blocks, threads and warps
have limits of their own (CUDA C++ Programming Guide, "Technical specifications per compute capability").
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.launch_limits import WARP

KIB = 1024


@dataclass(frozen=True)
class Multiprocessor:
    """Resources of one multiprocessor."""

    warps: int
    blocks: int
    registers: int
    registers_per_thread: int
    shared: int
    reserved: int
    source: str


GUIDE = "CUDA C++ Programming Guide 13, technical specifications per compute capability"
TABLE: dict[str, Multiprocessor] = {
    "7.0": Multiprocessor(64, 32, 65536, 255, 96 * KIB, 0, GUIDE),
    "7.5": Multiprocessor(32, 16, 65536, 255, 64 * KIB, 0, GUIDE),
    "8.0": Multiprocessor(64, 32, 65536, 255, 164 * KIB, KIB, GUIDE),
    "8.6": Multiprocessor(48, 16, 65536, 255, 100 * KIB, KIB, GUIDE),
    "8.9": Multiprocessor(48, 24, 65536, 255, 100 * KIB, KIB, GUIDE),
    "9.0": Multiprocessor(64, 32, 65536, 255, 228 * KIB, KIB, GUIDE),
}
REGISTER_UNIT = 256
SHARED_UNIT = 128


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that are resident on one multiprocessor, their share of its warps, and what stops more."""

    blocks: int
    warps: int
    fraction: float
    limiter: str


def occupancy(threads: int, registers: int, shared_bytes: int, capability: str = "9.0") -> Occupancy:
    """Occupancy of blocks of ``threads`` with ``registers`` a thread and ``shared_bytes`` a block.

    Raises:
        KeyError: the compute capability is not in :data:`TABLE`.
    """
    mp = TABLE[capability]
    warps = -(-threads // WARP)
    per_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    shared = -(-shared_bytes // SHARED_UNIT) * SHARED_UNIT + mp.reserved if shared_bytes else mp.reserved
    limits = {
        "warps": mp.warps // warps,
        "blocks": mp.blocks,
        "registers": mp.registers // per_warp // warps if registers <= mp.registers_per_thread else 0,
        "shared memory": mp.shared // shared if shared else mp.blocks,
    }
    limiter = min(limits, key=lambda k: limits[k])
    blocks = limits[limiter]
    return Occupancy(blocks, blocks * warps, blocks * warps / mp.warps, limiter)
