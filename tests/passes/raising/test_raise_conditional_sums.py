"""Sums and counts to which some elements add nothing: labels to ignore, masks, comparisons."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Reduce
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.shared.accumulations import accumulations, always_updated
from tests.passes.raising.raised_once import raised

BLOCK_SUM = """
template <typename T> __device__ T block_sum(T v) {
  __shared__ T part[128];
  part[threadIdx.x] = v;
  __syncthreads();
  for (int s = 64; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  v = part[0];
  __syncthreads();
  return v;
}
"""

COUNTED = (
    BLOCK_SUM
    + """
__global__ void better(int* found, const float* x, const int* label, int rows, int n, int most) {
  int own = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const float mine = x[row * n + label[row]];
    int count = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      if (x[row * n + i] > mine || (x[row * n + i] == mine && i <= label[row])) ++count;
    count = block_sum(count);
    if (count <= most) ++own;
  }
  if (threadIdx.x == 0) atomicAdd(found, own);
}
void host(int* found, const float* x, const int* label, int rows, int n, int most) {
  better<<<rows, 128>>>(found, x, label, rows, n, most);
}
"""
)

WEIGHED = (
    BLOCK_SUM
    + """
__global__ void loss(float* out, const float* x, const int* label, const float* weight, int n, int ignored) {
  float sum = 0.0f, all = 0.0f;
  for (int i = threadIdx.x; i < n; i += 128) {
    const int k = label[i];
    if (k != ignored) {
      const float w = weight[i % 8];
      sum -= x[i] * w;
      all += w;
    }
  }
  sum = block_sum(sum);
  all = block_sum(all);
  if (threadIdx.x == 0) out[0] = sum / all;
}
void host(float* out, const float* x, const int* label, const float* weight, int n, int ignored) {
  loss<<<1, 128>>>(out, x, label, weight, n, ignored);
}
"""
)


@pytest.mark.parametrize(("source", "over"), [(COUNTED, "i in 0..n"), (WEIGHED, "i in 0..n")], ids=["count", "weigh"])
def test_elements_that_add_nothing_are_elements(source: str, over: str) -> None:
    kernel, outcome = raised(source)
    listing = print_kernel(outcome.kernel)
    assert [s for s in walk(outcome.kernel.body) if isinstance(s, Reduce)], listing
    assert f"over {over} @ [thread.x 128, seq]" in listing and "for " not in listing.split("launch")[1], listing
    reference = Reference(kernel, instances=6, seed=29)
    assert reference.differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


def test_a_row_a_block_is_what_that_block_counts() -> None:
    """``row += gridDim.x`` in a launch of as many blocks as rows goes on nowhere."""
    listing = print_kernel(raised(COUNTED)[1].kernel)
    assert "par row in 0..rows @ [block.x]" in listing


LOOP = """kernel k(x: f32 const*, y: f32*, n: i32)
  var sum: f32 = 0.0
  for i in 0..n
{body}
  y[0] = sum
"""


def updated(*lines: str) -> str | None:
    """The loop's body with what is always updated, as text; None where ``sum`` is no accumulator of it."""
    kernel = parse_kernel(LOOP.format(body="\n".join("    " + line for line in lines)))
    loop = kernel.body[1]
    split = accumulations(always_updated(loop.body))  # type: ignore[attr-defined]
    if split is None:
        return None
    assert [a.sym.name for a in split[1]] == ["sum"]
    return print_kernel(kernel.with_(body=(*kernel.body[:1], *always_updated(loop.body))))  # type: ignore[attr-defined]


def test_what_goes_on_elsewhere_is_updated_where_it_is() -> None:
    """Behind it nothing would be added."""
    text = print_kernel(
        kernel := parse_kernel(LOOP.format(body="    if x[i] > 0.0\n      sum += x[i]\n      continue"))
    )
    assert print_kernel(kernel.with_(body=always_updated(kernel.body[1].body))).count("sum_own") == 0, text  # type: ignore[attr-defined]


def test_one_update_is_a_choice_of_values() -> None:
    text = updated("if x[i] > 0.0", "  sum += x[i]")
    assert text is not None and "sum += x[i] > 0.0 ? x[i] : 0.0" in text


def test_updates_of_nested_conditions_are_one() -> None:
    text = updated("if x[i] > 0.0", "  sum += x[i]", "  if x[i] > 1.0", "    sum -= 1.0", "else", "  sum += 2.0")
    assert text is not None and text.count("sum += sum_own") == 1 and "var sum_own: f32 = 0.0" in text


@pytest.mark.parametrize(
    "lines",
    [
        ("if sum < 3.0", "  sum += x[i]"),
        ("if x[i] > 0.0", "  sum = x[i]"),
        ("if x[i] > 0.0", "  sum += x[i]", "else", "  sum = max(sum, x[i])"),
        ("if x[i] > 0.0", "  sum += x[i]", "  y[i] = sum"),
        ("if x[i] > 0.0", "  sum += x[i] * sum"),
        ("if x[i] > 0.0", "  sum += x[i]", "  break"),
    ],
    ids=["asks", "sets", "two-operations", "reads", "compounds", "leaves"],
)
def test_what_hangs_on_the_sum_so_far_is_no_sum(lines: tuple[str, ...]) -> None:
    assert updated(*lines) is None
