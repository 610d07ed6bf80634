"""Bit patterns where floats are doubles: those of the machine, of numbers that it is sure to have."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.interp.domains.domain import Unsupported, domain_named
from ktc.ir.text import parse_kernel
from ktc.ir.types import BF16, E4M3, E5M2, F16, F32, F64, U8, Scalar

ROUNDED = ("float64", "bound", "terms")


def plain(name: str, decoded: np.ndarray) -> np.ndarray:
    domain = domain_named(name)
    return domain.value(decoded) if hasattr(domain, "value") else decoded


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("t", [E4M3, E5M2, F16, BF16])
def test_every_pattern_is_a_number_and_back(name: str, t: Scalar) -> None:
    domain, word = domain_named(name), Scalar("uint", t.bits)
    bits = np.arange(1 << t.bits).astype(f"u{t.bits // 8}")
    numbers = domain.bitcast(bits, word, t)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        machine = domain_named("float").bitcast(bits, word, t).astype(np.float64)
    assert np.array_equal(plain(name, numbers), machine, equal_nan=True)
    there = np.isfinite(machine)
    assert (domain.bitcast(numbers[there], t, word) == bits[there]).all()


@pytest.mark.parametrize("name", ROUNDED)
def test_a_number_that_the_machine_rounds_has_no_pattern(name: str) -> None:
    domain = domain_named(name)
    third = domain.float_arith("/", domain.encode(np.ones(1), F32), domain.encode(np.full(1, 3.0), F32), F32)
    with pytest.raises(Unsupported, match="cannot reinterpret f32 as u32"):
        domain.bitcast(third, F32, Scalar("uint", 32))


@pytest.mark.parametrize("name", ["bound", "terms"])
def test_a_whole_number_with_an_error_has_no_pattern(name: str) -> None:
    domain = domain_named(name)
    three = domain.float_arith("*", domain.encode(np.full(1, 3.0), F64), domain.encode(np.ones(1), F64), F32)
    with pytest.raises(Unsupported):
        domain.bitcast(three, F32, Scalar("uint", 32))


@pytest.mark.parametrize("name", ROUNDED)
def test_bytes_are_summed_as_the_narrow_floats_that_they_hold(name: str) -> None:
    """With what stands for nothing at the end, as a constant of the same type gives it."""
    k = parse_kernel("""kernel k(y: f32*, x: u8 const*, n: i32)
  launch grid(1) block(1)
  var s: f32 = 0.0
  for i in 0..8
    var v: u8
    if i < n
      v = x[i]
    else
      v = e4m3(0.0) as.bit u8
    s += f32(v as.bit e4m3)
  y[0] = s
""")
    x = np.array([0x38, 0x39, 0xB8, 0x01, 0x7E, 0x08, 0x40, 0x44], np.uint8)
    out = run(k, {"y": np.zeros(1, np.float32), "x": x, "n": 6}, domain=name).outputs["y"]
    numbers = domain_named("float").bitcast(x[:6], U8, E4M3).astype(np.float64)
    assert plain(name, out)[0] == numbers.sum()
