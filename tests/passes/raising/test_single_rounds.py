"""A loop that runs once whatever the sizes are is no loop; any other is kept."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.raising.normalise.nests import closed_forms
from ktc.passes.raising.normalise.single_rounds import with_own_rounds, without_single_rounds
from tests.passes.checks import applied, body_of

from .raised_once import raised

KERNEL = """\
kernel k(y: i32*, row: i32, n: i32)
  var last: i32 = row + 1
  for p in {range}
    {first}
    y[p] = p
"""


def plain(range_: str, first: str = "y[0] = n") -> str:
    k = parse_kernel(KERNEL.format(range=range_, first=first))
    return print_kernel(k.with_(body=without_single_rounds(k.body)))


@pytest.mark.parametrize(
    "range_, first",
    [
        ("row..last", "y[0] = n"),
        ("row..row + 1", "y[0] = n"),
        ("3..4", "y[0] = n"),
        ("row..row + 3 step 4", "y[0] = n"),
        ("row * 2..last + row", "y[0] = n"),
        ("row..last", "for q in 0..n\n      break"),
    ],
)
def test_loops_that_run_once(range_: str, first: str) -> None:
    assert "for p" not in plain(range_, first)


@pytest.mark.parametrize(
    "range_, first",
    [
        ("row..n", "y[0] = n"),
        ("row..row + 2", "y[0] = n"),
        ("row..last", "last = n"),
        ("row..last", "if n > 0\n      break"),
        ("row..last", "if n > 0\n      continue"),
    ],
)
def test_loops_that_may_run_more_or_less_often_stay(range_: str, first: str) -> None:
    assert "for p" in plain(range_, first)


@pytest.mark.parametrize("range_", ["4..3", "3..3", "row..row"])
def test_loops_that_never_run_are_gone(range_: str) -> None:
    assert "for p" not in plain(range_)
    assert "y[p]" not in plain(range_)


def test_a_loop_over_halves_of_nothing_is_gone() -> None:
    k = parse_kernel("kernel k(y: i32*)\n  for m = 1 / 2; m > 0; m / 2\n    y[m] = shfl_xor(m, m)\n  y[0] = 1\n")
    assert len(without_single_rounds(k.body)) == 1


ROWS = """
template <int ROWS>
__global__ void sums(const float* x, float* y, int d) {
  __shared__ float part[128];
  int first = blockIdx.x * ROWS, last = first + ROWS;
  for (int row = first; row < last; ++row) {
    part[threadIdx.x] = 0;
    for (int i = threadIdx.x; i < d; i += 128) part[threadIdx.x] += x[row * d + i];
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
      if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
      __syncthreads();
    }
    if (threadIdx.x == 0) y[row] = part[0];
    __syncthreads();
  }
}
void launch(const float* x, float* y, int n, int d) { sums<1><<<n, 128>>>(x, y, d); }
"""


def test_a_row_a_block_is_no_loop_over_rows() -> None:
    _, result = raised(ROWS)
    assert "for " not in print_kernel(result.kernel)


def test_what_each_iteration_declares_goes_on_in_none() -> None:
    """What is left of a loop in a loop: ``for (at = first, j = 0; j < 1; ++j, at += 64)``."""
    k = parse_kernel("kernel k(y: i32*, n: i32)\n  for i in 0..n\n    var p: i32 = 7\n    y[i] = p\n    p += 64\n")
    assert "y[i] = p\n" in print_kernel(k.with_(body=closed_forms(k.body)))


MOVED = """
kernel k(y: f32* noalias, x: f32 const* noalias, n: i32 range 1..{most}, m: i32 range 1..64)
  launch grid(min((n + 63) / 64, 16)) block(64)
  var row: i64 = 0_i64
  for i = (blockIdx.x * 64 + threadIdx.x) as i32; i < n; i + 64 * min((n + 63) / 64, 16)
    row += i * m
    var s: f32 = 0.0
    for j in 0..m
      s += x[row + j]
    y[i] = s
"""


def test_a_pointer_that_each_iteration_moves_on_is_set_once_where_each_thread_has_one() -> None:
    text = body_of(applied(parse_kernel(MOVED.format(most=1024)), "raise"))
    assert "par i in 0..n @ [thread.x 64, block.x]" in text and "for i" not in text


def test_a_pointer_that_each_iteration_moves_on_stays_where_threads_may_have_several() -> None:
    """Of 1,025 elements the first thread has two: its second iteration begins where the first one ended."""
    k = parse_kernel(MOVED.format(most=1025))
    assert with_own_rounds(k) == k.body
    assert "par i in 0..n @" not in body_of(applied(k, "raise"))


@pytest.mark.parametrize(("most", "once"), [(1 << 28, True), ((1 << 32) - 64, False)])
def test_a_counter_that_may_wrap_may_count_on(most: int, once: bool) -> None:
    """Of 2^32 - 64 threads the last ones come to small numbers again."""
    k = parse_kernel(
        f"kernel k(y: f32*, n: u32 range 1..{most})\n  launch grid((n + 63_u32) / 64_u32) block(64)\n"
        "  var row: u32 = 0_u32\n"
        "  for i: u32 = blockIdx.x * 64_u32 + threadIdx.x; i < n; i + 64_u32 * ((n + 63_u32) / 64_u32)\n"
        "    row += i\n    y[row] = 1.0\n"
    )
    assert (with_own_rounds(k) != k.body) == once
