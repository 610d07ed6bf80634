"""Rows in which every thread has something to compare, along the loop that compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.frontend import load
from ktc.ir.workload import ArgSpec, Scenario, Workload
from ktc.search.verification.floats.larger_floats import compared
from ktc.search.verification.instances.wide_rows import wide_rows

ATTEND = """
__global__ void attend(float* w, const float* q, const float* k, int heads, int n, int d) {
  int h = blockIdx.x;
  for (int t = threadIdx.x; t < n; t += blockDim.x) {
    float s = 0.0f;
    for (int i = 0; i < d; i++) s += q[h * d + i] * k[t * d + i];
    w[h * n + t] = s;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float m = w[h * n];
    int last = n;
    for (int j = 1; j < last; j++) m = MAXIMUM;
    for (int j = 0; j < n; j++) w[h * n + j] -= m;
  }
}
void launch(float* w, const float* q, const float* k, int heads, int n, int d) {
  attend<<<heads, 64>>>(w, q, k, heads, n, d);
}
"""
MAXIMA = ("fmaxf(m, w[h * n + j])", "m < w[h * n + j] ? w[h * n + j] : m")


def workload() -> Workload:
    args = (
        ArgSpec("w", "f32", "out", ("heads", "n")),
        ArgSpec("q", "f32", "in", ("heads", "d")),
        ArgSpec("k", "f32", "in", ("n * d",)),
        *(ArgSpec(n, "i32", "scalar", value=n, range=(1, 4096)) for n in ("heads", "n", "d")),
    )
    one = Scenario("one", {"heads": 32, "n": 1024, "d": 128})
    return Workload(Path("w.toml"), Path("k.cu"), "attend", args, (one,), {"": {}})


@pytest.mark.parametrize("maximum", MAXIMA, ids=["a call", "a comparison"])
def test_positions_are_many_where_a_maximum_is_over_positions(maximum: str) -> None:
    kernel = load(ATTEND.replace("MAXIMUM", maximum))
    first, *_ = wide_rows(kernel, kernel, workload())
    assert first.sizes["n"] > 64 < first.sizes["heads"] and first.sizes["d"] < 8


def test_elements_compared_are_counted_in_the_loops_around() -> None:
    kernel = load(ATTEND.replace("MAXIMUM", MAXIMA[1]))
    sizes = [{"heads": 3, "n": 9, "d": 2}, {"heads": 8, "n": 9, "d": 2}, {"heads": 3, "n": 30, "d": 70}]
    assert [compared(kernel, s) for s in sizes] == [8, 8, 29]


def test_inputs_say_what_a_row_is_where_nothing_is_compared() -> None:
    kernel = load(ATTEND.replace("MAXIMUM", "m + w[h * n + j]"))
    first, *_ = wide_rows(kernel, kernel, workload())
    assert first.sizes["d"] > 64 > first.sizes["n"]


ALONE = """
__global__ void largest(float* w, const float* q, const float* k, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float m = -INFINITY;
  for (int j = 0; j < n; j++) {
    float s = 0.0f;
    for (int i = 0; i < LENGTH; i++) s += q[r * LENGTH + i] * k[j * LENGTH + i];
    m = fmaxf(m, s);
  }
  w[r] = m;
}
void launch(float* w, const float* q, const float* k, int rows, int n) {
  largest<<<(rows + 127) / 128, 128>>>(w, q, k, rows, n);
}
"""


def test_rows_of_sums_are_no_longer_than_the_original_can_be_run_on() -> None:
    rows = {}
    for d in (2, 1024):
        kernel = load(ALONE.replace("LENGTH", str(d)))
        args = (
            ArgSpec("w", "f32", "out", ("rows",)),
            ArgSpec("q", "f32", "in", ("rows", str(d))),
            ArgSpec("k", "f32", "in", ("n", str(d))),
            *(ArgSpec(n, "i32", "scalar", value=n, range=(1, 4096)) for n in ("rows", "n")),
        )
        one = Scenario("one", {"rows": 1024, "n": 1024})
        found = wide_rows(kernel, kernel, Workload(Path("w.toml"), Path("k.cu"), "largest", args, (one,), {"": {}}))
        rows[d] = found[0].sizes
    assert rows[2]["n"] > 128 < rows[2]["rows"]
    assert rows[1024]["n"] > 128 >= rows[1024]["rows"]  # fewer rows, and still some row's peak for each thread
