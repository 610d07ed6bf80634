"""Vectors that never change, as a variable for each component."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Par
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.recognise.vector_components import as_components

LISTS = """
__global__ void lists(const uint2* __restrict__ ranges, const float* __restrict__ x, float* __restrict__ o) {
  __shared__ float part[16];
  int t = threadIdx.x;
  uint2 range = ranges[blockIdx.x];
  float s = 0;
  int rounds = (range.y - range.x + 15) / 16;
  for (int i = 0; i < rounds; i++) {
    int p = i * 16 + t;
    if (range.x + p < range.y) part[t] = x[range.x + p];
    __syncthreads();
    for (int j = 0; j < min(16, (int)(range.y - range.x) - i * 16); j++) s += part[j] * t;
    __syncthreads();
  }
  o[blockIdx.x * 16 + t] = s;
}
void go(const uint2* r, const float* x, float* o, int n) { lists<<<n, 16>>>(r, x, o); }
"""


def test_a_list_of_each_block_is_gone_through_in_a_loop():
    kernel = load(LISTS, name="k.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    assert [s.var.name for s in walk(outcome.kernel.body) if isinstance(s, Par)] == ["block_x", "t"]
    given = {"ranges": np.uint32([0, 5, 5, 40, 40, 40]), "x": np.arange(40, dtype=np.float32), "n": 3}
    results = [run(k, {**given, "o": np.zeros(48, np.float32)}) for k in (kernel, outcome.kernel)]
    assert results[0].outputs["o"].tolist() == results[1].outputs["o"].tolist() and not results[1].findings


TEXT = """kernel k(a: i32x2 const*, o: i32*, n: i32)
  launch grid(1) block(32)
  let u: i32x2 = i32x2{n, n + 1}
  let v: i32x2 = a[threadIdx.x]
  var w: i32x2 = i32x2{1, 2}
  w[0] = 5
  let x: i32x2 = i32x2{3, 4}
  o[threadIdx.x] = u[1] + v[0] + w[0] + x[n]
  let whole: i32x2 = u
"""


def test_vectors_that_are_changed_or_asked_by_a_variable_stay():
    kernel = parse_kernel(TEXT)
    body, apart = as_components(kernel.body)
    text = print_kernel(kernel.with_(body=body))
    assert {s.name for s in apart} == {"u", "v"}
    assert "o[threadIdx.x] = u_y + v_x + w[0] + x[n]" in text and "let whole: i32x2 = i32x2{u_x, u_y}" in text
    assert {s.name for s in as_components(kernel.body, in_memory=False)[1]} == {"u"}
    assert {s.name for s in as_components(kernel.body, {s for s in apart if s.name == "v"})[1]} == {"v"}
