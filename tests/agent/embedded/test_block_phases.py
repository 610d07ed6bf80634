"""Blocks that compute in phases: each phase by lanes along memory and groups across, in one shape of block."""

from __future__ import annotations

import pytest

from ktc.agent.build import Builder, Candidate
from ktc.agent.embedded.blocks.block_phases import phases
from ktc.agent.embedded.rules import Rules
from ktc.agent.planner import Proposal
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel, print_kernel
from tests.agent.embedded.test_rules import observe
from tests.passes.checks import applied, differs

HEAD = (
    "kernel attend(o: f32* align 16 noalias, q: f32 const* align 16 noalias, k: f32 const* align 16 noalias,"
    " v: f32 const* align 16 noalias, n: i32 range 1..512, d: i32 range 1..512, pitch: i32, host heads: i32)\n"
    "  launch grid(heads) block(64)\n  flags reassociates\n  par h in 0..heads @ [block.x]\n"
)
DOTS = (
    "    array w: shared f32[512]\n    par t in 0..n @ [thread.x 64, seq]\n      var s: f32 = 0.0\n"
    "      for i in 0..d\n        s += q[h * d + i] * k[t * pitch + h * d + i]\n      w[t] = s\n"
)
TOP = "    reduce(max) top: f32 = -inf over j in 0..n @ [thread.x 64, seq]\n      yield w[j]\n"
SUMS = (
    "    par c in 0..d @ [thread.x 64, seq]\n      var a: f32 = 0.0\n      for u in 0..n\n"
    "        a += (w[u] - top) * v[u * pitch + h * d + c]\n      o[h * d + c] = a\n"
)
ATTEND = HEAD + DOTS + TOP + SUMS

SOURCE = """
__global__ void attend(float* __restrict__ o, const float* __restrict__ q, const float* __restrict__ k,
                       const float* __restrict__ v, int n, int d, int pitch) {
  __shared__ float w[512];
  int h = blockIdx.x;
  for (int t = threadIdx.x; t < n; t += 64) {
    float s = 0;
    for (int i = 0; i < d; i++) s += q[h * d + i] * k[t * pitch + h * d + i];
    w[t] = s;
  }
  __syncthreads();
  for (int c = threadIdx.x; c < d; c += 64) {
    float a = 0;
    for (int t = 0; t < n; t++) a += w[t] * v[t * pitch + h * d + c];
    o[h * d + c] = a;
  }
}
void launch(float* o, const float* q, const float* k, const float* v, int heads, int n, int d, int pitch) {
  attend<<<heads, 64>>>(o, q, k, v, n, d, pitch);
}
"""


def ideas(text: str) -> list[str]:
    kernel = parse_kernel(text)
    builder = Builder(kernel)
    return [steps for steps, _, _ in phases(kernel, lambda steps: builder.attempt(steps) is None)]


def test_each_phase_has_the_lanes_that_its_memory_wants() -> None:
    several, one = ideas(ATTEND)
    lanes, groups = "thread.x $X:(8,16,32)", "thread.y $Y:(4,8,16,32,64)=16"
    assert one == (
        f"map{{t=[{groups}, seq] i=[vec $V, {lanes}, seq]}} | distribute{{loop=j map=[{lanes}, {groups}, seq]}} | "
        f"map{{c=[vec $V, {lanes}, seq] u=[{groups}, seq]}} where X * Y >= 128"
    )
    assert f"u=[unroll $U:(1,2,4,8)=4, {groups}, seq]" in several


def test_what_they_compute_stays() -> None:
    given = {"$V": "4", "$U:(1,2,4,8)=4": "2", "$X:(8,16,32)": "8", "$Y:(4,8,16,32,64)=16": "4"}
    several = ideas(ATTEND)[0].partition(" where ")[0]
    for knob, value in given.items():
        several = several.replace(knob, value)
    kernel = parse_kernel(ATTEND)
    sizes = [{"n": n, "d": 24, "pitch": 48, "heads": 2} for n in (1, 7, 40)]
    assert differs(kernel, applied(kernel, several), sizes, elements=2000) is None


@pytest.mark.parametrize("text", [HEAD + "    array w: shared f32[512]\n" + TOP, HEAD + DOTS])
def test_sweeps_alone_and_a_phase_alone_are_for_others(text: str) -> None:
    assert not ideas(text)


def test_the_planner_proposes_them_first() -> None:
    builder, o = observe(print_kernel(load(SOURCE)), {"n": 256, "d": 128, "pitch": 4096, "heads": 32})
    first = Rules().propose(o, 1)[0]
    assert "thread.y $Y:(4,8,16,32,64)=64" in first.script  # 32 blocks leave most units alone
    assert isinstance(builder.build(Proposal(first.script, "")), Candidate)


SOFTMAX = """
__global__ void attend(float* __restrict__ o, const float* __restrict__ q, const float* __restrict__ k,
                       const float* __restrict__ v, int n, int d, int pitch) {
  extern __shared__ float w[];
  __shared__ float lane[64];
  int h = blockIdx.x;
  float top = -INFINITY, sum = 0;
  for (int t = threadIdx.x; t < n; t += 64) {
    float s = 0;
    for (int i = 0; i < d; i++) s += q[h * d + i] * k[t * pitch + h * d + i];
    w[t] = s * rsqrtf((float)d);
    top = fmaxf(top, w[t]);
  }
  lane[threadIdx.x] = top;
  __syncthreads();
  for (int i = 0; i < 64; i++) top = fmaxf(top, lane[i]);
  __syncthreads();
  for (int t = threadIdx.x; t < n; t += 64) {
    w[t] = expf(w[t] - top);
    sum += w[t];
  }
  lane[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 64; i++) sum += lane[i];
  for (int c = threadIdx.x; c < d; c += 64) {
    float a = 0;
    for (int t = 0; t < n; t++) a += w[t] * v[t * pitch + h * d + c];
    o[h * d + c] = a / sum;
  }
}
void launch(float* o, const float* q, const float* k, const float* v, int heads, int n, int d, int pitch) {
  attend<<<heads, 64, n * sizeof(float)>>>(o, q, k, v, n, d, pitch);
}
"""


def softmax_ideas(heads: int, n: int) -> list[str]:
    _, o = observe(print_kernel(load(SOFTMAX)), {"n": n, "d": 128, "pitch": 128 * heads, "heads": heads})
    return [p.script for p in Rules().propose(o, 4)]


def test_a_long_softmax_gets_several_blocks_where_units_are_idle() -> None:
    builder, o = observe(print_kernel(load(SOFTMAX)), {"n": 4096, "d": 128, "pitch": 4096, "heads": 32})
    first = Rules().propose(o, 1)[0]
    assert "parts=$PARTS:(2,4,8,16,32)=8} | map{" in first.script and "thread.y $Y:(4,8,16,32,64)=16" in first.script
    assert isinstance(builder.build(Proposal(first.script, "")), Candidate)


@pytest.mark.parametrize(("heads", "n"), [(4096, 4096), (32, 100)], ids=["many blocks", "few positions"])
def test_a_softmax_keeps_its_block(heads: int, n: int) -> None:
    found = softmax_ideas(heads, n)
    assert found and not any("split-softmax" in s for s in found)
