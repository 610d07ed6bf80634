"""Kernels on OpenCV's images: rows that a number of bytes lies between, and conversions that stay within a type."""

from __future__ import annotations

import numpy as np

ROWS = """
using namespace cv::cuda;
__global__ void k(const PtrStepSz<short> src, PtrStep<short> dst) {
  int x = threadIdx.x, y = blockIdx.x;
  if (x < src.cols && y < src.rows) dst(y, x) = src.ptr(y)[x] * 2;
}
void go(const PtrStepSz<short> src, PtrStepSz<short> dst) { k<<<src.rows, 4>>>(src, dst); }
"""
NARROWED = """
namespace cv { namespace cuda { namespace device {
  __global__ void k(const float* x, unsigned char* bytes, short* shorts, int* whole) {
    int i = threadIdx.x;
    bytes[i] = saturate_cast<unsigned char>(x[i]);
    shorts[i] = saturate_cast<short>((int)x[i]);
    whole[i] = saturate_cast<int>(x[i]) + divUp(9, 4);
  }
  void go(const float* x, unsigned char* b, short* s, int* w) { k<<<1, 4>>>(x, b, s, w); }
  void other(PtrStepSzf image);
} } }
"""


def test_rows_are_a_number_of_bytes_apart(execute) -> None:
    src = np.arange(16, dtype=np.int16).reshape(2, 8)
    args = {"src_data": src.ravel(), "src_step": 16, "src_cols": 3, "src_rows": 2}
    out = execute(ROWS, {**args, "dst_data": np.zeros(8, np.int16), "dst_step": 8})["dst_data"]
    assert out.reshape(2, 4).tolist() == [[0, 2, 4, 0], [16, 18, 20, 0]]


def test_conversions_stay_within_the_type_and_round(execute) -> None:
    x = np.array([-3.2, 2.5, 254.6, 40000.0], np.float32)
    out = execute(NARROWED, {"x": x, "bytes": np.zeros(4, np.uint8), "shorts": np.zeros(4, np.int16),
                             "whole": np.zeros(4, np.int32)})  # fmt: skip
    assert out["bytes"].tolist() == [0, 2, 255, 255]
    assert out["shorts"].tolist() == [-3, 2, 254, 32767]
    assert out["whole"].tolist() == [0, 5, 258, 40003]


def test_a_source_s_own_types_of_these_names_stay(execute) -> None:
    text = """
    template <typename T> struct PtrStep { T* data; int step; };
    __global__ void k(PtrStep<int> p) { p.data[threadIdx.x * p.step] = 7; }
    void go(PtrStep<int> p) { k<<<1, 2>>>(p); }"""
    assert execute(text, {"p_data": np.zeros(4, np.int32), "p_step": 2})["p_data"].tolist() == [7, 0, 7, 0]
