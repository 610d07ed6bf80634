"""Conversions to 16 bits that round towards zero, down and up; vectors that are added atomically, lane by lane."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run

SOURCE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void k(TYPE* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = NAME(x[i]);
}
void launch(TYPE* y, const float* x, int n) { k<<<(n + 31) / 32, 32>>>(y, x, n); }
"""
VALUES = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.0001, -1.0001, 1 / 3, -1 / 3, 1e-9, -1e-9, 65504.0, 65519.0, -65519.0, 7e4, 3.39e38,
     -3.39e38, np.inf, -np.inf, np.nan, 6e-8, 5.9e-8, 2048.5, -4097.0], np.float32,
)  # fmt: skip


def rounded(x: np.float32, t: np.dtype, towards: str) -> float:
    """The nearest number of ``t`` on one side of ``x``: of all of them, sorted."""
    bits = np.arange(1 << 16, dtype=np.uint16).view(t).astype(np.float32)
    known = np.unique(bits[~np.isnan(bits)])
    if np.isnan(x):
        return float("nan")
    down, up = known[known <= x].max(), known[known >= x].min()
    return float({"rd": down, "ru": up, "rz": down if x >= 0 else up}[towards])


@pytest.mark.parametrize("towards", ["rz", "rd", "ru"])
@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_conversions_that_round_to_one_side(name: str, towards: str) -> None:
    t = np.dtype(np.float16 if name == "half" else ml_dtypes.bfloat16)
    source = SOURCE.replace("NAME", f"__float2{name}_{towards}").replace(
        "TYPE", "__" + ("" if name == "half" else "nv_") + name
    )
    got = run(load(source, name="source.cu"), {"y": np.zeros(VALUES.size, t), "x": VALUES, "n": VALUES.size})
    want = [rounded(x, t, towards) for x in VALUES]
    assert got.ok
    np.testing.assert_array_equal(got.outputs["y"].astype(np.float32), np.array(want, np.float32))


ADDED = """
#include <cuda_fp16.h>
template <typename T> struct Two { T x, y; };
__global__ void k(VECTOR* sums, const VECTOR* x, VECTOR* before, int n) {
  int i = threadIdx.x;
  if (i < n) RESULT atomicAdd(sums + i % 2, x[i]);
}
void launch(VECTOR* sums, const VECTOR* x, VECTOR* before, int n) { k<<<1, 32>>>(sums, x, before, n); }
"""


VECTORS = [("__half2", np.float16, 2), ("float2", np.float32, 2), ("float4", np.float32, 4)]


@pytest.mark.parametrize(("vector", "t", "lanes"), VECTORS)
@pytest.mark.parametrize("result", ["", "before[i] ="])
def test_vectors_are_added_lane_by_lane(vector: str, t: type, lanes: int, result: str) -> None:
    x = np.arange(3 * lanes, dtype=t)
    given = {"sums": np.ones(2 * lanes, t), "x": x, "before": np.zeros(3 * lanes, t), "n": 3}
    got = run(load(ADDED.replace("VECTOR", vector).replace("RESULT", result), name="source.cu"), given)
    rows = x.reshape(3, lanes)
    want = np.stack([1 + rows[0] + rows[2], 1 + rows[1]])
    assert got.ok and got.outputs["sums"].reshape(2, lanes).tolist() == want.tolist()
