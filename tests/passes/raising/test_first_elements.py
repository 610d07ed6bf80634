"""Maxima kept by a condition, and first elements that threads take before their loops: the loop takes them all."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel

from .raised_once import raised

ROWS = """
__global__ void extremes(const float* x, float* y, int n) {
  __shared__ float part[128];
  int tid = threadIdx.x;
  const float* row = x + blockIdx.x * n;
  START
  for (int i = FROM; i < n; i += 128) UPDATE
  part[tid] = m;
  __syncthreads();
  for (int s = 64; s > 0; s >>= 1) {
    if (tid < s) part[tid] = COMBINED;
    __syncthreads();
  }
  if (tid == 0) y[blockIdx.x] = part[0];
}
void launch(const float* x, float* y, int rows, int n) { extremes<<<rows, 128>>>(x, y, n); }
"""
MAX, MIN, SUM = "fmaxf(part[tid], part[tid + s])", "fminf(part[tid], part[tid + s])", "part[tid] + part[tid + s]"
GREATER = "if (row[i] > m) m = row[i];"
WHOLE = "over i in 0..n @ [thread.x 128, seq]"


def form(start: str, first: str, update: str = GREATER, combined: str = MAX) -> str:
    source = ROWS.replace("START", start).replace("FROM", first).replace("UPDATE", update)
    return print_kernel(raised(source.replace("COMBINED", combined))[1].kernel)


@pytest.mark.parametrize(
    ("start", "update", "combined", "says"),
    [
        ("float m = -1e30f;", GREATER, MAX, "var m: f32 = -(1e+30)"),
        ("float m = -INFINITY;", "if (m < row[i]) { m = row[i]; }", MAX, "reduce(max) "),
        ("float m = 1e30f;", "if (row[i] <= m) m = row[i];", MIN, "reduce(min) "),
    ],
)
def test_an_extreme_kept_by_a_condition(start: str, update: str, combined: str, says: str) -> None:
    found = form(start, "tid", update, combined)
    assert WHOLE in found and says in found and "if" not in found


@pytest.mark.parametrize(
    ("start", "update", "combined", "says"),
    [
        ("float m = tid < n ? row[tid] : 0;", GREATER, MAX, "var m: f32 = n < 128 ? 0.0 : -inf"),
        ("float m = -FLT_MAX; if (n > tid) m = row[tid];", GREATER, MAX, "n < 128 ? -(3.4028235e+38_f32) : -inf"),
        ("float m = tid < n ? row[tid] : 0;", "m = fmaxf(row[i], m);", MAX, "n < 128 ? 0.0 : -inf"),
        ("float m = tid < n ? row[tid] : 0;", "m += row[i];", SUM, "reduce(+) "),
        ("float m = 0; if (tid <= n - 1) m = row[tid];", "m += row[i];", SUM, "reduce(+) "),
    ],
)
def test_a_first_element_is_the_loops(start: str, update: str, combined: str, says: str) -> None:
    found = form("const float FLT_MAX = 3.4028235e38f; " * ("FLT_MAX" in start) + start, "tid + 128", update, combined)
    assert WHOLE in found and says in found


@pytest.mark.parametrize(
    ("start", "first", "update", "combined"),
    [
        ("float m = row[0];", "tid", GREATER, MAX),  # which may be a NaN, and then stays one
        ("float m = tid < n ? row[tid] : 1;", "tid + 128", "m += row[i];", SUM),  # threads without an element add one
        ("float m = tid < n ? row[tid] : 0;", "tid + 129", GREATER, MAX),  # not the element before the first
        ("float m = tid < n ? row[tid] * 2 : 0;", "tid + 128", GREATER, MAX),
        ("float m = tid < n - 1 ? row[tid] : 0;", "tid + 128", GREATER, MAX),
    ],
)
def test_what_is_no_first_element_stays(start: str, first: str, update: str, combined: str) -> None:
    assert WHOLE not in form(start, first, update, combined)


ATTENTION = """
__global__ void scores(const float* __restrict__ q, const float* __restrict__ k, float* __restrict__ s, int last, int d,
                       int pitch) {
  for (int t = threadIdx.x; t <= last; t += blockDim.x) {
    float score = 0.f;
    for (int i = 0; i < d; i += 4) {
      float4 a = *reinterpret_cast<const float4*>(q + blockIdx.x * d + i);
      float4 b = *reinterpret_cast<const float4*>(k + t * pitch + blockIdx.x * d + i);
      score += a.x * b.x;
      score += a.y * b.y;
      score += a.z * b.z;
      score += a.w * b.w;
    }
    s[blockIdx.x * (last + 1) + t] = score;
  }
}
void launch(const float* q, const float* k, float* s, int heads, int last, int d) {
  scores<<<heads, 64>>>(q, k, s, last, d, heads * d);
}
"""


def test_a_serial_sum_over_vectors_is_one_over_elements() -> None:
    found = print_kernel(raised(ATTENTION)[1].kernel)
    assert "over i in 0..d @ [vec 4, seq]" in found and "par t in 0..last + 1 @ [thread.x 64, seq]" in found
    assert "assume d % 4 == 0" in found and "f32x4" not in found


COUNTED = """
__global__ void sums(const float* x, float* y, int n) {
  __shared__ float part[64];
  int tid = threadIdx.x, at = tid;
  float total;
  if (at < n) {
    int place = blockIdx.x * n + at;
    total = x[place];
  }
  at += 64;
  while (at < n) {
    total += x[blockIdx.x * n + at];
    at += 64;
  }
  part[tid] = total;
  __syncthreads();
  for (int s = 32; s > 0; s >>= 1) {
    if (tid < s && tid + s < n) part[tid] += part[tid + s];
    __syncthreads();
  }
  if (tid == 0) y[blockIdx.x] = part[0];
}
void launch(const float* x, float* y, int rows, int n) { sums<<<rows, 64>>>(x, y, n); }
"""


def test_threads_without_an_element_may_have_no_value() -> None:
    """As long as nobody reads it: such sums are combined of as many threads as have one."""
    found = print_kernel(raised(COUNTED)[1].kernel)
    assert "reduce(+) " in found and "over at in 0..n @" in found and "if" not in found
