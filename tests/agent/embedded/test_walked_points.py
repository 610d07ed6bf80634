"""Points against points: several queries a thread, and what all of them walk through in shared memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ktc.agent.build import Builder
from ktc.agent.embedded.cpu.cpu_nests import Cores
from ktc.agent.embedded.walked_points import queries_in_vectors, walked_points
from ktc.driver.printing import printed
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, bind
from ktc.passes.core.base import Result
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.passes.raising.raise_ import Raise
from ktc.search.space.knob_space import completed

NEAREST = """
__global__ void two_nearest(const float* __restrict__ q, const float* __restrict__ p, int* __restrict__ out, int n,
                            int m) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    float x = q[i * 2], y = q[i * 2 + 1];
    double best = 1e40, second = 1e40;
    int at = -1, next = -1;
    for (int k = 0; k < m; ++k) {
      float u = p[k * 2] - x, v = p[k * 2 + 1] - y;
      float d = u * u + v * v;
      if (d < best) {
        second = best; next = at;
        best = d; at = k;
      } else if (d < second) {
        second = d; next = k;
      }
    }
    out[i * 2] = at;
    out[i * 2 + 1] = next;
  }
}
void go(const float* q, const float* p, int* out, int n, int m) {
  two_nearest<<<(n + 255) / 256, 256>>>(q, p, out, n, m);
}
"""
SIZES = {"n": 200_000, "m": 4096}


def raised(source: str) -> Kernel:
    found = Raise().run(load(source, name="k.cu"))
    assert isinstance(found, Result), found
    return found.kernel


def able(kernel: Kernel) -> Callable[[str], bool]:
    def lowers(steps: str) -> bool:
        done = apply_script(kernel, parse_script(steps))
        return done.refused is None and bool(materialise(bind(done.kernel, completed(done.kernel, {}))))

    return lowers


def ideas(kernel: Kernel, **sizes: int) -> list[str]:
    return [steps for steps, _, _ in walked_points(kernel, 132, [facts(kernel, sizes)], able(kernel))]


def test_what_all_queries_walk_through_is_staged() -> None:
    first, *others = ideas(raised(NEAREST), **SIZES)
    assert first == (
        "narrow-doubles | if-convert{loop=k skip=yes} | tile{loops=i sizes=256} | map{i=[thread.x 128, unroll 2]}"
        " | tile{loops=k sizes=$TK:(128,64,256) tail=cut} | register-tile{loop=k_tile.*}"
        " | stage-shared{array=p loop=k_tile.*} | unroll{loop=k factor=$UK:(4,2,8)}"
    )
    assert any("unroll $U:(2,4,1), block.x]" in s and "stage-shared" not in s for s in others)
    assert any(s.startswith("narrow-doubles | tile") for s in others)  # branches as they are


def test_few_queries_are_not_taken_together_first() -> None:
    assert "tile{loops=i sizes=128}" in ideas(raised(NEAREST), n=4000, m=4096)[0]


@pytest.mark.parametrize(
    "changed",
    [
        NEAREST.replace("k < m", "k < 8"),  # short
        NEAREST.replace("p[k *", "p[(k + i) *"),  # each goes through places of its own
        NEAREST.replace("p[k *", "p[i *"),  # none goes on
    ],
)
def test_what_is_no_long_walk_through_the_same(changed: str) -> None:
    assert ideas(raised(changed), **SIZES) == []


def test_what_may_be_written_is_not_staged() -> None:
    """Several queries a thread read it anew all the same."""
    found = ideas(raised(NEAREST.replace("__restrict__ ", "")), **SIZES)
    assert found and not any("stage-shared" in s for s in found)


def test_on_a_cpu_queries_are_the_elements_of_vectors() -> None:
    kernel = raised(NEAREST)
    ((steps, _, _),) = queries_in_vectors(kernel, Cores(2, 32 << 10, 512 << 10, 8 << 20), [facts(kernel, SIZES)])
    assert Builder(kernel, as_loops=True).attempt(steps) is None
    after = apply_script(kernel, parse_script(steps)).kernel
    text = printed(bind(after, {"Q": 64}), "numba").text
    assert "best[u64(i_1)] = d if when else best[u64(i_1)]" in text and "for i_1 in range(rolled(Q))" in text


@pytest.mark.parametrize("n", [1, 127, 300])
def test_every_idea_finds_the_same_points(n: int) -> None:
    """Ties go to the first: coordinates are small integers, and many distances equal."""
    kernel, m = raised(NEAREST), 150
    rng = np.random.default_rng(n)
    args = {"q": rng.integers(0, 4, 2 * n).astype(np.float32), "p": rng.integers(0, 4, 2 * m).astype(np.float32)}
    args |= {"out": np.zeros(2 * n, np.int32), "n": n, "m": m}
    want = run(kernel, dict(args), domain="float").outputs["out"]
    for steps in ideas(kernel, **SIZES):
        done = apply_script(kernel, parse_script(steps)).kernel
        now = materialise(bind(done, completed(done, {})))
        assert (run(now, dict(args), domain="float").outputs["out"] == want).all(), steps


IN_CLOUDS = """
__global__ void nearest_in_cloud(const float* __restrict__ q, const float* __restrict__ p, const int* __restrict__ ends,
                                 int* __restrict__ out, int n, int clouds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int begin = 0;
  for (int c = 0; c < clouds; ++c) begin += ends[c] <= i ? 1 : 0;
  int at = -1;
  float best = 1e30f;
  for (int k = 0; k < ends[clouds - 1]; ++k) {
    float d = (p[k] - q[i]) * (p[k] - q[i]) + begin;
    if (d < best) {
      best = d;
      at = k;
    }
  }
  out[i] = at;
}
void go(const float* q, const float* p, const int* ends, int* out, int n, int clouds) {
  nearest_in_cloud<<<(n + 255) / 256, 256>>>(q, p, ends, out, n, clouds);
}
"""


def test_the_walk_that_is_most_of_the_work_comes_first() -> None:
    """Also where only memory knows how long it is."""
    first, *_ = ideas(raised(IN_CLOUDS), n=200_000, clouds=64)
    assert "unroll{loop=k " in first


FORCES = """
__global__ void forces(const float* __restrict__ p, const float* __restrict__ mass, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && mass[i] > 0.0f) {
    float total = 0.0f;
    for (int k = 0; k < n; ++k) {
      float d = p[k] - p[i];
      if (d * d < 9.0f) total += mass[k] * d;
    }
    out[i] = total;
  }
}
void go(const float* p, const float* mass, float* out, int n) { forces<<<(n + 127) / 128, 128>>>(p, mass, out, n); }
"""


def test_threads_share_the_walks_of_few_queries() -> None:
    """Where these are sums: threads of a warp, or of a block."""
    kernel = raised(FORCES)
    shared = [s for s in ideas(kernel, n=2000) if s.startswith("normalise | map{i=[")]
    assert shared == ideas(kernel, n=2000)[:2] and not set(shared) & set(ideas(kernel, n=200_000))
    n, rng = 150, np.random.default_rng(1)
    args = {"p": rng.integers(-9, 9, n).astype(np.float32), "mass": rng.integers(-1, 4, n).astype(np.float32)}
    args |= {"out": np.zeros(n, np.float32), "n": n}
    want = run(kernel, dict(args), domain="int").outputs["out"]
    for steps in shared:
        done = apply_script(kernel, parse_script(steps)).kernel
        now = materialise(bind(done, completed(done, {})))
        assert (run(now, dict(args), domain="int").outputs["out"] == want).all(), steps
