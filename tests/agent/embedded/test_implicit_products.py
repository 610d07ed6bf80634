"""Ideas for convolutions of 16-bit elements as products on tensor cores."""

from __future__ import annotations

import pytest

from ktc.agent.embedded.gathered.implicit_products import implicit_products
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.nodes import TileMma
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.passes.lowering.errors import LoweringError
from ktc.search.target import DeviceInfo
from tests.agent.embedded.test_convolutions import raised

GPU = DeviceInfo("cuda", "a GPU", "cuda-sm90", 132, 1024, 227 << 10)

CHANNELS_LAST = """
#include <cuda_fp16.h>
__global__ void conv(const half* __restrict__ x, const half* __restrict__ w, half* __restrict__ y, int N, int H, int W,
                     int C, int K) {
  int k = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y;
  if (k >= K) return;
  int ow = p % W, oh = (p / W) % H, n = p / (W * H);
  float a = 0.f;
  for (int r = 0; r < 3; r++)
    for (int s = 0; s < 3; s++) {
      int ih = oh + r - 1, iw = ow + s - 1;
      if (ih < 0 || ih >= H || iw < 0 || iw >= W) continue;
      for (int c = 0; c < C; c++)
        a += __half2float(x[((n * H + ih) * W + iw) * C + c]) * __half2float(w[((r * 3 + s) * C + c) * K + k]);
    }
  y[p * K + k] = __float2half(a);
}
void go(const half* x, const half* w, half* y, int N, int H, int W, int C, int K) {
  conv<<<dim3((K + 63) / 64, N * H * W), 64>>>(x, w, y, N, H, W, C, K);
}
"""
CHANNELS_FIRST = """
#include <cuda_fp16.h>
__global__ void conv(const half* __restrict__ x, const half* __restrict__ w, half* __restrict__ y, int N, int C, int H,
                     int W, int K) {
  int q = blockIdx.x * 16 + threadIdx.x, p = blockIdx.y * 16 + threadIdx.y, k = blockIdx.z % K, n = blockIdx.z / K;
  if (p >= H || q >= W) return;
  float sum = 0.f;
  for (int c = 0; c < C; c++)
    for (int r = 0; r < 3; r++)
      for (int s = 0; s < 3; s++) {
        int v = p + r - 1, u = q + s - 1;
        if (v >= 0 && v < H && u >= 0 && u < W)
          sum += __half2float(x[((n * C + c) * H + v) * W + u]) * __half2float(w[((k * C + c) * 3 + r) * 3 + s]);
      }
  y[((n * K + k) * H + p) * W + q] = __float2half(sum);
}
void go(const half* x, const half* w, half* y, int N, int C, int H, int W, int K) {
  conv<<<dim3((W + 15) / 16, (H + 15) / 16, N * K), dim3(16, 16)>>>(x, w, y, N, C, H, W, K);
}
"""
ZEROS = """
#include <cuda_fp16.h>
__global__ void conv(const half* __restrict__ x, const half* __restrict__ f, half* __restrict__ y, int H, int W, int C,
                     int K) {
  int k = threadIdx.x + blockIdx.x * 32, w = blockIdx.y * 4 + threadIdx.y, h = blockIdx.z;
  if (k >= K || w >= W) return;
  float acc = 0.f;
  for (int i = -2; i <= 2; ++i)
    for (int j = -2; j <= 2; ++j)
      for (int c = 0; c < C; ++c) {
        bool in = h + i >= 0 && h + i < H && w + j >= 0 && w + j < W;
        float v = in ? __half2float(x[((h + i) * W + w + j) * C + c]) : 0.f;
        acc += v * __half2float(f[(((i + 2) * 5 + j + 2) * C + c) * K + k]);
      }
  y[(h * W + w) * K + k] = __float2half(acc);
}
void go(const half* x, const half* f, half* y, int H, int W, int C, int K) {
  conv<<<dim3((K + 31) / 32, (W + 3) / 4, H), dim3(32, 4)>>>(x, f, y, H, W, C, K);
}
"""
LAYER = {"N": 8, "H": 56, "W": 56, "C": 64, "K": 64}


def _scripts(source: str, before: str, sizes: dict[str, int]) -> list[str]:
    kernel = raised(source, before)

    def able(steps: str) -> bool:
        done = apply_script(kernel, parse_script(steps))
        if done.refused is not None:
            return False
        try:
            materialise(done.kernel)
        except LoweringError:
            return False
        return True

    return [steps for steps, _, _ in implicit_products(kernel, GPU, [facts(kernel, sizes)], able)]


def test_a_layer_whose_channels_lie_together() -> None:
    first, *_, last = _scripts(CHANNELS_LAST, "delinearise{loop=p}", LAYER)
    assert first.startswith("zero-terms{loop=r} | linearise{loops=n,oh,ow} | divisible-by{C=64 K=64} | tile{")
    assert "linearise{loops=r,s,c_tile}" in first and "fragment=m64n64k16_f16" in first
    assert "array=x loop=r_s_c_tile vec=8" in first and "array=w loop=r_s_c_tile vec=8" in first
    assert "fragment" not in last and "async-copy{loop=r_s_c_tile}" in last
    kernel = apply_script(raised(CHANNELS_LAST, "delinearise{loop=p}"), parse_script(first)).kernel
    assert [s.pending for s in walk(materialise(kernel).body) if isinstance(s, TileMma)] == [1], "in flight"


def test_a_layer_whose_pixels_lie_together() -> None:
    first, *_ = _scripts(CHANNELS_FIRST, "delinearise{loop=block_z}", LAYER)
    assert "interchange{outer=n inner=k} | linearise{loops=n,p,q} | linearise{loops=c,r,s}" in first
    assert "array=w loop=c_r_s_tile vec=8" in first and "array=x loop=c_r_s_tile}" in first  # single pixels
    assert "prefetch{loop=c_r_s_tile}" in first


def test_zeros_in_the_source_and_taps_around_the_middle() -> None:
    first, *_ = _scripts(ZEROS, "", {"H": 128, "W": 128, "C": 64, "K": 128})
    assert (
        first.startswith("linearise{loops=h,w} | divisible-by{C=64 K=128}") and "linearise{loops=i,j,c_tile}" in first
    )


@pytest.mark.parametrize(
    ("old", "new", "sizes"),
    [
        ("", "", LAYER | {"C": 20}),  # no whole steps
        ("const half*", "const float*", LAYER),
    ],
)
def test_none(old: str, new: str, sizes: dict[str, int]) -> None:
    source = CHANNELS_LAST.replace(old, new).replace("__half2float", "(float)") if old else CHANNELS_LAST
    assert not _scripts(source, "delinearise{loop=p}", sizes)
