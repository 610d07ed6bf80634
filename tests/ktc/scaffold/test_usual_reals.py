"""Floating-point parameters that are called as what has a usual number get that."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import draft
from ktc.scaffold.scales.usual_reals import usual_real

NORM = """
__global__ void norm(const float* x, float* y, int n, float rms_norm_eps, float scale) {
  float s = 0.0f;
  for (int i = 0; i < n; ++i) s += x[threadIdx.x * n + i] * x[threadIdx.x * n + i];
  y[threadIdx.x] = rsqrtf(s / n + rms_norm_eps) * scale;
}
void run(const float* x, float* y, int rows, int n, float eps, float by) { norm<<<1, rows>>>(x, y, n, eps, by); }
"""


@pytest.mark.parametrize(("name", "value"), [("epsilon", 1e-5), ("layerNormEps", 1e-5), ("beta2", 0.999), ("lr", 1e-3)])
def test_names_that_say_a_number(name: str, value: float) -> None:
    assert usual_real(name) == value


@pytest.mark.parametrize("name", ["steps", "scale", "alpha", "keeps", "p", "beta"])
def test_names_that_do_not(name: str) -> None:
    assert usual_real(name) is None


def test_a_draft_has_it() -> None:
    numbers = draft(ktc.loads(NORM).kernel).roles.numbers
    assert numbers["rms_norm_eps"] == 1e-5 and numbers["scale"] not in (0.0, 1.0)
