"""Blocks whose size the host computes of several numbers, and rows that lie as far apart as a parameter says."""

from __future__ import annotations

import dataclasses
import random

import numpy as np

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Call, Par, Reduce, Var, i32
from ktc.ir.text import print_expr, print_kernel
from ktc.ir.types import I32
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.covering_launches import in_covering_launch
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.check.invented_arguments import far_apart
from ktc.passes.raising.check.stride_parameters import APART, drawn_apart, nests_of, strides_of
from ktc.passes.raising.raise_ import Raise

NORM = """
#include <cub/cub.cuh>
__global__ void norm(float* __restrict__ x, const float* __restrict__ w, long long stride, float eps, int n) {
  using Blocks = cub::BlockReduce<float, 1024>;
  __shared__ typename Blocks::TempStorage room;
  __shared__ float scale;
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = x[blockIdx.x * stride + i];
    sum += v * v;
  }
  sum = Blocks(room).Reduce(sum, cub::Sum{}, blockDim.x);
  if (threadIdx.x == 0) scale = rsqrtf(sum / n + eps);
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[blockIdx.x * stride + i] *= scale * w[i];
}
void go(float* x, const float* w, long long stride, float eps, int n, int rows) {
  const int most = rows < 256 ? 1024 : 256;
  norm<<<rows, n < most ? n : most>>>(x, w, stride, eps, n);
}
"""


def raised(source: str) -> tuple[Kernel, Result | Refused]:
    kernel = load(source, name="source.cu")
    return kernel, Raise().run(kernel)


def test_sums_over_as_many_threads_as_the_host_computes() -> None:
    kernel, outcome = raised(NORM)
    assert isinstance(outcome, Result) and not any("left: " in n for n in outcome.notes), outcome
    assert [type(s) for s in walk(outcome.kernel.body) if isinstance(s, Par | Reduce)] == [Par, Reduce, Par]
    x = np.arange(1, 4001, dtype=np.float32)
    for n, rows, stride in ((1, 3, 2), (5, 4, 7), (257, 2, 300), (1500, 1, 1500), (300, 260, 8)):
        args = {"x": x, "w": x, "stride": stride, "eps": 1.0, "n": n, "rows": rows}
        if rows > 100:
            args["x"] = np.ones(rows * stride + n, np.float32)
        want = run(kernel, args, domain="field")
        for form in (outcome.kernel, materialise(outcome.kernel)):
            if rows * stride > n * rows:
                got = run(form, args, domain="field")
                assert got.ok, (got.findings, print_kernel(form))
                np.testing.assert_array_equal(got.outputs["x"], want.outputs["x"])


def test_what_counts_on_the_size_of_the_block_is_not_raised_at_another() -> None:
    kernel, outcome = raised(NORM.replace("sum / n", "sum / blockDim.x"))
    if isinstance(outcome, Result):
        x = np.arange(1, 4001, dtype=np.float32)
        for n, rows in ((5, 4), (700, 2)):
            args = {"x": x, "w": x, "stride": 700, "eps": 1.0, "n": n, "rows": rows}
            want = run(kernel, args, domain="field").outputs["x"]
            got = run(materialise(outcome.kernel), args, domain="field").outputs["x"]
            np.testing.assert_array_equal(got, want)


TURNED = """
__global__ void turn(float* __restrict__ q, const float* c, long long ts, long long hs, int heads, int dim) {
  for (int i = threadIdx.x; i < heads * dim; i += blockDim.x) {
    float* row = q + blockIdx.x * ts + i / dim * hs;
    row[i % dim] = row[i % dim] * c[i % dim];
  }
}
void go(float* q, const float* c, long long ts, long long hs, int heads, int dim, int tokens) {
  turn<<<tokens, 128>>>(q, c, ts, hs, heads, dim);
}
"""


def test_strides_are_told_from_sizes() -> None:
    kernel = load(TURNED, name="source.cu")
    assert strides_of(kernel) == {"ts", "hs"}
    assert strides_of(load(NORM, name="source.cu")) == {"stride"}
    drawn = drawn_apart(kernel, {"ts": 1, "hs": 1, "heads": 3, "dim": 2, "tokens": 2}, random.Random(1))
    assert drawn["ts"] in APART and drawn["hs"] in APART and drawn["heads"] == 3


def test_the_check_finds_rows_that_do_not_overlap() -> None:
    """Sizes as strides make each source of this kind race with itself."""
    reference = Reference(load(TURNED, name="source.cu"))
    assert all(reference._runs[n, "int"].ok for n in range(len(reference.sets)))
    assert any(int(args["tokens"]) > 1 < int(args["heads"]) for args in reference.sets)  # type: ignore[arg-type]


GROUPS = """
__global__ void scaled(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ most, int size,
                       int groups, int per_block) {
  int lane = threadIdx.x % 8, group = blockIdx.x * per_block + threadIdx.x / 8;
  float m = 0.f;
  for (int i = lane; i < size; i += 8) m = fmaxf(m, fabsf(x[group * size + i]));
  unsigned mask = 0xffu << (threadIdx.x % 32 / 8 * 8);
  for (int d = 4; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(mask, m, d));
  if (lane == 0) most[group] = m;
  for (int i = lane; i < size; i += 8) y[group * size + i] = x[group * size + i] / m;
}
void go(const float* x, float* y, float* most, int size, int groups) {
  int per_block = groups % 4 == 0 ? 4 : groups % 2 == 0 ? 2 : 1;
  scaled<<<groups / per_block, per_block * 8>>>(x, y, most, size, groups, per_block);
}
"""


def test_groups_of_threads_of_which_the_host_puts_several_into_a_block() -> None:
    kernel, outcome = raised(GROUPS)
    assert isinstance(outcome, Result), outcome
    loops = [s for s in walk(outcome.kernel.body) if isinstance(s, Par | Reduce)]
    assert [type(s) for s in loops] == [Par, Reduce, Par]
    assert print_expr(loops[0].hi) == "groups"
    x = np.arange(1, 4001, dtype=np.float32)
    for groups, per_block in ((8, 4), (6, 3), (5, 1), (6, 2)):
        args = {"x": x, "y": 0 * x, "most": 0 * x, "size": 11, "groups": groups, "per_block": per_block}
        want = run(kernel, args, domain="field").outputs
        got = run(materialise(outcome.kernel), args, domain="field")
        assert got.ok
        for name in ("y", "most"):
            np.testing.assert_array_equal(got.outputs[name], want[name])


def test_a_form_at_a_number_is_refused_where_the_result_depends_on_it() -> None:
    kernel, outcome = raised(GROUPS.replace("y[group * size + i] = x", "y[group * size + i] = per_block * x"))
    if isinstance(outcome, Result):
        x = np.arange(1, 4001, dtype=np.float32)
        args = {"x": x, "y": 0 * x, "most": 0 * x, "size": 11, "groups": 6, "per_block": 3}
        want = run(kernel, args, domain="field").outputs["y"]
        np.testing.assert_array_equal(run(materialise(outcome.kernel), args, domain="field").outputs["y"], want)


def test_strides_of_one_access_lie_in_each_other_in_some_draws() -> None:
    kernel = load(TURNED, name="source.cu")
    assert nests_of(kernel) == (("ts", "hs"),)
    numbers = {"ts": 1, "hs": 1, "heads": 3, "dim": 2, "tokens": 2}
    drawn = [drawn_apart(kernel, numbers, random.Random(k)) for k in range(20)]
    assert any(d["ts"] >= 8 * d["hs"] >= 8 * 128 for d in drawn)
    assert any(d["hs"] >= 8 * d["ts"] >= 8 * 128 for d in drawn)


def test_elements_that_are_told_apart_are_numbers_of_their_type() -> None:
    halves = TURNED.replace("float", "__half").replace("<__half>", "<float>")
    kernel = load(f"#include <cuda_fp16.h>\n{halves}", name="source.cu")
    values = far_apart(kernel, {"q": np.zeros(200_000, np.float16), "c": np.zeros(9, np.float16)}, 1, True)["q"]
    assert np.isfinite(values).all()
    assert len(np.unique(values.astype(np.float64))) >= 2048


FEW_EACH = """
__global__ void norm(float* __restrict__ y, const float* __restrict__ x, int n) {
  __shared__ float parts[32];
  __shared__ float mean;
  const int tid = threadIdx.x;
  float v[4], s = 0.0f;
  for (int i = 0; i < 4; ++i) {
    v[i] = x[blockIdx.x * n + i * blockDim.x + tid];
    s += v[i];
  }
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(~0u, s, o);
  if (tid % 32 == 0) parts[tid / 32] = s;
  __syncthreads();
  s = tid < (blockDim.x + 31) / 32 ? parts[tid % 32] : 0.0f;
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(~0u, s, o);
  if (tid == 0) mean = s / n;
  __syncthreads();
  for (int i = 0; i < 4; ++i) y[blockIdx.x * n + i * blockDim.x + tid] = v[i] - mean;
}
void run(float* y, const float* x, int n, int rows) { norm<<<rows, n / 4>>>(y, x, n); }
"""


def test_as_many_elements_as_the_threads_that_the_host_computes_take() -> None:
    """What threads do together is found at a known size of the block; how many elements they take follows from it."""
    kernel, outcome = raised(FEW_EACH)
    assert isinstance(outcome, Result) and not any("left: " in n for n in outcome.notes), outcome
    loops = [s for s in walk(outcome.kernel.body) if isinstance(s, Par | Reduce)]
    assert [print_expr(s.hi) for s in loops] == ["rows", "n / 4 * 4", "n / 4 * 4"], print_kernel(outcome.kernel)
    given = outcome.kernel.assumptions
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel, given=given) == ""
    assert Reference(kernel, instances=5, seed=22).differs(materialise(outcome.kernel), given=given) == ""


HALOED = """
__global__ void smoothed(const float4* __restrict__ x, float* __restrict__ y, int n, int rows, int halo, int rim,
                         unsigned inner) {
  extern __shared__ float4 tile[];
  int t = threadIdx.x, i = blockIdx.x * inner + t - rim, at = (int)blockIdx.y * n + i;
  if (i >= 0 && i < n) tile[t] = x[at];
  else tile[t] = make_float4(0, 0, 0, 0);
  __syncthreads();
  if (i >= 0 && i < n && t >= rim && t < rim + (int)inner) {
    float sum = 0.0f;
    int k = t - halo, last = k + 2 * halo + 1;
    while (k < last) { sum += tile[k].x; k++; }
    y[at] = sum;
  }
}
void go(const float4* x, float* y, int n, int rows, int halo, int rim, unsigned inner) {
  int threads = rim + inner + halo;
  dim3 grid(n % inner ? n / inner + 1 : n / inner, rows);
  smoothed<<<grid, threads, threads * sizeof(float4)>>>(x, y, n, rows, halo, rim, inner);
}
"""


def test_a_form_at_a_number_of_threads_is_right_for_blocks_of_more() -> None:
    """A block is the sum of three sizes: no one of them makes it longer than the number that the form is found at."""
    kernel = load(HALOED, name="source.cu")
    most = {"n": (1, 2048), "rows": (1, 1024), "halo": (1, 256), "inner": (1, 128)}
    params = tuple(dataclasses.replace(p, range=most.get(p.sym.name, p.range)) for p in kernel.params)
    outcome = Raise().run(kernel.with_(params=params))
    assert isinstance(outcome, Result), outcome
    x = np.arange(1, 9601, dtype=np.float32)
    args = {"x": x, "y": 0 * x[:2400], "n": 1200, "rows": 2, "halo": 250, "rim": 256, "inner": 120}
    want = run(kernel, args, domain="field").outputs["y"]
    got = run(materialise(outcome.kernel), args, domain="field")
    assert got.ok
    np.testing.assert_array_equal(got.outputs["y"], want)


SUMS = """
__global__ void sums(const float* __restrict__ x, float* __restrict__ out, int rows, int cols) {
  __shared__ float part[128];
  int tid = threadIdx.y * blockDim.x + threadIdx.x, j = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  for (int i = threadIdx.y; i < rows; i += 4)
    if (j < cols) sum += x[i * cols + j];
  part[tid] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half >>= 1) {
    if (tid < half) part[tid] += part[tid + half];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = part[0];
}
void go(dim3 grid, dim3 block, const float* x, float* out, int rows, int cols) {
  sums<<<grid, block>>>(x, out, rows, cols);
}
"""


def test_a_block_of_two_extents_is_that_of_the_workload_where_only_that_is_understood() -> None:
    kernel, outcome = raised(SUMS)
    assert _leaves_threads(outcome)
    assert kernel.launch is not None
    given = dataclasses.replace(kernel.launch, given=(("block_x", 32), ("block_y", 4)))
    outcome = Raise().run(kernel.with_(launch=given))
    assert isinstance(outcome, Result) and not any("left: " in n for n in outcome.notes), outcome
    assert [(print_expr(a.expr), a.origin) for a in outcome.kernel.assumptions] == [
        ("block_x == 32 && block_y == 4", "guessed")
    ]
    assert any("'block_x' is 32 and 'block_y' is 4" in n for n in outcome.notes)
    other = dataclasses.replace(kernel.launch, given=(("block_x", 32), ("block_y", 8)))
    assert _leaves_threads(Raise().run(kernel.with_(launch=other)))  # the tree adds up 128 threads
    one = dataclasses.replace(kernel.launch, given=(("block_x", 32),))
    assert _leaves_threads(Raise().run(kernel.with_(launch=one)))


def _leaves_threads(outcome: Result | Refused) -> bool:
    """Whether nothing is made of what threads exchange."""
    return isinstance(outcome, Refused) or any("left: a loop over the threads" in n for n in outcome.notes)


SCALED = """
__global__ void scaled(float* x, int rows, int cols) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (j < cols && i < rows) x[i * cols + j] *= 2.0f;
}
void go(dim3 grid, dim3 block, float* x, int rows, int cols) { scaled<<<grid, block>>>(x, rows, cols); }
"""


def test_a_launch_that_covers_all_elements_is_all_that_is_asked_of_grids_and_blocks_of_the_host() -> None:
    """As the workload has them they are one way to do so; others may not have as many threads."""
    kernel, plain = raised(SCALED)
    assert isinstance(plain, Result)
    ends = [s.hi for s in walk(plain.kernel.body) if isinstance(s, Par)]
    assert [print_expr(e) for e in ends] == ["min(rows, block_y * grid_y)", "min(cols, block_x * grid_x)"]
    launch, named = kernel.launch, {p.sym.name: p.sym for p in kernel.params}
    assert launch is not None
    cover = {
        f"grid_{a}": Call("cdiv", (Var(named[n]), i32(k)), I32) for a, n, k in (("x", "cols", 64), ("y", "rows", 4))
    }
    told = dataclasses.replace(launch, passed=tuple(cover.items()), given=(("block_x", 64), ("block_y", 4)))
    outcome = Raise().run(kernel.with_(launch=told))
    assert isinstance(outcome, Result)
    assert {(print_expr(a.expr), a.origin) for a in outcome.kernel.assumptions} == {
        ("grid_x * block_x >= cols", "guessed"), ("grid_y * block_y >= rows", "guessed"),
    }  # fmt: skip
    assert [print_expr(s.hi) for s in walk(outcome.kernel.body) if isinstance(s, Par)] == ["rows", "cols"]
    x = np.arange(40, dtype=np.float32)
    for grid, block in (((1, 1), (8, 8)), ((3, 5), (4, 2))):
        sizes = dict(zip(("grid_x", "grid_y", "block_x", "block_y"), (*grid, *block)))
        got = run(materialise(outcome.kernel), {"x": x, "rows": 5, "cols": 8, **sizes})
        assert not got.findings and got.outputs["x"].tolist() == (2 * x).tolist()


def test_threads_that_work_together_ask_for_more_than_enough_of_them() -> None:
    kernel, _ = raised(SUMS)
    launch, cols = kernel.launch, next(p.sym for p in kernel.params if p.sym.name == "cols")
    assert launch is not None
    told = dataclasses.replace(launch, passed=(("grid_x", Call("cdiv", (Var(cols), i32(32)), I32)),),
                               given=(("block_x", 32), ("block_y", 4)))  # fmt: skip
    assert in_covering_launch(kernel.with_(launch=told)) is None
