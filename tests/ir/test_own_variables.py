"""Variables that are declared before they have a value: where they get it, and what has to stay."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.own_variables import with_own_variables
from ktc.ir.text import parse_kernel
from tests.passes.checks import body_of, differs

HEAD = "kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)\n  launch grid(2) block(4)\n"
SIZES = [{"n": n} for n in (0, 1, 2, 5)]


def kernel_of(*lines: str) -> Kernel:
    first = "  let t: i32 = i32(blockIdx.x * blockDim.x + threadIdx.x)\n"
    return parse_kernel(HEAD + first + "".join(f"  {line}\n" for line in lines))


SUNK = {
    "an iteration's": (("var v: f32", "for i in 0..n", "  v = x[i]", "  y[t * 8 + i] = v"), ("  var v: f32 = x[i]",)),
    "of each loop": (
        (
            "var v: f32",
            "for i in 0..n",
            "  v = x[i]",
            "  y[t * 8] += v",
            "for j in 0..n",
            "  v = x[j + 1]",
            "  y[t * 8] += v",
        ),
        ("  var v: f32 = x[i]", "  var v_1: f32 = x[j + 1]"),
    ),
    "a branch's": (("var v: i32", "if t < n", "  v = t * 2", "  y[v] = x[t]"), ("  var v: i32 = t * 2",)),
    "a branch's, whose loop needs it": (
        ("var v: f32", "if t < n", "  if x[t] > 0.0", "    v = 1.0", "  else", "    v = 2.0", "  y[t] = v"),
        ("  var v: f32", "    v = 1.0"),
    ),
    "from there on": (
        ("var v: f32", "y[t] = 1.0", "v = x[t]", "y[t + 8] = v", "v += 1.0", "y[t + 16] = v"),
        ("var v: f32 = x[t]",),
    ),
    "a number that is never read": (
        ("var v: f32 = 0.0", "for i in 0..n", "  v = x[i]", "  y[t * 8 + i] = v"),
        ("  var v: f32 = x[i]",),
    ),
}


@pytest.mark.parametrize("case", SUNK)
def test_declared_where_it_gets_its_value(case: str) -> None:
    lines, expected = SUNK[case]
    before = kernel_of(*lines)
    after = before.with_(body=with_own_variables(before.body))
    assert all(f"  {line}\n" in body_of(after) for line in expected), body_of(after)
    assert body_of(after) != body_of(before)
    assert differs(before, after, SIZES, lower=False) is None


STAYS = {
    "carried": ("var v: f32 = 1.0", "for i in 0..n", "  y[t * 8 + i] = v", "  v = x[i]"),
    "read behind the loop": ("var v: f32 = 0.0", "for i in 0..n", "  v = x[i]", "y[t] = v"),
    "set on one way": ("var v: f32 = 0.0", "for i in 0..n", "  if x[i] > 0.0", "    v = x[i]", "  y[t * 8 + i] = v"),
    "set in a branch": ("var v: f32 = 0.0", "if t < n", "  v = x[t]", "y[t] = v"),
    "read in a branch": ("var v: f32 = 3.0", "if t < n", "  y[t] = v", "  v = x[t]"),
    "what a condition asks": ("var v: i32 = 1", "if v < n", "  v = t", "  y[v] = x[t]"),
}


@pytest.mark.parametrize("case", STAYS)
def test_values_that_go_further_stay_outside(case: str) -> None:
    body = kernel_of(*STAYS[case]).body
    assert with_own_variables(body) is body
