"""Maxima of floats by the bits that they have as integers: what raising can check since patterns mean something."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.text import print_kernel
from ktc.passes.core.base import Refused
from ktc.passes.raising.raise_ import Raise
from tests.ir.frontend.lowering.retry_samples import NEAR_MISSES, text_of
from tests.passes.raising.test_raise_rows import outcome

LARGEST = """
__global__ void largest(const float* __restrict__ x, float* out, int d) {
  __shared__ float part[8];
  float m = 0.0f;
  for (int i = threadIdx.x; i < d; i += 256) m = fmaxf(m, fabsf(x[blockIdx.x * d + i]));
  for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; ++w) m = fmaxf(m, part[w]);
    atomicMax((int*)out, __float_as_int(m));
  }
}
void launch(const float* x, float* out, int rows, int d) { largest<<<rows, 256>>>(x, out, d); }
"""


def test_an_atomic_maximum_of_patterns_is_checked() -> None:
    text = print_kernel(outcome(LARGEST).kernel)
    assert "over i in 0..d @ [thread.x 256, seq]" in text and "atomic smax out[0], m" in text, text


@pytest.mark.parametrize(
    ("old", "new"), [("w = 1; w < 8", "w = 1; w < 7"), ("o = 16", "o = 8"), ("fabsf(x[blockIdx.x * d + i])", "x[i]")]
)
def test_what_differs_shows_in_the_patterns(old: str, new: str) -> None:
    found = Raise().run(load(LARGEST.replace(old, new), name="source.cu"))
    if old == "fabsf(x[blockIdx.x * d + i])":
        assert not isinstance(found, Refused) and "x[i]" in print_kernel(found.kernel)
    else:
        assert isinstance(found, Refused) or "over i in 0..d" not in print_kernel(found.kernel)


def test_a_swap_that_is_no_update_with_a_name_is_explained() -> None:
    text = text_of("float", NEAR_MISSES["taken from the operand"], "f(&o[0], a[i])")
    found = Raise().run(load(text, name="source.cu"))
    assert isinstance(found, Refused) and found.code == "E-RAISE-CHECK"
    assert "compare-and-swap of 'o'" in found.hint and "has a name" in found.hint
