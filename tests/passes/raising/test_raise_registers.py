"""Rows that threads keep in registers by hand: raised to loops over the row, kept again where no pass follows."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise

from .raised_once import raised

STRIDED = """
__global__ void norm(const float* __restrict__ x, float* __restrict__ y, float eps) {
  __shared__ float part[4];
  float v[6];
  float acc = 0.f;
  const float* row = x + blockIdx.x * 768;
#pragma unroll
  for (int j = 0; j < 6; ++j) {
    v[j] = row[j * 128 + threadIdx.x];
    acc += v[j] * v[j];
  }
  for (int o = 16; o; o >>= 1) acc += __shfl_xor_sync(~0u, acc, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = acc;
  __syncthreads();
  float t = part[0] + part[1] + part[2] + part[3];
  float r = rsqrtf(t / 768 + eps);
#pragma unroll
  for (int j = 0; j < 6; ++j) y[blockIdx.x * 768 + j * 128 + threadIdx.x] = v[j] * r;
}
void run(const float* x, float* y, int rows, float eps) { norm<<<rows, 128>>>(x, y, eps); }
"""

SIDE_BY_SIDE = """
__global__ void heads(float* __restrict__ q, const float* __restrict__ w, int n, float eps) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (warp >= n) return;
  float* p = q + warp * 128 + lane * 4;
  float v[4];
  float s = 0.f;
#pragma unroll
  for (int i = 0; i < 4; ++i) { v[i] = p[i]; s += v[i] * v[i]; }
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
  float r = rsqrtf(s / 128.f + eps);
#pragma unroll
  for (int i = 0; i < 4; ++i) p[i] = v[i] * r * w[lane * 4 + i];
}
void run(float* q, const float* w, int n, float eps) { heads<<<(n * 32 + 255) / 256, 256>>>(q, w, n, eps); }
"""


VECTORS = """
__global__ void rows(const float* __restrict__ a, float* __restrict__ out, int n) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= n) return;
  int4 buf[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) buf[k] = reinterpret_cast<const int4*>(a + row * 256)[k * 32 + lane];
#pragma unroll
  for (int k = 0; k < 2; ++k) reinterpret_cast<int4*>(out + row * 256)[k * 32 + lane] = buf[k];
}
void run(const float* a, float* out, int n) { rows<<<(n + 31) / 32, 1024>>>(a, out, n); }
"""


@pytest.mark.parametrize(
    "source, total, each",
    [
        (STRIDED, "over i in 0..768 @ [thread.x 128, unroll 6]", "par i_1 in 0..768 @ [thread.x 128, unroll 6]"),
        (SIDE_BY_SIDE, "over i in 0..128 @ [unroll 4, thread.x 32]", "par i_1 in 0..128 @ [unroll 4, thread.x 32]"),
    ],
    ids=["strided", "side-by-side"],
)
def test_the_row_is_one_loop_again(source: str, total: str, each: str) -> None:
    """No array and no round is left; lowered alone, each thread keeps its elements again (in place, too)."""
    kernel = load(source, name="source.cu")
    found = Raise().run(kernel)
    assert isinstance(found, Result), found
    text = print_kernel(found.kernel)
    assert total in text and each in text and "for " not in text, text
    assert not any(isinstance(s, Alloc) for s in walk(found.kernel.body))
    assert found.kernel.staging == ("row-cache{loop=i.* where=registers}",)
    back = materialise(found.kernel)
    assert any(isinstance(s, Alloc) and s.sym.name.endswith("_row") for s in walk(back.body))
    reference = Reference(kernel, instances=5, seed=21)
    assert reference.differs(found.kernel) == "" and reference.differs(back) == ""


@pytest.mark.parametrize(
    "source, old, new",
    [
        (SIDE_BY_SIDE, "float r = ", "p[0] = 1.f; float r = "),
        (SIDE_BY_SIDE, "float r = ", "v[1] = s; float r = "),
        (STRIDED, "v[j] * r;", "v[5 - j] * r;"),
        (STRIDED, "v[j] * r;", "v[0] * r;"),
    ],
    ids=["memory-changed", "changed-again", "other-order", "one-element"],
)
def test_other_uses_keep_their_meaning(source: str, old: str, new: str) -> None:
    assert old in source
    kernel = load(source.replace(old, new), name="source.cu")
    found = Raise().run(kernel)
    if isinstance(found, Result):
        reference = Reference(kernel, instances=5, seed=21)
        assert reference.differs(found.kernel) == "" and reference.differs(materialise(found.kernel)) == ""


def test_vectors_that_wait_in_registers_stay_vectors() -> None:
    """An element of an array of vectors is a vector, not a number of its type: whole ones are moved."""
    kernel = load(VECTORS, name="source.cu")
    done = apply_script(kernel, parse_script("raise"))
    assert done.refused is None
    text = print_kernel(done.kernel)
    assert " buf" not in text and "in 0..256 * n @ [vec 4, thread.x 32, unroll 2," in text and "as.bit" not in text
    assert Reference(kernel, instances=5, seed=21).differs(done.kernel) == ""


KNOWN_FIRST_COLUMN = """
__global__ void product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n, int k) {
  __shared__ float s[4][4];
  unsigned row = blockIdx.x * 16 + threadIdx.x, col = blockIdx.y * 4;
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int t = 0; t < (k + 3) / 4; ++t) {
    unsigned i = threadIdx.x / 4, j = threadIdx.x % 4;
    s[i][j] = t * 4 + i < k && col + j < n ? b[(t * 4 + i) * n + col + j] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
      float v = row < n && t * 4 + i < k ? a[row + (t * 4 + i) * n] : 0.0f;
      for (int j = 0; j < 4; ++j) sum[j] += v * s[i][j];
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) if (row < n && col + j < n) c[row + (col + j) * n] = sum[j];
}
void run(const float* a, const float* b, float* c, int n, int k) {
  product<<<dim3((n + 15) / 16, (n + 3) / 4), 16>>>(a, b, c, n, k);
}
"""


def test_a_first_column_that_every_block_has_is_one_of_the_columns() -> None:
    """The launch shows that there is a column ``4 * block``, so that its guard is gone when the others still have
    theirs."""
    text = print_kernel(raised(KNOWN_FIRST_COLUMN)[1].kernel)
    assert "in 0..n @ [unroll 4, block.y]" in text and "?" not in text, text
