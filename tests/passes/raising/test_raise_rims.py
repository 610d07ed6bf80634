"""Rims of tiles that are one cell wide, filled by single threads or rows of them under tests of their own places."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.text import print_kernel
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.staging.tile_fills import Table
from tests.passes.raising.raised_once import raised
from tests.passes.raising.test_raise_addresses import agree

LINE = """
__global__ void line(const int* __restrict__ x, int* __restrict__ y, int n) {
  __shared__ int s[18];
  int t = threadIdx.x, i = blockIdx.x * 16 + t;
  s[t + 1] = i < n ? x[i] : 0;
  if (t == 0) s[0] = i > 0 ? x[i - 1] : 0;
  if (t == 15) s[17] = i + 1 < n ? x[i + 1] : 0;
  __syncthreads();
  if (i < n) y[i] = s[t] + 2 * s[t + 1] + 5 * s[t + 2];
}
void go(const int* x, int* y, int n) { line<<<(n + 15) / 16, 16>>>(x, y, n); }
"""

PLANE = """
__global__ void plane(const int* __restrict__ x, int* __restrict__ y, int w, int h) {
  __shared__ int s[6][10];
  int a = threadIdx.x, b = threadIdx.y, c = blockIdx.x * 8 + a, r = blockIdx.y * 4 + b;
  s[b + 1][a + 1] = c < w && r < h ? x[r * w + c] : 0;
  if (b == 0) { if (r > 0 && c < w) s[0][a + 1] = x[(r - 1) * w + c]; else s[0][a + 1] = 0; }
  if (b == 3) { if (r + 1 < h && c < w) s[5][a + 1] = x[(r + 1) * w + c]; else s[5][a + 1] = 0; }
  if (a == 0) { if (c > 0 && r < h) s[b + 1][0] = x[r * w + c - 1]; else s[b + 1][0] = 0; }
  if (a == 7) { if (c + 1 < w && r < h) s[b + 1][9] = x[r * w + c + 1]; else s[b + 1][9] = 0; }
  __syncthreads();
  if (c < w && r < h)
    y[r * w + c] = s[b][a + 1] + 2 * s[b + 2][a + 1] + 3 * s[b + 1][a] + 5 * s[b + 1][a + 2] - s[b + 1][a + 1];
}
void go(const int* x, int* y, int w, int h) {
  plane<<<dim3((w + 7) / 8, (h + 3) / 4), dim3(8, 4)>>>(x, y, w, h);
}
"""

VECTORS = """
__global__ void pull(const float4* __restrict__ p, float* __restrict__ o, int n) {
  __shared__ float4 s[8];
  int t = threadIdx.x, i = blockIdx.x * 8 + t;
  float4 own = p[i];
  float v = 0.f;
  for (int k = 0; k < gridDim.x; k++) {
    int j = k * 8 + t;
    if (j < n) s[t] = p[j]; else s[t] = make_float4(0.f, 0.f, 0.f, 0.f);
    __syncthreads();
    for (int m = 0; m < 8; m++) { float4 q = s[m]; v += (q.x - own.y) * s[m].w; }
    __syncthreads();
  }
  o[i] = v;
}
void run(const float4* p, float* o, int n) { pull<<<(n + 7) / 8, 8>>>(p, o, n); }
"""

X = np.arange(1, 801, dtype=np.int32) % 41 - 13
LINES = [{"n": n} for n in (1, 15, 16, 17, 40)]
PLANES = [{"w": w, "h": h} for w, h in ((1, 1), (8, 4), (9, 5), (20, 13))]


@pytest.mark.parametrize(("source", "sizes"), [(LINE, LINES), (PLANE, PLANES)])
def test_each_cell_stands_for_an_element_or_for_what_lies_beyond(source: str, sizes: list[dict[str, int]]) -> None:
    kernel, found = raised(source)
    text = print_kernel(found.kernel)
    assert "array s" not in text and "thread" in text and not any("left: " in n for n in found.notes)
    agree(kernel, found.kernel, sizes, {"x": X, "y": np.zeros(260, np.int32)})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s[0] = i > 0", "s[0] = i > 16"),
        ("i + 1 < n ? x[i + 1]", "i + 2 < n ? x[i + 1]"),
        ("i > 0 ? x[i - 1] : 0", "i > 0 ? x[i - 1] : 3"),
    ],
)
def test_other_rims_mean_what_they_say(old: str, new: str) -> None:
    kernel, found = load(LINE.replace(old, new), name="source.cu"), Raise().run(load(LINE.replace(old, new)))
    assert LINE.count(old) == 1 and isinstance(found, Result)
    agree(kernel, found.kernel, LINES, {"x": X, "y": np.zeros(260, np.int32)})


def test_wrong_places_of_a_rim_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Table._slopes
    monkeypatch.setattr(Table, "_slopes", lambda self, e: -right(self, e))
    found = Raise().run(load(LINE, name="source.cu"))
    assert isinstance(found, Result) and any("left: " in n for n in found.notes)


def test_tiles_of_vectors() -> None:
    _, found = raised(VECTORS)
    assert "array s" not in print_kernel(found.kernel) and not any("left: " in n for n in found.notes)
