"""Addresses that are read from memory move with what they are read by."""

from __future__ import annotations

import pytest

from ktc.ir.analysis.planner_facts import facts
from ktc.ir.analysis.schedule_counts import schedule_counts
from ktc.ir.frontend import load

N = 1 << 20
PICK = "int i = blockIdx.x * blockDim.x + threadIdx.x; int t = idx[i]; y[i] = x[t];"
CHAIN = "int i = blockIdx.x * blockDim.x + threadIdx.x; int t = idx[i]; int u = idx[t] + 1; y[i] = x[u];"
ROW = "int t = idx[blockIdx.x]; y[blockIdx.x * 256 + threadIdx.x] = x[t * 256 + threadIdx.x];"
LIST = (
    "int r = blockIdx.x * blockDim.x + threadIdx.x; float s = 0;"
    "for (int j = idx[r]; j < idx[r + 1]; ++j) { int c = idx[j]; s += x[c]; } y[r] = s;"
)


def kernel(body: str):  # type: ignore[no-untyped-def]
    params = "const int *idx, const float *x, float *y, int n"
    return load(
        f"__global__ void f({params}) {{ {body} }}\nvoid run({params}) {{ f<<<n / 256, 256>>>(idx, x, y, n); }}"
    )


@pytest.mark.parametrize("body, lines", [(PICK, 32), (CHAIN, 32), (LIST, 32), (ROW, 4)])
def test_lanes_that_read_by_what_each_has_read_ask_for_a_sector_each(body: str, lines: int) -> None:
    found = schedule_counts(kernel(body), {"n": N})
    assert found is not None
    (x,) = [a for a in found.accesses if a.buffer == "x"]
    assert x.lines == lines and x.footprint >= 4 * N


def test_facts_call_them_irregular() -> None:
    (loop,) = facts(kernel(LIST), {"n": N}).loops
    assert loop.irregular == 1 and loop.unit == 1
