"""Loops over threads that are other loops in part; what is a thread's own stays one over threads."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import For, If, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.test_raise_addresses import agree, raised

CACHE = """
__global__ void put(const float* __restrict__ x, float* __restrict__ cache, const int* __restrict__ slots,
                    long long token, int width, int heads, int stride) {
  const int slot = slots[blockIdx.x];
  if (slot < 0) return;
  if (stride == width) {
    const int n = width * heads;
    const float* from = x + blockIdx.x * (long long)n;
    float* to = cache + slot * token;
    int head = n < 3 ? n : 3;
    for (int i = threadIdx.x; i < head; i += blockDim.x) to[i] = from[i];
    from += head; to += head;
    for (int i = threadIdx.x; i < n - head; i += blockDim.x) to[i] = from[i];
  } else {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (int h = warp; h < heads; h += warps)
      for (int i = lane; i < width; i += 32)
        cache[slot * token + h * (long long)stride + i] = x[(blockIdx.x * (long long)heads + h) * width + i];
  }
}
void go(const float* x, float* cache, const int* slots, long long token, int width, int heads, int stride, int tokens) {
  put<<<tokens, 64>>>(x, cache, slots, token, width, heads, stride);
}
"""


def serial_loops(body: tuple) -> list[For]:
    return [s for p in walk(body) if isinstance(p, Par) for s in walk(p.body) if isinstance(s, For)]


def test_one_way_is_loops_and_the_other_stays_with_its_threads() -> None:
    kernel, form, left = raised(CACHE)
    (ways,) = [s for s in walk(form.body) if isinstance(s, If) and s.orelse]
    dealt = [p for p in ways.then if isinstance(p, Par)]
    assert [p.dist[-1].kind for p in dealt] == ["seq", "seq"] and not serial_loops(ways.then)
    (threads,) = [p for p in ways.orelse if isinstance(p, Par)]
    assert [lv.kind for lv in threads.dist] == ["thread"] and len(serial_loops(ways.orelse)) == 2
    assert len(left) == 1 and "share out the iterations over 'h'" in left[0], left
    x, slots = np.arange(1, 4001, dtype=np.float32), np.array([2, -1, 0, 5, 1], np.int32)
    shapes = [(5, 1, 5), (3, 7, 3), (3, 7, 4), (100, 2, 100), (100, 3, 130), (1, 1, 1), (1, 1, 2), (33, 70, 33)]
    for width, heads, stride in shapes:
        token = heads * stride + 1
        sizes = {"token": token, "width": width, "heads": heads, "stride": stride, "tokens": 5 if width < 33 else 1}
        agree(kernel, form, [sizes], {"x": x, "cache": np.zeros(6 * token + 9, np.float32), "slots": slots})


OWN = [
    ("int head = n < 3 ? n : 3;", "int head = n < 3 ? n : 3; if (threadIdx.x == 7) head = 0;"),  # one goes elsewhere
    ("from += head; to += head;", "from += head; to += head + (threadIdx.x & 1);"),
    ("to[i] = from[i];\n    from", "{ to[i] = from[i]; head = i + 1; }\n    from"),  # each its own end
]


@pytest.mark.parametrize(("old", "new"), OWN)
def test_loops_that_use_a_threads_own_value_are_none(old: str, new: str) -> None:
    assert CACHE.count(old) == 1
    outcome = Raise().run(load(CACHE.replace(old, new), name="source.cu"))
    loops = [] if isinstance(outcome, Refused) else [s for s in walk(outcome.kernel.body) if isinstance(s, Par)]
    assert not any("seq" in [lv.kind for lv in s.dist] for s in loops if not serial_loops((s,)))


SCALED = """
__device__ void each(const float* x, signed char* y, int n, int first, int step, float s) {
  unsigned long long at = reinterpret_cast<unsigned long long>(x);
  bool whole = (at & 15) == 0 && (n & 3) == 0;
  if (whole) {
    for (int i = first; i < n / 4; i += step) {
      signed char four[4];
      for (int j = 0; j < 4; ++j) {
        signed char one[2];
        one[0] = (signed char)(int)(x[i * 4 + j] * s);
        four[j] = one[0];
      }
      for (int j = 0; j < 4; ++j) y[i * 4 + j] = four[j];
    }
    return;
  }
  int head = min((int)((16 - (at & 15)) & 15) / 4, n);
  for (int i = first; i < head; i += step) y[i] = (signed char)(int)(x[i] * s);
  x += head; y += head; n -= head;
  const int even = n / 2 * 2;
  for (int i = first; i < n / 2; i += step) { y[2 * i] = (signed char)(int)(x[2 * i] * s); y[2 * i + 1] = 7; }
  for (int i = first + even; i < n; i += step) y[i] = (signed char)(int)(x[i] * s);
}
__global__ void quantise(const float* __restrict__ x, signed char* __restrict__ y, float* __restrict__ scales, int n) {
  __shared__ float part[64];
  float most = 0.f;
  for (int i = threadIdx.x; i < n; i += 64) most = fmaxf(most, fabsf(x[blockIdx.x * (long long)n + i]));
  part[threadIdx.x] = most;
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) {
    if (threadIdx.x < k) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + k]);
    __syncthreads();
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = part[0];
  each(x + blockIdx.x * (long long)n, y + blockIdx.x * (long long)n, n, threadIdx.x, 64, part[0] + 1.f);
}
void go(const float* x, signed char* y, float* s, int n, int rows) { quantise<<<rows, 64>>>(x, y, s, n); }
"""


def test_what_a_block_goes_on_with_lives_across_no_barrier() -> None:
    """The row's beginning moves on past its head: for the whole block, in one of two ways behind a reduction."""
    kernel, form, left = raised(SCALED)
    assert not left
    assert [type(s).__name__ for s in walk(form.body) if isinstance(s, Par | Reduce)] == [
        "Par", "Reduce", "Par", "Par", "Par", "Par"]  # fmt: skip
    x = np.arange(-600, 600, dtype=np.float32)
    sizes = [{"n": n, "rows": rows} for n, rows in ((1, 5), (4, 3), (7, 3), (64, 2), (300, 2), (301, 3), (1200, 1))]
    agree(kernel, form, sizes, {"x": x, "y": np.zeros(1200, np.int8), "scales": np.zeros(5, np.float32)})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x += head; y += head;", "x += head; y += first == 9 ? 0 : head;"),  # one thread goes on elsewhere
        ("y[2 * i + 1] = 7; }", "y[2 * i + 1] = 7; y[2 * i + 2] = 8; }"),  # pairs that overlap
        ("y[2 * i + 1] = 7; }", "y[2 * i + 1] = 7; n -= i == 0; }"),  # the first thread's end is another
    ],
)
def test_what_threads_go_on_with_by_themselves_is_theirs(old: str, new: str) -> None:
    assert SCALED.count(old) == 1
    outcome = Raise().run(load(SCALED.replace(old, new), name="source.cu"))
    loops = [] if isinstance(outcome, Refused) else [s for s in walk(outcome.kernel.body) if isinstance(s, Par)]
    assert not any(len(p.dist) == 2 and "seq" in p.dist[-1].kind for p in loops)


ITEMS = """
__global__ void items(const float* __restrict__ x, float* __restrict__ y, int width, int heads) {
  const int t = threadIdx.x;
  float v[4];
  if (t < heads * 2) {
    for (int k = 0; k < 4; ++k) v[k] = x[(blockIdx.x * heads * 2 + t) * 4 + k];
    for (int k = 0; k < 4; ++k) y[(t % heads) * width + (t / heads) * 4 + blockIdx.x * 8 + k] = v[3 - k];
  }
}
void go(const float* x, float* y, int width, int heads, int rows) { items<<<rows, 64>>>(x, y, width, heads); }
"""


def test_an_item_a_thread_is_a_loop_like_any_other() -> None:
    """A loop over threads whose iterations have nothing to do with each other needs no understanding."""
    kernel, form, left = raised(ITEMS)
    assert not left
    x = np.arange(1, 4001, dtype=np.float32)
    sizes = [{"width": 8 * rows, "heads": heads, "rows": rows} for heads, rows in ((1, 1), (3, 2), (31, 3), (32, 4))]
    agree(kernel, form, sizes, {"x": x, "y": np.zeros(2000, np.float32)})


SORTED = """
__global__ void sort(float* o, const float* x, int rows, int n) {
  for (int j = threadIdx.x; j < rows; j += blockDim.x)
    for (int s = 0; s < n; s++) o[j * n + s] = x[j * n + s];
  for (int j = threadIdx.x; j < rows; j += blockDim.x) {
    SECOND
  }
}
void go(float* o, const float* x, int rows, int n) { sort<<<1, 32>>>(o, x, rows, n); }
"""
LEAST_FIRST = """
    int least = 0;
    for (int t = 1; t < n; t++) if (o[j * n + t] < o[j * n + least]) least = t;
    float v = o[j * n + least]; o[j * n + least] = o[j * n]; o[j * n] = v;
"""


def test_loops_over_the_same_rows_are_two_though_one_picks_its_places_by_their_values() -> None:
    _, form, left = raised(SORTED.replace("SECOND", LEAST_FIRST))
    assert [(s.var.name, len(s.dist)) for s in form.body if isinstance(s, Par)] == [("j", 2), ("j", 2)] and not left


def test_a_loop_in_which_a_row_waits_for_one_before_stays_with_its_threads() -> None:
    _, form, left = raised(SORTED.replace("SECOND", "if (j >= 32) o[j * n] += o[(j - 32) * n];"))
    assert len(form.body) == 1 and any("a loop over the threads" in n for n in left)
