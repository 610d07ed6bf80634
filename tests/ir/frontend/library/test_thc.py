"""Kernels on the headers of Torch 7's CUDA library: tensors with their extents, operations by type, sums of blocks, and
files that are compiled once for each type."""

from __future__ import annotations

import numpy as np

from ktc import api

ROWS = """
__global__ void k(THCDeviceTensor<float, 2> x, THCDeviceTensor<float, 2> y, const long* label) {
  int r = blockIdx.x, c = threadIdx.x;
  if (c >= y.getSize(1)) return;
  int from = (int)label[r] - TH_INDEX_BASE;
  float v = THCNumerics<float>::mul(x[from][c], ScalarConvert<int, float>::to(2));
  y[r][c] = THCNumerics<float>::gt(v, 5.0f) ? v : THCNumerics<float>::neg(v);
  atomicAdd(y[r][c].data(), x.getStride(0) + y.numElements());
  float* last = &y[r][c];
  *last += 1.0f;
}
void go(THCDeviceTensor<float, 2> x, THCDeviceTensor<float, 2> y, const long* l) { k<<<y.getSize(0), 4>>>(x, y, l); }
"""
TOTAL = """
struct Plus { __device__ float operator()(float a, float b) const { return a + b; } };
__global__ void k(const float* x, float* y, int n) {
  __shared__ float kept[64];
  float s = reduceBlock(kept, n, THCNumerics<float>::abs(x[threadIdx.x]), Plus(), 0.0f);
  if (threadIdx.x == 0) y[0] = s + THCCeilDiv(n, 32);
}
void go(const float* x, float* y, int n) { k<<<1, 64>>>(x, y, n); }
"""


def members(name: str, shape: tuple[int, int]) -> dict[str, int]:
    strides = {f"{name}_strides_0": shape[1], f"{name}_strides_1": 1}
    return strides | {f"{name}_sizes_{d}": n for d, n in enumerate(shape)}


def test_elements_extents_and_operations(execute) -> None:
    x = np.arange(6, dtype=np.float32)
    args = {"x_ptr": x, "y_ptr": np.zeros(6, np.float32), "label": np.array([2, 1], np.int64)}
    y = execute(ROWS, args | members("x", (2, 3)) | members("y", (2, 3)))["y_ptr"]
    assert (y - 10).tolist() == [6, 8, 10, 0, -2, -4]


def test_what_a_block_makes_of_the_values_of_its_first_threads(execute) -> None:
    x = np.arange(64, dtype=np.float32) - 10
    for n in (5, 40, 64):
        y = execute(TOTAL, {"x": x, "y": np.zeros(1, np.float32), "n": n})["y"]
        assert y[0] == np.abs(x[:n]).sum() + -(-n // 32)


def test_a_file_that_is_compiled_for_each_type_is_read_for_float(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "generic").mkdir()
    (tmp_path / "generic" / "Twice.cu").write_text("""#ifndef THC_GENERIC_FILE
#define THC_GENERIC_FILE "generic/Twice.cu"
#else
void THNN_(Twice)(THCState* state, THCTensor* x, THCTensor* y, int n) {
  twice<real><<<(n + 127) / 128, 128>>>(THCTensor_(data)(state, y), THCTensor_(data)(state, x), n);
}
#endif
""")
    (tmp_path / "Twice.cu").write_text("""#include <THC/THC.h>
#define THNN_(NAME) TH_CONCAT_3(THNN_, CReal, NAME)
template <typename T> __global__ void twice(T* y, const T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = ScalarConvert<double, T>::to(2.0) * x[i];
}
#include "generic/Twice.cu"
#include "THCGenerateFloatTypes.h"
""")
    k = api.load("Twice.cu").kernel
    assert k.launch is not None and str(k.param("x").sym.type.elem) == "f32"
