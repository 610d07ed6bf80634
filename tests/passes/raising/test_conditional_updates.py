"""Choices of a loop that are written value by value, as one conditional."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import For, If
from ktc.ir.text import print_expr
from ktc.ir.walk import walk
from ktc.passes.shared.conditional_updates import with_conditionals
from ktc.passes.shared.serial_extremes import searches

ROWS = """
struct Best { float v; int i; };
__global__ void rows(const float* x, const int* label, float* most, int* where, int n) {
  int row = threadIdx.x, at = -1, what = 0;
  float best = -1.0f, other = 0.0f;
  for (int c = 0; c < n; ++c) { float v = x[row * n + c]; STEP }
  most[row] = best + other; where[row] = at + what;
}
void go(const float* x, const int* label, float* most, int* where, int n) {
  rows<<<1, 32>>>(x, label, most, where, n);
}
"""


def loop_of(step: str) -> For:
    kernel = load(ROWS.replace("STEP", step), name="source.cu")
    return next(s for s in walk(kernel.body) if isinstance(s, For))


@pytest.mark.parametrize(
    "step",
    [
        "at = v > best ? c : at; best = v > best ? v : best;",
        "bool more = v > best; best = more ? v : best; at = more ? c : at;",
        "int which = v > best ? 0 : 1; float w = which == 0 ? v : best; at = which == 0 ? c : at; best = w;",
        "at = best < v ? c : at; best = fmaxf(best, v);",
    ],
)
def test_one_search_however_it_is_spelled(step: str) -> None:
    (found,) = searches(loop_of(step))[1]
    assert (found.best.name, found.op, print_expr(found.key)) == ("best", "max", "v")
    assert [(s.name, print_expr(e)) for s, e in found.kept] == [("at", "c")]


def test_several_values_go_with_the_extreme() -> None:
    step = "what = v > best ? c + 1 : what; at = v > best ? c : at; best = v > best ? v : best;"
    assert {s.name for s in searches(loop_of(step))[1][0].syms} == {"best", "at", "what"}


@pytest.mark.parametrize(
    "step",
    [
        "best = v > best ? v : best; at = v > best ? c : at;",  # of two updates the second sees the first
        "at = v > best ? at + c : at; best = v > best ? v : best;",
        "at = v > best ? c : at; best = v > best ? v : best; other += best;",
    ],
)
def test_what_is_no_single_choice_stays(step: str) -> None:
    loop = loop_of(step)
    assert not searches(loop)[1]
    assert with_conditionals(loop.body) == loop.body or not any(
        isinstance(s, If) and len(s.then) > 1 for s in with_conditionals(loop.body)
    )
