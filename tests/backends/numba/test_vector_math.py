"""Single-precision functions without calls: their error over the floats, special values, where they come from."""

import math

import numpy as np
import pytest
from numba import njit

from ktc.backends.numba.vector_math import COEFFICIENTS, IN_DOUBLE, VECTOR_MATH
from ktc.ir.interp.domains.bound import ULPS

from .minimax import POLYNOMIALS
from .ulps import REFERENCES, helper, measure

STATED = {
    name: float(VECTOR_MATH[f"{name}_f32"][1].partition(" within ")[2].partition(" units")[0]) for name in REFERENCES
}
"""Errors in units in the last place, as the docstrings say."""


@pytest.mark.parametrize("name", REFERENCES)
def test_errors_are_as_stated(name):
    for worst in measure(name, stride=1021):
        assert worst.error <= STATED[name] and worst.wrong == 0, worst
    assert STATED[name] <= ULPS[name]  # what verification grants


@pytest.mark.campaign
@pytest.mark.parametrize("name", REFERENCES)
def test_errors_over_every_float(name):
    for worst in measure(name):
        assert worst.error <= STATED[name] and worst.wrong == 0, worst


def test_the_fast_hyperbolic_tangent_is_as_good_as_a_device():
    """Relative error below 2**-11 (tanh.approx of the PTX ISA); special values as they are."""
    function = helper("fast_tanh")
    x = np.concatenate([np.geomspace(1e-37, 100, 4001), [math.inf, 0.0]]).astype(np.float32)
    got = np.array([function(v) for v in (*x, *-x, np.float32(math.nan))])
    want = np.tanh(np.concatenate([x, -x, [math.nan]]).astype(np.float64))
    assert np.all(np.abs(got - want)[:-1] <= 2.0**-11 * np.abs(want[:-1])) and math.isnan(got[-1])
    assert np.array_equal(np.signbit(got[:-1]), np.signbit(want[:-1]))


def test_the_fast_exponential_is_the_other_but_for_the_least_results():
    fast = helper("fast_exp")
    x = np.concatenate([np.linspace(-86.25, 88.7, 20001), [0.0, -0.0, 88.72283]]).astype(np.float32)
    want = np.exp(x.astype(np.float64))
    assert np.all(np.abs([fast(v) for v in x] - want) <= STATED["exp"] * np.spacing(want.astype(np.float32)))
    assert fast(np.float32(88.72284)) == fast(np.float32(math.inf)) == math.inf
    assert all(fast(np.float32(v)) == 0 for v in (-86.26, -87.4, -104, -1e10, -3e38, -math.inf))
    assert math.exp(-86.25) < 4e-38 and math.isnan(fast(np.float32(math.nan)))
    odd = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    assert all(math.isnan(fast(v)) for v in odd)


SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, 88.72283, 88.72284, -87.33655, -103.97208,
           -103.97209, 127.99999, 128.0, -126.0, -149.0, -150.0, 3.4028235e38, -3.4028235e38)  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_special_values(name):
    function, x = helper(name), np.array(SPECIAL, np.float32)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        functions = {"exp": np.exp, "exp2": np.exp2, "log": np.log, "tanh": np.tanh, "erf": np.vectorize(math.erf),
                     "sin": np.sin, "cos": np.cos}  # fmt: skip
        want = functions[name](wide).astype(np.float32)
        got = np.array([function(v) for v in x])
        off = np.abs(got.astype(np.float64) - want)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.all((got == want) | np.isnan(want) | (off <= 2 * np.spacing(np.abs(want)))), (got, want)
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("name", [*COEFFICIENTS, *IN_DOUBLE])
def test_coefficients_are_the_minimax_ones(name):
    """To the last bit but one: extended precision differs between processors."""
    found, _ = POLYNOMIALS[name].coefficients()
    assert np.allclose(found, {**COEFFICIENTS, **IN_DOUBLE}[name], rtol=3e-7, atol=0)


def powers(x, y):
    """x**y by the helper and in doubles, element by element."""
    function, got = helper("pow"), np.zeros(x.size, np.float32)

    @njit(error_model="numpy")
    def go(x, y, got):
        for i in range(x.size):
            got[i] = function(x[i], y[i])

    go(x, y, got)
    with np.errstate(all="ignore"):
        return got, np.power(x.astype(np.float64), y.astype(np.float64))


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e4])
def test_powers_are_as_near_as_stated(spread):
    rng = np.random.default_rng(0)
    x = np.exp2(rng.uniform(-149, 128, 1 << 20) * min(spread, 1.0)).astype(np.float32)
    y = (rng.standard_normal(x.size) * 1.0 / spread).astype(np.float32)
    got, want = powers(x, y)
    with np.errstate(all="ignore"):
        inside = want < 3.4e38
        unit = np.maximum(np.exp2(np.floor(np.log2(np.maximum(want, 1e-300))) - 23), 2.0**-149)
        error = np.abs(got[inside] - want[inside]) / unit[inside]
    assert error.max() <= 0.6 and np.all(got[want > 3.41e38] == np.inf)


def test_special_powers():
    values = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1.5, -1.5, 1e-45,
              -1e-45, 1e38, -1e38, 16777215.0, 16777216.0, 33554432.0, -16777215.0, 0.9999999, 1.0000001)  # fmt: skip
    x, y = (v.ravel().astype(np.float32) for v in np.meshgrid(values, values))
    got, want = powers(x, y)
    with np.errstate(all="ignore"):
        want = want.astype(np.float32)
        near = np.abs(got.astype(np.float64) - want) <= np.spacing(np.abs(want))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.all((got == want) | np.isnan(want) | near)
    assert np.array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))
