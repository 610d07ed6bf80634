"""Output channels that read the same image: several a thread; and sums too short to share out."""

from __future__ import annotations

import ktc
from ktc.agent.embedded.shared_inputs import shared_inputs
from ktc.agent.planners import Observation, Rules
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise
from tests.agent.fake_lab import GPU

CONV = """
__global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C, int H,
                     int W, int K) {
  int ow = blockIdx.x * 16 + threadIdx.x, oh = blockIdx.y * 8 + threadIdx.y, k = blockIdx.z;
  if (ow >= W || oh >= H) return;
  float acc = 0.0f;
  for (int c = 0; c < C; c++)
    for (int r = 0; r < 3; r++) {
      int iy = oh + r - 1;
      if (iy >= 0 && iy < H) acc += x[(c * H + iy) * W + ow] * w[(k * C + c) * 3 + r];
    }
  y[(k * H + oh) * W + ow] = acc;
}
void go(const float* x, const float* w, float* y, int C, int H, int W, int K) {
  conv<<<dim3((W + 15) / 16, (H + 7) / 8, K), dim3(16, 8)>>>(x, w, y, C, H, W, K);
}
"""
TAPS = """
__global__ void taps(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int D, int L) {
  int l = blockIdx.x * 64 + threadIdx.x, d = blockIdx.y, b = blockIdx.z;
  if (l >= L) return;
  float acc = 0.0f;
  for (int k = 0; k < 4; k++) if (l + k >= 3) acc += w[d * 4 + k] * x[(b * D + d) * L + l + k - 3];
  y[(b * D + d) * L + l] = acc;
}
void go(const float* x, const float* w, float* y, int B, int D, int L) {
  taps<<<dim3((L + 63) / 64, D, B), 64>>>(x, w, y, D, L);
}
"""


def raised(source: str) -> Kernel:
    found = Raise().run(load(source, name="k.cu"))
    assert isinstance(found, Result), found
    return found.kernel


def test_channels_that_read_one_image_share_a_thread() -> None:
    steps = [steps for steps, _, _ in shared_inputs(raised(CONV))]
    assert steps[1] == "distribute{loop=k map=[unroll $UK:(2,4,8,16), block.z] tail=cut}"
    assert steps[0].startswith(steps[1]) and "loop=oh map=[thread.y $TY, block.y]" in steps[0]


def test_weights_alone_are_not_worth_sharing() -> None:
    """Four taps that every thread of a block reads alike: nothing of what is long is shared between batches."""
    assert list(shared_inputs(raised(TAPS))) == []


def test_an_element_is_loaded_once_for_all_channels() -> None:
    text = ktc.loads(CONV).apply("raise | distribute{loop=k map=[unroll 4, block.z] tail=cut}").lower("cuda").text
    assert text.count("x[") == 1 and "if (k + 3 < K)" in text, text


def test_short_sums_are_left_to_their_threads() -> None:
    """Sixteen thousand rows of four taps: no thread of a warp is idle, and four terms are nothing to share."""
    kernel = raised(TAPS)
    seen = facts(kernel, {"B": 16, "D": 1024, "L": 1024})
    o = Observation(load(TAPS, name="k.cu"), kernel, (seen,), GPU, attempt=lambda script: None)
    assert not any("split-reduction" in p.script for p in Rules().propose(o, 30))
