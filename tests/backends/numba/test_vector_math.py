"""Single-precision functions without calls: their error over the floats, special values, where they come from."""

import math

import numpy as np
import pytest

from ktc.backends.numba.vector_math import COEFFICIENTS, VECTOR_MATH
from ktc.ir.interp.domains.bound import ULPS

from .minimax import POLYNOMIALS
from .ulps import REFERENCES, helper, measure

STATED = {
    name: float(VECTOR_MATH[f"{name}_f32"][1].partition(" within ")[2].partition(" units")[0]) for name in REFERENCES
}
"""Errors in units in the last place, as the docstrings say."""


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("name", REFERENCES)
def test_errors_are_as_stated(name, fused):
    worst = measure(name, stride=1021, fused=fused)
    assert worst.error <= STATED[name] and worst.wrong == 0, worst
    assert STATED[name] <= ULPS[name]  # what verification grants


@pytest.mark.campaign
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("name", REFERENCES)
def test_errors_over_every_float(name, fused):
    worst = measure(name, fused=fused)
    assert worst.error <= STATED[name] and worst.wrong == 0, worst


SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, 88.72283, 88.72284, -87.33655, -103.97208,
           -103.97209, 127.99999, 128.0, -126.0, -149.0, -150.0, 3.4028235e38, -3.4028235e38)  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_special_values(name):
    function, x = helper(name), np.array(SPECIAL, np.float32)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        functions = {"exp": np.exp, "exp2": np.exp2, "log": np.log, "tanh": np.tanh, "erf": np.vectorize(math.erf)}
        want = functions[name](wide).astype(np.float32)
        got = np.array([function(v) for v in x])
        off = np.abs(got.astype(np.float64) - want)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.all((got == want) | np.isnan(want) | (off <= 2 * np.spacing(np.abs(want)))), (got, want)
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients_are_the_minimax_ones(name):
    """To the last bit but one: extended precision differs between processors."""
    found, _ = POLYNOMIALS[name].coefficients()
    assert np.allclose(np.float32(found), np.float32(COEFFICIENTS[name]), rtol=3e-7, atol=0)
