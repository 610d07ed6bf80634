"""Sizes that drafts choose: multiples of what kernels divide them by, several groups, few enough rounds."""

from __future__ import annotations

from functools import cache

import ktc
from ktc.scaffold import Draft, draft

NORM = """
__global__ void norm(const float* x, const float* w, float* y, int C, int HW, int G) {
  int n = blockIdx.x / G, g = blockIdx.x % G, each = C / G;
  const float* in = x + (n * C + g * each) * HW;
  float s = 0.0f;
  for (int i = 0; i < each * HW; ++i) s += in[i];
  for (int i = threadIdx.x; i < each * HW; i += 64)
    y[(n * C + g * each) * HW + i] = (in[i] - s / (each * HW)) * w[g * each + i / HW];
}
void go(const float* x, const float* w, float* y, int N, int C, int H, int W) {
  norm<<<N * 8, 64>>>(x, w, y, C, H * W, 8);
}
"""
UNPACK = """
__global__ void unpack(const unsigned char* q, const float* scale, float* out, int K, int N) {
  int n = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y;
  if (n >= N || k >= K / 2) return;
  float s = scale[2 * k / 128 * N + n];
  out[2 * k * N + n] = (q[k * N + n] & 15) * s;
  out[(2 * k + 1) * N + n] = (q[k * N + n] >> 4) * s;
}
"""
NEAREST = """
__global__ void nearest(const float* points, const float* centres, int* label, int n, int k, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f;
  int who = 0;
  for (int c = 0; c < k; ++c) {
    float s = 0.0f;
    for (int j = 0; j < d; ++j) {
      float t = points[i * d + j] - centres[c * d + j];
      s += t * t;
    }
    if (s < best) { best = s; who = c; }
  }
  label[i] = who;
}
void go(const float* p, const float* c, int* l, int n, int k, int d) {
  nearest<<<(n + 127) / 128, 128>>>(p, c, l, n, k, d);
}
"""
PAIRS = """
__global__ void twice(float2* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i].x *= 2.0f;
}
void go(float2* x, int floats) { twice<<<(floats / 2 + 63) / 64, 64>>>(x, floats / 2); }
"""
ALL_BLOCKS = """
__global__ void scale(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= 2.0f;
}
void go(float* x, int n) { scale<<<640, 512>>>(x, n); }
"""
MEANS = """
__global__ void mean(const float* x, const int* first, float* out, int d) {
  int b = blockIdx.x;
  for (int c = threadIdx.x; c < d; c += blockDim.x) {
    float s = 0.0f;
    for (int t = first[b]; t < first[b + 1]; ++t) s += x[t * d + c];
    out[b * d + c] = s / (first[b + 1] - first[b]);
  }
}
void go(const float* x, const int* f, float* o, int batch, int d) { mean<<<batch, 128>>>(x, f, o, d); }
"""


@cache
def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def shapes(d: Draft) -> dict[str, tuple[str, ...]]:
    return {name: extent.shape for name, extent in d.shapes.items() if extent is not None}


def test_channels_are_whole_groups() -> None:
    """C / 8 is nothing below 8 channels: no element is touched there, and every shape would be of one."""
    d = drafted(NORM)
    assert shapes(d) == {"x": ("N", "C", "H", "W"), "w": ("C",), "y": ("N", "C", "H", "W")} and not d.doubts
    assert all(sizes["C"] % 8 == 0 for _, sizes, _ in d.scenarios)


def test_probes_see_more_than_one_group() -> None:
    """Below 128 rows there is one row of scales, and a draft of N of them is read out of bounds."""
    d = drafted(UNPACK)
    assert shapes(d)["scale"] == ("cdiv(K, 128)", "N") and not any("shape" in x for x in d.doubts)
    assert all(sizes["K"] % 2 == 0 for _, sizes, _ in d.scenarios)


def test_one_look_is_no_shape() -> None:
    """At the usual sizes only the smallest of the probes ends: what it alone shows fits any constant."""
    assert shapes(drafted(NEAREST)) == {"points": ("n", "d"), "centres": ("k", "d"), "label": ("n",)}


def test_what_the_host_divides_has_no_rest() -> None:
    assert all(sizes["floats"] % 2 == 0 for _, sizes, _ in drafted(PAIRS).scenarios)


def test_the_small_scenario_is_small() -> None:
    """Sizes that the probes needed are halved again: 128 KiB of each tensor are the medium scenario's."""
    d = drafted(NORM)
    small = next(sizes for name, sizes, _ in d.scenarios if name == "small")
    assert 4 * sum(d.elements(small).values()) <= 1 << 18


def test_parts_have_elements() -> None:
    """As many rows as parts, or fewer, leave a third of the parts empty."""
    d = drafted(MEANS)
    assert [(c.buffer, c.kind) for c in d.contents] == [("first", "offsets")]
    tuned = [sizes for name, sizes, _ in d.scenarios if name in ("small", "medium", "large")]
    assert all(sizes["first_last"] >= 8 * sizes["batch"] for sizes in tuned), tuned


def test_a_grid_that_goes_on_until_all_is_done_is_the_sources() -> None:
    """A fixed number of blocks is enough for every size: what is timed is what the author launches."""
    d = drafted(ALL_BLOCKS)
    assert d.launch is None and not d.doubts and shapes(d) == {"x": ("n",)}
