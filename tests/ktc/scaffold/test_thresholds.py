"""Thresholds are drafted so that some of the data pass them, and some do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ktc
from ktc.scaffold import workload_text

NEAR = """
__global__ void near(const float* x, const float* y, int* out, int n, int m, float TYPE) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int count = 0;
  for (int j = 0; j < m; j++) {
    float d = 0;
    for (int c = 0; c < 8; c++) d += (x[i * 8 + c] - y[j * 8 + c]) * (x[i * 8 + c] - y[j * 8 + c]);
    if (CONDITION) out[i * m + count++] = j;
  }
}
void go(const float* x, const float* y, int* out, int n, int m, float TYPE) {
  near<<<(n + 63) / 64, 64>>>(x, y, out, n, m, TYPE);
}
"""


def value(condition: str, folder: Path, name: str = "radius") -> float:
    source = folder / "k.cu"
    source.write_text(NEAR.replace("CONDITION", condition).replace("TYPE", name))
    program = ktc.load(source)
    text, _ = workload_text(program.kernel, program.source, folder / "workload.toml")
    found = re.search(rf'name = "{name}"\n.*\n.*\nvalue = ([-\d.e]+)', text)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("condition", ["d < radius", "radius - d > 0"])
def test_a_radius_has_some_of_the_points_within(condition: str, tmp_path: Path) -> None:
    """Squares of distances of normal points in 8 dimensions are about 16, give or take 8."""
    assert 6 < value(condition, tmp_path) < 20


def test_a_least_distance_leaves_some_out(tmp_path: Path) -> None:
    assert 10 < value("d > radius * radius", tmp_path) ** 2 < 36


def test_a_threshold_that_parts_the_data_stays(tmp_path: Path) -> None:
    assert value("x[i * 8] > radius", tmp_path) == 1.0


def test_what_has_a_usual_number_stays(tmp_path: Path) -> None:
    assert value("d < eps", tmp_path, "eps") == 1e-5
