"""Addresses as numbers: what a kernel that looks at the alignment of a row does in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
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


SHARED = """
__global__ void look(unsigned long long* at, int n) {
  __shared__ float s[4][8];
  extern __shared__ double all[];
  int t = threadIdx.x;
  s[t / 8][t % 8] = 1.f;
  all[t] = 2.0;
  at[3 * (blockIdx.x * 32 + t)] = reinterpret_cast<unsigned long long>(&s[t % 4][t / 4]);
  at[3 * (blockIdx.x * 32 + t) + 1] = reinterpret_cast<unsigned long long>(all + t);
  at[3 * (blockIdx.x * 32 + t) + 2] = reinterpret_cast<unsigned long long>(&s[0][0]);
}
void go(unsigned long long* at, int n) { look<<<2, 32, 256>>>(at, n); }
"""


def test_arrays_of_a_block_have_addresses_too() -> None:
    got = run(load(SHARED, name="source.cu"), {"at": np.zeros(192, np.uint64), "n": 1})
    assert got.ok, got.findings
    cell, dynamic, start = got.outputs["at"].reshape(2, 32, 3).transpose(2, 0, 1)
    t = np.arange(32)
    assert (start == start[0, 0]).all() and start[0, 0] % 16 == 0
    assert (cell - start == (t % 4 * 8 + t // 4) * 4).all()
    assert (np.diff(dynamic) == 8).all() and dynamic[0, 0] % 16 == 0 and (dynamic[0] == dynamic[1]).all()
