"""Rows dealt out to warps and blocks: reused accumulators, thread 0's own statements, conditions around a whole row."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import If, WarpOp
from ktc.ir.text import parse_kernel, print_expr, print_kernel
from ktc.ir.walk import all_exprs, rename, walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise


def outcome(text: str) -> Result:
    found = Raise().run(load(text, name="source.cu"))
    assert isinstance(found, Result), found
    return found


def lowered(kernel: Kernel) -> str:
    return print_kernel(materialise(kernel))


NORM = """
__device__ float sum_of_warp(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}
__global__ void norm(const float* x, float* y, float* mean, int rows, int d) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  float acc = 0.0f;
  for (int i = lane; i < d; i += 32) acc += x[row * d + i];
  acc = sum_of_warp(acc);
  float m = acc / d;
  if (lane == 0 && mean != nullptr) mean[row] = m;
  acc = 0.0f;
  for (int i = lane; i < d; i += 32) acc += (x[row * d + i] - m) * (x[row * d + i] - m);
  acc = sum_of_warp(acc);
  for (int i = lane; i < d; i += 32) y[row * d + i] = (x[row * d + i] - m) * rsqrtf(acc / d);
}
void launch(const float* x, float* y, float* mean, int rows, int d) {
  norm<<<(rows + 7) / 8, 256>>>(x, y, mean, rows, d);
}
"""


def test_an_accumulator_used_twice_is_two_reductions() -> None:
    text = print_kernel(outcome(NORM).kernel)
    assert "par row in 0..rows @ [thread.y 8, block.x]" in text
    assert text.count("reduce(+)") == 2 and text.count("@ [thread.x 32, seq]") == 3 and "array" not in text
    assert "if !is_null(&mean[0]) -> bool\n      mean[row] = m" in text, text


def test_rows_of_warps_end_early_as_they_did() -> None:
    """Nothing below the condition meets beyond a warp, and a warp takes one way."""
    text = lowered(outcome(NORM).kernel)
    assert text.count("if row < rows") == 1 and "barrier" not in text, text


NARROW = """
kernel narrow(x: f32*, y: f32*, rows: i32, d: i32)
  launch grid((rows + 15) / 16) block(16, 16)
  par row in 0..rows @ [thread.y 16, block.x]
    reduce(+) acc: f32 = 0.0 over i in 0..d @ [thread.x 16, seq]
      yield x[row * d + i]
    y[row] = acc
"""


def test_rows_narrower_than_a_warp_stay_together() -> None:
    """16 lanes a row: a warp holds two rows, and a shuffle names all its lanes."""
    wide = NARROW.replace("16", "32").replace("(32, 32)", "(32, 16)").replace("thread.y 32", "thread.y 16")
    assert lowered(parse_kernel(wide)).count("if row < rows") == 1
    code = materialise(parse_kernel(NARROW))
    assert print_kernel(code).count("if row < rows") > 1
    shuffles = [s for s in walk(code.body) if isinstance(s, If) and any(isinstance(e, WarpOp) for e in all_exprs((s,)))]
    assert not shuffles, print_kernel(code)


UNEVEN = """
__global__ void uneven(const float* x, float* y, int rows, int n, int d, int many) {
  int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows * n) return;
  float top = -3.0e38f, acc = 0.0f;
  for (int i = lane; i < d; i += 32) {
    top = fmaxf(top, x[row * d + i]);
    acc = acc * top + x[row * d + i];
  }
  float most = top;
  for (int o = 16; o > 0; o /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, o));
  acc *= top - most;
  for (int o = 16; o > 0; o /= 2) acc += __shfl_xor_sync(0xffffffff, acc, o);
  for (int i = lane; i < d; i += 32) y[row * d + i] = (x[row * d + i] - most) / acc;
}
void launch(const float* x, float* y, int rows, int n, int d, int many) {
  uneven<<<many, 256>>>(x, y, rows, n, d, many);
}
"""


def test_what_a_lane_keeps_stays_in_registers_inside_a_condition() -> None:
    form = outcome(UNEVEN.replace("row >= rows * n", "row >= rows * n || row == d")).kernel
    text = print_kernel(form)
    assert "if row != d" in text and text.index("if row != d") < text.index("array top: f32[32]"), text
    code = lowered(form)
    assert "[32]" not in code and code.count("row != d") == 1, code


def test_what_a_lane_keeps_stays_in_registers_up_to_where_a_guard_ends_the_rows() -> None:
    code = lowered(outcome(UNEVEN).kernel)
    assert "[32]" not in code and code.count("if row < min(rows * n, 8 * many)") == 1, code


SOFTMAX = """
__global__ void softmax(const float* x, float* y, int d) {
  extern __shared__ float part[];
  int row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float v = -INFINITY;
  for (int i = threadIdx.x; i < d; i += blockDim.x) v = fmaxf(v, x[row * d + i]);
  for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_down_sync(0xffffffff, v, o));
  if (lane == 0) part[warp] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < warps; ++i) part[0] = fmaxf(part[0], part[i]);
  }
  __syncthreads();
  float most = part[0];
  v = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) v += expf(x[row * d + i] - most);
  for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
  __syncthreads();
  if (lane == 0) part[warp] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < warps; ++i) part[0] += part[i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < d; i += blockDim.x) y[row * d + i] = expf(x[row * d + i] - most) / part[0];
}
void launch(const float* x, float* y, int n, int d, int threads) {
  softmax<<<n, threads, threads / 32 * sizeof(float)>>>(x, y, d);
}
"""


def test_one_array_serves_two_exchanges() -> None:
    """Blocks that are not whole warps read lanes that are not there, in the source: nothing is assumed."""
    found = outcome(SOFTMAX)
    text = print_kernel(found.kernel)
    assert text.count("reduce(max)") == 1 and text.count("reduce(+)") == 1 and "array" not in text, text
    assert "@ [thread.x 256, seq]" in text and not found.kernel.assumptions


TOTAL = """
__global__ void total(const int* x, int* y) {
  extern __shared__ int part[];
  part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  STEPS
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
void launch(const int* x, int* y, int n, int threads) {
  total<<<n, threads, threads * sizeof(int)>>>(x, y);
}
"""
HALVES = """
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }"""
WARPS = """
  if (threadIdx.x == 0)
    for (int t = 1; t < blockDim.x / 32 * 32; ++t) part[0] += part[t];
  __syncthreads();"""


@pytest.mark.parametrize(
    "steps, said",
    [(HALVES, "'threads' is a power of two, at least 2"), (WARPS, "'threads' is a multiple of 32")],
    ids=["halves", "warps"],
)
def test_sizes_that_a_block_is_written_for(steps: str, said: str) -> None:
    text = TOTAL.replace("STEPS", steps)
    found, source = outcome(text), load(text, name="source.cu")
    assert "reduce(+)" in print_kernel(found.kernel) and "== 0_u32" not in print_kernel(found.kernel)
    assert any(f"assumed: {said}" in n for n in found.notes), found.notes
    (fact,) = found.kernel.assumptions
    assert fact.origin == "guessed" and "threads" in print_expr(fact.expr)
    x = np.arange(1, 2049, dtype=np.int32)
    for threads in (64, 512):  # fewer and more than the loops are spread over
        args = {"x": x, "y": np.zeros(3, np.int32), "n": 3, "threads": threads}
        got = run(materialise(found.kernel), args)
        assert got.ok and got.outputs["y"].tolist() == x[: 3 * threads].reshape(3, -1).sum(1).tolist(), steps
    mine = {p.sym.name: p.sym for p in source.params}
    form = rename(found.kernel.body, {p.sym: mine[p.sym.name] for p in found.kernel.params})
    assert "y[" in Reference(source).differs(source.with_(body=form)), "it does not hold for other sizes"


ROWS_OF_TREES = """
__global__ void mean(float* out, const float* x, int rows, int d, int threads) {
  extern __shared__ float part[];
  int row = blockIdx.x, t = threadIdx.x;
  const float* mine = x + row * d;
  float sum = 0.0f;
  for (int i = t; i < d; i += threads) sum += mine[i];
  part[t] = sum;
  __syncthreads();
  for (int s = threads / 2; s >= 1; s /= 2) {
    __syncthreads();
    if (t < s) part[t] += part[t + s];
  }
  if (t == 0) out[row] = part[0] / d;
}
void launch(float* out, const float* x, int rows, int d, int threads) {
  mean<<<rows, threads, threads * sizeof(float)>>>(out, x, rows, d, threads);
}
"""
WARPS_OF_A_GRID = """
__device__ float in_warp(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}
__global__ void norm(float* out, const float* x, size_t count) {
  __shared__ float part[32];
  size_t width = blockDim.x * gridDim.x;
  float v = 0.0f;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += width) v += x[i] * x[i];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float w = in_warp(v);
  if (lane == 0) part[warp] = w;
  __syncthreads();
  w = lane < warps ? part[lane] : 0.0f;
  float all = in_warp(w);
  if (threadIdx.x == 0) out[blockIdx.x] = all;
}
void launch(float* out, const float* x, size_t count, int blocks, int threads) {
  norm<<<blocks, threads>>>(out, x, count);
}
"""


@pytest.mark.parametrize(
    "text, said",
    [(ROWS_OF_TREES, "'threads' is a power of two, at least 2"), (WARPS_OF_A_GRID, "'threads' is a multiple of 32")],
    ids=["trees", "warps"],
)
def test_blocks_that_break_a_source_are_tried_whatever_the_other_sizes_are(text: str, said: str) -> None:
    """Small sizes drawn at random seldom give a ragged block of few rows work for all of its threads."""
    found = outcome(text)
    assert any(f"assumed: {said}" in n for n in found.notes), found.notes


WARP_A_ROW = """
__global__ void sums(const float* x, float* out, int rows, int d) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float a = 0.0f;
  for (int i = lane; i < d; i += 32) a += x[row * d + i];
  for (int o = 16; o > 0; o /= 2) a += __shfl_xor_sync(0xffffffff, a, o);
  if (lane == 0) out[row] = a;
}
void launch(const float* x, float* out, int rows, int d, int threads) {
  sums<<<GRID, threads>>>(x, out, rows, d);
}
"""


def test_rows_that_whole_blocks_take_are_rows_for_any_block() -> None:
    """How many rows ``rows / (threads / 32)`` blocks take depends on the block, where it leaves some of them out."""
    found = outcome(WARP_A_ROW.replace("GRID", "rows / (threads / 32)"))
    said = "assumed: 'threads' is a multiple of 32, and 'rows' is a multiple of 'threads / 32'"
    assert any(said in n for n in found.notes), found.notes
    text = print_kernel(found.kernel)
    assert "par row in 0..rows @" in text and "assume threads % 32 == 0 && rows % (threads / 32) == 0" in text


def test_rows_beyond_whole_blocks_need_no_assumption_where_a_block_takes_them() -> None:
    found = outcome(WARP_A_ROW.replace("GRID", "(rows + threads / 32 - 1) / (threads / 32)"))
    assert not any("and 'rows' is a multiple" in n for n in found.notes), found.notes
    assert "reduce(+)" in print_kernel(found.kernel)


MOMENTS = """
__global__ void moments(const float* x, float* mean, float* square, int rows, int d) {
  int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float a = 0.0f, b = 0.0f;
  for (int i = lane; i < d; i += 32) { a += x[row * d + i]; b += x[row * d + i] * x[row * d + i]; }
  for (int o = 16; o > 0; o /= 2) a += __shfl_xor_sync(0xffffffff, a, o);
  a /= d;
  for (int o = 16; o > 0; o /= 2) b += __shfl_xor_sync(0xffffffff, b, o);
  if (lane == 0) { mean[row] = a; square[row] = b / d - a * a; }
}
void launch(const float* x, float* mean, float* square, int rows, int d) {
  moments<<<(rows + 7) / 8, 256>>>(x, mean, square, rows, d);
}
"""


def test_what_one_loop_sums_is_one_reduction() -> None:
    text = print_kernel(outcome(MOMENTS).kernel)
    assert "@ [thread.x 32, seq]" in text and text.count("reduce(+)") == 1 and "(+) b" in text and "array" not in text


def test_a_block_of_as_many_threads_as_a_parameter_says() -> None:
    text = TOTAL.replace("STEPS", HALVES.replace("blockDim.x", "threads")).replace("int* y)", "int* y, int threads)", 1)
    found = outcome(text.replace("(x, y);", "(x, y, threads);"))
    assert "reduce(+)" in print_kernel(found.kernel) and "array" not in print_kernel(found.kernel)
    assert any("'threads' is a power of two, at least 2" in n for n in found.notes), found.notes


BLOCK_MOMENTS = """
__device__ float of_warp(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}
__global__ void standardised(const float* x, float* y, int d) {
  __shared__ float sa[32], sb[32];
  int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x;
  float a = 0.0f, b = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) { a += x[row * d + i]; b += x[row * d + i] * x[row * d + i]; }
  a = of_warp(a);
  b = of_warp(b);
  sa[warp] = a;
  sb[warp] = b;
  __syncthreads();
  a = of_warp(lane < warps ? sa[lane] : 0.0f);
  a /= d;
  float m = a;
  b = of_warp(lane < warps ? sb[lane] : 0.0f);
  b /= d;
  for (int i = threadIdx.x; i < d; i += blockDim.x) y[row * d + i] = (x[row * d + i] - m) * rsqrtf(b - m * m);
}
void launch(const float* x, float* y, int n, int d, int threads) { standardised<<<n, threads>>>(x, y, d); }
"""


def test_results_of_an_exchange_may_be_worked_on_inside_it() -> None:
    text = print_kernel(outcome(BLOCK_MOMENTS).kernel)
    assert text.count("reduce(+)") == 1 and text.count("@ [thread.x 256, seq]") == 2 and "array" not in text, text


GATHER = """
__global__ void gather(const float* __restrict__ src, const int* __restrict__ idx, float* __restrict__ dst,
                       int n, int d) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int row = blockIdx.x * (blockDim.x / 32) + warp;
  if (row >= n) return;
  const float* s = src + (long)idx[row] * d;
  for (int i = lane; i < d; i += 32) dst[(long)row * d + i] = s[i] * 0.5f;
}
void run(const float* s, const int* i, float* o, int n, int d) { gather<<<(n + 3) / 4, 128>>>(s, i, o, n, d); }
"""

GLOBAL_WARP = GATHER.replace(
    "int lane = threadIdx.x % 32, warp = threadIdx.x / 32;", "int g = blockIdx.x * 128 + threadIdx.x, lane = g & 31;"
).replace("blockIdx.x * (blockDim.x / 32) + warp", "g >> 5")


@pytest.mark.parametrize("source", [GATHER, GLOBAL_WARP, GATHER.replace("32", "16").replace("+ 3) / 4", "+ 7) / 8")])
def test_a_row_a_group_of_threads_without_exchanges(source: str) -> None:
    """Nothing but the thread's digits says that warps share rows; what is looked up of a row comes before its loop."""
    kernel = load(source, name="source.cu")
    text = print_kernel(outcome(source).kernel)
    lanes = 16 if "% 16" in source else 32
    assert f"par row in 0..n @ [thread.y {128 // lanes}, block.x]" in text, text
    assert f"par i in 0..d @ [thread.x {lanes}, seq]" in text and "for " not in text
    assert Reference(kernel, instances=5, seed=12).differs(outcome(source).kernel) == ""


@pytest.mark.parametrize(
    "old, new",
    [("s[i] * 0.5f", "s[i] * lane"), ("i += 32", "i += 33"), ("i = lane;", "i = lane + warp;")],
    ids=["who-does-it", "other-steps", "other-starts"],
)
def test_steps_that_are_not_the_groups_stay_serial(old: str, new: str) -> None:
    assert old in GATHER
    kernel = load(GATHER.replace(old, new), name="source.cu")
    found = Raise().run(kernel)
    if isinstance(found, Result):
        assert "par i in 0..d " not in print_kernel(found.kernel)
        assert Reference(kernel, instances=5, seed=12).differs(found.kernel) == ""


CENTRED = """
struct Sums { float s, q; };
__device__ Sums over_warp(Sums p) {
  for (int o = 16; o > 0; o >>= 1) {
    p.s += __shfl_down_sync(0xffffffff, p.s, o);
    p.q += __shfl_down_sync(0xffffffff, p.q, o);
  }
  return p;
}
__global__ void centred(const float* __restrict__ x, float* __restrict__ y, int n, float eps) {
  __shared__ float ss[8], sq[8];
  __shared__ float mu, rs;
  Sums p{0.f, 0.f};
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = x[blockIdx.x * n + i];
    p.s += v;
    p.q += v * v;
  }
  p = over_warp(p);
  int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  if (lane == 0) { ss[w] = p.s; sq[w] = p.q; }
  __syncthreads();
  if (w == 0) {
    p.s = lane < 8 ? ss[lane] : 0.f;
    p.q = lane < 8 ? sq[lane] : 0.f;
    p = over_warp(p);
    if (lane == 0) { float m = p.s / n; mu = m; rs = rsqrtf(p.q / n - m * m + eps); }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - mu) * rs;
}
void run(const float* x, float* y, int rows, int n, float eps) { centred<<<rows, 256>>>(x, y, n, eps); }
"""


def test_what_one_thread_makes_of_totals_is_made_by_all() -> None:
    """The mean and what follows from it, in a branch of a branch; the second value is made of both totals."""
    kernel = load(CENTRED, name="source.cu")
    raised = outcome(CENTRED).kernel
    text = print_kernel(raised)
    assert "reduce(+) mu: f32 = 0.0, (+) rs: f32 = 0.0 over i in 0..n @ [thread.x 256, seq]" in text, text
    assert "let mu_1: f32 = mu / n\n" in text and "rsqrt(rs / n - mu_1 * mu_1 + eps)" in text
    assert Reference(kernel, instances=5, seed=3).differs(raised) == ""


@pytest.mark.parametrize(
    "old, new",
    [
        ("mu = m;", "mu = m * x[blockIdx.x];"),
        ("mu = m;", "mu = m * (w + 1);"),
        ("mu = m; rs = ", "mu = p.s * p.q; rs = "),
        ("(x[blockIdx.x * n + i] - mu) * rs;", "(x[blockIdx.x * n + i] - mu) * rs; if (lane == 0) mu = 2.f;"),
    ],
    ids=["of-memory", "of-the-thread", "of-two", "changed-again"],
)
def test_what_cannot_be_postponed_is_not_claimed(old: str, new: str) -> None:
    assert old in CENTRED
    kernel = load(CENTRED.replace(old, new), name="source.cu")
    found = Raise().run(kernel)
    if isinstance(found, Result):
        assert Reference(kernel, instances=5, seed=3).differs(found.kernel) == ""


GROUPS = """
__global__ void scales(const float* __restrict__ x, signed char* __restrict__ q, float* __restrict__ s, int groups) {
  int local = threadIdx.x / 16, lane = threadIdx.x % 16, g = blockIdx.x * 16 + local;
  if (g >= groups) return;
  float m = 1e-10f;
  for (int i = lane; i < 128; i += 16) m = fmaxf(m, fabsf(x[g * 128 + i]));
  for (int o = 8; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
  if (lane == 0) s[g] = m / 127.f;
  for (int i = lane; i < 128; i += 16) q[g * 128 + i] = (signed char)rintf(x[g * 128 + i] / (m / 127.f));
}
void run(const float* x, signed char* q, float* s, int groups) {
  scales<<<(groups + 15) / 16, 256>>>(x, q, s, groups);
}
"""


def test_a_group_of_half_a_warp_reduces_for_itself() -> None:
    raised = outcome(GROUPS).kernel
    text = print_kernel(raised)
    assert "par g in 0..groups @ [thread.y 16, block.x]" in text, text
    assert "reduce(max) m: f32 = 1e-10 over i in 0..128 @ [thread.x 16, seq]" in text
    assert not any(isinstance(e, WarpOp) for e in all_exprs(raised.body))


def test_an_exchange_beyond_the_group_is_not_the_groups() -> None:
    """Steps from 16 on mix the two halves of a warp: each row gets the other's peak, too."""
    kernel = load(GROUPS.replace("int o = 8;", "int o = 16;"), name="source.cu")
    found = Raise().run(kernel)
    if isinstance(found, Result):
        assert "@ [thread.x 16, seq]\n      yield" not in print_kernel(found.kernel)
        assert Reference(kernel, instances=5, seed=3).differs(found.kernel) == ""
