"""Rates that a device reaches on kernels with nothing in their way: a copy, a read, a fill, multiplications and
additions; and how long the least launches take."""

from __future__ import annotations

from typing import Any

import numpy as np

from ktc.backends.base import Runtime

from .rates import Rates

COPY = """
kernel copy4(out: f32* restrict align 16, in: f32 const* restrict align 16, n: i32)
  launch grid(cdiv(n, 1024)) block(256)
  let i: i32 = ((blockIdx.x * blockDim.x + threadIdx.x) * 4_u32) as i32
  if i + 3 < n
    out[i +: 4] = in[i +: 4]
"""

READ = """
kernel read4(out: f32* restrict align 16, in: f32 const* restrict align 16, n: i32)
  launch grid(cdiv(n, 4096)) block(256)
  let i: i32 = (blockIdx.x * 4096_u32 + threadIdx.x * 4_u32) as i32
  if i + 3075 < n
    let a: f32x4 = in[i +: 4]
    let b: f32x4 = in[i + 1024 +: 4]
    let c: f32x4 = in[i + 2048 +: 4]
    let d: f32x4 = in[i + 3072 +: 4]
    let s: f32 = a[0] + a[1] + a[2] + a[3] + b[0] + b[1] + b[2] + b[3]
    let t: f32 = c[0] + c[1] + c[2] + c[3] + d[0] + d[1] + d[2] + d[3]
    if s + t == 1.5
      out[i] = 1.0
"""
"""Its sums of ones are no 1.5: nothing is stored, and no compiler knows."""

FILL = """
kernel fill4(out: f32* restrict align 16, in: f32 const* restrict align 16, n: i32)
  launch grid(cdiv(n, 1024)) block(256)
  let i: i32 = ((blockIdx.x * blockDim.x + threadIdx.x) * 4_u32) as i32
  if i + 3 < n
    out[i +: 4] = f32x4{1.0, 2.0, 3.0, 4.0}
"""

CHAINS, ROUNDS = 8, 512

FMA = (
    "\nkernel fma8(out: f32* restrict, in: f32 const* restrict, n: i32)\n"
    "  launch grid(n / 256) block(256)\n"
    "  let i: i32 = (blockIdx.x * 256_u32 + threadIdx.x) as i32\n"
    "  let m: f32 = in[i]\n"
    + "".join(f"  var v{j}: f32 = m + {j}.0\n" for j in range(CHAINS))
    + f"  for k: i32 = 0; k < {ROUNDS}; k + 1\n"
    + "".join(f"    v{j} = fma(v{j}, m, m)\n" for j in range(CHAINS))
    + "  out[i] = "
    + " + ".join(f"v{j}" for j in range(CHAINS))
    + "\n"
)
"""As many chains of dependent steps as hide a step's latency, of finite values: with m = 0 all stay 0."""

STORE = """
kernel store1(out: f32* restrict, in: f32 const* restrict, n: i32)
  launch grid(1) block(32)
  out[threadIdx.x] = 1.0
"""

TRIP = """
kernel trip1(out: f32* restrict, in: f32 const* restrict, n: i32)
  launch grid(1) block(32)
  out[threadIdx.x] = in[threadIdx.x]
"""
"""What almost every kernel has to do at least."""


TRIES = 3
"""Timings of the least launches, of which the shortest counts: they are bounds of all others, and one timing of a few
microseconds may be that of a device that has just woken up."""

KERNELS = (COPY, READ, FILL, FMA, STORE, TRIP)


def measure_rates(runtime: Runtime, megabytes: int = 0, budget_s: float = 0.05) -> Rates:
    """The rates of ``runtime``'s device, a GPU (:mod:`.cpu_rates` has a CPU's).

    Args:
        megabytes: of source data; by default 8 times the last-level cache, between 64 and 1024.
        budget_s: seconds of measuring for each rate.
    """
    size = (megabytes or min(1024, max(64, 8 * runtime.device.l2_bytes >> 20))) << 20
    n = size // 4 // 4096 * 4096
    threads = min(n, max(1, runtime.device.compute_units) * 2048 * 8) // 256 * 256
    zero, one = np.float32(0), np.float32(1)
    wide: dict[str, Any] = {"out": runtime.full(n, zero), "in": runtime.full(n, one), "n": n}
    copy, read, fill = (_seconds(runtime, text, wide, budget_s) for text in (COPY, READ, FILL))
    narrow: dict[str, Any] = {"out": runtime.full(threads, zero), "in": runtime.full(threads, zero), "n": threads}
    flops = 2 * CHAINS * ROUNDS * threads / _seconds(runtime, FMA, narrow, budget_s)
    store, trip = (
        min(_seconds(runtime, text, narrow, budget_s / TRIES) for _ in range(TRIES)) for text in (STORE, TRIP)
    )
    return Rates(8 * n / copy, 4 * n / read, flops, (), min(store, trip), trip, 4 * n / fill)


def _seconds(runtime: Runtime, text: str, args: dict[str, Any], budget_s: float) -> float:
    from ktc.backends import emit
    from ktc.ir.text import parse_kernel

    exe = runtime.compile(emit(parse_kernel(text), runtime.device.backend))
    return runtime.time(exe, [args], budget_s=budget_s).median
