"""Rows that are read in vectors are drafted with room for their alignment."""

from __future__ import annotations

import ktc
from ktc.scaffold import draft

POWER = """
__global__ void power(const float* x, int pitch, float* y, int to, int n) {
  const float* row = x + blockIdx.x * pitch;
  float* out = y + blockIdx.x * to;
  for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
    if (i == 0) continue;
    float2 v = reinterpret_cast<const float2*>(row)[i];
    out[i] = v.x * v.x + v.y * v.y;
  }
  if (threadIdx.x == 0) {
    out[0] = row[0] * row[0];
    out[n / 2] = row[n] * row[n];
  }
}
void go(const float* x, int pitch, float* y, int to, int n, int rows) { power<<<rows, 256>>>(x, pitch, y, to, n); }
"""


def test_a_row_with_an_element_more_than_vectors_ends_at_the_next_multiple() -> None:
    d = draft(ktc.loads(POWER).kernel)
    assert not d.doubts
    assert d.roles.tied["pitch"] == "cdiv(n + 1, 2) * 2"
    assert d.roles.tied["to"] == "cdiv(n, 2) + 1"  # that row is written one by one


def test_a_row_of_vectors_stays_as_long_as_it_is() -> None:
    whole = POWER.replace("row[n] * row[n]", "row[n - 1] * row[n - 1]")
    assert draft(ktc.loads(whole).kernel).roles.tied["pitch"] == "n"
