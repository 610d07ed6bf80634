"""Arrays of pointers in structs that a kernel is passed: the pointer that an index chooses."""

from __future__ import annotations

import numpy as np

import ktc
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.text import print_kernel
from ktc.scaffold import draft

SUM = """
struct Parts { const float* at[COUNT]; float* to[2]; int n; };
BEFORE
__global__ void total(Parts parts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < parts.n; ++k) sum += PART[i];
  parts.to[i % 2][i / 2] = sum;
}
void go(Parts parts, int n) { total<<<(n + 63) / 64, 64>>>(parts, n); }
"""
PLAIN = {"COUNT": "3", "BEFORE": "", "PART": "parts.at[k]"}


def source(**how: str) -> str:
    text = SUM
    for name, by in {**PLAIN, **how}.items():
        text = text.replace(name, by)
    return text


def test_an_index_chooses_and_a_store_goes_where_it_says() -> None:
    kernel = load(source(), name="k.cu")
    assert "u64" not in print_kernel(kernel)
    rows = {f"parts_at_{k}": np.arange(8, dtype=np.float32) * 10**k for k in range(3)}
    outs = {f"parts_to_{k}": np.zeros(4, np.float32) for k in range(2)}
    result = run(kernel, {**rows, **outs, "parts_n": 3, "n": 8})
    sums = np.arange(8, dtype=np.float32) * 111
    assert result.findings == []
    assert np.array_equal(result.outputs["parts_to_0"], sums[::2])
    assert np.array_equal(result.outputs["parts_to_1"], sums[1::2])


def test_beyond_the_last_there_is_none() -> None:
    kernel = load(source(), name="k.cu")
    rows = {f"parts_at_{k}": np.zeros(8, np.float32) for k in range(3)}
    outs = {f"parts_to_{k}": np.zeros(4, np.float32) for k in range(2)}
    assert run(kernel, {**rows, **outs, "parts_n": 4, "n": 8}).findings


def test_a_draft_has_no_more_of_them_than_there_are() -> None:
    d = draft(ktc.loads(source()).kernel)
    assert not [x for x in d.doubts if "run at" in x]
    assert all(sizes.get("parts_n", 1) <= 3 for _, sizes, _ in d.scenarios)


def test_more_of_them_are_rows_of_one_buffer() -> None:
    kernel = load(source(COUNT="20"), name="k.cu")
    assert "parts_at: f32 const* readonly rows parts_at_row" in print_kernel(kernel)
    rows = np.arange(8 * 20, dtype=np.float32).reshape(20, 8)
    outs = {f"parts_to_{k}": np.zeros(4, np.float32) for k in range(2)}
    result = run(kernel, {"parts_at": rows, **outs, "parts_n": 3, "n": 8, "parts_at_row": 8})
    assert result.findings == []
    assert np.array_equal(result.outputs["parts_to_1"], rows[:3].sum(axis=0)[1::2])


def test_few_that_are_handed_on_stay_in_memory() -> None:
    before = "__device__ const float* of(const float* const* all, int k) { return all[k]; }"
    assert "u64" in print_kernel(load(source(BEFORE=before, PART="of(parts.at, k)"), name="k.cu"))
