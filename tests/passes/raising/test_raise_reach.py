"""Sources that are the plain loop up to some size only, and sums whose type is not that of what they add.

At a few hundred elements, or with small values, each looks like a reduction or a copy that it is not.
"""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Par, Reduce
from ktc.ir.text import print_expr, print_kernel
from ktc.ir.types import I32, U64
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.large_arguments import far_arguments, reaches
from ktc.passes.raising.raise_ import Raise

TREE = """
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[1024];
  int t = threadIdx.x;
  float acc = 0.0f;
  for (int i = t; i < n; i += 1024) acc += x[blockIdx.x * n + i];
  s[t] = acc;
  __syncthreads();
  for (int h = HALF; h > 0; h >>= 1) {
    if (t < h) s[t] += s[t + h];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
void launch(const float* x, float* y, int n, int rows) { k<<<rows, 1024>>>(x, y, n); }
"""

WARPS = """
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[32];
  int t = threadIdx.x;
  float acc = 0.0f;
  for (int i = t; i < n; i += blockDim.x) acc += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o >>= 1) acc += __shfl_xor_sync(0xffffffff, acc, o);
  if (t < 32) s[t] = 0.0f;
  __syncthreads();
  if (t % 32 == 0) s[t / 32] = acc;
  __syncthreads();
  float v = t < MOST ? s[t] : 0.0f;
  for (int o = MOST / 2; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  if (t == 0) y[blockIdx.x] = v;
}
void launch(const float* x, float* y, int n, int rows, int threads) { k<<<rows, threads>>>(x, y, n); }
"""

TILE = """
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[512];
  int t = threadIdx.x;
  float acc = 0.0f;
  for (int b = 0; b < n; b += 512) {
    if (FILLED) s[t] = b + t < n ? x[b + t] : 0.0f;
    __syncthreads();
    for (int k = 0; k < 512; k += 64) acc += s[k] * (t + 1);
    __syncthreads();
  }
  y[blockIdx.x * 512 + t] = acc;
}
void launch(const float* x, float* y, int n, int blocks) { k<<<blocks, 512>>>(x, y, n); }
"""

ONLY_SMALL = {
    "half of a tree": (TREE.replace("HALF", "256"), {"n": 1400, "rows": 2}),
    "a quarter of the warps": (WARPS.replace("MOST", "8"), {"n": 1400, "rows": 2, "threads": 1024}),
    "a tile filled once": (TILE.replace("FILLED", "b < 512"), {"n": 1100, "blocks": 2}),
}


@pytest.mark.parametrize("name", ONLY_SMALL)
def test_what_only_small_sizes_do_is_not_raised(name: str) -> None:
    text, sizes = ONLY_SMALL[name]
    kernel = load(text, name="source.cu")
    outcome = Raise().run(kernel)
    if isinstance(outcome, Result):
        x = np.arange(1, 5001) % 97
        same_outputs(kernel, outcome.kernel, {**sizes, "x": x.astype(np.float32), "y": np.zeros(5000, np.float32)})


RING = """
__global__ void k(const float* x, float* y, int n) {
  __shared__ float row[512];
  for (int k = threadIdx.x; k < n; k += 128) row[k % 512] = x[blockIdx.x * n + k];
  __syncthreads();
  for (int k = threadIdx.x; k < n; k += 128) y[blockIdx.x * n + k] = row[k % 512];
}
void launch(const float* x, float* y, int n) { k<<<n, 128>>>(x, y, n); }
"""


def test_sizes_go_as_far_where_the_grid_grows_with_them() -> None:
    """Of a square matrix few rows that are long enough make a launch of many threads, each of which does little."""
    kernel = load(RING, name="source.cu")
    assert max(int(s.get("n", 0)) for sets in far_arguments(kernel, 1, 4_000) for s in sets) > 512
    assert isinstance(Raise().run(kernel), Refused)


@pytest.mark.parametrize("text", [TREE.replace("HALF", "512"), WARPS.replace("MOST", "32")], ids=["tree", "warps"])
def test_what_holds_for_all_sizes_still_is(text: str) -> None:
    assert any(isinstance(s, Reduce) for s in walk(raised(text).body))


def test_sizes_go_beyond_what_the_source_reaches() -> None:
    kernel = load(TREE.replace("HALF", "512"), name="source.cu")
    assert 1024 in reaches(kernel)
    sets = [next(candidates, {}) for candidates in far_arguments(kernel, 1)]
    assert max(int(s.get("n", 0)) for s in sets) > 2 * 1024


def test_a_block_is_filled_twice_whatever_else_is_large() -> None:
    text = TREE.replace("HALF", "512").replace("float acc = 0.0f;", "float acc = n == 4000 || n == 3000 ? 1.0f : 0.0f;")
    assert {4000, 3000, 1024} <= set(reaches(load(text, name="source.cu")))


def test_a_block_as_large_as_the_host_chooses_is_tried() -> None:
    kernel = load(WARPS.replace("MOST", "32"), name="source.cu")
    assert next(next(far_arguments(kernel, 1)))["threads"] == 1024


TOTAL = """
__global__ void k(const IN* x, OUT* y, int n) {
  __shared__ OUT s[256];
  int t = threadIdx.x;
  IN acc = 0;
  for (int i = t; i < n; i += 256) acc = STEP(acc, x[blockIdx.x * n + i]);
  s[t] = (OUT)acc;
  __syncthreads();
  for (int h = 128; h > 0; h >>= 1) {
    if (t < h) s[t] = STEP(s[t], s[t + h]);
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
void launch(const IN* x, OUT* y, int n, int rows) { k<<<rows, 256>>>(x, y, n); }
"""
TYPES = {
    "partial sums of 32 bits": ("int", "long long", "add", np.int32, np.int64),
    "a maximum of halves of words": ("long long", "int", "max", np.int64, np.int32),
    "a maximum of signed words": ("unsigned", "int", "max", np.uint32, np.int32),
    "partial sums of single precision": ("float", "double", "add", np.float32, np.float64),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_total_is_taken_in_the_type_of_the_tree(name: str) -> None:
    given, total, op, x_type, y_type = TYPES[name]
    head = "template <class T> __device__ inline T add(T a, T b) { return a + b; }\n"
    text = head + TOTAL.replace("IN", given).replace("OUT", total).replace("STEP", op)
    kernel, form = load(text, name="source.cu"), raised(text)
    (tree,) = (s for s in walk(form.body) if isinstance(s, Reduce))
    assert tree.accs[0].sym.type.bits == 8 * np.dtype(y_type).itemsize, print_kernel(form)
    x = np.random.default_rng(3).integers(1 << 28, 1 << 31, 1200).astype(x_type)
    if given == "long long":
        x = x * x  # beyond what 32 bits hold
    same_outputs(kernel, form, {"n": 600, "rows": 2, "x": x, "y": np.zeros(2, y_type)})


def same_outputs(kernel: Kernel, form: Kernel, args: dict[str, object]) -> None:
    """Fails unless the two forms leave what ``kernel`` does on ``args``."""
    want = run(kernel, args, domain="int")
    assert want.ok and want.outputs["y"].any(), want.findings
    for other in (form, materialise(form)):
        got = run(other, args, domain="int")
        assert got.ok, got.findings
        np.testing.assert_array_equal(got.outputs["y"], want.outputs["y"], print_kernel(other))


def raised(text: str) -> Kernel:
    outcome = Raise().run(load(text, name="source.cu"))
    assert isinstance(outcome, Result), outcome
    return outcome.kernel


CAPPED = """
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
void launch(const float* x, float* y, int n) { k<<<min((n + 255) / 256, 65535), 256>>>(x, y, n); }
"""


def test_a_grid_with_a_limit_covers_no_more_than_that() -> None:
    (loop,) = (s for s in walk(raised(CAPPED).body) if isinstance(s, Par))
    assert "65535" in print_expr(loop.hi)


STEPS = TREE.replace("HALF", "512").replace("i += 1024", "i += n > 1000000 ? 2048 : 1024")


def test_a_step_that_large_sizes_choose_is_not_the_block() -> None:
    text = print_kernel(raised(STEPS))
    assert "1000000" in text, text


UNNAMED = """
__global__ void k(const float* x, float* y, size_t n) {
  if ((size_t)blockIdx.x * 256 + threadIdx.x < n)
    y[(size_t)blockIdx.x * 256 + threadIdx.x] = 2 * x[(size_t)blockIdx.x * 256 + threadIdx.x];
}
void launch(const float* x, float* y, size_t n) { k<<<(n + 255) / 256, 256>>>(x, y, n); }
"""

ROUNDS = """
__global__ void k(const float* x, float* y, size_t n) {
  size_t base = (size_t)blockIdx.x * 1024;
  for (int j = 0; j < 4; j++)
    if (base + j * 256 + threadIdx.x < n) y[base + j * 256 + threadIdx.x] = 2 * x[base + j * 256 + threadIdx.x];
}
void launch(const float* x, float* y, size_t n) { k<<<(n + 1023) / 1024, 256>>>(x, y, n); }
"""


@pytest.mark.parametrize("text", [UNNAMED, ROUNDS], ids=["once", "rounds"])
def test_an_index_without_a_name_is_as_wide_as_its_arithmetic(text: str) -> None:
    """More than 2**31 elements."""
    loops = [s for s in walk(raised(text).body) if isinstance(s, Par)]
    assert all(s.var.type == U64 and print_expr(s.hi) == "n" for s in loops) and loops


def test_an_index_of_32_bits_stays_one() -> None:
    (loop,) = (s for s in walk(raised(UNNAMED.replace("size_t", "int")).body) if isinstance(s, Par))
    assert loop.var.type == I32
