"""Counts of a block in an array that is as long as a parameter says: the block's choice is open once that is known."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder
from ktc.ir.frontend import load
from ktc.passes.scalar.whole_arrays import whole_lengths

SOURCE = """
__global__ void count(const unsigned *x, unsigned *bins, unsigned n, unsigned length) {
  extern __shared__ unsigned own[];
  for (unsigned k = threadIdx.x; k < length; k += blockDim.x) own[k] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&own[x[i]], 1);
  __syncthreads();
  for (unsigned k = threadIdx.x; k < length; k += blockDim.x) atomicAdd(&bins[k], own[k]);
}
void launch(const unsigned *x, unsigned *bins, unsigned n) {
  count<<<64, 256, 512 * sizeof(unsigned)>>>(x, bins, n, 512);
}
"""


@pytest.fixture(scope="module")
def kernel():
    return load(SOURCE, name="k.cu")


@pytest.mark.parametrize(("lengths", "bound"), [((512, 512), True), ((512, 256), False), ((256, 256), False)])
def test_a_length_is_bound_where_it_is_the_arrays_at_all_sizes(kernel, lengths, bound: bool) -> None:
    start = Builder(kernel, sizes=[{"n": 1 << 20, "length": n} for n in lengths]).start
    assert ("specialize{length=512}" in start) == bound


def test_the_length_is_the_arrays_and_its_counts_are_the_targets(kernel) -> None:
    builder = Builder(kernel, sizes=[{"n": 1 << 20, "length": 512}])
    raised = builder.kernel("raise")
    assert raised is not None and whole_lengths(raised) == {}  # a number by now
    assert builder.attempt(f"{builder.start} | unprivatize-atomics{{array=own}}") is None
