"""Conditions that a source keeps in integers."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Barrier, Par
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.normalise.flags import flags_in_place
from tests.passes.raising.raised_once import raised

TRANSPOSED = """
__global__ void t(const float* __restrict__ a, float* __restrict__ o, int n, int m) {
  __shared__ float s[4][5];
  int x = blockIdx.x * 4 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
  int in = x < n && y < m;
  if (in) s[threadIdx.y][threadIdx.x] = a[y * n + x];
  __syncthreads();
  int u = blockIdx.x * 4 + threadIdx.y, v = blockIdx.y * 4 + threadIdx.x;
  int out = u < n && v < m;
  if (out) o[u * m + v] = s[threadIdx.x][threadIdx.y];
}
void run(const float* a, float* o, int n, int m) { t<<<dim3((n + 3) / 4, (m + 3) / 4), dim3(4, 4)>>>(a, o, n, m); }
"""


def test_flags_bound_loops_and_copies() -> None:
    _, outcome = raised(TRANSPOSED)
    text = print_kernel(outcome.kernel)
    assert [s.var.name for s in walk(outcome.kernel.body) if isinstance(s, Par)] == ["v", "u"]
    assert "par v in 0..m" in text and "par u in 0..n" in text and "o[u * m + v] = a[v * n + u]" in text
    assert not any(isinstance(s, Barrier) for s in walk(outcome.kernel.body))


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("bool(ok)", "i < n"),
        ("ok != 0_u32", "i < n"),
        ("ok == 0_u32", "!(i < n)"),
        ("ok != 1_u32", "ok != 1_u32"),
        ("i32(i < n) == 0", "!(i < n)"),
        ("y[i32(ok)] < 0", "y[i32(ok)] < 0"),
    ],
)
def test_what_asks_for_zero_asks_for_the_condition(asked: str, meant: str) -> None:
    text = f"""kernel k(y: i32*, n: i32)
      let i: i32 = threadIdx.x
      let ok: u32 = i32(i < n)
      if {asked}
        y[i] = 1"""
    kernel = parse_kernel(text)
    found = print_kernel(kernel.with_(body=flags_in_place(kernel.body)))
    assert f"if {meant}\n" in found, found
