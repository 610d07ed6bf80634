"""How long the interpreter takes: 64 blocks of 256 threads, a thousand statements a thread, sanitizer on.

    python -m tests.bench.interpreter [--repeats N] [--profile KERNEL] [--json]

Three kernels: a shared-memory tree in a loop (barriers, shared and global accesses), straight arithmetic under a
divergent guard, and warp shuffles. Each is timed in every domain that the verification ladder uses; the figure is the
least processor time of the repeats, so that a busy machine does not count.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time

import numpy as np

from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import i32

BLOCKS, THREADS = 64, 256
DOMAINS = ("float", "int", "field")

TEXTS = {
    "shared": """
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  float sum = 0.0f;
  for (int r = 0; r < 140; ++r) {
    s[t] = x[(i + r) % n];
    __syncthreads();
    sum += s[(t + r) % 256] + s[255 - t];
    __syncthreads();
  }
  if (i < n) y[i] = sum;
}""",
    "guarded": """
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float a = 1.0f, b = 0.0f;
  for (int r = 0; r < 160; ++r) {
    if (i + r < n) {
      float v = x[i + r];
      a = max(a, v);
      b += v * a;
    }
  }
  if (i < n) y[i] = a + b;
}""",
    "lanes": """
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float sum = 0.0f;
  for (int r = 0; r < 60; ++r) {
    float v = i < n ? x[i] + sum : 0.0f;
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    sum = v * 0.03125f;
  }
  if (i < n) y[i] = sum;
}""",
}


def kernel(name: str) -> Kernel:
    read = load(TEXTS[name], name=f"{name}.cu", kernel="k")
    return read.with_(launch=Launch((i32(BLOCKS), i32(1), i32(1)), (i32(THREADS), i32(1), i32(1))))


def arguments() -> dict[str, np.ndarray | int]:
    n = BLOCKS * THREADS - 5
    x = np.random.default_rng(0).integers(1, 5, n).astype(np.float32)
    return {"x": x, "y": np.zeros(n, np.float32), "n": n}


def measure(name: str, domain: str, repeats: int) -> tuple[float, int]:
    """(least processor seconds, statements)."""
    made, args = kernel(name), arguments()
    best, steps = float("inf"), 0
    for _ in range(repeats):
        start = time.process_time()
        result = run(made, args, domain=domain, sanitize=True, undefined=("y",))
        best = min(best, time.process_time() - start)
        assert result.ok, result.findings
        steps = result.steps
    return best, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--profile", choices=TEXTS, help="where the time goes in one kernel, integer domain")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.profile:
        profiler = cProfile.Profile()
        profiler.runcall(run, kernel(options.profile), arguments(), domain="int", sanitize=True, undefined=("y",))
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        return
    rows = {f"{name} {domain}": measure(name, domain, options.repeats) for name in TEXTS for domain in DOMAINS}
    if options.json:
        print(json.dumps({k: {"seconds": s, "statements": n} for k, (s, n) in rows.items()}))
        return
    print(f"{BLOCKS} blocks of {THREADS} threads")
    for label, (seconds, steps) in rows.items():
        print(f"  {label:16} {steps:5} statements {seconds:7.3f} s  {seconds / steps * 1e6:7.0f} us a statement")


if __name__ == "__main__":
    main()
