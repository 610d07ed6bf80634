"""Rows of vectors that threads keep in private arrays, a vector a round, as loops over the rows' elements."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, If, Par, Reduce
from ktc.ir.text import parse_kernel, print_expr, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.check.host_sized_launches import with_decided_extents
from ktc.passes.raising.staging.known_ends import with_known_ends
from ktc.passes.raising.staging.row_ends import with_row_ends
from ktc.passes.raising.staging.row_rounds import with_row_rounds

from .raised_once import raised

NORM = """
__global__ void norm(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ g, int n) {
  __shared__ float parts[4];
  const int tid = threadIdx.x, first = tid * 4;
  const long long row = (long long)blockIdx.x * n;
  KEPT
  float s = 0.0f;
  for (int i = 0; i < 2; ++i) {
    const int at = i * 512 + first;
    TAKEN
  }
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffff, s, o);
  if (tid % 32 == 0) parts[tid / 32] = s;
  __syncthreads();
  const float scale = rsqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / n);
  for (int i = 0; i < 2; ++i) {
    const int at = i * 512 + first;
    GIVEN
  }
}
void run(float* y, const float* x, const float* g, int n, int rows) { norm<<<rows, 128>>>(y, x, g, n); }
"""
NOTHING = "make_float4(0.0f, 0.0f, 0.0f, 0.0f)"
READ = "*(const float4*)(x + row + at)"
SQUARES = "s += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;"
SCALED = """if (at < n) {
  float4 w = *(const float4*)(g + at);
  w.x *= v[i].x * scale; w.y *= v[i].y * scale; w.z *= v[i].z * scale; w.w *= v[i].w * scale;
  *(float4*)(y + row + at) = w;
}"""
FOUR = f"""float4 w = {NOTHING};
if (at < n) w = {READ};
v[i * 4] = w.x; v[i * 4 + 1] = w.y; v[i * 4 + 2] = w.z; v[i * 4 + 3] = w.w;"""
EACH = "for (int j = 0; j < 4; ++j) s += v[i * 4 + j] * v[i * 4 + j];"
GIVEN = f"""float w[4];
*(float4*)w = {NOTHING};
if (at < n) *(float4*)w = *(const float4*)(g + at);
for (int j = 0; j < 4; ++j) {{ v[i * 4 + j] *= scale; v[i * 4 + j] *= w[j]; }}
if (at < n) *(float4*)(y + row + at) = *(float4*)(v + i * 4);"""
SHIFTED = "for (int j = 0; j < 4; ++j) v[i * 4 + j] += g[at + j];"


def source(kept: str, taken: str, given: str) -> str:
    return NORM.replace("KEPT", kept).replace("TAKEN", taken).replace("GIVEN", given)


@pytest.mark.parametrize(
    ("text", "of_a_row"),
    [
        (source("float4 v[2];", f"v[i] = at < n ? {READ} : {NOTHING}; {SQUARES}", SCALED), "x[row + i_1]"),
        (source("float4 v[2];", f"v[i] = {NOTHING}; if (at < n) v[i] = {READ}; {SQUARES}", SCALED), "x[row + i_1]"),
        (source("float4 v[2];", f"if (at < n) {{ v[i] = {READ}; {SQUARES} }}", SCALED), "x[row + i_1]"),
        (source("float v[8];", f"{FOUR} {EACH}", GIVEN), "x[row + i_1]"),
        (source("float v[2][4];", f"{FOUR} {EACH}".replace("i * 4 + ", "i][").replace("[i * 4]", "[i][0]"),
                GIVEN.replace("v[i * 4 + j]", "v[i][j]").replace("v + i * 4", "v[i]")), "x[row + i_1]"),
        (source("float v[8];", f"{FOUR} if (at < n) {{ {SHIFTED} }} {EACH}", GIVEN), "x[row + i_1] + g[i_1]"),
    ],
    ids=["vectors", "zeroed", "guarded", "elements", "rows", "updated"],
)  # fmt: skip
def test_rows_of_vectors_are_loops_over_their_elements(text: str, of_a_row: str) -> None:
    kernel, outcome = raised(text)
    found = print_kernel(outcome.kernel)
    assert found.count("in 0..min(n, 1024) @ [vec 4, thread.x 128, unroll 2]") == 2, found
    assert not any(isinstance(s, Alloc | If) for s in walk(outcome.kernel.body)), found
    assert of_a_row in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


ONE = """
__global__ void norm(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ g, int n) {
  __shared__ float parts[4];
  const int tid = threadIdx.x, at = tid * 4;
  const long long row = (long long)blockIdx.x * n;
  TAKEN
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffff, s, o);
  if (tid % 32 == 0) parts[tid / 32] = s;
  __syncthreads();
  const float scale = rsqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / n);
  GIVEN
}
void run(float* y, const float* x, const float* g, int n, int rows) { norm<<<rows, 128>>>(y, x, g, n); }
"""
OF_LANES = "float s = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;"
OF_CELLS = "float s = 0.0f; for (int j = 0; j < 4; ++j) s += v[j] * v[j];"


@pytest.mark.parametrize(
    ("taken", "given"),
    [
        (f"float4 v = at < n ? {READ} : {NOTHING}; {OF_LANES}",
         "v.x *= scale; v.y *= scale; v.z *= scale; v.w *= scale; if (at < n) *(float4*)(y + row + at) = v;"),
        (f"float v[4]; *(float4*)v = {NOTHING}; if (at < n) *(float4*)v = {READ}; {OF_CELLS}",
         "for (int j = 0; j < 4; ++j) v[j] *= scale; if (at < n) *(float4*)(y + row + at) = *(float4*)v;"),
    ],
    ids=["lanes", "cells"],
)  # fmt: skip
def test_rows_of_a_vector_a_thread_are_loops_over_their_elements(taken: str, given: str) -> None:
    kernel, outcome = raised(ONE.replace("TAKEN", taken).replace("GIVEN", given))
    found = print_kernel(outcome.kernel)
    assert found.count("in 0..min(n, 512) @ [vec 4, thread.x 128, seq]") == 2, found
    assert not any(isinstance(s, Alloc | If) for s in walk(outcome.kernel.body)), found
    assert "= x[row + tid_1] * scale" in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


def test_what_the_source_reads_one_by_one_is_not_read_as_a_vector() -> None:
    """Nobody says that it is aligned to that."""
    taken = "for (int j = 0; j < 4; ++j) { v[i * 4 + j] = at < n ? x[row + at + j] : 0.0f; s += v[i * 4 + j]; }"
    given = "for (int j = 0; j < 4; ++j) if (at < n) y[row + at + j] = v[i * 4 + j] * scale;"
    kernel, outcome = raised(source("float v[8];", taken, given))
    found = print_kernel(outcome.kernel)
    assert " +: " not in found and "vec 4" not in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


PAIRS = """
#include <cuda_fp16.h>
__global__ void norm(__half2* __restrict__ x, int n) {
  __shared__ float parts[4];
  const int tid = threadIdx.x;
  const long long at = (long long)blockIdx.x * n + tid;
  const __half2 zero = __half2(__float2half(0.0f), __float2half(0.0f));
  __half2 v = tid < n ? x[at] : zero;
  float2 w = __half22float2(v);
  float s = w.x * w.x + w.y * w.y;
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffff, s, o);
  if (tid % 32 == 0) parts[tid / 32] = s;
  __syncthreads();
  const float scale = rsqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / n);
  w.x *= scale; w.y *= scale;
  v = __float22half2_rn(w);
  if (tid < n) x[at] = v;
}
void run(__half2* x, int n, int rows) { norm<<<rows, 128>>>(x, n); }
"""


def test_rows_of_vectors_that_memory_holds_as_such() -> None:
    kernel, outcome = raised(PAIRS)
    found = print_kernel(outcome.kernel)
    assert found.count("in 0..min(n, 128) * 2 @ [vec 2, thread.x 128, seq]") == 2, found
    assert not any(isinstance(s, Alloc | If) for s in walk(outcome.kernel.body)), found
    flat = {"x": np.arange(1, 61, dtype=np.float16), "n": 10, "rows": 3}
    want = run(kernel, {**flat, "x": flat["x"].reshape(30, 2)}, domain="field")
    got = run(outcome.kernel, flat, domain="field")
    assert want.ok and got.ok
    np.testing.assert_array_equal(got.outputs["x"], want.outputs["x"].reshape(-1))


ROUNDS = """
__global__ void norm(float* __restrict__ y, const float* __restrict__ x, int n) {
  __shared__ float parts[4];
  const int tid = threadIdx.x;
  float v[8];
  float s = 0.0f;
  for (long long i = 0; blockDim.x * i + tid < n; ++i) {
    long long k = blockDim.x * i + tid;
    v[i] = x[blockIdx.x * n + k];
    s += v[i] * v[i];
  }
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffff, s, o);
  if (tid % 32 == 0) parts[tid / 32] = s;
  __syncthreads();
  const float scale = rsqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / n);
  for (long long i = 0; blockDim.x * i + tid < n; ++i) y[blockIdx.x * n + blockDim.x * i + tid] = v[i] * scale;
}
void run(float* y, const float* x, int n, int rows) { norm<<<rows, 128>>>(y, x, n); }
"""


def test_rounds_that_end_by_their_element_are_loops_over_the_elements() -> None:
    kernel, outcome = raised(ROUNDS)
    found = print_kernel(outcome.kernel)
    assert found.count("in 0_i64..n @ [thread.x 128, seq]") == 2, found
    assert not any(isinstance(s, Alloc | If) for s in walk(outcome.kernel.body)), found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


@pytest.mark.parametrize(
    "given",
    [
        GIVEN.replace("v[i * 4 + j] *= scale", "v[i * 4 + j] = v[(1 - i) * 4 + j] * scale"),
        GIVEN.replace("v[i * 4 + j] *= scale", "v[i * 2 + j] *= scale"),
    ],
    ids=["of-another-round", "of-several"],
)
def test_rows_of_which_a_round_takes_more_than_its_part_stay(given: str) -> None:
    kernel, outcome = raised(source("float v[8];", f"{FOUR} {EACH}", given))
    assert any(isinstance(s, Alloc) for s in walk(outcome.kernel.body)), print_kernel(outcome.kernel)
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


def test_an_array_that_is_made_of_what_changes_is_no_row() -> None:
    text = """kernel k(x: f32 const* restrict, y: f32* restrict)
      array v: f32[8]
      var s: f32 = 0.0
      for i in 0..2
        s += x[i]
        v[i * 4 +: 4] = f32x4{s, s, x[i], 1.0}
      for j in 0..2
        y[j * 4 +: 4] = v[j * 4 +: 4]"""
    body = parse_kernel(text).body
    assert with_row_rounds(body) == (body, ())
    added = parse_kernel(text.replace("{s, s,", "{x[7] * x[i] + x[i + 1], 1.0,")).body
    assert with_row_rounds(added) == (added, ())  # a compiler may round that in two ways
    again, found = with_row_rounds(parse_kernel(text.replace("{s, s,", "{x[7] * x[i], x[i + 1] + x[3],")).body)
    assert [s.sym.name for s in found] == ["v"]
    assert not any(isinstance(s, Alloc) and s is found[0] for s in walk(again))


FORM = """
kernel k(x: f32 const* restrict, y: f32* restrict, n: i32 range 1..MOST)
  launch grid(1) block(64)
  reduce(+) s: f32 = 0.0 over t in 0..512 @ [thread.x 64, unroll 8]
    let at: i32 = t * 2
    array v: f32[2]
    v[0] = 0.0
    v[1] = 0.0
    if at < n
      v[0 +: 2] = x[at +: 2]
      y[at] = v[0]
    BESIDES
    var part: f32 = 0.0
    for j in 0..2
      part += v[j] * v[j]
    yield part
  y[0] = s
"""


def form(most: int = 4096, besides: str = "v[1] += v[0]") -> Kernel:
    return parse_kernel(FORM.replace("MOST", str(most)).replace("BESIDES", besides))


def test_rounds_that_end_with_the_row_do_so_whatever_their_part_is_kept_in() -> None:
    (reduced, _) = with_row_ends(form().body)
    assert isinstance(reduced, Reduce) and print_expr(reduced.hi) == "min(cdiv(n, 2), 512)"
    assert not any(isinstance(s, If) for s in walk(reduced.body))


@pytest.mark.parametrize("besides", ["y[at + 1] = 1.0", "v[0] += 1.0", "v[0] = x[at]"])
def test_rounds_beyond_the_row_that_do_something_are_done(besides: str) -> None:
    body = form(besides=besides).body
    assert with_row_ends(body) == body


@pytest.mark.parametrize(("most", "end"), [(1024, "cdiv(n, 2)"), (1025, "min(cdiv(n, 2), 512)")])
def test_a_loop_ends_at_what_is_known_to_be_less(most: int, end: str) -> None:
    kernel = form(most)
    known = with_known_ends(kernel.with_(body=with_row_ends(kernel.body)))
    assert [print_expr(s.hi) for s in walk(known.body) if isinstance(s, Par | Reduce)] == [end]


def test_a_grid_of_what_sizes_decide_is_told_as_what_it_is() -> None:
    kernel = parse_kernel("""kernel k(y: f32*, host rows: i32 range 1..9)
      launch grid(((rows < 1 ? rows : 1) + rows - 1) / (rows < 1 ? rows : 1)) block(64)
      y[blockIdx.x] = 1.0""")
    assert kernel.launch is not None
    assert print_expr(with_decided_extents(kernel, kernel.launch).grid[0]) == "rows"


def test_a_row_that_is_read_again_is_kept_where_no_pass_follows() -> None:
    _, outcome = raised(source("float v[8];", f"{FOUR} if (at < n) {{ {SHIFTED} }} {EACH}", GIVEN))
    assert isinstance(outcome, Result)
    assert any("row-cache" in note and "where=registers" in note for note in outcome.notes), outcome.notes


GUARDED = """kernel k(x: f32 const* restrict, y: f32* restrict, n: i32, host rows: i32)
  launch grid(rows) block(64)
  if threadIdx.x < n
    y[blockIdx.x * n + threadIdx.x] = x[blockIdx.x * n + threadIdx.x]
"""
READS = """kernel k(x: f32 const* restrict, y: f32* restrict, n: i32, host rows: i32)
  launch grid(rows) block(64)
  par b in 0..rows @ [block.x]
    par t in 0..64 @ [thread.x 64]
      let v: f32 = VALUE
      if t < n
        y[b * n + t] = v
"""


def test_what_is_read_again_lies_within_what_the_source_reads() -> None:
    """Values that nobody looks at differ from none, but they are read all the same."""
    kernel = parse_kernel(GUARDED)
    reference = Reference(kernel)
    for value, found in (("t < n ? x[b * n + t] : 0.0", ""), ("x[b * n + t]", "'x' is touched at ")):
        form = parse_kernel(READS.replace("VALUE", value))
        assert reference.reaches_further(form).startswith(found) and bool(reference.reaches_further(form)) == bool(
            found
        )
