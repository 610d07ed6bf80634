"""Addresses as numbers: what a kernel that looks at the alignment of a row does in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from ktc.ir.frontend.api import load
from ktc.ir.interp import run

LOOKING = """
__global__ void look(const TYPE* x, const TYPE* y, unsigned long long* at, int n) {
  int i = threadIdx.x;
  if (i < n) {
    at[2 * i] = reinterpret_cast<unsigned long long>(x + i * 3);
    at[2 * i + 1] = reinterpret_cast<unsigned long long>(&y[i]) - reinterpret_cast<unsigned long long>(x);
  }
}
void go(const TYPE* x, const TYPE* y, unsigned long long* at, int n) { look<<<1, 32>>>(x, y, at, n); }
"""


@pytest.mark.parametrize(("type_", "dtype", "size"), [("float", np.float32, 4), ("double", np.float64, 8),
                                                      ("unsigned char", np.uint8, 1)])  # fmt: skip
@pytest.mark.parametrize("domain", ["float", "int", "field"])
def test_rows_lie_as_far_apart_as_their_elements_are_large(type_: str, dtype: type, size: int, domain: str) -> None:
    kernel = load(LOOKING.replace("TYPE", type_), name="source.cu")
    x = np.ones(100, dtype)
    got = run(kernel, {"x": x, "y": x, "at": np.zeros(64, np.uint64), "n": 32}, domain=domain)
    assert got.ok, got.findings
    first, second = got.outputs["at"].reshape(32, 2).T
    assert first[0] % 256 == 0, "as cudaMalloc aligns it"
    assert (np.diff(first) == 3 * size).all() and (np.diff(second) == size).all()
    assert second[0] > 32 * 3 * size, "buffers do not overlap"


VECTORS = """
__global__ void look(const float4* x, unsigned long long* at) {
  at[threadIdx.x] = reinterpret_cast<unsigned long long>(x + threadIdx.x);
}
void go(const float4* x, unsigned long long* at) { look<<<1, 8>>>(x, at); }
"""


def test_elements_that_are_vectors_count_whole() -> None:
    kernel = load(VECTORS, name="source.cu")
    got = run(kernel, {"x": np.ones(64, np.float32), "at": np.zeros(8, np.uint64)})
    assert (np.diff(got.outputs["at"]) == 16).all()


def test_a_null_pointer_is_zero() -> None:
    kernel = load(LOOKING.replace("TYPE", "float"), name="source.cu")
    got = run(kernel, {"x": None, "y": np.ones(40, np.float32), "at": np.zeros(64, np.uint64), "n": 32})
    assert got.outputs["at"][0] == 0 and got.outputs["at"][2] == 12
