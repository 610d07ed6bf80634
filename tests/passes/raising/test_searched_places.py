"""Where a row's greatest or least element is: each thread's own search and the agreement on one, as one reduction."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Reduce
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from tests.passes.raising.raised_once import outcome_of, raised

JOIN = "if (v BETTER best || (v == best && b < at)) { best = v; at = b; }"
ACROSS = f"""for (int d = 16; d > 0; d >>= 1) {{
    float v = __shfl_xor_sync(0xffffffffu, best, d);
    int b = __shfl_xor_sync(0xffffffffu, at, d);
    {JOIN}
  }}"""
BLOCK = f"""
__global__ void place(const float* __restrict__ x, float* __restrict__ most, int* __restrict__ where, int cols) {{
  int row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float best = FIRST;
  int at = NOWHERE;
  for (int c = threadIdx.x; c < cols; c += 128) {{
    float v = x[row * cols + c];
    if (v BETTER best) {{ best = v; at = c; }}
  }}
  {ACROSS}
  __shared__ float vs[4];
  __shared__ int as[4];
  if (lane == 0) {{ vs[warp] = best; as[warp] = at; }}
  __syncthreads();
  if (warp == 0) {{
    best = lane < 4 ? vs[lane] : FIRST;
    at = lane < 4 ? as[lane] : NOWHERE;
    {ACROSS}
    if (lane == 0) {{ most[row] = best; where[row] = at; }}
  }}
}}
void go(const float* x, float* most, int* where, int rows, int cols) {{ place<<<rows, 128>>>(x, most, where, cols); }}
"""


def source(better: str, first: str, nowhere: str) -> str:
    return BLOCK.replace("BETTER", better).replace("FIRST", first).replace("NOWHERE", nowhere)


def rows(better: str) -> np.ndarray:
    """Rows with ties, with nothing that is better than what a search starts with, and with NaN."""
    x = np.random.default_rng(5).integers(-3, 4, (6, 300)).astype(np.float32)
    x[1] = -np.inf if better == ">" else np.inf
    x[2, ::3] = np.nan
    x[3] = np.nan
    x[4] = x[4, 0]
    return x


def ran(kernel: Kernel, x: np.ndarray) -> list[np.ndarray]:
    n, cols = x.shape
    given = {
        "x": x.reshape(-1),
        "most": np.zeros(n, np.float32),
        "where": np.zeros(n, np.int32),
        "cols": cols,
        "rows": n,
    }
    out = run(materialise(kernel), given, domain="float").outputs
    return [out["most"], out["where"]]


def dealt_out_anew(kernel: Kernel) -> Kernel:
    done = apply_script(kernel, parse_script("distribute{loop=c map=[unroll 2, thread.x 32, seq]}"))
    assert done.refused is None, done.refused
    return done.kernel


@pytest.mark.parametrize(
    ("better", "first", "nowhere"),
    [(">", "-INFINITY", "0"), (">", "-2.0f", "-1"), ("<", "INFINITY", "2147483647"), ("<", "3.4e38f", "7")],
)
def test_one_reduction_for_each_row(better: str, first: str, nowhere: str) -> None:
    kernel, outcome = raised(source(better, first, nowhere))
    reductions = [s for s in walk(outcome.kernel.body) if isinstance(s, Reduce)]
    assert [[a.op for a in s.accs] for s in reductions] == [["max" if better == ">" else "min", "at"]]
    assert not [s for s in walk(outcome.kernel.body) if isinstance(s, For)]
    x = rows(better)
    for got, want in zip(ran(outcome.kernel, x), ran(kernel, x)):
        np.testing.assert_array_equal(got, want)


def test_the_row_is_dealt_out_anew() -> None:
    kernel, outcome = raised(source(">", "-INFINITY", "0"))
    x = rows(">")
    for got, want in zip(ran(dealt_out_anew(outcome.kernel), x), ran(kernel, x)):
        np.testing.assert_array_equal(got, want)


def test_what_each_thread_found_may_be_asked_for() -> None:
    """Warps, then, agree one after the other; what the first one goes on with is declared once."""
    text = source(">", "-INFINITY", "0")
    text = text.replace("  for (int d = 16", "  float mine = best;\n  for (int d = 16", 1)
    text = text.replace("  __shared__ float vs", "  own[row * 128 + threadIdx.x] = mine;\n  __shared__ float vs")
    text = text.replace("float* __restrict__ most,", "float* __restrict__ most, float* own,")
    text = text.replace("float* most,", "float* most, float* own,").replace("(x, most,", "(x, most, own,")
    _, outcome = raised(text)
    assert "(at)" not in print_kernel(outcome.kernel)


TREES = {
    "halves first": "for (int w = 64; w > 0; w /= 2) {{ if (t < w && {0}) {1} __syncthreads(); }}",
    "neighbours first": "for (int w = 1; w < 128; w *= 2) {{ if (t % (2 * w) == 0 && {0}) {1} __syncthreads(); }}",
    "later ones first": "for (int w = 64; w > 0; w /= 2) {{ if (t < w && {2}) {1} __syncthreads(); }}",
}
TREE = """
__global__ void place(const float* x, float* __restrict__ most, int* __restrict__ where, int cols) {
  __shared__ float vs[128];
  __shared__ int as[128];
  int row = blockIdx.x, t = threadIdx.x;
  float best = -1.0f;
  int at = 0;
  for (int c = t; c < cols; c += 128) {
    float v = fabsf(x[row * cols + c]);
    STEP
  }
  vs[t] = best; as[t] = at;
  __syncthreads();
  JOIN
  if (t == 0) { most[row] = vs[0]; where[row] = as[0]; }
}
void go(const float* x, float* most, int* where, int rows, int cols) {
  place<<<rows, 128>>>(x, most, where, cols);
}
"""
BRANCH = "if (v > best) { best = v; at = c; }"
CHOICES = "at = v > best ? c : at; best = v > best ? v : best;"


@pytest.mark.parametrize("step", [BRANCH, CHOICES], ids=["branch", "choices"])
@pytest.mark.parametrize("tree", TREES)
def test_equal_elements_are_told_apart_as_the_threads_of_the_source_do(tree: str, step: str) -> None:
    """Which thread takes precedence is part of the one reduction: schedules leave the element that the source does."""
    join = TREES[tree].format("vs[t + w] > vs[t]", "{ vs[t] = vs[t + w]; as[t] = as[t + w]; }", "vs[t + w] >= vs[t]")
    kernel, outcome = raised(TREE.replace("STEP", step).replace("JOIN", join))
    assert [[a.op for a in s.accs] for s in walk(outcome.kernel.body) if isinstance(s, Reduce)] == [["max", "at"]]
    again = dealt_out_anew(outcome.kernel)
    x = np.random.default_rng(8).integers(-3, 4, (9, 300)).astype(np.float32)
    want = ran(kernel, x)
    for form in (outcome.kernel, again):
        for got, wanted in zip(ran(form, x), want):
            np.testing.assert_array_equal(got, wanted)


PAIRS = """
struct Found { float value; TYPE place; };
__device__ Found better(Found a, Found b) {
  return b.value > a.value || (b.value == a.value && b.place < a.place) ? b : a;
}
__global__ void place(const float* x, float* __restrict__ most, TYPE* __restrict__ where, int cols) {
  __shared__ Found part[4];
  int row = blockIdx.x;
  Found f{-INFINITY, NOWHERE};
  for (int c = threadIdx.x; c < cols; c += 128) f = better(f, Found{x[row * cols + c], c});
  for (int d = 16; d > 0; d /= 2) {
    Found o;
    o.value = __shfl_down_sync(0xffffffffu, f.value, d);
    o.place = __shfl_down_sync(0xffffffffu, f.place, d);
    f = better(f, o);
  }
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = f;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 4; ++w) f = better(f, part[w]);
    most[row] = f.value;
    where[row] = f.place;
  }
}
void go(const float* x, float* most, TYPE* where, int rows, int cols) { place<<<rows, 128>>>(x, most, where, cols); }
"""


@pytest.mark.parametrize("place", ["int", "long long"])
def test_pairs_in_structs(place: str) -> None:
    _, outcome = raised(PAIRS.replace("TYPE", place).replace("NOWHERE", "0"))
    assert [[a.op for a in s.accs] for s in walk(outcome.kernel.body) if isinstance(s, Reduce)] == [["max", "at"]]


def test_the_first_element_where_none_is_better_than_the_start() -> None:
    """The place that threads begin with gives way to that of an element as good as the start: of rows of -inf."""
    kernel, outcome = raised(PAIRS.replace("TYPE", "int").replace("NOWHERE", "2147483647"))
    reductions = [s for s in walk(outcome.kernel.body) if isinstance(s, Reduce)]
    assert [[a.op for a in s.accs] for s in reductions] == [["max", "at", "min"]]
    assert not [s for s in walk(outcome.kernel.body) if isinstance(s, For)]
    x = rows(">")
    x[5, 7:] = x[1, 0]
    x[5, :7] = np.nan
    got, want = ran(outcome.kernel, x), ran(kernel, x)
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)
    assert want[1][[1, 5]].tolist() == [0, 7]


def test_blocks_of_any_size_have_no_order_that_is_known() -> None:
    """With more threads the same tree takes other ones first: nothing is concluded from one size to another."""
    join = TREES["halves first"].format("vs[t + w] > vs[t]", "{ vs[t] = vs[t + w]; as[t] = as[t + w]; }", "")
    text = TREE.replace("STEP", BRANCH).replace("JOIN", join.replace("w = 64", "w = blockDim.x / 2"))
    for fixed, chosen in (
        ("c += 128", "c += blockDim.x"),
        ("[128]", "[1024]"),
        ("<<<rows, 128>>>", "<<<rows, size>>>"),
    ):
        text = text.replace(fixed, chosen)
    _, outcome = outcome_of(text.replace("rows, int cols) {", "rows, int cols, int size) {"))
    assert not isinstance(outcome, Result) or "(at)" not in print_kernel(outcome.kernel)
