"""Rows that a block keeps in shared memory between its sweeps, read again where they are used."""

from __future__ import annotations

from ktc.ir.nodes import Alloc, Par, Reduce
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference

from .raised_once import raised

NORM = """
__global__ void norm(const float* __restrict__ x, const float* __restrict__ g, float* __restrict__ y, int n,
                     bool keep) {
  extern __shared__ float row[];
  __shared__ float parts[4];
  __shared__ float mean, scale;
  const int tid = threadIdx.x;
  float s = 0.0f;
  for (int i = tid; i < n; i += blockDim.x) {
    float v = x[blockIdx.x * n + i];
    FILL
    s += v;
  }
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(~0u, s, o);
  if (tid % 32 == 0) parts[tid / 32] = s;
  __syncthreads();
  if (tid == 0) {
    float t = 0.0f;
    for (int w = 0; w < 4; ++w) t += parts[w];
    mean = t / n;
  }
  __syncthreads();
  float q = 0.0f;
  for (int i = tid; i < n; i += blockDim.x) {
    float d = READ - mean;
    AGAIN
    q += d * d;
  }
  for (int o = 16; o > 0; o /= 2) q += __shfl_xor_sync(~0u, q, o);
  if (tid % 32 == 0) parts[tid / 32] = q;
  __syncthreads();
  if (tid == 0) {
    float t = 0.0f;
    for (int w = 0; w < 4; ++w) t += parts[w];
    scale = rsqrtf(t / n + 1e-5f);
  }
  __syncthreads();
  for (int i = tid; i < n; i += blockDim.x) y[blockIdx.x * n + i] = LAST * scale * g[i];
}
void run(const float* x, const float* g, float* y, int rows, int n, bool keep) {
  norm<<<rows, 128, n * sizeof(float)>>>(x, g, y, n, keep);
}
"""
KEPT = "keep ? row[i] : x[blockIdx.x * n + i]"


def norm(fill: str = "row[i] = v;", read: str = "row[i]", again: str = "", last: str = "(row[i] - mean)") -> str:
    return NORM.replace("FILL", fill).replace("READ", read).replace("AGAIN", again).replace("LAST", last)


def _raised_to_sweeps(source: str) -> str:
    kernel, outcome = raised(source)
    text = print_kernel(outcome.kernel)
    assert not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body)), text
    assert [type(s) for s in walk(outcome.kernel.body) if isinstance(s, Par | Reduce)] == [Par, Reduce, Reduce, Par]
    assert not Reference(kernel).differs(outcome.kernel)
    return text


def test_a_row_is_read_again_and_both_totals_are_the_first_threads() -> None:
    text = _raised_to_sweeps(norm())
    assert "mean_1: f32 = mean / n" in text and "rsqrt(scale / n + 1e-05)" in text


def test_a_row_that_is_kept_only_if_it_fits_is_read_again_either_way() -> None:
    text = _raised_to_sweeps(norm("if (keep) row[i] = v;", f"({KEPT})", last=f"(({KEPT}) - mean)"))
    assert "keep ?" not in text


def test_what_a_sweep_makes_of_a_row_is_made_again() -> None:
    text = _raised_to_sweeps(norm(again="row[i] = d;", last="row[i]"))
    assert text.count("- mean_1") == 2


def test_elements_of_other_threads_are_read_again_too() -> None:
    late = norm().replace("(row[i] - mean)", "(row[n - 1 - i] - mean)")
    kernel, outcome = raised(late)
    assert not Reference(kernel).differs(outcome.kernel)
