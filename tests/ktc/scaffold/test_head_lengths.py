"""Sizes of attention by what the kernel does with them."""

from __future__ import annotations

from ktc.ir.frontend import load
from ktc.scaffold.scales.head_lengths import head_lengths, tokens

ATTEND = """
__global__ void attend(const float* q, const float* k, float* w, int rows, int n, int d, int pitch) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float top = -INFINITY;
  for (int j = 0; j < n; j++) {
    float s = 0;
    for (int i = 0; i < d; i++) s += q[r * pitch + i] * k[j * pitch + i];
    w[r * n + j] = s;
    top = fmaxf(top, s);
  }
  for (int j = 0; j < n; j++) w[r * n + j] = FINISH;
}
"""


def test_what_a_softmax_takes_sums_of_has_the_length_of_a_head() -> None:
    kernel = load(ATTEND.replace("FINISH", "expf(w[r * n + j] - top)"))
    assert head_lengths(kernel) == {"d"} and tokens(kernel) == {"rows", "n"}


def test_a_product_alone_says_nothing_of_heads() -> None:
    assert not head_lengths(load(ATTEND.replace("FINISH", "w[r * n + j] - top")))
    assert not head_lengths(load(ATTEND.replace("fmaxf(top, s)", "s").replace("FINISH", "expf(w[r * n + j])")))
