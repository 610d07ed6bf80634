"""Grid-stride loops over several axes of a launch, and the returns that such loops begin with."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.nodes import For, Par
from ktc.ir.text import print_expr
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.recognise.loop_exits import returns_to_continues

GATHER = """
#define LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
__global__ void k(int b, int c, int n, int m, const float *points, const long long *idx, float *out) {
  int batch = blockIdx.z, channel = blockIdx.y;
  LOOP(p, m) {
    RETURN
    out[(batch * c + channel) * m + p] = points[(batch * c + channel) * n + idx[batch * m + p]];
  }
}
void run(int b, int c, int n, int m, const float *points, const long long *idx, float *out) {
  k<<<dim3((m + 255) / 256, c, b), 256>>>(b, c, n, m, points, idx, out);
}
"""

PLANE = """
__global__ void k(size_t n, size_t m, const float *a, float *out) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    for (size_t j = blockIdx.y * blockDim.y + threadIdx.y; j < m; j += blockDim.y * gridDim.y) {
      if (i >= n || j >= m) return;
      out[i * m + j] = a[j * n + i];
    }
}
void run(size_t n, size_t m, const float *a, float *out, int g) { k<<<dim3(g, 2), dim3(16, 16)>>>(n, m, a, out); }
"""

LINE = """
__global__ void k(int n, int few, const float *a, float *out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) { BODY }
}
void run(int n, int few, const float *a, float *out) { k<<<2, 64>>>(n, few, a, out); }
"""


def raised(source: str) -> tuple[Result, str]:
    """What raising makes of ``source``, and where it differs from it on instances of its own."""
    kernel = load(source, name="k.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    reference = Reference(kernel, instances=6, seed=31)
    return outcome, reference.differs(outcome.kernel) or reference.differs(materialise(outcome.kernel))


def loops(outcome: Result) -> list[tuple[str, list[str]]]:
    return [(s.var.name, [f"{lv.kind}.{lv.axis}" for lv in s.dist if lv.axis]) for s in walk(outcome.kernel.body)
            if isinstance(s, Par)]  # fmt: skip


@pytest.mark.parametrize("leave", ["", "if (batch >= b || channel >= c || p >= m) return;"])
def test_a_loop_over_one_axis_beside_blocks_of_others(leave: str) -> None:
    outcome, why = raised(GATHER.replace("RETURN", leave))
    assert why == "" and loops(outcome)[-1] == ("p", ["thread.x", "block.x"])
    assert [axes for _, axes in loops(outcome)[:-1]] == [["block.z"], ["block.y"]]
    assert not any(isinstance(s, For) for s in walk(outcome.kernel.body))


def test_loops_over_two_axes_inside_each_other() -> None:
    outcome, why = raised(PLANE)
    assert why == "" and loops(outcome) == [("i", ["thread.x", "block.x"]), ("j", ["thread.y", "block.y"])]


@pytest.mark.parametrize("body", [
    "if (few < 3) return; out[i] = a[i];",  # the same for all iterations
    "if (i >= few) return; out[i] = a[i];",  # of all that follow
    "const int j = i + 4; if (j / 8 > few || n < 9) return; out[i] = a[i];",
    "const int x = i % few; if (x >= few) return; out[i] = a[i] + x;",  # of none
])  # fmt: skip
def test_returns_that_skip_what_follows(body: str) -> None:
    outcome, why = raised(LINE.replace("BODY", body))
    assert why == "" and loops(outcome) == [("i", ["thread.x", "block.x"])]


@pytest.mark.parametrize("body", [
    "if (a[i] < 0.f) return; out[i] = a[i];",  # the next one may be positive
    "if (few >= i) return; out[i] = a[i];",  # the last ones may be left
    "if (i % 3 >= few) return; out[i] = a[i];",
    "if (i / -2 >= few) return; out[i] = a[i];",  # of those before
    "if (__any_sync(~0u, n < 9)) return; out[i] = a[i];",  # other lanes' say
    "out[i] = 1.f; if (i >= few) return; out[i] = a[i];",  # something was done before
    "if (i < few) { out[i] = 2.f; return; } out[i] = a[i];",
    "for (int j = 0; j < 2; ++j) { if (i >= few) return; out[i] += a[i]; } out[i] += 1.f;",
])  # fmt: skip
def test_returns_that_leave_more_than_they_skip_stay(body: str) -> None:
    """Skipped instead, iterations that never were would be there."""
    kernel = load(LINE.replace("BODY", body), name="k.cu")
    assert returns_to_continues(kernel.body) == kernel.body
    outcome = Raise().run(kernel)
    if not isinstance(outcome, Refused):
        assert raised(LINE.replace("BODY", body))[1] == ""


TILES_ONLY = """
__global__ void k(const float *a, float *y, int n) {
  __shared__ float part[8];
  int i = (blockIdx.x * 256 + threadIdx.x) * 4;
  float4 v = reinterpret_cast<const float4 *>(a + i)[0];
  float s = i < n ? v.x + v.y + v.z + v.w : 0.f;
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  s = threadIdx.x % 32 < 8 ? part[threadIdx.x % 32] : 0.f;
  if (threadIdx.x < 32) for (int o = 4; o > 0; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x == 0) atomicAdd(y, s);
}
void run(const float *a, float *y, int n) { k<<<(n + 255) / 256 / 4, 256>>>(a, y, n); }
"""


def test_a_launch_that_small_sizes_leave_empty_is_checked_on_larger_ones() -> None:
    _, why = raised(TILES_ONLY)
    assert why == ""


def test_an_old_value_that_nobody_asks_for_is_left_out() -> None:
    body = "const float old = atomicAdd(&out[i / 4], a[i]);"
    outcome, why = raised(LINE.replace("BODY", body))
    assert why == "" and loops(outcome)


PHASES = """
__global__ void k(float *a, float *b, const float *x, const float *y, int n, int rows, int cols) {
  BEFORE
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) a[i] = OWN;
  int width = 4 * cols;
  for (int r = blockIdx.x; r < rows; r += gridDim.x)
    for (int c = threadIdx.x; c < width; c += blockDim.x) b[r * width + c] = OTHER;
}
void run(float *a, float *b, const float *x, const float *y, int n, int rows, int cols) {
  k<<<(n + 63) / 64, 64>>>(a, b, x, y, n, rows, cols);
}
"""


def phases(before: str = "", own: str = "2.f * x[i]", other: str = "3.f * y[r]") -> str:
    return PHASES.replace("BEFORE", before).replace("OWN", own).replace("OTHER", other)


def test_a_loop_over_the_grid_stands_beside_one_over_blocks() -> None:
    outcome, wrong = raised(phases())
    assert loops(outcome) == [("i", ["thread.x", "block.x"]), ("r", ["block.x"]), ("c", ["thread.x"])] and not wrong
    assert [s.var.name for s in outcome.kernel.body if isinstance(s, Par)] == ["i", "r"]


def test_a_loop_over_the_grid_that_asks_for_its_block_is_one_of_each_thread() -> None:
    """Spread over the grid it would stand in the loop over blocks, once for each of them."""
    outcome, wrong = raised(phases("int own = blockIdx.x;", "x[i] + own"))
    assert [name for name, _ in loops(outcome)] == ["own", "tx"] and not wrong
    assert any("left: a loop over the threads" in n for n in outcome.notes)


def test_phases_that_other_blocks_would_have_to_wait_for_are_refused() -> None:
    outcome = Raise().run(load(phases(other="a[r]"), name="k.cu"))
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-CHECK" and "race: a[" in outcome.why


TWICE = """
__global__ void k(float *y, const float *x, int n) {
  int first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = first; i < n; i += gridDim.x * blockDim.x) y[i] = 2 * x[i];
  for (int i = first; i < n; i += gridDim.x * blockDim.x) y[i] = y[PLACE] * y[i] + 1;
}
void run(float *y, const float *x, int n) { k<<<(n + 63) / 64, 64>>>(y, x, n); }
"""


def test_loops_that_begin_at_one_place_are_several_loops_over_the_grid() -> None:
    outcome, wrong = raised(TWICE.replace("PLACE", "i"))
    assert loops(outcome) == [("i", ["thread.x", "block.x"])] * 2 and not wrong


def test_loops_over_the_grid_that_would_have_to_wait_are_refused() -> None:
    outcome = Raise().run(load(TWICE.replace("PLACE", "n - 1 - i"), name="k.cu"))
    assert isinstance(outcome, Refused) and "race: y[" in outcome.why


BATCHES = """
__global__ void k(const float *x, float *out, int batch, int rows, int cols) {
  const int n = blockIdx.x, pixels = rows * cols, all = gridDim.y * blockDim.x;
  const int t = blockIdx.y * blockDim.x + threadIdx.x;
  for (int i = t; i < pixels; i += all) {
    int r = i / cols, c = i % cols;
    out[PLACE] = x[(n * rows + r) * cols] + c;
  }
}
void run(const float *x, float *out, int batch, int rows, int cols) {
  k<<<dim3(batch, 4 / batch + 1), 32>>>(x, out, batch, rows, cols);
}
"""


@pytest.mark.parametrize("place", ["n * pixels + i", "(n * rows + r) * cols + c"])
def test_blocks_along_another_axis_than_the_threads_share_out_a_loop(place: str) -> None:
    out, why = raised(BATCHES.replace("PLACE", place))
    assert not why
    batches, pixels = (s for s in walk(out.kernel.body) if isinstance(s, Par))
    assert [(lv.kind, lv.axis) for lv in batches.dist] == [("block", "x")]
    assert [(lv.kind, lv.axis) for lv in pixels.dist[:2]] == [("thread", "x"), ("block", "y")]
    assert pixels.dist[-1].kind == "seq" and not any(isinstance(s, For) for s in walk(out.kernel.body))


NAMED_END = """
__global__ void windows(const float* x, float* y, int n, int taps) {
  int i = blockIdx.x * 64 + threadIdx.x;
  int last = n - taps + 1;
  if (i < last) {
    float s = 0.0f;
    for (int k = 0; k < taps; ++k) s += x[i + k];
    y[i] = s;
  }
}
void go(const float* x, float* y, int n) { windows<<<(n - 2 + 63) / 64, 64>>>(x, y, n, 3); }
"""


def test_an_end_that_has_a_name_in_the_kernel_bounds_the_loop() -> None:
    """The launch has threads for windows of three; whether that is enough hangs on how many taps there are."""
    done = Raise().run(load(NAMED_END, name="k.cu"))
    assert isinstance(done, Result)
    (loop,) = (s for s in done.kernel.body if isinstance(s, Par))
    assert print_expr(loop.hi) == "min(n - taps + 1, 64 * ((n + 61) / 64))"
