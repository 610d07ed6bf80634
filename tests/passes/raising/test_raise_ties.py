"""Sizes that a source compares with each other or with a number: the check runs it with them alike, too."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.text import print_expr
from ktc.passes.core.base import Result
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.check.size_ties import tied_arguments, ties_of
from ktc.passes.raising.raise_ import Raise

SCALED = """
__global__ void k(const float* __restrict__ x, float* __restrict__ y, const float* __restrict__ s, long long stride,
                  int width, int step) {
  const bool whole = stride == width;
  const long long row = blockIdx.x;
  if (CONDITION) {
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[row * width + i] = x[row * stride + i] * s[0];
  } else {
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[row * width + i] = x[row * stride + i] * s[i * step];
  }
}
void go(const float* x, float* y, const float* s, long long stride, int width, int step, int rows) {
  k<<<rows, 128>>>(x, y, s, stride, width, step);
}
"""
CONDITIONS = ("whole && step == 0", "!(stride != width || 0 != step)", "stride == 2 * width", "step == 12345",
              "whole && width == 77")  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_both_ways_of_such_a_condition_are_compared(condition: str) -> None:
    kernel = load(SCALED.replace("CONDITION", condition), name="source.cu")
    assert Reference(kernel).never_run == []
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result) and not any("unchecked" in n or "left: " in n for n in outcome.notes), outcome


def test_what_no_parameter_decides_is_no_tie() -> None:
    unnamed = SCALED.replace("const bool whole = stride == width;", "")
    for condition in ("s[0] == 3.f", "threadIdx.x == step", "row == width", "step < 0"):
        assert ties_of(load(unnamed.replace("CONDITION", condition), name="source.cu")) == [], condition


def test_ties_respect_what_is_known_of_the_sizes() -> None:
    kernel = load(SCALED.replace("CONDITION", "whole && step == 0"), name="source.cu")
    assert {(n, print_expr(e)) for n, e in ties_of(kernel)} == {("stride", "width as i64"), ("step", "0")}
    sets = list(tied_arguments(kernel, Reference(kernel).sets, 7))
    assert any(s["stride"] == s["width"] and s["step"] == 0 for s in sets)
    known = tuple(dataclasses.replace(p, range=(1, None)) if p.sym.name == "step" else p for p in kernel.params)
    narrow = kernel.with_(params=known)
    assert all(s["step"] != 0 for s in tied_arguments(narrow, Reference(narrow).sets, 7))
