"""Extents and strides that a structure passes, read in loops that threads stride over."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script

from .raised_once import raised

PERMUTED = """
struct Layout { int stride[3]; int rank; };
__global__ void permute(float* __restrict__ y, const float* __restrict__ x, int n, Layout from, Layout to) {
  BEFORE
  for (int at = blockIdx.x * 128 + threadIdx.x; at < n; at += 128 * gridDim.x) {
    int left = at, source = 0;
    for (int i = 0; i < from.rank; i++) {
      source += left / to.stride[i] * from.stride[i];
      left %= to.stride[i];
    }
    y[at] = x[source];
    AFTER
  }
}
void go(float* y, const float* x, int n, Layout from, Layout to) {
  permute<<<(n + 127) / 128 < 8 ? (n + 127) / 128 : 8, 128>>>(y, x, n, from, to);
}
"""


def form(before: str = "", after: str = "") -> str:
    return print_kernel(raised(PERMUTED.replace("BEFORE", before).replace("AFTER", after))[1].kernel)


def test_the_loop_is_over_elements() -> None:
    assert "  par at in 0..n @ [thread.x 128," in form()


@pytest.mark.parametrize(
    ("before", "after"), [("from.stride[0] = threadIdx.x + 1;", ""), ("", "from.stride[at % 3] += 1;")]
)
def test_what_a_thread_puts_there_itself_stays_with_it(before: str, after: str) -> None:
    assert "par at in 0..n" not in form(before, after)


def test_a_number_of_dimensions_that_is_known_leaves_no_array() -> None:
    kernel = raised(PERMUTED.replace("BEFORE", "").replace("AFTER", ""))[1].kernel
    done = apply_script(kernel, parse_script("specialize{from_rank=2}"))
    assert done.refused is None
    text = print_kernel(done.kernel)
    assert "array" not in text and text.count("to_stride_2") == 1, text
