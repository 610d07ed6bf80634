"""Powers with small whole exponents are printed as products, computed where their base may be."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering import materialise
from ktc.passes.lowering.power_products import with_power_products
from tests.passes.checks import refused

KERNEL = parse_kernel("""
kernel k(y: f32*, x: f32 const*, n: i32)
  par i in 0..n @ [thread.x 32, block.x]
    reduce(+) s: f32 = 0.0 over j in 0..3 @ [seq]
      yield pow(x[i * 3 + j] - 1.0, 2.0)
    var m: f32 = x[i] < 0.5 ? pow(x[i], 3.0) : pow(s, 4.0)
    y[i] = pow(s, 2.5) + pow(s, -2.0) + pow(m, 1.0) + m
""")


def test_bases_are_named_where_every_run_comes_to_them() -> None:
    text = print_kernel(with_power_products(KERNEL))
    assert "let base: f32 = x[i * 3 + j] - 1.0\n      yield base * base" in text
    assert "x[i] < 0.5 ? x[i] * x[i] * x[i] : s * s * (s * s)" in text


def test_other_exponents_are_left() -> None:
    text = print_kernel(with_power_products(KERNEL))
    assert "pow(s, 2.5) + pow(s, -2.0) + pow(m, 1.0)" in text


def test_same_values() -> None:
    x = np.random.default_rng(1).uniform(-2, 2, 300).astype(np.float32)
    y = np.zeros(100, np.float32)
    want, got = (run(k, {"y": y.copy(), "x": x, "n": 100}).outputs["y"] for k in (KERNEL, materialise(KERNEL)))
    assert np.allclose(want, got, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("value", [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e30, 1e20])
@pytest.mark.parametrize("exponent", [2, 3, 4])
def test_special_values(value: float, exponent: int) -> None:
    text = f"kernel k(y: f32*, x: f32 const*)\n  par i in 0..1 @ [thread.x 1]\n    y[i] = pow(x[i], {exponent}.0)\n"
    kernel = parse_kernel(text)
    data = {"y": np.zeros(1, np.float32), "x": np.full(1, value, np.float32)}
    want, got = (run(k, data).outputs["y"] for k in (kernel, with_power_products(kernel)))
    assert np.array_equal(want, got, equal_nan=True) and np.array_equal(np.signbit(want), np.signbit(got))


def test_no_approximation_of_what_is_a_product() -> None:
    square = parse_kernel(
        "kernel k(y: f32*, x: f32 const*)\n  par i in 0..8 @ [thread.x 8]\n    y[i] = pow(x[i], 2.0)\n"
    )
    assert refused(square, "fast-math{fns=pow}").code == "E-FAST-NONE"
