"""Norms that keep running means: the threads' parts as plain sums, whatever the exchange and the sweep look like."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.nodes import Decl, Reduce
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.shared.running.running_moments import State, update_of
from tests.passes.checks import applied, body_of, refused

TAKE = """
__device__ void take(float v, float& mean, float& squares, float& seen) {
  seen += 1.0f;
  float before = v - mean;
  mean += before / seen;
  squares += before * (v - mean);
}
__device__ void meet(float mean2, float squares2, float seen2, float& mean, float& squares, float& seen) {
  float apart = mean2 - mean, a = seen, b = seen2;
  seen += seen2;
  if (seen > 0.0f) {
    a /= seen;
    b /= seen;
    mean = a * mean + b * mean2;
    squares += squares2 + apart * apart * a * b * seen;
  }
}
"""
ROUND = """
  for (int step = 1; step < 32; step *= 2) {
    int from = (threadIdx.x + step) & 31;
    float m = __shfl_sync(0xffffffffu, mean, from), q = __shfl_sync(0xffffffffu, squares, from);
    float c = __shfl_sync(0xffffffffu, seen, from);
    meet(m, q, c, mean, squares, seen);
  }
"""
ONE_WARP = (
    TAKE
    + """
__global__ void spread(const float* __restrict__ x, float* __restrict__ y, int rows, int n) {
  const float* row = x + blockIdx.x * n;
  float mean = 0.0f, squares = 0.0f, seen = 0.0f;
  for (int i = threadIdx.x; i < n; i += 32) take(row[i], mean, squares, seen);
"""
    + ROUND
    + """
  float var = __shfl_sync(0xffffffffu, squares / n, 0);
  for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = (row[i] - mean) * rsqrtf(var + 1e-5f);
}
void go(const float* x, float* y, int rows, int n) { spread<<<rows, 32>>>(x, y, rows, n); }
"""
)
FOUR_WARPS = (
    TAKE
    + """
__global__ void spread(const float* __restrict__ x, float* __restrict__ y, int rows, int n) {
  extern __shared__ float part[];
  for (int r = blockIdx.y; r < rows; r += gridDim.y) {
    const float* row = x + r * n;
    const int threads = blockDim.x * blockDim.y, me = threadIdx.x + threadIdx.y * blockDim.x;
    float mean = 0.0f, squares = 0.0f, seen = 0.0f;
    int i = 4 * me;
    for (; i + 3 < n; i += 4 * threads)
      for (int k = 0; k < 4; ++k) take(row[i + k], mean, squares, seen);
    for (; i < n; ++i) take(row[i], mean, squares, seen);
"""
    + ROUND
    + """
    if (blockDim.y > 1) {
      for (int half = blockDim.y / 2; half > 0; half /= 2) {
        if (threadIdx.x == 0 && threadIdx.y >= half && threadIdx.y < 2 * half) {
          float* to = part + 3 * (threadIdx.y - half);
          to[0] = mean; to[1] = squares; to[2] = seen;
        }
        __syncthreads();
        if (threadIdx.x == 0 && threadIdx.y < half) {
          const float* of = part + 3 * threadIdx.y;
          meet(of[0], of[1], of[2], mean, squares, seen);
        }
        __syncthreads();
      }
      if (me == 0) { part[0] = mean; part[1] = squares; }
      __syncthreads();
      mean = part[0];
      squares = part[1] / n;
    } else {
      squares = __shfl_sync(0xffffffffu, squares / n, 0);
    }
    for (int k = me; k < n; k += threads) y[r * n + k] = (row[k] - mean) * rsqrtf(squares + 1e-5f);
    __syncthreads();
  }
}
void go(const float* x, float* y, int rows, int n) { spread<<<dim3(1, rows), dim3(32, 4), 24>>>(x, y, rows, n); }
"""
)


@pytest.mark.parametrize("source", [ONE_WARP, FOUR_WARPS])
def test_running_means_become_sums_over_rows(source: str) -> None:
    kernel = load(source, name="k.cu")
    raised = applied(kernel, "raise")
    sums = [s for s in walk(raised.body) if isinstance(s, Reduce)]
    assert len(sums) == 2
    text = body_of(raised)
    assert text.count("in 0..n @ [thread.x 32") == 3 and "for " not in text and text.count(" / ") == 2
    assert Reference(kernel, instances=3, seed=48).differs(raised, ("field",)) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [("before * (v - mean)", "before * before"), ("before / seen", "before / n"), ("a * b * seen", "a * b")],
)
def test_what_is_no_running_mean_is_not_taken_for_one(old: str, new: str) -> None:
    wrong = ONE_WARP.replace("take(float v,", "take(float v, int n,").replace("take(row[i],", "take(row[i], n,")
    kernel = load(wrong.replace(old, new), name="k.cu")
    result = refused(kernel, "raise") if old == "a * b * seen" else applied(kernel, "raise")
    assert hasattr(result, "code") or body_of(result).count("in 0..n @ [thread.x 32") < 3


STATE = (
    "kernel k(y: f32*, x: f32 const*)\n  var c: f32 = 0.0\n  var m: f32 = 0.0\n  var q: f32 = 0.0\n  for i in 0..9\n"
)
SPELLINGS = {
    "welford": "    c += 1.0\n    let d: f32 = x[i] - m\n    m += d / c\n    q += d * (x[i] - m)\n",
    "reciprocal": "    let v: f32 = x[i]\n    c += 1.0\n    let d: f32 = v - m\n    m = fma(d, rcp(c), m)\n"
    "    q = fma(d, v - m, q)\n",
    "counts before": "    let v: f32 = x[i]\n    let n: f32 = c + 1.0\n    let d: f32 = v - m\n    m += d / n\n"
    "    q += d * d * c / n\n    c = n\n",
}


def update(text: str):
    k = parse_kernel(STATE + text + "  y[0] = c\n  y[1] = m\n  y[2] = q\n")
    c, m, q = (s.sym for s in k.body if isinstance(s, Decl))
    return update_of(k.body[3].body, State(c, m, q))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_one_update(name: str) -> None:
    assert update(SPELLINGS[name]) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [("+= d / c", "+= d * c"), ("c += 1.0", "c += 2.0"), ("d * (x[i] - m)", "d * d"), ("- m\n", "- q\n")],
)
def test_other_updates_are_none(old: str, new: str) -> None:
    assert update(SPELLINGS["welford"].replace(old, new, 1)) is None
