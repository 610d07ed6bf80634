"""Shapes as the host allocates buffers, of programs that have their sizes written in them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ktc import api
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.scaffold import workload_text
from ktc.search.verification import check_original

SCALED = """
#include <cstdint>
__global__ void scaled(const float* x, const uint32_t* w, const uint32_t* zeros, const float* scales, float* y,
                       int M, int N, int K, int group) {
  int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y;
  if (n >= N) return;
  float acc = 0.0f;
  for (int k = 0; k < K; k++) {
    int g = k / group;
    int q = (w[(k / 8) * N + n] >> ((k % 8) * 4)) & 15, z = (zeros[g * (N / 8) + n / 8] >> ((n % 8) * 4)) & 15;
    acc += x[m * K + k] * (q - z) * scales[g * N + n];
  }
  y[m * N + n] = acc;
}
"""
MAIN = """
int main() {
  int M = 1024, N = 4096, K = 4096, group = 128;
  float *x, *s, *y; uint32_t *w, *z;
  cudaMalloc(&x, M * K * sizeof(float)); cudaMalloc(&s, (K / group) * N * sizeof(float));
  cudaMalloc(&y, M * N * sizeof(float)); cudaMalloc(&w, (K / 8) * N * sizeof(uint32_t));
  cudaMalloc(&z, (K / group) * (N / 8) * sizeof(uint32_t));
  scaled<<<dim3((N + 127) / 128, M), 128>>>(x, w, z, s, y, M, N, K, group);
}
"""


def drafted(folder: Path, text: str) -> dict[str, Any]:
    file = folder / "k.cu"
    file.write_text(text)
    program = api.load(str(file))
    assert program.source is not None
    found, _ = workload_text(program.kernel, program.source, folder / "workload.toml")
    (folder / "workload.toml").write_text(found)
    return tomllib.loads(found)


def shapes(found: dict[str, Any]) -> dict[str, list[str]]:
    return {a["name"]: a["shape"] for a in found["args"] if "shape" in a}


def test_buffers_are_as_long_as_main_says(tmp_path: Path) -> None:
    found = drafted(tmp_path, SCALED + MAIN)
    assert shapes(found) == {
        "x": ["M", "K"],
        "w": ["K / 8", "N"],
        "zeros": ["K / group", "N / 8"],
        "scales": ["K / group", "N"],
        "y": ["M", "N"],
    }
    assert found["launch"]["grid"] == ["((N + 127) / 128)", "M", "1"]
    assert {"M": 1024, "N": 4096, "K": 4096, "group": 128} in [s["sizes"] for s in found["scenario"]]
    # what is divided into groups is a multiple of them
    assert found["assume"] == {"facts": ["K % group == 0"], "guessed": True}
    assert all(s["sizes"]["K"] % s["sizes"]["group"] == 0 for s in found["scenario"])
    facts = api.load(str(tmp_path / "workload.toml")).kernel.assumptions
    assert [a.origin for a in facts] == ["guessed"]


def test_without_host_code_parts_are_of_what_is_divided(tmp_path: Path) -> None:
    """``k / group`` with ``k < K`` makes parts of ``K``, though ``N / group`` would be as many of them."""
    found = shapes(drafted(tmp_path, SCALED))
    assert (found["scales"], found["w"]) == (["cdiv(K, group)", "N"], ["cdiv(K, 8)", "N"])


def test_longer_buffers_than_any_probe_reaches_are_no_shape(tmp_path: Path) -> None:
    """A workspace for the largest problem says nothing of this one."""
    large = MAIN.replace("cudaMalloc(&y, M * N * sizeof(float))", "cudaMalloc(&y, 64 * M * N * sizeof(float))")
    assert shapes(drafted(tmp_path, SCALED + large))["y"] == ["M", "N"]


GROUPED = """
__global__ void means(const float* x, float* y, int C, int G, int W) {
  int part = C / G, g = blockIdx.x, i = threadIdx.x + blockIdx.y * 64;
  if (i >= W) return;
  float s = 0;
  for (int c = 0; c < part; c++) s += x[(g * part + c) * W + i];
  y[g * W + i] = s / part;
}
void go(const float* x, float* y, int C, int G, int W) { means<<<dim3(G, (W + 63) / 64), 64>>>(x, y, C, G, W); }
"""


def test_elements_that_are_left_out_are_in_no_group(tmp_path: Path) -> None:
    assert drafted(tmp_path, GROUPED)["assume"]["facts"] == ["C % G == 0"]


def test_a_quotient_that_nothing_goes_wrong_with_promises_nothing(tmp_path: Path) -> None:
    text = """
    __global__ void fill(float* y, int n, int m) {
      int i = blockIdx.x * 64 + threadIdx.x;
      if (i < n) y[i] = n / m;
    }
    void go(float* y, int n, int m) { fill<<<(n + 63) / 64, 64>>>(y, n, m); }"""
    assert "assume" not in drafted(tmp_path, text)


def test_facts_are_guessed_or_not() -> None:
    text = '[kernel]\nsource = "k.cu"\nname = "k"\n[assume]\nfacts = ["n > 0"]\nguessed = 3\n'
    text += '[[args]]\nname = "y"\ndtype = "f32"\nrole = "out"\nshape = ["n"]\n'
    text += '[[scenario]]\nname = "s"\nsizes = { n = 4 }\n'
    with pytest.raises(KtcError, match="guessed is true or false"):
        Workload.parse(text, Path("workload.toml"))


SHARED = """
__global__ void turn(const float* x, float* y, int n) {
  extern __shared__ float row[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = x[blockIdx.x * n + i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = row[n - 1 - i];
}
int main() {
  int rows = 65536, n = 2048; float *x, *y;
  cudaMalloc(&x, rows * n * sizeof(float)); cudaMalloc(&y, rows * n * sizeof(float));
  turn<<<rows, 128, n * sizeof(float)>>>(x, y, n);
}
"""


def test_shared_memory_is_as_long_as_the_size_at_hand(tmp_path: Path) -> None:
    """And not as the number that the source has for it."""
    found = drafted(tmp_path, SHARED)
    assert shapes(found) == {"x": ["rows", "n"], "y": ["rows", "n"]} and found["launch"]["grid"] == ["rows", "1", "1"]
    work = Workload.load(tmp_path / "workload.toml")
    assert check_original(work.load_kernel(), work, None, 0) == []


TAPS = """
__global__ void causal(const float* x, const float* w, float* y, int L, int D, int K) {
  int d = blockIdx.x * 64 + threadIdx.x, t = blockIdx.y;
  if (d >= D) return;
  float s = 0;
  for (int k = 0; k < K; k++) if (t - K + 1 + k >= 0) s += x[(t - K + 1 + k) * D + d] * w[d * K + k];
  y[t * D + d] = s;
}
int main() {
  int L = 4096, D = 2048, K = 4; float *x, *w, *y;
  cudaMalloc(&x, L * D * sizeof(float)); cudaMalloc(&w, D * K * sizeof(float)); cudaMalloc(&y, L * D * sizeof(float));
  causal<<<dim3((D + 63) / 64, L), 64>>>(x, w, y, L, D, K);
}
"""


def test_what_there_are_few_of_where_the_program_runs_does_not_grow(tmp_path: Path) -> None:
    found = drafted(tmp_path, TAPS)
    assert shapes(found) == {"x": ["L", "D"], "w": ["D", "K"], "y": ["L", "D"]}
    timed = [s["sizes"] for s in found["scenario"] if s.get("weight", 1) > 0]
    assert {"L": 4096, "D": 2048, "K": 4} in timed and all(sizes["K"] == 4 for sizes in timed)


SPREAD = """
__global__ void transposed(const float* x, const float* w, float* y, int C, int H, int Ho, int R, int stride, int pad) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= Ho * Ho) return;
  float s = 0;
  for (int c = 0; c < C; ++c) for (int r = 0; r < R; ++r) for (int q = 0; q < R; ++q) {
    int h = i / Ho + pad - r, v = i % Ho + pad - q;
    if (h < 0 || v < 0 || h % stride || v % stride) continue;
    h /= stride; v /= stride;
    if (h >= H || v >= H) continue;
    s += x[(c * H + h) * H + v] * w[(c * R + r) * R + q];
  }
  y[i] = s;
}
int main() {
  int C = 8, H = 32, R = 4, stride = 2, pad = 1, Ho = (H - 1) * stride - 2 * pad + R; float *x, *w, *y;
  cudaMalloc(&x, C * H * H * 4); cudaMalloc(&w, C * R * R * 4); cudaMalloc(&y, Ho * Ho * 4);
  transposed<<<(Ho * Ho + 63) / 64, 64>>>(x, w, y, C, H, Ho, R, stride, pad);
}
"""


def test_a_transposed_convolution_has_windows(tmp_path: Path) -> None:
    """A place that is a multiple of the stride says nothing of how large the image is."""
    found = drafted(tmp_path, SPREAD)
    rows = "(H - 1) * stride - 2 * pad + R"
    assert shapes(found) == {"x": ["C", "H", "H"], "w": ["C", "R", "R"], "y": [rows, rows]}
    assert all(s["sizes"]["R"] < 8 and s["sizes"]["stride"] < 4 for s in found["scenario"])


ONE_SIZE = """
__global__ void halve(float* x, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  x[n == 512 ? i : -1] *= 0.5f;
}
int main() {
  int n = 512; float* x;
  cudaMalloc(&x, n * sizeof(float));
  halve<<<n / 64, 64>>>(x, n);
}
"""


def test_a_kernel_for_the_program_s_numbers_alone_is_drafted_with_them(tmp_path: Path) -> None:
    found = drafted(tmp_path, ONE_SIZE)
    assert next(a["value"] for a in found["args"] if a["name"] == "n") == 512


def test_words_of_elements_in_groups_make_whole_groups(tmp_path: Path) -> None:
    """``i * 8 / G``, ``i`` up to ``K / 8``: the part of a group behind the last whole one has no scale."""
    found = drafted(
        tmp_path,
        """
__global__ void sums(const unsigned* w, const float* s, float* y, int N, int K, int G) {
  int n = blockIdx.x * 32 + threadIdx.x;
  if (n >= N) return;
  float sum = 0;
  for (int i = 0; i < K / 8; i++) sum += (w[i * N + n] >> 28) * s[i * 8 / G * N + n];
  y[n] = sum;
}
int main() {
  const int N = 64, K = 256, G = 32;
  unsigned* w; float *s, *y;
  cudaMalloc(&w, K / 8 * N * 4); cudaMalloc(&s, K / G * N * 4); cudaMalloc(&y, N * 4);
  sums<<<(N + 31) / 32, 32>>>(w, s, y, N, K, G);
}
""",
    )
    assert found["assume"] == {"facts": ["K % G == 0"], "guessed": True}
