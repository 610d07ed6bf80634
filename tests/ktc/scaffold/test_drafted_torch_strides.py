"""Strides that the host asks tensors for, whose extents it asks for as well, are those of tensors as they are made."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import draft

COPY = """
#include <torch/extension.h>
__global__ void copy(const float* x, float* y, int heads, int dim, long stride, long pitch) {
  for (int i = threadIdx.x; i < heads * dim; i += blockDim.x) y[blockIdx.x * pitch + i] = x[blockIdx.x * stride + i];
}
void run(torch::Tensor& x, torch::Tensor& y) {
  int rows = x.size(0), heads = x.size(1), dim = x.size(2);
  HOST
  copy<<<rows, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), heads, dim, STRIDE, y.stride(0));
}
"""


@pytest.mark.parametrize(
    ("host", "stride"),
    [
        ("int64_t stride = x.stride(0);", "stride"), ("", "x.stride(0)"),
        ("auto like = x.contiguous();", "like.stride(0)"),
    ],
)  # fmt: skip
def test_a_row_is_as_long_as_what_is_in_it(host: str, stride: str) -> None:
    d = draft(ktc.loads(COPY.replace("HOST", host).replace("STRIDE", stride)).kernel)
    assert d.tied("stride") == "heads * dim"
    x = d.shapes["x"]
    assert x is not None and x.shape == ("rows", "heads", "dim")
