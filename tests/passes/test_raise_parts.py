"""Loops over threads that are other loops in part; what is a thread's own stays one over threads."""

from __future__ import annotations

import numpy as np
import pytest
from ktc.ir.frontend.api import load
from ktc.ir.nodes import For, If, Par
from ktc.ir.walk import walk
from ktc.passes.base import Refused
from ktc.passes.raise_ import Raise
from test_raise_addresses import agree, raised

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
    outcome = Raise().apply(load(CACHE.replace(old, new), name="source.cu"), {})
    loops = [] if isinstance(outcome, Refused) else [s for s in walk(outcome.kernel.body) if isinstance(s, Par)]
    assert not any("seq" in [lv.kind for lv in s.dist] for s in loops if not serial_loops((s,)))


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
