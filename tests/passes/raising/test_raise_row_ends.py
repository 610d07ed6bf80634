"""Rows of which each thread of a block has one element at most, and totals that nobody names."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc, Decl, Reduce, Select
from ktc.ir.text import parse_kernel, print_expr, print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.staging.chosen_values import with_chosen_values
from ktc.passes.raising.staging.row_ends import with_row_ends
from ktc.passes.shared.accumulations import accumulations

from .raised_once import raised

ROW = """
__global__ void rows(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float parts[2];
  int tid = threadIdx.x;
  TAKEN
  for (int o = 16; o > 0; o /= 2) sum = WITH;
  if (tid % 32 == 0) parts[tid / 32] = sum;
  __syncthreads();
  GIVEN
}
void run(const float* x, float* y, int many, int n) { rows<<<many, 64>>>(x, y, n); }
"""
READ = "x[blockIdx.x * n + tid]"
STARTING = f"float v = 0.0f; if (tid < n) v = {READ}; float sum = v * v;"
ADDED = "sum + __shfl_xor_sync(~0u, sum, o)"
SCALED = "float scale = rsqrtf((parts[0] + parts[1]) / n); if (tid < n) y[blockIdx.x * n + tid] = v * scale;"
READ_TWICE = f"float total = parts[0] + parts[1]; if (tid < n) y[blockIdx.x * n + tid] = {READ} / total;"


def source(taken: str = STARTING, given: str = SCALED, by: str = ADDED) -> str:
    return ROW.replace("TAKEN", taken).replace("GIVEN", given).replace("WITH", by)


CHOSEN = source(f"float v = tid < n ? {READ} : 0.0f; float sum = v * v;")


@pytest.mark.parametrize(
    "text",
    [
        source(),
        CHOSEN,
        source(f"float sum = 0.0f; if (tid < n) {{ float v = {READ}; sum = v * v; }}", READ_TWICE),
        source(f"float sum = 0.0f; if (tid < n) {{ float v = {READ}; sum += v * v; }}", READ_TWICE),
        source(f"float v = 0.0f, sum = 0.0f; if (tid < n) {{ v = {READ}; sum = v * v; }}"),
        source(f"float v = 0.0f; float w = v; if (tid < n) v = {READ} + w; float sum = v * v;"),
    ],
    ids=["starting", "chosen", "summed", "added", "both", "looked-at"],
)
def test_the_loops_of_a_row_end_where_it_does(text: str) -> None:
    kernel, outcome = raised(text)
    found = print_kernel(outcome.kernel)
    assert found.count("0..min(n, 64) @ [thread.x 64, seq]") == 2 and "tid < n" not in found, found
    assert "yield v * v" in found, found
    assert not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body)), found
    assert not any("a loop over the threads" in n for n in outcome.notes), outcome.notes
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


def test_the_loops_of_a_row_in_a_block_as_large_as_it() -> None:
    """The end of the row, rounded up to whole warps, is not less than the end of the row."""
    text = source(f"float sum = 0.0f; if (tid < n) {{ float v = {READ}; sum = v * v; }}", READ_TWICE)
    text = text.replace("parts[2]", "parts[32]").replace("rows<<<many, 64>>>", "rows<<<many, (n + 31) / 32 * 32>>>")
    total = "sum = tid % 32 < blockDim.x / 32 ? parts[tid % 32] : 0.0f;"
    total += f" for (int o = 16; o > 0; o /= 2) sum = {ADDED};"
    kernel, outcome = raised(text.replace("float total = parts[0] + parts[1];", f"{total} float total = sum;"))
    found = print_kernel(outcome.kernel)
    assert found.count(" in 0..n @ [thread.x 256, seq]") == 2 and "tid < n" not in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


@pytest.mark.parametrize(
    "text",
    [
        CHOSEN.replace(": 0.0f;", ": 1.0f;"),
        source(
            by="fmaxf(sum, __shfl_xor_sync(~0u, sum, o))",
            given=SCALED.replace("parts[0] + ", "fmaxf(parts[0], ").replace("parts[1])", "parts[1]))"),
        ),
        source("float v = 0.0f; if (tid < n) v = x[blockIdx.x * n + tid]; float sum = v * v + 1.0f;"),
    ],
    ids=["counted", "largest", "more"],
)
def test_what_threads_without_an_element_have_counts(text: str) -> None:
    """Where that is not nothing, their loop goes through all of them."""
    kernel, outcome = raised(text)
    found = print_kernel(outcome.kernel)
    assert "over tid in 0..64 @ [thread.x 64]" in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


@pytest.mark.parametrize(
    ("total", "more"),
    [
        ("float r = rsqrtf((part[0] + part[1] + part[2] + part[3]) / d);", "* r"),
        ("", "/ (part[0] + part[1] + part[2] + part[3] + 1.0f)"),
        ("float r = 2.0f * fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));", "* r"),
    ],
    ids=["in-a-value", "in-a-loop", "largest"],
)
def test_a_total_in_the_midst_of_an_expression(total: str, more: str) -> None:
    text = """
    __global__ void rows(float* __restrict__ y, const float* __restrict__ x, int d) {
      __shared__ float part[4];
      float s = 0.0f;
      for (int i = threadIdx.x; i < d; i += 128) s = UPDATE;
      for (int o = 16; o > 0; o >>= 1) s = WITH;
      if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
      __syncthreads();
      TOTAL
      for (int i = threadIdx.x; i < d; i += 128) y[blockIdx.x * d + i] = x[blockIdx.x * d + i] MORE;
    }
    void go(float* y, const float* x, int rows_, int d) { rows<<<rows_, 128>>>(y, x, d); }
    """
    largest = "fmaxf" in total
    update, by = (
        ("fmaxf(s, fabsf(x[blockIdx.x * d + i]))", "fmaxf(s, __shfl_xor_sync(~0u, s, o))")
        if largest
        else ("s + x[blockIdx.x * d + i]", "s + __shfl_xor_sync(~0u, s, o)")
    )
    text = text.replace("UPDATE", update).replace("WITH", by).replace("TOTAL", total).replace("MORE", more)
    kernel, outcome = raised(text)
    found = print_kernel(outcome.kernel)
    assert found.count("0..d @ [thread.x 128, seq]") == 2 and found.count("reduce(") == 1, found
    assert "part[" not in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


def test_cells_that_are_read_before_others_fill_them_are_told() -> None:
    """What stands in front of the barrier is no total: each thread reads what others have yet to write."""
    text = source(given=SCALED).replace("__syncthreads();\n", "float early = parts[0] + parts[1]; __syncthreads();\n")
    text = text.replace("v * scale", "v * scale + early * 0.0f")
    _, outcome = raised(text)
    assert any("defect: race: parts[0]" in n for n in outcome.notes), outcome.notes


PAIRS = """
__global__ void pairs(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float parts[2];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n / 2; i += 64) {
    float a = x[blockIdx.x * n + i * 2], b = x[blockIdx.x * n + i * 2 + 1];
    UPDATES
  }
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1];
}
void run(const float* x, float* y, int many, int n) { pairs<<<many, 64>>>(x, y, n); }
"""


@pytest.mark.parametrize(
    ("updates", "value"),
    [
        ("sum += a; sum += b * b;", "yield a + b * b"),
        ("sum = fmaf(a, a, sum); sum = fmaf(b, b, sum);", "yield a * a + b * b"),
    ],
)
def test_several_updates_of_a_sum_are_one(updates: str, value: str) -> None:
    kernel, outcome = raised(PAIRS.replace("UPDATES", updates))
    found = print_kernel(outcome.kernel)
    assert "over i in 0..n / 2 @ [thread.x 64, seq]" in found and value in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


def test_updates_that_are_several() -> None:
    """Values are joined only of one operation, and only where they are still what they were at the end of the round."""

    def of(updates: str) -> list[str] | None:
        text = (
            f"__global__ void k(int* y, int n) {{ int s = 0; for (int i = 0; i < n; ++i) {{ {updates} }} y[0] = s; }}"
        )
        (loop,) = (s for s in walk(load(text, name="source.cu").body) if hasattr(s, "step"))
        split = accumulations(loop.body, joined=True)
        return None if split is None else [a.op for a in split[1]]

    assert of("s += i; s += i * i;") == ["+"]
    assert of("int a = i; s += a; a = 3; s += a;") is None
    assert of("s += i; s *= 2;") is None
    assert of("s += i; s += s;") is None


FORM = """
kernel k(x: f32 const* restrict, y: f32* restrict, n: i32)
  launch grid(1) block(64)
  reduce(+) s: f32 = 0.0 over t in 0..64 @ [thread.x 64]
    let v: f32 = t < n ? x[t] : 0.0
    y[t + 1] = v
    yield v
  y[0] = s
"""


def test_what_threads_without_an_element_do_besides_is_done() -> None:
    body = parse_kernel(FORM).body
    assert with_row_ends(body) == body
    (reduced, _) = with_row_ends(parse_kernel(FORM.replace("    y[t + 1] = v\n", "")).body)
    assert isinstance(reduced, Reduce) and print_expr(reduced.hi) == "min(n, 64)"


def test_what_may_be_computed_under_a_condition_only_is_chosen() -> None:
    """A quotient of what is not zero there."""
    text = "float sum = 0.0f; if (n > 0 && tid < n) { int row = tid / n; float v = x[row + tid]; sum = v; }"
    kernel = load(source(text, READ_TWICE), name="source.cu")
    chosen = [s for s in walk(with_chosen_values(kernel.body)) if isinstance(s, Decl) and isinstance(s.init, Select)]
    assert [s.sym.name for s in chosen] == ["row", "v", "sum"], chosen
