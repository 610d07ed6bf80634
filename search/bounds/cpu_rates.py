"""Rates that the cores of this machine reach together, on kernels with nothing in their way.

Memory is read (sums of integers), and updated in place: there nothing is read that is only written, as in a copy
through the caches, so that it says what a byte written costs at least. Arithmetic is a chain of fused multiplications
and additions on elements of the first cache, several of them in flight.

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

from .rates import Rates

PARTS, STEPS, ELEMENTS, ROUNDS = 64, 24, 2048, 64

READ = f"""
kernel read(out: i64* restrict noalias, in: i64 const* restrict noalias, n: i32)
  par p in 0..{PARTS} @ [block.x]
    reduce(+) s: i64 = 0_i64 over i in p * (n / {PARTS})..(p + 1) * (n / {PARTS}) @ [seq]
      yield in[i]
    out[p] = s
"""
UPDATE = """
kernel update(out: f32* restrict noalias, n: i32)
  par i in 0..n @ [seq 65536, block.x]
    out[i] = 1.0 - out[i]
"""
FMA = (
    "\nkernel fma(out: f32* restrict noalias, m: f32, n: i32)\n"
    "  par p in 0..n @ [block.x]\n"
    f"    for r in 0..{ROUNDS}\n"
    f"      par i in 0..{ELEMENTS} @ [seq]\n"
    f"        var v: f32 = out[p * {ELEMENTS} + i]\n"
    + "        v = fma(v, m, m)\n" * STEPS
    + f"        out[p * {ELEMENTS} + i] = v\n"
)
"""With m = 0.5 every value tends to 1: none of them leaves the ordinary ones."""

A_DAY = 24 * 3600.0


def measure_cores(runtime: CpuRuntime, megabytes: int = 0, budget_s: float = 0.06) -> Rates:
    """The rates of the cores that ``runtime`` uses.

    Args:
        megabytes: of source data; by default 4 times the last-level cache, between 64 and 512.
        budget_s: seconds of measuring for each kernel.
    """
    size = (megabytes or min(512, max(64, 4 * runtime.device.l2_bytes >> 20))) << 20
    n = size // 4 // (2 * PARTS) * 2 * PARTS
    a = runtime.full(n, np.float32(1))
    sums: Any = runtime.full(PARTS, np.int64(0))
    groups = 4 * max(1, runtime.device.compute_units)
    values = runtime.full(groups * ELEMENTS, np.float32(1))
    read = 4 * n / _least(runtime, READ, {"out": sums, "in": a.view(np.int64), "n": n // 2}, budget_s)
    update = 8 * n / _least(runtime, UPDATE, {"out": a, "n": n}, budget_s)
    steps = 2.0 * STEPS * ROUNDS * ELEMENTS * groups
    flops = steps / _least(runtime, FMA, {"out": values, "m": np.float32(0.5), "n": groups}, budget_s)
    return Rates(update, read, flops)


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


def rates_of_cores(runtime: CpuRuntime) -> Rates:
    """The best rates measured on this machine within a day, or ever; measured now where there are none of today."""
    path = _place(runtime.device)
    known, age = _kept(path)
    if known is not None and age < A_DAY:
        return known
    now = measure_cores(runtime)
    best = now if known is None else _best(known, now)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(dataclasses.asdict(best)).encode())
    except OSError:
        return best  # measured anew the next time
    return best


def kept_rates(device: DeviceInfo) -> Rates | None:
    """The best rates measured on this machine so far; None where nobody has measured."""
    return _kept(_place(device))[0]


def _best(a: Rates, b: Rates) -> Rates:
    pairs = zip(dataclasses.astuple(a), dataclasses.astuple(b))
    return Rates(*(max(pair) for pair in pairs))


def _place(device: DeviceInfo) -> Path:
    said = json.dumps([device.name, device.compute_units, dict(device.extra)], sort_keys=True)
    return cache_root() / "rates" / f"{key_of(said)[:32]}.json"


def _kept(path: Path) -> tuple[Rates | None, float]:
    try:
        found = json.loads(path.read_text("utf-8"))
        return Rates(**{k: float(v) for k, v in found.items()}), time.time() - path.stat().st_mtime
    except (OSError, ValueError, TypeError, AttributeError):
        return None, 0.0


__all__ = ["kept_rates", "measure_cores", "rates_of_cores"]
