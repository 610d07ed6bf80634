"""Elements that a thread takes as far apart as there are threads, as a level of one sum."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Reduce
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script

from .raised_once import raised

FIRST_ADD = """
__global__ void total(const float* __restrict__ x, float* __restrict__ out, int n) {
  __shared__ float s[64];
  int t = threadIdx.x, first = blockIdx.x * 128;
  s[t] = TERMS;
  for (int k = 32; k > 0; k /= 2) { __syncthreads(); if (t < k) s[t] += s[t + k]; }
  if (t == 0) atomicAdd(out, s[0]);
}
void run(const float* x, float* out, int n) { total<<<(n + 127) / 128, 64>>>(x, out, n); }
"""
GUARDED = "(first + t < n ? x[first + t] : 0.0f) + (first + t + 64 < n ? x[first + t + 64] : 0.0f)"


def _the_sum(terms: str) -> Reduce:
    kernel = raised(FIRST_ADD.replace("TERMS", terms))[1].kernel
    (found,) = [s for s in walk(kernel.body) if isinstance(s, Reduce)]
    return found


@pytest.mark.parametrize("terms", [GUARDED, "x[first + t + 64] + x[t + first]"])
def test_two_elements_a_thread_are_a_level_of_the_sum(terms: str) -> None:
    found = _the_sum(terms)
    assert [lv.kind for lv in found.dist] == ["thread", "seq"], found.dist
    text = print_kernel(raised(FIRST_ADD.replace("TERMS", terms))[1].kernel)
    assert "in 0..128" in text and "64" not in text.split("yield")[1], text


@pytest.mark.parametrize("terms", ["x[first + t] + x[first + t + 32]", "x[first + t] + 2.0f * x[first + t + 64]"])
def test_other_elements_stay(terms: str) -> None:
    assert [lv.kind for lv in _the_sum(terms).dist] == ["thread"]


def test_the_sum_of_all_blocks_is_one() -> None:
    """The block's first element has a name of its own, in front of the sum."""
    kernel = raised(FIRST_ADD.replace("TERMS", "x[first + t] + x[first + t + 64]"))[1].kernel
    name = next(s.var.name for s in walk(kernel.body) if isinstance(s, Reduce))
    done = apply_script(kernel, parse_script(f"split-reduction{{loop={name} map=[thread.x 64, block.x 8, seq]}}"))
    assert done.refused is None, done.refused
