"""Convolutions whose blocks have pixels with their rim and weights in shared memory."""

from __future__ import annotations

import re

import pytest

import ktc
from ktc.agent.build import Builder
from ktc.agent.embedded.convolutions import found_convolutions
from ktc.agent.embedded.staged_convolutions import MOST_THREADS, staged_convolutions, tiles
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.frontend import load
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.agent.embedded.test_convolutions import LAYERS, LINE, PLANE, raised

SIZES = {"N": 32, "C": 64, "H": 56, "W": 56, "K": 64, "P": 56, "Q": 56}
BACKWARDS = PLANE.replace("p + r - 1", "p - r + 1").replace("q + s - 1", "q - s + 1")
STRIDED = PLANE.replace("p + r - 1", "2 * p + r - 1").replace("q + s - 1", "2 * q + s - 1")
DILATED = PLANE.replace("p + r - 1", "p + 2 * r - 2").replace("q + s - 1", "q + 2 * s - 2")
GROUPED = """
__global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int G,
                     int C, int K, int H, int W) {
  int q = blockIdx.x * 16 + threadIdx.x, p = blockIdx.y * 16 + threadIdx.y, z = blockIdx.z;
  int k = z % K, g = z / K % G, n = z / (K * G);
  if (q >= W || p >= H) return;
  float sum = 0.0f;
  for (int c = 0; c < C; c++)
    for (int r = 0; r < 3; r++)
      for (int s = 0; s < 3; s++) {
        int v = p + r - 1, u = q + s - 1;
        float at = v >= 0 && v < H && u >= 0 && u < W ? x[(((n * G + g) * C + c) * H + v) * W + u] : 0.0f;
        sum += at * w[(((g * K + k) * C + c) * 3 + r) * 3 + s];
      }
  y[(((n * G + g) * K + k) * H + p) * W + q] = sum;
}
void go(const float* x, const float* w, float* y, int N, int G, int C, int K, int H, int W) {
  conv<<<dim3((W + 15) / 16, (H + 15) / 16, N * G * K), dim3(16, 16)>>>(x, w, y, N, G, C, K, H, W);
}
"""

GRADIENT = """
__global__ void grad(const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx, int N, int C,
                     int H, int W, int K, int R, int S) {
  int q = blockIdx.x * 16 + threadIdx.x, p = blockIdx.y * 16 + threadIdx.y, c = blockIdx.z % C, n = blockIdx.z / C;
  if (q >= W || p >= H) return;
  int P = H - R + 1, Q = W - S + 1;
  float sum = 0.0f;
  for (int k = 0; k < K; k++)
    for (int r = 0; r < R; r++)
      for (int s = 0; s < S; s++) {
        int v = p - r, u = q - s;
        if (v >= 0 && v < P && u >= 0 && u < Q)
          sum += dy[((n * K + k) * P + v) * Q + u] * w[((k * C + c) * R + r) * S + s];
      }
  dx[((n * C + c) * H + p) * W + q] = sum;
}
void go(const float* dy, const float* w, float* dx, int N, int C, int H, int W, int K, int R, int S) {
  grad<<<dim3((W + 15) / 16, (H + 15) / 16, N * C), dim3(16, 16)>>>(dy, w, dx, N, C, H, W, K, R, S);
}
"""


def _scripts(source: str, before: str, sizes: dict[str, int]) -> list[str]:
    kernel = raised(source, before)
    applies = lambda steps: apply_script(kernel, parse_script(steps)).refused is None  # noqa: E731
    return [steps for steps, _, _ in staged_convolutions(kernel, 132, [facts(kernel, sizes)], applies)]


def test_a_layer_of_a_network() -> None:
    ahead, plain, *_ = _scripts(PLANE, "delinearise{loop=i}", SIZES)
    assert ahead.startswith("zero-terms{loop=c} | divisible-by{C=4} | tile{loops=k,p,q sizes=")
    assert plain == ahead.replace(" | async-copy{loop=c_tile} | multi-buffer{loop=c_tile stages=2}", "") != ahead
    columns = int(re.search(r"q=\[thread.x (\d+)\]", ahead)[1])
    assert 56 % columns == 0, "no thread of a row is idle"
    text = ktc.loads(PLANE).apply(f"raise | delinearise{{loop=i}} | {plain}").lower("cuda").text
    hot = text[text.index("for (int c = c_tile;") : text.index("__syncthreads();\n  }")]
    assert "sum[u2][u3] += x_s_i[u3] * w_s_i[u2];" in hot and "if (" not in hot and "?" not in hot


@pytest.mark.parametrize("source", [BACKWARDS, STRIDED, DILATED], ids=["backwards", "strided", "dilated"])
def test_other_windows(source: str) -> None:
    assert _scripts(source, "delinearise{loop=i}", SIZES | {"P": 28, "Q": 28} if source is STRIDED else SIZES)


def test_windows_of_parameters_that_run_backwards_are_bound_and_staged() -> None:
    """A gradient by the input: rows of ``W - S + 1`` elements, gone through from the last tap to the first."""
    sizes = {"N": 8, "C": 64, "H": 34, "W": 34, "K": 64, "R": 3, "S": 3}
    start = Builder(load(GRADIENT, name="k.cu"), sizes=[sizes]).start
    assert start == "raise | specialize{R=3 S=3}"
    steps = _scripts(GRADIENT, f"{start.removeprefix('raise | ')} | delinearise{{loop=block_z}}", sizes)[0]
    assert steps.startswith("zero-terms{loop=k} | ") and "stage-shared{array=dy loop=k_tile}" in steps


def test_groups_and_images_share_an_axis_of_blocks() -> None:
    sizes = {"N": 32, "G": 4, "C": 32, "K": 32, "H": 28, "W": 28}
    steps = _scripts(GROUPED, "delinearise{loop=z}", sizes)[0]
    assert "linearise{loops=n,g,k_tile}" in steps and "n_g_k_tile=[block.x]" in steps
    assert not steps.startswith("zero-terms"), "the source has zeros"


def test_columns_of_a_thread_in_a_line() -> None:
    kernel = raised(LINE)
    (found,) = found_convolutions(kernel)
    assert found.over is not None and found.over.name == "c" and (found.inputs, found.weights) == (["x"], ["w"])
    steps = _scripts(LINE, "", {"B": 64, "C": 64, "L": 4096, "K": 64})[0]
    assert re.search(r"t=\[thread.x (32|64|128), unroll \d\]", steps)


def test_one_filter_for_all_is_no_product() -> None:
    assert not _scripts(LAYERS, "delinearise{loop=i}", SIZES)


@pytest.mark.parametrize("size", [7, 14, 28, 54, 56, 112, 1000])
def test_tiles_fit_blocks_and_rows(size: int) -> None:
    (found,) = found_convolutions(raised(PLANE, "delinearise{loop=i}"))
    trips = {"n": 32, "k": 64, "p": size, "q": size}
    best = tiles(found, trips, 132)[0]
    assert best.threads <= MOST_THREADS
    assert -(-size // best.columns) * best.columns <= 1.15 * size
