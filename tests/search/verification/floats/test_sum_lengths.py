"""How many terms a launch adds up: in variables, in elements, by atomics, in reductions; not in what it writes once."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.text import parse_kernel
from ktc.search.verification.floats.large import too_far
from ktc.search.verification.floats.sum_lengths import terms_added

HEAD = """
kernel k(y: f32*, x: f32 const*, count: i32*, n: i32, m: i32)
  launch grid(n) block(32)
  let i: i32 = (blockIdx.x * 32 + threadIdx.x) as i32
"""

BODIES = {
    "a variable": ("var s: f32 = 0.0\nfor k in 0..m\n  s = s + x[k] * 2.0\ny[i] = s", 1),
    "an element, two terms at a time": ("for k in 0..m\n  y[i] = y[i] + (x[k] - x[k + 1])", 2),
    "by atomics": ("for k in 0..m\n  atomic add y[k], x[k]", 1),
    "another element": ("for k in 0..m\n  y[i] = y[i + 1] + x[k]", 0),
    "integers": ("for k in 0..m\n  count[i] = count[i] + k", 0),
    "written once": ("y[i] = x[i] + x[i + 1]", 0),
}


@pytest.mark.parametrize("body", BODIES)
def test_terms_of_one_launch(body: str) -> None:
    text, each = BODIES[body]
    kernel = parse_kernel(HEAD + "".join(f"  {line}\n" for line in text.split("\n")))
    assert terms_added(kernel, {"n": 4, "m": 1000}) == each * 1000 * 4 * 32


def test_a_loop_of_unknown_length_counts_once() -> None:
    kernel = parse_kernel(HEAD + "  var s: f32 = 0.0\n  for k in 0..count[0]\n    s = s + x[k]\n  y[i] = s\n")
    assert terms_added(kernel, {"n": 4, "m": 1000}) == 4 * 32


def test_a_reduction_in_a_parallel_loop() -> None:
    body = "  par i in 0..n\n    reduce(+) s: f32 = 0.0 over k in 0..m\n      yield x[k]\n    y[i] = s\n"
    kernel = parse_kernel("kernel k(y: f32*, x: f32 const*, n: i32, m: i32)\n" + body)
    assert terms_added(kernel, {"n": 4, "m": 1000}) == 4000


def test_long_sums_in_another_order_are_not_too_far() -> None:
    """A term that is missing still is."""
    terms = np.random.default_rng(0).standard_normal((100, 40_000)).astype(np.float32)
    one, other = (np.add.accumulate(x, axis=1, dtype=np.float32)[:, -1] for x in (terms, terms[:, ::-1]))
    worst = float(np.max(np.abs(one - other)) / (np.sqrt(np.mean(one * one)) * 2.0**-24))
    off = one + np.float32(3 * 256 * 2.0**-24 * np.sqrt(np.mean(one * one)))
    assert worst < 6 * 40_000**0.5 and too_far(other, one, terms=40_000) is None
    assert too_far(off, one) is not None and too_far(off, one, terms=40_000) is None
    assert too_far(one - terms[:, 7], one, terms=40_000) is not None
