"""A quotient of integers that is rounded as a float is one of integers, where no rounding can make it another."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.raising.normalise.whole_quotients import in_integers

KERNEL = """\
kernel k(y: i32*, n: i32{of_n}, d: i32{of_d})
  launch grid(1) block(1)
  for i in 0..4096
    if {cond}
      y[i] = {value}
"""
KNOWN = {"of_n": " range 0..100000", "of_d": " range 1..1000"}


def form(cond: str, value: str = "1", **parts: str):
    return parse_kernel(KERNEL.format(cond=cond, value=value, **{**KNOWN, **parts}))


WHOLE = [
    "f32(i) < ceil(f32(n) / 32.0)",
    "f32(i) < ceil(f32(n) / f32(d))",
    "f64(i) < floor(f64(n) / 7.0_f64)",
    "ceil(f32(n) / 3.0) > f32(i)",
    "i <= i32(ceil(f64(n) / f64(d)))",
    "i < i32(floor(f32(n) / f32(d)))",
    "f32(i) < f32(n) / 32.0",
    "f32(n) / f32(d) <= f32(i)",
    "f32(i) <= f32(n) / f32(d)",
    "f32(i) > f32(n) / f32(d)",
]


@pytest.mark.parametrize("cond", WHOLE)
def test_whole_quotients(cond: str) -> None:
    kernel = form(cond)
    plain = in_integers(kernel)
    assert "ceil(" not in print_kernel(plain) and "floor(" not in print_kernel(plain)
    rng = np.random.default_rng(1)
    for n, d in [(0, 1), (96, 32), (97, 32), (100000, 999), *rng.integers((0, 1), (100001, 1001), (20, 2)).tolist()]:
        given = {"y": np.zeros(4096, np.int32), "n": n, "d": d}
        want, got = (run(k, given).outputs["y"] for k in (kernel, plain))
        assert np.array_equal(want, got), (n, d)


@pytest.mark.parametrize(
    "cond, parts",
    [
        (WHOLE[0], {"of_n": ""}),
        (WHOLE[0], {"of_n": f" range 0..{2**24}"}),
        (WHOLE[1], {"of_n": f" range 0..{2**24 - 1000}"}),
        (WHOLE[1], {"of_d": " range 0..1000"}),
        (WHOLE[0], {"of_n": " range -1..1000"}),
        ("f32(i) < ceil(f32(n) / 32.5)", {}),
        ("f32(i) < ceil(f32(n) * 0.5)", {}),
        ("f32(i) == f32(n) / 32.0", {}),
        ("f32(i) < f32(n) / f32(d)", {"of_n": ""}),
        ("sqrt(f32(i)) < f32(n) / 32.0", {}),
        ("sqrt(f32(i)) < ceil(f32(n) / 32.0)", {}),
    ],
)
def test_others_stay(cond: str, parts: dict[str, str]) -> None:
    kernel = form(cond, **parts)
    assert in_integers(kernel) is kernel
