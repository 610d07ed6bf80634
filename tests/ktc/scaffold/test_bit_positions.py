"""Drafts of kernels that take an index apart at a bit: gates on the qubits of a state, butterflies by digits."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import ktc
from ktc.scaffold import workload_text

INSERT = """
typedef unsigned long long u64;
__device__ u64 opened(u64 i, unsigned q) { return ((i >> q) << (q + 1)) | (i & ((1ull << q) - 1)); }
"""
ONE = """
__global__ void phase(double* state, unsigned q, u64 n) {
  u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  if (i < (n >> 1)) state[opened(i, q) ^ (1ull << q)] *= -1.0;
}
void go(double* s, unsigned q, u64 n, int most) {
  u64 half = n >> 1;
  unsigned block = half <= most ? half : most;
  phase<<<(half + block - 1) / block, block>>>(s, q, n);
}
"""
TWO = """
__global__ void both(double* state, unsigned low, unsigned high, u64 n) {
  u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  if (i < (n >> 2)) state[opened(opened(i, low), high) ^ (1ull << low) ^ (1ull << high)] *= -1.0;
}
void go(double* s, unsigned a, unsigned b, u64 n) {
  unsigned high = a > b ? a : b, low = a > b ? b : a;
  both<<<(n / 4 + 255) / 256, 256>>>(s, low, high, n);
}
"""
LIST = """
__global__ void some(double* state, const int* at, int count, u64 mask, u64 n) {
  u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  if (i >= (n >> count)) return;
  for (int k = 0; k < count; ++k) i = opened(i, at[k]);
  state[i | mask] *= -1.0;
}
void go(double* s, const int* at, int count, u64 mask, u64 n) {
  some<<<((n >> count) + 255) / 256, 256>>>(s, at, count, mask, n);
}
"""
RANK = """
__global__ void part(double* o, const double* x, int rank, int bits, u64 n) {
  u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 all = ((u64)rank << bits) | i;
  o[i] = x[i] * (double)(all % 3);
}
void go(double* o, const double* x, int rank, int bits, u64 n) {
  part<<<(n + 255) / 256, 256>>>(o, x, rank, bits, n);
}
"""
LENGTH = """
__global__ void ramp(float* o, int bits) {
  int n = 1 << bits, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = i;
}
void go(float* o, int bits) { ramp<<<((1 << bits) + 255) / 256, 256>>>(o, bits); }
"""


def drafted(folder: Path, text: str) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
    (folder / "k.cu").write_text(INSERT + text)
    program = ktc.load(str(folder / "k.cu"))
    assert program.source is not None
    written = tomllib.loads(workload_text(program.kernel, program.source, folder / "workload.toml")[0])
    return {a["name"]: a for a in written["args"]}, {s["name"]: s["sizes"] for s in written["scenario"]}


def is_power(n: int) -> bool:
    return n & (n - 1) == 0


def test_a_position_is_a_small_number_and_sizes_are_powers_of_two_above_it(tmp_path: Path) -> None:
    args, sizes = drafted(tmp_path, ONE)
    assert args["q"]["value"] == 2
    assert args["state"]["shape"] == ["n"]
    assert all(is_power(s["n"]) and s["n"] > 4 for s in sizes.values())
    assert {"small", "large", "odd"} <= {*sizes}
    assert all({*s} == {"n"} for s in sizes.values())  # how many threads a block has at most is no size


def test_positions_that_the_host_puts_in_order_differ(tmp_path: Path) -> None:
    args, sizes = drafted(tmp_path, TWO)
    assert 0 < args["low"]["value"] < args["high"]["value"] < 8
    assert args["state"]["shape"] == ["n"]
    assert all(is_power(s["n"]) for s in sizes.values())


def test_lists_of_positions_ascend_and_masks_set_bits_that_are_clear(tmp_path: Path) -> None:
    args, sizes = drafted(tmp_path, LIST)
    assert args["at"]["init"] == "arange"
    assert args["mask"]["value"] == 0
    assert all(1 <= s["count"] <= 16 for s in sizes.values())


def test_what_stands_above_an_index_is_beyond_all_of_its_bits(tmp_path: Path) -> None:
    args, _ = drafted(tmp_path, RANK)
    assert (args["rank"]["value"], args["bits"]["value"]) == (0, "ceil_log2(n)")


def test_a_number_of_bits_that_says_how_many_threads_there_are_is_a_size(tmp_path: Path) -> None:
    args, sizes = drafted(tmp_path, LENGTH)
    assert args["bits"]["value"] == "bits"
    assert all(s["bits"] < 31 for s in sizes.values())


LEVELS = """
__global__ void refine(const float* x, float* o, int n, int level, int left) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float step = 1.0f / (1 << level);
  o[i] = left ? x[i] * step : x[i];
}
void go(const float* x, float* o, int n, int level, int last) {
  refine<<<(n + 255) / 256, 256>>>(x, o, n, level, last - level);
}
"""


def test_levels_that_say_which_power_of_two_is_meant_are_small(tmp_path: Path) -> None:
    args, sizes = drafted(tmp_path, LEVELS)
    assert args["level"]["value"] == 1 or all(s["level"] <= 16 and s.get("last", 1) <= 32 for s in sizes.values())
