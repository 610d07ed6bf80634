"""Rounds in which each thread takes one element are loops over elements, also where the launch passes their number."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel

from .raised_once import raised

ROWS = """
__global__ void sums(const T* x, T* y, int n, int d, int rounds) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row < n) {
    T sum = 0.0f;
    for (int r = 0; r < ROUNDS; ++r) {
      int i = r * 32 + THREAD;
      if (i < d) sum += x[row * d + i];
    }
    for (int k = 16; k > 0; k >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, k);
    if (threadIdx.x == 0) y[row] = sum;
  }
}
int parts(int a, int b) { return (a - 1) / b + 1; }
void launch(const T* x, T* y, int n, int d, int given) {
  dim3 block(32, 4);
  sums<<<(n + 3) / 4, block>>>(x, y, n, d, PASSED);
}
"""


def loops(passed: str, rounds: str = "rounds", thread: str = "threadIdx.x", of: str = "float") -> str:
    source = ROWS.replace("PASSED", passed).replace("ROUNDS", rounds).replace("THREAD", thread).replace("T*", f"{of}*")
    source = source.replace("T sum", f"{of} sum")
    return print_kernel(raised(("#include <cuda_fp16.h>\n" if of == "__half" else "") + source)[1].kernel)


@pytest.mark.parametrize("thread", ["threadIdx.x", "threadIdx.x % 32", "(int)threadIdx.x"])
@pytest.mark.parametrize("rounds", ["(d + 31) / 32", "(d - 1) / 32 + 1"])
def test_rounds_that_cover_the_elements(rounds: str, thread: str) -> None:
    assert "over i in 0..d @ [thread.x 32, seq]" in loops("0", rounds, thread)


@pytest.mark.parametrize("passed", ["(d + 31) / 32", "parts(d, 32)"])
def test_the_launch_says_that_they_cover_them(passed: str) -> None:
    found = loops(passed)
    assert "over i in 0..d @ [thread.x 32, seq]" in found and "assume rounds == (d " in found


def test_any_other_number_of_rounds_ends_the_loop_as_well() -> None:
    found = loops("given")
    assert "over i in 0..min(d, rounds * 32) @ [thread.x 32, seq]" in found and "assume" not in found


def test_sums_of_halves_begin_at_a_converted_zero() -> None:
    assert "over i in 0..d @ [thread.x 32, seq]" in loops("0", "(d + 31) / 32", of="__half")
