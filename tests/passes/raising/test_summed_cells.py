"""One element of shared memory that a block's threads add to, as a sum."""

from __future__ import annotations

from ktc.ir.nodes import Alloc, Atomic, Reduce, Store
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk

from .raised_once import raised

ONE_SUM = """
__global__ void total(const float* __restrict__ x, float* __restrict__ out, int n) {
  __shared__ float sum;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();
  if (i < n) atomicAdd(&sum, x[i]);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, sum);
}
void run(const float* x, float* out, int n) { total<<<(n + 63) / 64, 64>>>(x, out, n); }
"""

FROM_A_NUMBER = ONE_SUM.replace("sum = 0.0f", "sum = x[0]").replace("atomicAdd(out, sum)", "out[blockIdx.x] = sum")

SEVERAL = """
__global__ void moments(const float* __restrict__ x, float* __restrict__ mean, float* __restrict__ most, int n) {
  __shared__ float sum, squares; __shared__ int count[1];
  if (threadIdx.x == 0) { sum = 0.0f; squares = 0.0f; count[0] = 0; }
  __syncthreads();
  float a = 0.0f, b = 0.0f; int above = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = x[blockIdx.x * n + i];
    a += v; b += v * v; above += v > 1.0f;
  }
  atomicAdd(&sum, a); atomicAdd(&squares, b); atomicAdd(&count[0], above);
  __syncthreads();
  if (threadIdx.x == 0) { mean[blockIdx.x] = sum / n + squares; most[blockIdx.x] = count[0]; }
}
void run(const float* x, float* mean, float* most, int n, int rows) { moments<<<rows, 64>>>(x, mean, most, n); }
"""

TAKES_NUMBERS = """
__global__ void places(const int* __restrict__ x, int* __restrict__ out, int n) {
  __shared__ int next;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) next = 0;
  __syncthreads();
  if (i < n && x[i] > 0) out[blockIdx.x * 64 + atomicAdd(&next, 1)] = x[i];
}
void run(const int* x, int* out, int n) { places<<<(n + 63) / 64, 64>>>(x, out, n); }
"""


def test_updates_of_all_threads_are_a_sum_of_the_block() -> None:
    kernel = raised(ONE_SUM)[1].kernel
    assert not any(isinstance(s, Alloc) for s in walk(kernel.body)), print_kernel(kernel)
    (update,) = [s for s in walk(kernel.body) if isinstance(s, Atomic)]
    assert update.buffer.name == "out" and any(isinstance(s, Reduce) for s in walk(kernel.body))
    assert "reassociates" in kernel.flags


def test_what_the_element_begins_with_counts() -> None:
    kernel = raised(FROM_A_NUMBER)[1].kernel
    text = print_kernel(kernel)
    assert not any(isinstance(s, Alloc) for s in walk(kernel.body)) and "x[0]" in text, text


def test_what_each_thread_has_added_up_is_added_up_by_the_block() -> None:
    kernel = raised(SEVERAL)[1].kernel
    assert not any(isinstance(s, Alloc | Atomic) for s in walk(kernel.body)), print_kernel(kernel)
    assert [len(s.accs) for s in walk(kernel.body) if isinstance(s, Reduce)] == [3]
    assert {s.buffer.name for s in walk(kernel.body) if isinstance(s, Store)} == {"mean", "most"}


def test_an_element_whose_old_value_is_taken_stays() -> None:
    kernel = raised(TAKES_NUMBERS)[1].kernel
    assert any(isinstance(s, Alloc) and s.sym.name == "next" for s in walk(kernel.body)), print_kernel(kernel)
