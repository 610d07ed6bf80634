"""What the system says of this machine's processor: its name, its caches and vector registers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Cache:
    """A cache of data that CPU 0 uses: its level, its size in bytes, the CPUs that share it (as ``0-3,8``)."""

    level: int
    bytes: int
    shared_by: str


def cpu_name() -> str:
    """The processor as Linux names it, else as Python does."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for row in f:
                if row.startswith("model name"):
                    return row.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"


def caches(folder: Path = CACHES) -> list[Cache]:
    """The caches of data, the nearest first (Linux sysfs); none where the system does not say."""
    found = []
    for place in sorted(folder.glob("index*")):
        try:
            level, kind, size, cpus = ((place / name).read_text("ascii").strip()
                                       for name in ("level", "type", "size", "shared_cpu_list"))  # fmt: skip
            unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
            if kind != "Instruction":
                found.append(Cache(int(level), int(size.rstrip("KM")) * unit, cpus))
        except (OSError, ValueError):
            continue
    return sorted(found, key=lambda c: c.level)


def last_level_cache_bytes(folder: Path = CACHES) -> int:
    """Size of the largest cache of CPU 0, 0 if unknown."""
    return max((c.bytes for c in caches(folder)), default=0)


def own_caches(folder: Path = CACHES) -> dict[str, str]:
    """Bytes of the first cache, and of the second where it is not the last: ``l1_bytes``, ``core_l2_bytes``."""
    levels = {c.level: c.bytes for c in caches(folder)}
    names = {1: "l1_bytes", 2: "core_l2_bytes"}
    return {name: str(levels[k]) for k, name in names.items() if levels.get(k) and (k == 1 or k < max(levels))}


VECTOR_REGISTERS = (("avx512vl", 32, 256), ("avx", 16, 256), ("sse2", 16, 128), ("neon", 32, 128))
"""Feature as LLVM names it, vector registers, bits of each that code uses as a rule (LLVM takes 256 of 512 on most
processors that have these): the first that the processor has counts."""


def vector_registers(features: Mapping[str, bool]) -> dict[str, str]:
    """``vector_registers`` and ``vector_bits`` of a processor with ``features``; empty if none is known."""
    found = next(((n, bits) for name, n, bits in VECTOR_REGISTERS if features.get(name)), None)
    return {} if found is None else {"vector_registers": str(found[0]), "vector_bits": str(found[1])}


__all__ = ["Cache", "caches", "cpu_name", "last_level_cache_bytes", "own_caches", "vector_registers"]
