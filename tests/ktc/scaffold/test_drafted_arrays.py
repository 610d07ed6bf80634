"""Drafts of kernels that keep a few values in arrays of a fixed size: sizes that those have room for."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.scaffold import draft
from ktc.scaffold.bounding import of_arrays

LEAST = """
__global__ void least(const float* x, float* out, int n, int m, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best[20];
  for (int j = 0; j < k; j++) BEGIN
  for (int j = 0; j < m; j++) if (x[i * m + j] < best[0]) best[0] = x[i * m + j];
  for (int j = 0; j < k; j++) out[i * k + j] = best[j];
}
void go(const float* x, float* out, int n, int m, int k) { least<<<(n + 127) / 128, 128>>>(x, out, n, m, k); }
"""


@pytest.mark.parametrize(
    ("begin", "room"),
    [
        ("best[j] = 1e10f;", 20),
        ("best[j + 2] = 1e10f;", 18),
        ("{ best[2 * j] = 1; best[2 * j + 1] = 2; }", 10),
        ("{ float* later = best + 4; later[j] = 1e10f; }", 16),
    ],
)
def test_rounds_are_no_more_than_an_array_has_room_for(begin, room):
    assert of_arrays(load(LEAST.replace("BEGIN", begin), name="k.cu")) == {"k": room}


def test_what_some_rounds_do_says_nothing_of_how_many_there_are():
    source = LEAST.replace("BEGIN", "if (j < 20) best[j] = 1e10f;").replace("= best[j]", "= best[j % 20]")
    assert of_arrays(load(source, name="k.cu")) == {}


def test_scenarios_keep_to_it():
    d = draft(load(LEAST.replace("BEGIN", "best[j] = 1e10f;"), name="k.cu"))
    assert d.roles.room == {"k": 20} and not [x for x in d.doubts if "run at" in x]
    assert all(sizes["k"] <= 20 for _, sizes, *_ in d.scenarios) and d.most["k"] == 20
