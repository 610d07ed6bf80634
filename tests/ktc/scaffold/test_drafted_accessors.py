"""Drafts of kernels that get tensors with their extents and strides."""

from __future__ import annotations

import ktc
from ktc.scaffold import draft

BLEND = """
__global__ void blend(at::PackedTensorAccessor64<float, 3, at::RestrictPtrTraits> out,
                      const at::PackedTensorAccessor64<float, 2, at::RestrictPtrTraits> colours,
                      const at::PackedTensorAccessor64<float, 3, at::RestrictPtrTraits> weights,
                      const at::PackedTensorAccessor64<int64_t, 3, at::RestrictPtrTraits> which) {
  const int64_t channels = colours.size(0), pixels = which.size(2), most = which.size(1);
  const int n = blockIdx.x;
  for (int64_t at = threadIdx.x; at < channels * pixels; at += blockDim.x) {
    const int64_t c = at / pixels, i = at % pixels;
    float sum = 0;
    for (int64_t k = 0; k < most; ++k) {
      const int64_t from = which[n][k][i];
      if (from < 0) continue;
      sum += colours[c][from] * weights[n][k][i];
    }
    out[n][c][i] = sum;
  }
}
void go(const at::Tensor& colours, const at::Tensor& weights, const at::Tensor& which, at::Tensor& out) {
  blend<<<out.size(0), 128>>>(out.packed_accessor64<float, 3, at::RestrictPtrTraits>(),
                              colours.packed_accessor64<float, 2, at::RestrictPtrTraits>(),
                              weights.packed_accessor64<float, 3, at::RestrictPtrTraits>(),
                              which.packed_accessor64<int64_t, 3, at::RestrictPtrTraits>());
}
"""


def test_dimensions_that_one_variable_indexes_are_as_long_as_each_other() -> None:
    d = draft(ktc.loads(BLEND).kernel)
    assert not d.doubts
    shape = {b: e.factors for b, e in d.shapes.items() if e is not None}
    batch, channels, pixels = shape["out_ptr"]
    _, most, _ = shape["which_ptr"]
    assert shape["which_ptr"] == shape["weights_ptr"] == (batch, most, pixels)
    assert shape["colours_ptr"][0] == channels and len({batch, channels, pixels, most}) == 4
    assert len(d.names) == 5 and d.ties["which_ptr_values"] == shape["colours_ptr"][1]


COPIED = """
__global__ void copy(THCDeviceTensor<float, 3> x, THCDeviceTensor<float, 3> y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y, b = blockIdx.z;
  if (i < y.getSize(2)) y[b][c][i] = x[b][c][i];
}
void go(THCDeviceTensor<float, 3> x, THCDeviceTensor<float, 3> y) {
  copy<<<dim3((y.getSize(2) + 255) / 256, y.getSize(1), y.getSize(0)), 256>>>(x, y);
}
"""


def test_strides_that_the_host_does_not_tell_are_those_of_elements_one_after_the_other() -> None:
    """And what it asks a tensor for is the extent that the kernel is passed."""
    k = ktc.loads(COPIED).kernel
    assert k.launch is not None and not any(p.host for p in k.params)
    d = draft(k)
    assert not d.doubts and d.roles.fixed == {"x_strides_2": 1, "y_strides_2": 1}
    for tensor in "xy":
        assert d.roles.tied[f"{tensor}_strides_0"] == f"{tensor}_sizes_1 * {tensor}_sizes_2"
    x, y = (e.factors for e in d.shapes.values() if e is not None)
    assert x == y and len(x) == 3


def test_extents_that_only_strides_are_made_of_are_sizes() -> None:
    """A kernel that picks its places by data asks for no extent of theirs: the strides named what is no size."""
    d = draft(
        ktc.loads("""
    __global__ void pick(THCDeviceTensor<float, 3> x, float* y, const int* row, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[row[i]][row[i] / 2][0];
    }
    void go(THCDeviceTensor<float, 3> x, float* y, const int* row, int n) { pick<<<(n + 63) / 64, 64>>>(x, y, row, n); }
    """).kernel
    )
    assert {"x_sizes_1", "x_sizes_2"} <= {*d.roles.sizes, *d.roles.tied} and not {*d.roles.flags} & {"x_sizes_1"}


GATHERED = """#include <ATen/cuda/detail/TensorInfo.cuh>
using at::cuda::detail::TensorInfo;
template <typename T> struct Starts {
  static __device__ int get(int i, const TensorInfo<T, int>& t) {
    int offset = i % (t.sizes[t.dims - 1] - 1) * t.strides[t.dims - 1];
    i /= t.sizes[t.dims - 1] - 1;
    for (int d = t.dims - 2; d >= 0; --d) { offset += i % t.sizes[d] * t.strides[d]; i /= t.sizes[d]; }
    return offset;
  }
};
__global__ void rows(const float* x, const TensorInfo<int64_t, int> starts, float* y, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n) {
    const int at = Starts<int64_t>::get(row, starts);
    float sum = 0;
    for (int64_t i = starts.data[at]; i < starts.data[at + starts.strides[starts.dims - 1]]; i++) sum += x[i];
    y[row] = sum;
  }
}
void go(at::Tensor x, at::Tensor starts, at::Tensor y) {
  const int n = y.numel();
  rows<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), at::cuda::detail::getTensorInfo<int64_t, int>(starts),
                                 y.data_ptr<float>(), n);
}
"""


def test_a_tensor_of_any_number_of_dimensions_has_one() -> None:
    """And an index that would go on in the next dimension stays below what the one has."""
    d = draft(ktc.loads(GATHERED).kernel)
    assert not d.doubts and d.tied("starts_sizes_0") == "n + 1"
    fixed = {n: v for n, v in d.roles.fixed.items() if n.startswith("starts_")}
    assert {*fixed.values()} == {1} and len(fixed) == 50 and "starts_sizes_0" not in fixed
    extents = {b: (*e.factors, e.plus) for b, e in d.shapes.items() if e is not None}
    assert extents == {"x": ("starts_data_last", 0), "starts_data": ("n", 1), "y": ("n", 0)}


RAGGED = """
__global__ void nearest(const at::PackedTensorAccessor64<float, 3, at::RestrictPtrTraits> x,
                        const at::PackedTensorAccessor64<float, 3, at::RestrictPtrTraits> y,
                        const at::PackedTensorAccessor64<int64_t, 1, at::RestrictPtrTraits> many_x,
                        const at::PackedTensorAccessor64<int64_t, 1, at::RestrictPtrTraits> many_y,
                        at::PackedTensorAccessor64<float, 2, at::RestrictPtrTraits> out) {
  const int64_t i = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y;
  if (i >= many_x[n]) return;
  float least = 1e30f;
  for (int64_t j = 0; j < many_y[n]; ++j) {
    float sum = 0;
    for (int64_t d = 0; d < x.size(2); ++d) sum += (x[n][i][d] - y[n][j][d]) * (x[n][i][d] - y[n][j][d]);
    least = fminf(least, sum);
  }
  out[n][i] = least;
}
"""


def test_elements_that_say_how_much_of_a_dimension_is_used_are_its_extent_at_most() -> None:
    d = draft(ktc.loads(RAGGED).kernel)
    shape = {b: e.factors for b, e in d.shapes.items() if e is not None}
    within = {c.buffer: str(d.tied(c.name)) for c in d.contents}
    assert within["many_x_ptr"] == f"{shape['x_ptr'][1]} + 1" and within["many_y_ptr"] == f"{shape['y_ptr'][1]} + 1"
    assert shape["x_ptr"][1] != shape["y_ptr"][1] and shape["out_ptr"] == shape["x_ptr"][:2]
