"""Convolutions of many channels: several channels of several rows a thread."""

from __future__ import annotations

import re

import pytest

import ktc
from ktc.agent.embedded.convolutions import convolutions
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.passes.core.base import Result
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.raising.raise_ import Raise

PLANE = """
__global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int C,
                     int H, int W, int K, int P, int Q) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N * K * P * Q) return;
  int q = i % Q, p = i / Q % P, k = i / (Q * P) % K, n = i / (Q * P * K);
  float sum = 0.0f;
  for (int c = 0; c < C; c++)
    for (int r = 0; r < 3; r++)
      for (int s = 0; s < 3; s++) {
        int v = p + r - 1, u = q + s - 1;
        if (v >= 0 && v < H && u >= 0 && u < W)
          sum += x[((n * C + c) * H + v) * W + u] * w[((k * C + c) * 3 + r) * 3 + s];
      }
  y[i] = sum;
}
void go(const float* x, const float* w, float* y, int N, int C, int H, int W, int K, int P, int Q) {
  conv<<<(N * K * P * Q + 255) / 256, 256>>>(x, w, y, N, C, H, W, K, P, Q);
}
"""
LINE = """
__global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int B, int C,
                     int L, int K) {
  int t = blockIdx.x * 128 + threadIdx.x, k = blockIdx.y, b = blockIdx.z, out = L - 4;
  if (t >= out) return;
  float s = 0.0f;
  for (int c = 0; c < C; ++c)
    for (int j = 0; j < 5; ++j) s += x[(b * C + c) * L + t + j] * w[(k * C + c) * 5 + j];
  y[(b * K + k) * out + t] = s;
}
void go(const float* x, const float* w, float* y, int B, int C, int L, int K) {
  conv<<<dim3((L - 4 + 127) / 128, K, B), 128>>>(x, w, y, B, C, L, K);
}
"""
LAYERS = PLANE.replace("w[((k * C + c) * 3 + r) * 3 + s]", "w[(c * 3 + r) * 3 + s]")
"""One filter for all that is computed: nothing hangs on the channel alone."""


def raised(source: str, more: str = "") -> Kernel:
    found = Raise().run(load(source, name="k.cu"))
    assert isinstance(found, Result), found
    done = apply_script(found.kernel, parse_script(more)) if more else None
    return found.kernel if done is None else done.kernel


def _scripts(kernel: Kernel) -> list[str]:
    applies = lambda steps: apply_script(kernel, parse_script(steps)).refused is None  # noqa: E731
    return [steps for steps, _, _ in convolutions(kernel, 132, [], applies)]


def test_pixels_of_a_plane() -> None:
    scripts = _scripts(raised(PLANE, "delinearise{loop=i}"))
    assert scripts[0].startswith("tile{loops=k,p,q sizes=8,8,1} | map{k=[unroll 8] k_tile=[block.z] p=[unroll 8]")
    taps = " | if-convert{loop=s loads=yes} | unroll{loop=s factor=3} | unroll{loop=r factor=3}"
    assert scripts[1] == scripts[0].replace(taps, f" | split-edges{{loop=p_tile}}{taps}") != scripts[0]
    text = ktc.loads(PLANE).apply(f"raise | delinearise{{loop=i}} | {scripts[1]}").lower("cuda").text
    inside, _, edges = text.partition("    } else {\n")
    assert "sum[u2][u3] = when ? sum[u2][u3] + x_at[u3] * w_at[u2] : sum[u2][u3];" in inside, text
    assert "const bool when = u >= 0 && u < W;" in inside and ">= 0 && v" not in inside
    assert ">= 0 && v[" in edges, "what asks about rows stands at the edges alone"


def test_tiles_are_counted_on_to_be_whole_where_they_are() -> None:
    kernel = raised(PLANE, "delinearise{loop=i}")
    applies = lambda steps: apply_script(kernel, parse_script(steps)).refused is None  # noqa: E731
    sizes = {"N": 4, "C": 8, "H": 16, "W": 16, "K": 32, "P": 16, "Q": 16}
    steps, *_ = next(convolutions(kernel, 132, [facts(kernel, sizes)], applies))
    k, p = re.match(r"divisible-by{K=(\d+) P=(\d+)} \| tile{loops=k,p,q sizes=\1,\2,1}", steps).groups()
    text = ktc.loads(PLANE).apply(f"raise | delinearise{{loop=i}} | {steps}").lower("cuda").text
    assert f"sum[{k}][{p}]" in text and "min(p_tile" not in text
    ragged = [facts(kernel, {**sizes, "P": 17}), facts(kernel, sizes)]
    assert "P=" not in next(convolutions(kernel, 132, ragged, applies))[0]


def test_points_of_a_line() -> None:
    assert _scripts(raised(LINE))[0] == (
        "tile{loops=k,t sizes=8,8} | map{k=[unroll 8] k_tile=[block.z] t=[unroll 8]"
        " t_tile=[thread.x $TX:(64,32,128,256), block.y] b=[block.x]} | split-edges{loop=t_tile}"
        " | unroll{loop=j factor=5}"
    )


@pytest.mark.parametrize("source", [LAYERS, LINE.replace("j < 5", "j < C"), LINE.replace("t + j]", "t]")])
def test_other_sums_are_no_convolutions(source: str) -> None:
    """One filter for all channels; taps of which nobody knows how many there are; a window that does not move."""
    assert _scripts(raised(source, "delinearise{loop=i}" if source is LAYERS else "")) == []
