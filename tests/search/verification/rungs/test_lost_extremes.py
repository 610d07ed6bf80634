"""A maximum that reads all elements and loses what one thread of a thousand has found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ktc
from ktc.ir.interp import run
from ktc.scaffold import with_draft

TREE = """
__global__ void k(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float s[1024];
  int t = threadIdx.x;
  float acc = INFINITE;
  for (int i = t; i < n; i += 1024) acc = PICK(acc, x[(long long)blockIdx.x * n + i]);
  s[t] = acc;
  __syncthreads();
  if (FIRST) s[t] = PICK(s[t], s[t + 512]);
  __syncthreads();
  for (int h = 256; h > 0; h >>= 1) {
    if (t < h) s[t] = PICK(s[t], s[t + h]);
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
void launch(const float* x, float* y, int n, int rows) { k<<<rows, 1024>>>(x, y, n); }
"""
PICKS = {"fmaxf": "-INFINITY", "fminf": "INFINITY"}


def source(first: str, pick: str) -> str:
    return TREE.replace("FIRST", first).replace("PICK", pick).replace("INFINITE", PICKS[pick])


@pytest.mark.parametrize("pick", PICKS)
def test_one_thread_of_a_thousand_is_missed(tmp_path: Path, pick: str) -> None:
    (tmp_path / "k.cu").write_text(source("t < 512", pick))
    naive, _ = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    for thread in (3, 200):
        verdict = naive.rewritten_as(ktc.loads(source(f"t < 512 && t != {thread}", pick))).verify(device="none")
        assert verdict.status == "REJECTED", thread
    other = source("t < 512", pick).replace("s[t + 512])", "s[t + 512], s[t])").replace("PICK", pick)
    same = other.replace(f"{pick}(s[t], s[t + 512], s[t])", f"{pick}({pick}(s[t + 512], s[t]), s[t])")
    assert naive.rewritten_as(ktc.loads(same)).verify(device="none").ok


def test_a_maximum_of_sets_is_their_union() -> None:
    program = ktc.loads(source("t < 512", "fmaxf")).kernel
    x = (1 << (np.arange(2 * 1100) % 23)).astype(np.float32)
    done = run(program, {"x": x, "y": np.zeros(2, np.float32), "n": 1100, "rows": 2}, domain="subsets")
    assert list(done.outputs["y"]) == [(1 << 23) - 1] * 2
