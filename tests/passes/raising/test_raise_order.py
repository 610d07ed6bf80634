"""What raising prints does not hang on what the process has read before: symbols get other numbers, texts stay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

import pytest

import ktc
from ktc.ir import symbols
from ktc.ir.types import I32
from ktc.sources import library_kernels

KEPT = """\
__global__ void k(float* out, const float* x, const int* p) {
  __shared__ float s[8];
  int t = threadIdx.x, i = blockIdx.x * 8 + t;
  float a, b, c, d;
  a = x[i] + 1; b = a * a; c = b - 3 * a; d = c * b + a;
  s[t] = a;
  __syncthreads();
  float v = s[p[t] & 7];
  a += v; b -= v; c *= v; d = d * v + a;
  __syncthreads();
  s[t] = a - b * c + d;
  __syncthreads();
  out[i] = s[(p[t] + 1) & 7] + a + b + c + d;
}
void launch(float* out, float* x, int* p, int n) { k<<<n / 8, 8>>>(out, x, p); }
"""
"""Values that threads keep across a barrier become arrays."""

CARRIED = """\
__global__ void k(float* out, const float* x, const float* y, int n) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = x[i], b = y[i], c = a * b, d = a - b, e = a + 2 * b;
  for (int t = 0; t < n; t += 8) {
    tile[threadIdx.x] = x[t + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 8; ++j) { a += tile[j] * b; c += tile[j] - d; e = fmaxf(e, c * tile[j]); }
    __syncthreads();
  }
  out[i] = a + b + c + d + e;
}
void launch(float* out, float* x, float* y, int n) { k<<<n / 8, 8, 32>>>(out, x, y, n); }
"""

OWN = {"kept": KEPT, "carried": CARRIED}


def gaps(seed: int, after: int) -> Iterator[int]:
    """Numbers of symbols: in the order in which they are made, and far enough apart for sets to mix them."""
    draw = random.Random(seed)
    while True:
        yield (after := after + draw.randrange(1, 1000))


def texts(source: str, ways: int) -> set[str]:
    """What the kernel is printed as after raising, with its symbols numbered in so many ways."""
    found = set()
    for seed in range(ways):
        try:
            symbols._ids = gaps(seed, symbols.fresh("last", I32).id)  # type: ignore[assignment]
            program = ktc.loads(OWN[source]) if source in OWN else ktc.load(source)
            found.add(program.apply("raise").text())
        finally:
            symbols._ids = count(symbols.fresh("last", I32).id + 1)
    return found


@pytest.mark.parametrize("source", ["kept", "carried", "transpose_tiled", "rmsnorm", "softmax"])
def test_other_numbers_of_symbols_change_no_text(source: str) -> None:
    assert len(texts(source, 2)) == 1


@pytest.mark.campaign
@pytest.mark.parametrize("source", [*OWN, *library_kernels()])
def test_no_numbers_of_symbols_change_a_text(source: str) -> None:
    assert len(texts(source, 6)) == 1
