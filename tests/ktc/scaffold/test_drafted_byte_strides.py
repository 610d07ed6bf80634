"""Drafts of kernels whose strides are passed in bytes, and whose divisors are packed with what divides by them."""

from __future__ import annotations

import ktc
from ktc.scaffold.draft import draft
from ktc.scaffold.model import Draft

CHOSEN_ROWS = """
__global__ void add_rows(const float* x, const float* rows, const int* which, float* y, int64_t width, int64_t height,
                         size_t x_row, size_t x_plane, size_t row, size_t list) {
  const int64_t r = blockIdx.x, b = blockIdx.y;
  const int chosen = *(const int*)((const char*)which + r * sizeof(int) + b * list);
  float* to = (float*)((char*)y + (b * height + r) * width * sizeof(float));
  const float* from = (const float*)((const char*)x + r * x_row + b * x_plane);
  const float* added = (const float*)((const char*)rows + chosen * row);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i] + added[i];
}
void go(const float* x, const float* rows, const int* which, float* y, int64_t w, int64_t h, int64_t n, int64_t wide,
        int64_t each) {
  const size_t x_row = w * sizeof(float), x_plane = h * x_row;
  add_rows<<<dim3(h, n), 64>>>(x, rows, which, y, w, h, x_row, x_plane, wide * sizeof(float), each * sizeof(int));
}
"""

DIVIDED = """
__device__ unsigned quotient(unsigned n, uint3 by) { return (__umulhi(n, by.x) + n) >> by.y; }
uint3 packed(unsigned d) {
  unsigned bits = 0;
  while (bits < 32 && (1u << bits) < d) ++bits;
  return make_uint3((unsigned)(((1ull << 32) * ((1ull << bits) - d)) / d + 1), bits, d);
}
__global__ void add_bias(const float* x, const float* bias, float* y, unsigned n, uint3 width) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned r = quotient(i, width);
  y[i] = x[i] + bias[i - r * width.z];
}
void go(const float* x, const float* bias, float* y, unsigned rows, unsigned width) {
  add_bias<<<(rows * width + 255) / 256, 256>>>(x, bias, y, rows * width, packed(width));
}
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads("#include <stdint.h>\n" + source).kernel)


def test_rows_are_as_long_as_they_are_read_wherever_strides_are_counted_in_bytes() -> None:
    """Whoever chooses a row by its number has several to choose from, each as long as the others."""
    d = drafted(CHOSEN_ROWS)
    shapes = {b: e.factors for b, e in d.shapes.items() if e is not None}
    assert shapes == {
        "x": ("n", "height", "width"),
        "y": ("n", "height", "width"),
        "which": ("n", "height"),
        "rows": ("which_values", "width"),
    }
    assert {n: d.tied(n) for n in ("x_row", "x_plane", "row", "list")} == {
        "x_row": "width * 4",
        "x_plane": "(height * (width * 4))",
        "row": "(width) * 4",
        "list": "(height) * 4",
    }
    assert not d.doubts


def test_a_packed_divisor_is_one_size() -> None:
    d = drafted(DIVIDED)
    assert d.names == ["width_z", "rows"] or sorted(d.names) == ["rows", "width_z"]
    assert d.tied("width_y") == "ceil_log2(width_z)"
    assert d.tied("n") in ("rows * width_z", "(rows * width_z)")
    bias = d.shapes["bias"]
    assert bias is not None and bias.factors == ("width_z",)
    assert not d.doubts


def test_what_is_divided_by_a_float_is_no_formula_of_sizes() -> None:
    source = """
    __global__ void nearest(const float* x, float* y, int64_t w, size_t row, float scale) {
      const int64_t i = threadIdx.x, from = (int64_t)(blockIdx.x / scale);
      if (i < w) y[blockIdx.x * w + i] = ((const float*)((const char*)x + from * row))[i];
    }
    void go(const float* x, float* y, int64_t w, int64_t h, int64_t wide, float scale) {
      nearest<<<h, 64>>>(x, y, w, wide * sizeof(float), scale);
    }"""
    d = drafted(source)
    assert d.shapes.keys() == {"x", "y"} and not any("scale" in f for e in d.shapes.values() if e for f in e.factors)


def test_a_divisor_with_its_multiplier_is_a_dimension_and_no_window() -> None:
    """What is taken off the power of two above it is not taken off another size."""
    d = drafted(DIVIDED)
    assert "width_z" not in d.roles.halves and "width_z" not in d.roles.windows


PITCHED = """
template <typename T> struct Step { T* data; size_t step; int cols, rows;
  __device__ T* ptr(int y) const { return (T*)((char*)data + y * step); } };
__global__ void to_metres(const Step<unsigned short> depth, Step<float> out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < depth.cols && y < depth.rows) out.ptr(y)[x] = depth.ptr(y)[x] / 1000.f;
}
template <typename T> struct Image { operator Step<T>() const; int cols() const; int rows() const; };
void go(const Image<unsigned short>& depth, Image<float>& out) {
  to_metres<<<dim3((depth.cols() + 31) / 32, depth.rows()), 32>>>(depth, out);
}
"""


def test_rows_of_a_pitch_that_nobody_tells_do_not_overlap() -> None:
    """A pitch in bytes is so many elements: as many as are read of a row, each as wide as it is."""
    d = drafted(PITCHED)
    shapes = {b: e.factors for b, e in d.shapes.items() if e is not None}
    assert shapes == {"depth_data": ("depth_rows", "depth_cols"), "out_data": ("depth_rows", "depth_cols")}
    tied = {n: d.tied(n) for n in ("depth_step", "depth_step_elements", "out_step", "out_step_elements")}
    assert tied == {
        "depth_step": "2 * (depth_cols)",
        "depth_step_elements": "depth_cols",
        "out_step": "4 * (depth_cols)",
        "out_step_elements": "depth_cols",
    }
