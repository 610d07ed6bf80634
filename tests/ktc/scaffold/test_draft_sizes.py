"""Sizes that drafts choose: multiples of what kernels divide them by, several groups, few enough rounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

import ktc
from ktc.ir.workload.size_expressions import evaluate
from ktc.scaffold import Draft, draft
from ktc.scaffold.probing.probe_sizes import ProbeSizes
from ktc.scaffold.roles import Roles

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


PITCHED = """
__global__ void product(const float* a, const float* b, float* c, int ni, int nj, int nk) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= ni || j >= nj) return;
  for (int k = 0; k < nk; ++k) c[i * 512 + j] += a[i * 480 + k] * b[k * 512 + j];
}
"""
PLANES = """
__global__ void shift(const float* a, float* b, int nx, int ny, int nz) {
  int x = threadIdx.x + blockIdx.x * 32, y = blockIdx.y, z = blockIdx.z;
  if (x > 0 && x < nx - 1 && y < ny && z < nz) b[(z * 24 + y) * 40 + x] = a[(z * 24 + y) * 40 + x + 1];
}
"""
FRAMES = """
__global__ void frames(const float* x, float* y, int n, int width) {
  int f = blockIdx.x * 64 + threadIdx.x;
  if (f >= n) return;
  float s = 0.0f;
  for (int i = 0; i < width; ++i) s += x[f * 10 + i];
  y[f] = s;
}
"""
ELIMINATE = """
__global__ void eliminate(float* a, int n, int k) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j > k && j < n) a[k * n + j] = a[k * n + j] / a[k * n + k];
}
"""
LEAVES = """
__global__ void eliminate(float* a, const float* m, int n, int t) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n - 1 - t) return;
  a[n * (j + t + 1) + t] = m[j] / a[n * t + t];
}
"""
PLANE = """
__global__ void plane(const float* a, float* b, int n, int m, int i) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1 && j < m) b[i * m + j] = a[(i - 1) * m + j] + a[(i + 1) * m + j];
}
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


def test_a_grid_that_no_check_can_run_follows_the_size() -> None:
    """33 million threads at all sizes: any number of blocks does the same work."""
    source = """__global__ void k(float* y, const float* x, int n) {
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = 2 * x[i];
    }
    void launch(float* y, const float* x) { k<<<131072, 256>>>(y, x, 32 << 20); }"""
    d = drafted(source)
    assert d.launch is not None and d.launch.grid[0] == "cdiv(n, 256)" and any("fixed number" in x for x in d.doubts)


@pytest.mark.parametrize(
    ("source", "most"),
    [
        pytest.param(PITCHED, {"nj": 512, "nk": 480}, id="the next row begins after 512 columns"),
        pytest.param(PLANES, {"nx": 40, "ny": 24}, id="planes have room for 24 rows"),
    ],
)
def test_rows_are_no_longer_than_a_pitch_that_is_a_number(source: str, most: dict[str, int]) -> None:
    d = drafted(source)
    assert {n: d.most[n] for n in most} == most
    assert all(sizes[n] <= top for _, sizes, _ in d.scenarios for n, top in most.items())
    assert all(v > max(most.values()) for n, v in d.most.items() if n not in most)


class Tied(ProbeSizes):
    """What is left of one size once a quotient is taken off."""

    differences, ties = ["left"], {"left": "taken - whole / part"}
    roles = Roles((), {}, ())

    def __init__(self) -> None:
        """Nothing is asked of a kernel."""

    def value(self, name: str, sizes: Mapping[str, int]) -> int:
        return evaluate(self.ties[name], sizes)


def test_what_has_no_value_is_neither_less_nor_a_way_out() -> None:
    assert Tied().less_taken({"taken": 1, "whole": 8, "part": 0}) == {"taken": 1, "whole": 8, "part": 0}
    assert Tied().less_taken({"taken": 1, "whole": 8, "part": 2}) == {"taken": 9, "whole": 8, "part": 2}


def test_windows_that_are_read_overlap() -> None:
    assert drafted(FRAMES).most["width"] > 10


BOX = """
__global__ void box(const float* in, const float* weight, float* out, int D, int R, int C, int kd, int kr, int kc) {
  int c = blockIdx.x * 8 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y, d = blockIdx.z * 8 + threadIdx.z;
  if (d > D - kd || r > R - kr || c > C - kc) return;
  float s = 0.0f;
  for (int i = 0; i < kd; ++i)
    for (int j = 0; j < kr; ++j)
      for (int l = 0; l < kc; ++l)
        s += in[((d + i) * R + r + j) * C + c + l] * weight[(i * kr + j) * kc + l];
  out[(d * (R - kr + 1) + r) * (C - kc + 1) + c] = s;
}
void go(const float* in, const float* weight, float* out, int D, int R, int C, int kd, int kr, int kc) {
  dim3 grid((C - kc + 8) / 8, (R - kr + 8) / 8, (D - kd + 8) / 8);
  box<<<grid, dim3(8, 8, 8)>>>(in, weight, out, D, R, C, kd, kr, kc);
}
"""


def test_a_window_of_three_dimensions_is_their_product() -> None:
    shapes = drafted(BOX).shapes
    assert shapes["weight"] is not None and shapes["weight"].shape == ("kd", "kr", "kc")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        pytest.param(ELIMINATE, {"k": "n / 2"}, id="above the step"),
        pytest.param(LEAVES, {"t": "n / 2"}, id="what is left leaves"),
        pytest.param(PLANE, {"i": "n / 2"}, id="compared with the size itself"),
        pytest.param(FRAMES, {}, id="a width is a size"),
        pytest.param(NORM, {}, id="groups are sizes"),
    ],
)
def test_the_step_of_a_loop_of_the_host_lies_in_the_middle(source: str, value: dict[str, str]) -> None:
    d = drafted(source)
    assert {n: d.roles.tied[n] for n in value} == value
    assert all(n in value or "/ 2" not in text for n, text in d.roles.tied.items())
    assert not any("could not be run" in x for x in d.doubts)


INTERIOR = """
__global__ void match(const unsigned* __restrict__ ref, const unsigned* __restrict__ other, int W, int H, int* out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= W || y >= H) return;
  if (x < 8 || x >= W - 8 || y < 8 || y >= H - 8) { out[y * W + x] = 33; return; }
  int best = 33;
  for (int d = -4; d <= 4; d++) best = min(best, __popc(ref[y * W + x] ^ other[(y + d) * W + x]));
  out[y * W + x] = best;
}
void go(const unsigned* ref, const unsigned* other, int W, int H, int* out) {
  match<<<dim3((W + 15) / 16, (H + 15) / 16), dim3(16, 16)>>>(ref, other, W, H, out);
}
"""


def test_an_array_of_the_interior_has_no_elements_below_zero_at_the_smallest_sizes() -> None:
    d = drafted(INTERIOR)
    assert shapes(d)["ref"] == ("H * W - 8 * W - 8",) and shapes(d)["out"] == ("H", "W")
    assert d.least["H"] >= 9 and d.doubts == []


FOURS = """
__global__ void fours(const float4* x, float4* y, const float* w, int many) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = x[i], s = v;
  for (int j = 0; j < many; j++) s.x += w[j] * v.x;
  y[i] = s;
}
void go(const float4* x, float4* y, const float* w, int many, int n) {
  fours<<<n / 4 / 256, 256>>>(x, y, w, many);
}
"""
SHARES = """
__global__ void shares(const int* x, int* y, size_t bytes, int threads) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= threads) return;
  int s = 0;
  for (size_t i = t; i < bytes / 4; i += threads) s ^= x[i];
  y[t] = s;
}
void go(const int* x, int* y, size_t bytes) {
  int threads = bytes / 1024;
  shares<<<threads / 64, 64>>>(x, y, bytes, threads);
}
"""


@pytest.mark.parametrize(("source", "name", "grain"), [(FOURS, "n", 1024), (SHARES, "bytes", 65536)])
def test_a_grid_that_rounds_down_twice_has_blocks(source: str, name: str, grain: int) -> None:
    d = drafted(source)
    assert d.scenarios and all(s[name] % grain == 0 for _, s, _ in d.scenarios)
    assert not any("could not be run" in x for x in d.doubts)


HEADS = """
__global__ void heads(const float4* x, float4* y, int each) {
  int row = (blockIdx.x * blockDim.y + threadIdx.y) * 2 + threadIdx.z;
  y[row * (each / 4) + threadIdx.x] = x[row * (each / 4) + threadIdx.x];
}
void go(const float4* x, float4* y, int each, int rows, int side) {
  heads<<<rows, dim3(each / 4, side, 2)>>>(x, y, each);
}
"""


def test_a_side_of_a_block_leaves_room_for_the_others() -> None:
    d = drafted(HEADS)
    assert d.roles.fixed["side"] == 16 and d.scenarios
    assert not any("could not be run" in x for x in d.doubts)


SHORTCUT = """
#include <assert.h>
__global__ void add(int n, int w, int h, int step, int w1, int h1, const float *x, int w2, int h2, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int c = i % w, r = i / w % h, p = i / w / h;
  y[c + w2 * (r + h2 * p)] += x[c * step + w1 * (r * step + h1 * p)];
}
void run(int planes, int w1, int h1, const float *x, int w2, int h2, float *y) {
  int w = w1 < w2 ? w1 : w2, h = h1 < h2 ? h1 : h2, step = w1 / w2;
  assert(step == h1 / h2);
  if (step < 1) step = 1;
  int n = planes * w * h;
  add<<<(n + 255) / 256, 256>>>(n, w, h, step, w1, h1, x, w2, h2, y);
}
"""


def test_sizes_that_an_equality_relates_are_alike() -> None:
    """What the host asserts holds in all scenarios, for sizes as they mostly are."""
    d = drafted(SHORTCUT)
    found = {name: sizes for name, sizes, _ in d.scenarios}
    assert all(s["w1"] // s["w2"] == s["h1"] // s["h2"] for s in found.values()), found
    for name in ("small", "medium", "large"):
        assert len({found[name][n] for n in ("w1", "h1", "w2", "h2")}) == 1, found


def test_a_difference_of_sizes_is_no_less_than_nothing() -> None:
    """Of the last level and the one at hand the former is larger, in probes as in scenarios."""
    d = draft(
        ktc.loads("""
    __global__ void split(float* y, const float* x, const int* of, int n, int level, unsigned left) {
      int i = blockIdx.x * 64 + threadIdx.x;
      if (i < n) y[i] = x[3 * of[i]] * (1.0f / (1 << level)) * (left ? 2 : 1);
    }
    void go(float* y, const float* x, const int* of, int n, int last, int level) {
      split<<<(n + 63) / 64, 64>>>(y, x, of, n, level, last - level);
    }""").kernel
    )
    assert d.tied("left") == "last - level" and not d.doubts
    assert len(d.scenarios) > 3 and all(s["last"] > s["level"] for _, s, _ in d.scenarios)
