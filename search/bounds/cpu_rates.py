"""Rates that the cores of this machine reach together, on kernels with nothing in their way.

Arithmetic and caches are measured on one core, and counted as often as there are cores: together they are not faster
than that, at the clock of one that is busy alone; and on a busy machine one core is idle more often than all. Memory is
measured on all of them.

Memory is read (sums of integers), and updated in place: there nothing is read that is only written, as in a copy
through the caches, so that it says what a byte written costs at least. Arithmetic is a chain of fused multiplications
and additions on elements of the first cache, several of them in flight.

Caches are measured as launches find them that take turns on several sets of arguments: by going through as many bytes
again and again, half as many as a level holds, so that it has them all, and twice as many.

Other programs on the cores make all of this slower than it can be, never faster: of what was measured the best is kept
in the cache folder, for each processor, number of threads and version of numba, and a day later measured again.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from ktc.backends.base import DeviceInfo
from ktc.backends.runtimes.cpu_runtime import CpuRuntime
from ktc.backends.runtimes.file_cache import cache_root, key_of, write_atomic

from .rates import PAST, CacheRates, Rates

PARTS, STEPS, ELEMENTS, ROUNDS = 64, 24, 2048, 512

CHAINS = 8
"""Operations in flight: two units that need four cycles each, whether or not the compiler interleaves iterations."""

FMA = (
    "\nkernel fma(out: f32* restrict noalias, m: f32, n: i32)\n"
    "  par p in 0..n @ [block.x]\n"
    f"    for r in 0..{ROUNDS}\n"
    f"      par i in 0..{ELEMENTS // CHAINS} @ [seq]\n"
    + "".join(f"        var v{c}: f32 = out[p * {ELEMENTS} + {c * ELEMENTS // CHAINS} + i]\n" for c in range(CHAINS))
    + "".join(f"        v{c} = fma(v{c}, m, m)\n" for c in range(CHAINS)) * STEPS
    + "".join(f"        out[p * {ELEMENTS} + {c * ELEMENTS // CHAINS} + i] = v{c}\n" for c in range(CHAINS))
)
"""With m = 0.5 every value tends to 1: none of them leaves the ordinary ones."""

READ = """
kernel read(out: i64* restrict noalias, in: i64 const* restrict noalias, parts: i32, m: i32, rounds: i32)
  par p in 0..parts @ [block.x]
    var t: i64 = 0_i64
    for r in 0..rounds
      reduce(+) s: i64 = 0_i64 over i in p * m..(p + 1) * m @ [seq]
        yield in[i]
      t = t ^ s
    out[p] = t
"""
UPDATE = """
kernel update(out: f32* restrict noalias, parts: i32, m: i32, rounds: i32)
  par p in 0..parts @ [block.x]
    for r in 0..rounds
      par i in p * m..(p + 1) * m @ [seq]
        out[i] = 1.0 - out[i]
"""
"""Each part is gone through by one core, ``rounds`` times."""

AGAIN_BYTES = 64 << 20
"""What a launch of these reads, at least."""

A_DAY = 24 * 3600.0


def measure_cores(runtime: CpuRuntime, megabytes: int = 0, budget_s: float = 0.06) -> Rates:
    """The rates of the cores that ``runtime`` uses.

    Args:
        megabytes: of source data; by default as many times the last-level cache as leave nothing of their beginning
            there (:data:`ktc.search.bounds.rates.PAST`), between 64 and 512.
        budget_s: seconds of measuring for each kernel.
    """
    size = (megabytes or min(512, max(64, PAST * runtime.device.l2_bytes >> 20))) << 20
    m = size // 4 // (2 * PARTS)  # wide integers of a part
    n = 2 * PARTS * m
    a = runtime.full(n, np.float32(1))
    sums: Any = runtime.full(PARTS, np.int64(0))
    cores = max(1, runtime.device.compute_units)
    values = runtime.full(ELEMENTS, np.float32(1))
    once = {"parts": PARTS, "rounds": 1}
    read = 4 * n / _least(runtime, READ, {"out": sums, "in": a.view(np.int64), "m": m, **once}, budget_s)
    update = 8 * n / _least(runtime, UPDATE, {"out": a, "m": 2 * m, **once}, budget_s)
    steps = 2.0 * STEPS * ROUNDS * ELEMENTS
    flops = cores * steps / _least(runtime, FMA, {"out": values, "m": np.float32(0.5), "n": 1}, budget_s)
    near = [_again(runtime, n, budget_s / 2) for n in footprints(runtime)] if not megabytes else []
    return Rates(update, read, flops, tuple(near))


def footprints(runtime: CpuRuntime) -> list[int]:
    """Half of what each level of the caches of the cores that are used holds, and twice as much, in bytes."""
    cores, extra = max(1, runtime.device.compute_units), runtime.device.extra
    levels = [
        int(extra.get("l1_bytes", 0)) * cores,
        int(extra.get("core_l2_bytes", 0)) * cores,
        runtime.device.l2_bytes,
    ]
    sizes = sorted({n for level in levels for n in (level // 2, level * 2)})
    return [n for n in sizes if n]


def _again(runtime: CpuRuntime, footprint: int, budget_s: float) -> CacheRates:
    """The rates at which the cores go through ``footprint`` bytes, a part for each, once and again."""
    cores = max(1, runtime.device.compute_units)
    parts = 1 if footprint <= runtime.device.l2_bytes else cores
    m, rounds = footprint // cores // 8, max(1, AGAIN_BYTES // footprint)
    a = runtime.full(2 * m * parts, np.float32(1))
    sums: Any = runtime.full(parts, np.int64(0))
    whole = 8 * m * cores * rounds
    reading = {"out": sums, "in": a.view(np.int64), "parts": parts, "m": m, "rounds": rounds}
    read = whole / _least(runtime, READ, reading, budget_s)
    updating = {"out": a, "parts": parts, "m": 2 * m, "rounds": rounds}
    return CacheRates(footprint, 2 * whole / _least(runtime, UPDATE, updating, budget_s), read)


def _least(runtime: CpuRuntime, text: str, args: dict[str, Any], budget_s: float) -> float:
    """Seconds of a launch, the shortest of several: the rest had to share the cores."""
    from ktc.driver.printing import printed
    from ktc.ir.text import parse_kernel

    exe = runtime.compile(printed(parse_kernel(text), runtime.device.backend))
    sample, end = runtime.sampler(exe, [args]), time.perf_counter() + budget_s
    best = sample()
    while time.perf_counter() < end:
        best = min(best, sample())
    return best


def rates_of_cores(runtime: CpuRuntime, anew: bool = False) -> Rates:
    """The best rates measured on this machine within a day, or ever; measured now where there are none of today, or
    ``anew``: where a kernel was faster than they allow."""
    today = rates_of_today(runtime.device)
    if today is not None and not anew:
        return today
    path = _place(runtime.device)
    known, _ = _kept(path)
    now = measure_cores(runtime)
    best = now if known is None else known.better(now)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(dataclasses.asdict(best)).encode())
    except OSError:
        return best  # measured anew the next time
    return best


def rates_of_today(device: DeviceInfo) -> Rates | None:
    """The best rates measured on this machine, where somebody has measured within a day."""
    known, age = _kept(_place(device))
    return known if age < A_DAY else None


def _place(device: DeviceInfo) -> Path:
    how = {k: v for k, v in device.extra.items() if k not in ("picked", "opened", "contest")}
    said = json.dumps([device.name, device.compute_units, how], sort_keys=True)
    return cache_root() / "rates" / f"{key_of(said)[:32]}.json"


def _kept(path: Path) -> tuple[Rates | None, float]:
    try:
        found = json.loads(path.read_text("utf-8"))
        return Rates.of(found), time.time() - path.stat().st_mtime
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None, 0.0


__all__ = ["measure_cores", "rates_of_cores", "rates_of_today"]
