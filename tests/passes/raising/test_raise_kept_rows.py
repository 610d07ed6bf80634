"""Rows of which each thread keeps a few elements, whose ends lie anywhere, and which it updates in place."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.recognise.loop_exits import breaks_to_continues

from .raised_once import outcome_of, raised

ROUNDS = "for (int k = 0; k < 3; k++) { int i = threadIdx.x + 64 * k; GUARD BODY }"
LEAVING = ROUNDS.replace("GUARD", "if (i >= n) break;")

TOTAL = """
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  sum = lane < 2 ? parts[lane] : 0.0f;
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
"""
"""All threads' ``sum``, through the same shared array and at the same place of it each time."""

KERNEL = """
__global__ void centred(const float* __restrict__ x, float* __restrict__ y, float eps, int n) {
  __shared__ float parts[2];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  ARRAY
  float sum = 0.0f;
  FIRST
  TOTAL
  float mean = sum / n;
  sum = 0.0f;
  __syncthreads();
  SECOND
  TOTAL
  float scale = rsqrtf(sum / n + eps);
  LAST
}
void run(const float* x, float* y, float eps, int rows, int n) { centred<<<rows, 64>>>(x, y, eps, n); }
"""


def source(array: str, first: str, second: str, last: str, rounds: str = LEAVING) -> str:
    text = KERNEL.replace("TOTAL", TOTAL).replace("ARRAY", array)
    for name, body in (("FIRST", first), ("SECOND", second), ("LAST", last)):
        text = text.replace(name, rounds.replace("BODY", body))
    return text


READ_AGAIN = source(
    "",
    "sum += x[blockIdx.x * n + i];",
    "float d = x[blockIdx.x * n + i] - mean; sum += d * d;",
    "y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - mean) * scale;",
)
UPDATED = source(
    "float v[3];",
    "v[k] = x[blockIdx.x * n + i]; sum += v[k];",
    "float d = v[k] - mean; v[k] = d; sum += d * d;",
    "y[blockIdx.x * n + i] = v[k] * scale;",
)
COLUMNS = source(
    "float v[3][2];",
    "v[k][0] = x[blockIdx.x * n + i]; v[k][1] = fabsf(v[k][0]); sum += v[k][0];",
    "v[k][0] -= mean; sum = fmaf(v[k][0], v[k][0], sum);",
    "y[blockIdx.x * n + i] = v[k][0] * scale + v[k][1];",
)
NESTED = source(
    "float v[3];",
    "v[k] = x[blockIdx.x * n + i]; sum += v[k];",
    "v[k] -= mean; sum += v[k] * v[k];",
    "y[blockIdx.x * n + i] = v[k] * scale;",
    ROUNDS.replace("GUARD", "if (i < n) {").replace("BODY", "BODY }"),
)
BY_LANES = UPDATED.replace("int i = threadIdx.x + 64 * k;", "int i = warp * 32 + lane + k * 64;")


@pytest.mark.parametrize(
    "text",
    [READ_AGAIN, UPDATED, COLUMNS, NESTED, BY_LANES],
    ids=["read-again", "updated", "columns", "nested", "by-lanes"],
)
def test_a_row_of_any_length_in_a_known_number_of_rounds(text: str) -> None:
    """Two sums and a loop, all over as much of the row as the rounds reach, and no array."""
    kernel, outcome = raised(text)
    found = print_kernel(outcome.kernel)
    assert found.count("0..min(n, 192) @ [thread.x 64, seq]") == 3 and found.count("reduce(+)") == 2, found
    assert not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body)), found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


@pytest.mark.parametrize("text", [UPDATED, COLUMNS], ids=["updated", "columns"])
def test_a_row_in_one_round(text: str) -> None:
    """The loop over rounds is known to be one of a single round, and the row is one all the same."""
    _, outcome = raised(text.replace("k < 3", "k < 1").replace("float v[3]", "float v[1]"))
    found = print_kernel(outcome.kernel)
    assert found.count("0..min(n, 64) @ [thread.x 64, seq]") == 3, found
    assert not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body)), found


def test_elements_that_were_lanes_of_a_vector() -> None:
    """What an element was made of is a lane of a vector that only its own loop has: it is read by itself."""
    text = COLUMNS.replace("x[blockIdx.x * n + i];", "fminf(w.x, 9.0f);").replace("fabsf(v[k][0]);", "w.y;")
    text = text.replace("if (i >= n) break; v[k][0] = ", "if (i >= n) break; float2 w = x2[i]; v[k][0] = ", 1)
    text = text.replace("float sum", "const float2* x2 = (const float2*)(x + blockIdx.x * n * 2); float sum", 1)
    kernel, outcome = raised(text)
    assert not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body)), print_kernel(outcome.kernel)
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


@pytest.mark.parametrize("value", ["x[blockIdx.x * n + tid]", "tid < n ? x[blockIdx.x * n + tid] : 0.0f"])
def test_one_element_a_thread_is_read_again(value: str) -> None:
    """A variable that each thread keeps across the exchange is no array of the block."""
    text = """
    __global__ void rows(const float* __restrict__ x, float* __restrict__ y, int n) {
      __shared__ float parts[2];
      int tid = threadIdx.x;
      float v = VALUE;
      float sum = v * v;
      for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
      if (tid % 32 == 0) parts[tid / 32] = sum;
      __syncthreads();
      float total = parts[0] + parts[1];
      if (tid < n) y[blockIdx.x * n + tid] = v / total;
    }
    void run(const float* x, float* y, int many, int n) { rows<<<many, 64>>>(x, y, n); }
    """
    kernel, outcome = raised(text.replace("VALUE", value))
    found = print_kernel(outcome.kernel)
    assert not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body)), found
    assert "yield v * v" in found, found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


def test_a_race_of_the_source_is_told() -> None:
    """Without the barrier between the two sums, warps may fill the array that others still read: what is raised says
    so, and so does the refusal where nothing is."""
    racing = READ_AGAIN.replace("sum = 0.0f;\n  __syncthreads();", "sum = 0.0f;")
    assert racing != READ_AGAIN
    _, outcome = raised(racing)
    told = [n for n in outcome.notes if "defect: race: parts[0]" in n]
    assert told and told[0].startswith("source.cu:") and "in all launches of the check" in told[0], outcome.notes
    assert not any("defect" in n for n in raised(READ_AGAIN)[1].notes)
    swapped = racing.replace("sum = lane < 2 ? parts[lane] : 0.0f;", "sum = lane < 2 ? parts[lane] * lane : 0.0f;")
    _, refused = outcome_of(swapped)
    assert isinstance(refused, Refused) and "race: parts[0]" in refused.why and refused.locs, refused


@pytest.mark.parametrize(
    "old, new",
    [
        ("v[k] = d;", "if (d > 0.0f) v[k] = d;"),  # the others keep their first value
        ("v[k] = d;", "v[k] = d; v[0] += 1.0f;"),
        ("y[blockIdx.x * n + i] = v[k]", "y[blockIdx.x * n + i] = v[2 - k]"),
        ("if (i >= n) break; v[k] = x", "if (i >= n) break; if (x[blockIdx.x * n + i] < 0.0f) break; v[k] = x"),
    ],
    ids=["some-elements", "one-of-them", "other-order", "until-a-value"],
)
def test_other_updates_keep_their_meaning(old: str, new: str) -> None:
    assert old in UPDATED
    kernel, outcome = outcome_of(UPDATED.replace(old, new))
    if (found := getattr(outcome, "kernel", None)) is not None:
        assert Reference(kernel, instances=5, seed=21).differs(found) == ""


@pytest.mark.parametrize("leave", [
    "if (x[i] < 0.0f) break;",  # the next one may be positive
    "if (n >= i) break;",
    "if (i % 5 >= n) break;",
    "if (k >= n) break;",  # all threads leave: the rest of the rounds is not gone through
    "sum += 1.0f; if (i >= n) break;",
])  # fmt: skip
def test_breaks_that_leave_more_than_they_skip_stay(leave: str) -> None:
    kernel = load(READ_AGAIN.replace("if (i >= n) break;", leave), name="k.cu")
    assert breaks_to_continues(kernel.body) == kernel.body
