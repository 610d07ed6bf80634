"""Kernels that stop themselves at larger sizes: drafts stay below."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import Draft, draft

THIRDS = """
__global__ void thirds(const float* x, float* a, float* b, float* c, int parts, int n) {
  int part = blockIdx.x % parts, row = blockIdx.x / parts;
  float* to = nullptr;
  if (part == 0) to = a;
  else if (part == 1) to = b;
  else if (part == 2) to = c;
  OTHERWISE
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[row * n + i] = x[(row * parts + part) * n + i];
}
void run(const float* x, float* a, float* b, float* c, int rows, int parts, int n) {
  thirds<<<rows * parts, 128>>>(x, a, b, c, parts, n);
}
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


@pytest.mark.parametrize("otherwise", ["", "else __trap();", 'else asm volatile("trap;");'])
def test_a_size_is_as_large_as_the_kernel_has_ways(otherwise: str) -> None:
    d = drafted(THIRDS.replace("OTHERWISE", otherwise))
    assert {s["parts"] for _, s, _ in d.scenarios} == {3} and d.most["parts"] == 3
    assert not [x for x in d.doubts if "run at" in x]
    assert max(s["n"] for _, s, _ in d.scenarios) > 1000


LOOKUP = """
__global__ void look(float* y, const float* table, const long long* ids, long long words) {
  long long id = ids[blockIdx.x];
  if (id >= words) STOP
  y[blockIdx.x * blockDim.x + threadIdx.x] = table[id * blockDim.x + threadIdx.x];
}
void run(float* y, const float* table, const long long* ids, long long words, int count, int width) {
  look<<<count, width>>>(y, table, ids, words);
}
"""


@pytest.mark.parametrize("stop", ["__trap();", 'asm("trap;");'])
def test_an_index_stays_below_the_size_above_which_the_kernel_stops(stop: str) -> None:
    d = drafted(LOOKUP.replace("STOP", stop))
    assert d.ties == {"ids_values": "words"} and not [x for x in d.doubts if "run at" in x]
    table = d.shapes["table"]
    assert table is not None and "words" in table.factors
