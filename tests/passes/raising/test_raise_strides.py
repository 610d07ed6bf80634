"""Loops that go on by the size of the launch, however they are written, become loops over what is shared out."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import For, Par
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise
from tests.passes.checks import applied

ROWS = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, int rows, int cols) {
  for (int j = blockIdx.x; j < rows; j += gridDim.x)
    for (int t = threadIdx.x; t < cols; t += blockDim.x) o[j * cols + t] = 2 * a[j * cols + t];
}
void go(float* o, const float* a, int rows, int cols) { k<<<rows, 128>>>(o, a, rows, cols); }
"""
GUARDED = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, int rows, int cols) {
  for (int b = 0; b < rows; b += gridDim.x) {
    int j = b + blockIdx.x;
    if (j < rows)
      for (int t = 0; t < cols; t += blockDim.x) {
        int i = t + threadIdx.x;
        if (i < cols) o[j * cols + i] = 2 * a[j * cols + i];
      }
  }
}
void go(float* o, const float* a, int rows, int cols) {
  k<<<rows < 65535 ? rows : 65535, cols < 512 ? cols : 512>>>(o, a, rows, cols);
}
"""
WHILE = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  while (i < n) { o[i] = 2 * a[i]; i += gridDim.x * blockDim.x; }
}
void go(float* o, const float* a, int n) { k<<<(n + 255) / 256, 256>>>(o, a, n); }
"""
NAMED = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, unsigned n) {
  int first = blockIdx.x * blockDim.x + threadIdx.x;
  int step = gridDim.x * blockDim.x;
  float twice = 2;
  for (unsigned i = first; i < n; i += step) {
    float s = 0;
    for (unsigned m = 0; m < n; m++) s += a[m] * twice;
    o[i] = s;
  }
}
void go(float* o, const float* a, unsigned n) { k<<<16, 256>>>(o, a, n); }
"""
ROUNDS = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, size_t n) {
  for (int b = 0; b < n; b += blockDim.x * gridDim.x) {
    int i = b + blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) o[i] = 2 * a[i];
  }
}
void go(float* o, const float* a, size_t n) { k<<<n < 4096 ? n : 4096, 256>>>(o, a, n); }
"""
APART = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, int n, int c, int h, int w) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * h * w; i += gridDim.x * blockDim.x) {
    int x = i % w, y = i / w % h, b = i / w / h;
    float s = 0;
    for (int m = 0; m < c; m++) { s += a[((b * c + m) * h + y) * w + x]; o[((b * c + m) * h + y) * w + x] = s; }
  }
}
void go(float* o, const float* a, int n, int c, int h, int w) { k<<<(n * h * w + 255) / 256, 256>>>(o, a, n, c, h, w); }
"""
SUMMED = """
__global__ void k(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float part[64];
  int tid = threadIdx.x;
  for (int r = blockIdx.x; r < rows; r += gridDim.x) {
    float s = 0;
    for (int c = tid; c < cols; c += blockDim.x) s += x[r * cols + c];
    part[tid] = s;
    __syncthreads();
    for (int m = 32; m > 0; m >>= 1) { if (tid < m) part[tid] += part[tid + m]; __syncthreads(); }
    for (int c = tid; c < cols; c += blockDim.x) y[r * cols + c] = x[r * cols + c] / part[0];
    __syncthreads();
  }
}
void go(const float* x, float* y, int rows, int cols) { k<<<rows < 1024 ? rows : 1024, 64>>>(x, y, rows, cols); }
"""
TWO_AXES = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, int n) {
  const int t = threadIdx.y * blockDim.x + threadIdx.x, all = blockDim.y * blockDim.x;
  for (int i = t; i < n; i += all) o[blockIdx.x * n + i] = 2 * a[blockIdx.x * n + i];
}
void go(float* o, const float* a, int rows, int n) { k<<<rows, dim3(16, 4)>>>(o, a, n); }
"""
PARTS = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, int n) {
  for (int i = threadIdx.x * 4; i < n; i += STEP)
    for (int j = 0; j < 4; j++) o[blockIdx.x * n + i + j] = 2 * a[blockIdx.x * n + i + j];
}
void go(float* o, const float* a, int rows, int n) { k<<<rows, 64>>>(o, a, 4 * n); }
"""
SUMMED_PARTS = """
__global__ void k(int* y, const int* __restrict__ a, int n) {
  int s = 0;
  for (int i = threadIdx.x * 2; i < n; i += blockDim.x * 2) s += a[i] * a[i + 1];
  atomicAdd(y, s);
}
void go(int* y, const int* a, int n) { k<<<1, 64>>>(y, a, 2 * n); }
"""
PAIRS = """
#include <cuda_fp16.h>
__global__ void k(half* o, const half* bias, int n) {
  int row = blockIdx.x * n;
  for (int i = threadIdx.x * 2; i < n; i += blockDim.x * 2) {
    half2 v = __hadd2(((half2*)o)[(row + i) / 2], ((const half2*)bias)[i >> 1]);
    ((half2*)o)[(row + i) / 2] = v;
  }
}
void go(half* o, const half* bias, int rows, int n) { k<<<rows, 64>>>(o, bias, SIZE); }
"""
CARRIED = """
__global__ void k(float* __restrict__ o, const float* __restrict__ a, int rows) {
  for (int j = blockIdx.x; j < rows; j += gridDim.x) {
    float before = j >= 4 ? o[j - 4] : 0.0f;
    __syncthreads();
    if (threadIdx.x == 0) o[j] = before + a[j];
    __syncthreads();
  }
}
void go(float* o, const float* a, int rows) { k<<<4, 32>>>(o, a, rows); }
"""


@pytest.mark.parametrize(
    ("source", "loops"),
    [
        (ROWS, ["par j in 0..rows @ [block.x rows, seq]", "par t in 0..cols @ [thread.x 128, seq]"]),
        (
            GUARDED,
            [
                "par j in 0..rows @ [block.x rows < 65535 ? rows : 65535, seq]",
                "par i in 0..cols @ [thread.x cols < 512 ? cols : 512, seq]",
            ],
        ),
        (WHILE, ["par i in 0..n @ [thread.x 256, block.x (n + 255) / 256, seq]"]),
        (NAMED, ["par i: u32 in 0_u32..n @ [thread.x 256, block.x 16, seq]"]),
        (ROUNDS, ["par i in 0..n @ [thread.x 256, block.x n < 4096_u64 ? n : 4096_u64, seq]"]),
        (APART, ["par i in 0..n * h * w @ [thread.x 256, block.x (n * h * w + 255) / 256, seq]"]),
        (SUMMED, ["par r in 0..rows @ [block.x rows < 1024 ? rows : 1024, seq]", "reduce(+)"]),
        (TWO_AXES, ["par i in 0..n @ [thread.x 16, thread.y 4, seq]"]),
        (PARTS.replace("STEP", "blockDim.x * 4"), ["par i in 0..cdiv(n, 4) @ [thread.x 64, seq]", "for j in 0..4"]),
        (SUMMED_PARTS, ["reduce(+) s: i32 = 0 over i in 0..cdiv(n, 2) @ [thread.x 64, seq]"]),
    ],
    ids=["rows", "guarded", "while", "named", "rounds", "taken-apart", "summed", "two-axes", "parts", "summed-parts"],
)
def test_what_a_launch_shares_out_is_one_loop(source: str, loops: list[str]) -> None:
    text = print_kernel(applied(load(source, name="source.cu"), "raise"))
    assert all(loop in text for loop in loops), text


def test_rows_that_read_what_a_row_before_wrote_stay_in_order() -> None:
    form = applied(load(CARRIED, name="source.cu"), "raise")
    assert any(isinstance(s, For) and s.var.name == "j" for s in walk(form.body)), print_kernel(form)
    assert not any(isinstance(s, Par) and s.var.name == "j" for s in walk(form.body))


@pytest.mark.parametrize("step", ["blockDim.x * 2", "blockDim.x * 4 + 1", "blockDim.x"])
def test_threads_that_take_parts_of_others_stay_threads(step: str) -> None:
    """They go on by something else than what all of them take at once."""
    outcome = Raise().run(load(PARTS.replace("STEP", step), name="source.cu"))
    assert isinstance(outcome, Result) and "par tx in 0..64 @ [thread.x 64]" in print_kernel(outcome.kernel)


def test_pairs_of_rows_of_pairs_are_elements() -> None:
    """A place is rounded down to its pair; a promise that rows have a whole number of them says that it is one."""
    kernel = load(PAIRS.replace("SIZE", "n"), name="source.cu")
    kernel = kernel.with_(params=tuple(replace(p, divisible_by=2) if p.sym.name == "n" else p for p in kernel.params))
    text = print_kernel(applied(kernel, "raise"))
    assert "par i in 0..n @ [vec 2, thread.x 64, seq]" in text and "o[(row + i) as i64] += bias[i]" in text


def test_pairs_of_rows_of_any_length_are_rounded_down() -> None:
    outcome = Raise().run(load(PAIRS.replace("SIZE", "n"), name="source.cu"))
    assert not isinstance(outcome, Result) or "/ 2" in print_kernel(outcome.kernel)


def test_threads_of_whole_blocks_are_counted_as_the_launch_says() -> None:
    """Of as many blocks as there are whole ones in ``n``, which is a multiple of a block."""
    source = WHILE.replace("(n + 255) / 256", "n / 256")
    kernel = load(source, name="source.cu")
    whole = (dataclasses.replace(p, divisible_by=256) if p.sym.name == "n" else p for p in kernel.params)
    text = print_kernel(applied(kernel.with_(params=tuple(whole)), "raise"))
    assert "par i in 0..n @ [thread.x 256, block.x n / 256, seq]" in text, text
