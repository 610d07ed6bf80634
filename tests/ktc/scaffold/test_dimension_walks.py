"""Drafts of kernels that take an index apart by extents that lie in a buffer."""

from __future__ import annotations

from pathlib import Path

import ktc
from ktc.ir.workload import Workload
from ktc.scaffold.draft import draft
from ktc.scaffold.extents.dimension_walks import walks
from ktc.scaffold.text import workload_text

PACKED = """
typedef unsigned long long u64;
__device__ unsigned place(unsigned at, u64 rank, const u64* extents, const u64* strides) {
  unsigned sum = 0;
  for (unsigned k = 0; k < rank; k++) {
    unsigned from = rank - 1 - k;
    sum += (at % extents[from]) * strides[from];
    at /= extents[from];
  }
  return sum;
}
__device__ bool dense(u64 rank, const u64* extents, const u64* strides) {
  u64 step = 1;
  for (unsigned k = 0; k < rank; k++) {
    unsigned from = rank - 1 - k;
    if (extents[from] > 1 && step != strides[from]) return false;
    step *= extents[from];
  }
  return true;
}
extern "C" __global__ void root(u64 count, u64 rank, const u64* about, const float* x, float* y) {
  const u64 *extents = about, *strides = about + rank;
  if (dense(rank, extents, strides)) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) y[i] = sqrtf(x[i]);
  } else {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
      y[i] = sqrtf(x[place(i, rank, extents, strides)]);
  }
}
"""
NORMAL = ("1 if reversed else dim_1 * dim_2", "dim_0 if reversed else dim_2", "dim_0 * dim_1 if reversed else 1")


def test_extents_and_strides_of_one_buffer() -> None:
    d = draft(ktc.loads(PACKED).kernel)
    assert d.roles.listed == {"about": ("dim_0", "dim_1", "dim_2", *NORMAL)}
    assert d.roles.fixed["rank"] == 3 and d.tied("count") == "dim_0 * dim_1 * dim_2"
    shapes = {b: e and e.shape for b, e in d.shapes.items()}
    assert shapes["x"] == shapes["y"] == ("dim_0", "dim_1", "dim_2") and shapes["about"] == ("6",)
    turned = {name: sizes["reversed"] for name, sizes, _ in d.scenarios}
    assert turned == {"small": 0, "medium": 1, "large": 0, "heldout": 0, "odd": 1}


def test_a_drafted_workload_covers_both_orders_and_is_verified(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(PACKED)
    p = ktc.load(str(tmp_path / "k.cu"), beside=False)
    assert p.source is not None
    text, _ = workload_text(p.kernel, p.source, tmp_path / "workload.toml")
    (tmp_path / "workload.toml").write_text(text)
    w = Workload.load(tmp_path / "workload.toml")
    made = [w.make_inputs({"dim_0": 2, "dim_1": 3, "dim_2": 5, "reversed": turned})["about"] for turned in (0, 1)]
    assert [x.tolist() for x in made] == [[2, 3, 5, 15, 5, 1], [2, 3, 5, 1, 2, 6]]
    verdict = ktc.load(str(tmp_path / "k.cu")).apply("raise").ok.verify(device="none")
    assert verdict.status != "WRONG" and verdict.ok, verdict


SEPARATE = """
__global__ void turn(int axis, int by, int rank, int count, const int* extents, const int* from, const int* to,
                     const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int left = i, source = 0, target = 0;
  for (int d = rank - 1; d >= 0; d--) { source += left % extents[d] * from[d]; left /= extents[d]; }
  left = i;
  for (int d = rank - 1; d > axis; d--) { int at = left % extents[d]; target += at * to[d]; left /= extents[d]; }
  int at = (left % extents[axis] + by) % extents[axis];
  target += at * to[axis];
  left /= extents[axis];
  for (int d = axis - 1; d >= 0; d--) { int at = left % extents[d]; target += at * to[d]; left /= extents[d]; }
  y[target] = x[source];
}
"""


def test_strides_of_walks_that_stop_at_a_dimension() -> None:
    d = draft(ktc.loads(SEPARATE).kernel)
    assert d.roles.listed == {"extents": ("dim_0", "dim_1", "dim_2"), "from": NORMAL, "to": NORMAL}
    assert {n: d.roles.fixed[n] for n in ("rank", "axis")} == {"rank": 3, "axis": 1}
    shapes = {b: e and e.shape for b, e in d.shapes.items()}
    assert shapes["x"] == shapes["y"] == ("dim_0", "dim_1", "dim_2")


def test_a_buffer_of_which_more_is_asked_is_left_alone() -> None:
    more = PACKED.replace("y[i] = sqrtf(x[i]);", "y[i] = sqrtf(x[i]) * about[2 * rank + i % 7];")
    d = draft(ktc.loads(more).kernel)
    assert walks(ktc.loads(more).kernel) and not d.roles.listed


def test_a_loop_that_divides_by_data_is_no_walk() -> None:
    k = ktc.loads("""
__global__ void halve(int n, int rounds, const int* by, int* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, x = i;
  if (i >= n) return;
  for (int r = 0; r < rounds; r++) x = x / by[i];
  y[i] = x;
}
""").kernel
    assert not walks(k)


GRID = """
__global__ void sums(int n, int part, const float* x, float* y) {
  int first = blockIdx.x * part, end = min(first + part, n);
  for (int i = first + threadIdx.x; i < end; i += blockDim.x) y[i] = 2 * x[i];
}
"""


def test_the_end_of_a_block_s_part_bounds_the_grid() -> None:
    d = draft(ktc.loads(GRID).kernel)
    assert d.launch is not None and d.launch.grid[0].startswith("cdiv(n, ")


POOL = """
struct Pool { unsigned long long kernel, stride, padding, dilation, batch, chan, h_in, h_out, w_in, w_out; };
__device__ void pool(const Pool p, const unsigned long long* strides, const float* x, float* y) {
  unsigned long long count = p.batch * p.chan * p.h_out * p.w_out;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    unsigned rest = i;
    unsigned long long ow = rest % p.w_out; rest /= p.w_out;
    unsigned long long oh = rest % p.h_out; rest /= p.h_out;
    unsigned long long c = rest % p.chan; rest /= p.chan;
    unsigned long long b = rest % p.batch;
    float best = -1e30f;
    for (unsigned long long k1 = 0; k1 < p.kernel; k1++)
      for (unsigned long long k2 = 0; k2 < p.kernel; k2++) {
        unsigned long long far = oh * p.stride + p.dilation * k1, wide = ow * p.stride + p.dilation * k2;
        if (far < p.padding || wide < p.padding) continue;
        unsigned long long h = far - p.padding, w = wide - p.padding;
        if (h >= p.h_in || w >= p.w_in) continue;
        best = fmaxf(best, x[b * strides[0] + c * strides[1] + h * strides[2] + w * strides[3]]);
      }
    y[i] = best;
  }
}
extern "C" __global__ void maximum(const Pool p, const unsigned long long* s, const float* x, float* y) {
  pool(p, s, x, y);
}
"""


def test_strides_at_constant_places_and_windows_whose_elements_are_apart() -> None:
    d = draft(ktc.loads(POOL).kernel)
    assert d.roles.listed == {"s": ("p_chan * p_h_in * p_w_in", "p_h_in * p_w_in", "p_w_in", "1")}
    kinds = {"p_kernel": "padded", "p_stride": "step", "p_padding": "border", "p_dilation": "step"}
    assert d.roles.windows == kinds
    assert all(sizes["p_kernel"] <= 5 for _, sizes, _ in d.scenarios)


PASSED = """
struct Sizes { int at[6]; };
struct Steps { long at[6]; };
__global__ void rows(const float* x, float* y, long count, const Sizes dims, const Steps steps, int ndim) {
  const long row = blockIdx.x;
  if (row >= count) return;
  const int width = dims.at[ndim - 1];
  long left = row * width, at = 0;
  for (int d = ndim - 1; d >= 0 && left > 0; --d) {
    at += left % dims.at[d] * steps.at[d];
    left /= dims.at[d];
  }
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[row * width + i] = x[at + i * steps.at[ndim - 1]];
}
void go(const float* x, float* y, long count, Sizes dims, Steps steps, int ndim) {
  rows<<<count, 128>>>(x, y, count, dims, steps, ndim);
}
"""


def test_arrays_in_structs_are_extents_and_strides_as_buffers_are() -> None:
    d = draft(ktc.loads(PASSED).kernel)
    assert not d.doubts and not d.roles.listed and d.roles.fixed["ndim"] == 3
    assert [d.tied(f"dims_at_{n}") for n in range(3)] == ["dim_0", "dim_1", "dim_2"] and d.tied(
        "count"
    ) == "dim_0 * dim_1"
    assert d.tied("steps_at_1") == "dim_0 if reversed else dim_2"
    assert d.roles.fixed["dims_at_3"] == d.roles.fixed["steps_at_5"] == 1
    sizes = {"dim_0": 2, "dim_1": 3, "dim_2": 5, "reversed": 0}
    assert d.elements(sizes) == {"x": 30, "y": 30}
    assert {s["reversed"] for _, s, _ in d.scenarios} == {0, 1}
