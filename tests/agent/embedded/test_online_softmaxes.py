"""Attention of a thread a row: one sweep over the keys, rows shared by lanes, tiles of keys in shared memory."""

from __future__ import annotations

import re

import pytest

from ktc.agent.build import Candidate
from ktc.agent.embedded.rules import Rules
from ktc.agent.embedded.softmaxes.row_tiles import RowTile, row_tiles
from ktc.agent.planner import Proposal
from ktc.ir.frontend import load
from ktc.ir.text import print_kernel
from tests.agent.embedded.test_rules import observe

TWO_SWEEPS = """
__global__ void attend(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                       float* __restrict__ o, int rows, int n, int d) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float top = -INFINITY, sum = 0;
  for (int j = 0; j < END; j++) {
    float s = 0;
    for (int i = 0; i < d; i++) s += q[r * d + i] * k[j * d + i];
    top = fmaxf(top, s * rsqrtf((float)d));
  }
  for (int i = 0; i < d; i++) o[r * d + i] = 0;
  for (int j = 0; j < END; j++) {
    float s = 0;
    for (int i = 0; i < d; i++) s += q[r * d + i] * k[j * d + i];
    float p = expf(s * rsqrtf((float)d) - top);
    sum += p;
    for (int i = 0; i < d; i++) o[r * d + i] += p * v[j * d + i];
  }
  for (int i = 0; i < d; i++) o[r * d + i] /= sum;
}
void launch(const float* q, const float* k, const float* v, float* o, int rows, int n, int d) {
  attend<<<(rows + 127) / 128, 128>>>(q, k, v, o, rows, n, d);
}
"""
KEPT = """
__global__ void attend(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                       float* __restrict__ o, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  float acc[64], top = -INFINITY, sum = 0;
  for (int i = 0; i < 64; i++) acc[i] = 0;
  for (int j = 0; j < n; j++) {
    float s = 0;
    for (int i = 0; i < 64; i++) s += q[r * 64 + i] * k[j * 64 + i];
    float now = fmaxf(top, s), fix = expf(top - now), p = expf(s - now);
    sum = sum * fix + p;
    for (int i = 0; i < 64; i++) acc[i] = acc[i] * fix + p * v[j * 64 + i];
    top = now;
  }
  for (int i = 0; i < 64; i++) o[r * 64 + i] = acc[i] / sum;
}
void launch(const float* q, const float* k, const float* v, float* o, int n) {
  attend<<<(n + 127) / 128, 128>>>(q, k, v, o, n);
}
"""
SIZES = {"rows": 4096, "n": 4096, "d": 64}


@pytest.mark.parametrize(
    "source",
    [TWO_SWEEPS.replace("END", "n"), TWO_SWEEPS.replace("END", "r + 1"), KEPT],
    ids=["two sweeps", "causal", "a maximum kept"],
)
def test_one_sweep_comes_first(source: str) -> None:
    builder, o = observe(print_kernel(load(source)), SIZES)
    script = Rules().propose(o, 1)[0].script
    assert re.search(r"tile{loops=r sizes=\d+} \| online-softmax{loop=j .*register-tile{loop=j_tile}", script), script
    assert "stage-shared{array=k" in script and "stage-shared{array=v" in script and "async-copy" in script
    assert ("specialize{d=64}" in script) == (source is not KEPT)
    assert isinstance(builder.build(Proposal(script, "")), Candidate)


def test_few_rows_have_more_lanes() -> None:
    few, many = (row_tiles(64, 4, rows, 1, 132)[0] for rows in (512, 1 << 20))
    assert few.lanes > many.lanes and few.rows <= many.rows


def test_a_row_is_whole_in_the_registers_of_its_lanes() -> None:
    for t in row_tiles(128, 2, 4096, 1, 132):
        assert t.lanes * t.each == 128 and t.each % t.wide == 0 and t.registers < 255
    assert not row_tiles(100_000, 4, 4096, 1, 132)


def test_levels_of_lanes_cover_a_row() -> None:
    t = RowTile(64, 4, 2, 128, 4, 4)
    assert (t.row_levels, t.lane_levels) == ("unroll 2, thread.y 32", "vec 4, thread.x 4, unroll 4")
