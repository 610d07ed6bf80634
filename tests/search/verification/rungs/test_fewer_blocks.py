"""Second rounds of loops over a fixed grid that take more than a check may run: shown in a grid of fewer blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import geometry_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Expr, For, If, Var
from ktc.ir.walk import map_body, walk, walk_expr
from ktc.passes.lowering import materialise
from ktc.search.verification import verify
from ktc.search.verification.rungs import exact, fewer_blocks
from ktc.search.verification.rungs.fewer_blocks import in_fewer_blocks
from tests.passes.checks import applied
from tests.search.verification.rungs.test_small_launch_limits import workload

PULL = """
__global__ void pull(const int* __restrict__ x, int* __restrict__ f, int n) {
  int step = blockDim.x * gridDim.x;
  for (int a = blockDim.x * blockIdx.x + threadIdx.x; a < n; a += step) {
    int s = 0;
    for (int b = 0; b < n; b++)
      for (int k = 0; k < 5; k++) s += (x[b] - x[a]) * k;
    f[a] = s;
  }
}
void go(const int* x, int* f, int n) { pull<<<24, 64>>>(x, f, n); }
"""
ONE_ROUND = """
__global__ void pull(const int* __restrict__ x, int* __restrict__ f, int n) {
  int a = blockDim.x * blockIdx.x + threadIdx.x;
  if (a >= n) return;
  int s = 0;
  for (int b = 0; b < n; b++)
    for (int k = 0; k < 5; k++) s += (x[b] - x[a]) * k;
  f[a] = s;
}
void go(const int* x, int* f, int n) { pull<<<(n + 63) / 64, 64>>>(x, f, n); }
"""
WORKLOAD = workload("x", "f", dtype="i32", init="ints", n=5_000)
ONE_ROUND_OF_STEPS = 20_000
"""Statements that one round of the whole grid takes at most, and two rounds do not."""


@pytest.fixture(autouse=True)
def _two_rounds_take_more_than_a_check_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "SECOND_ROUND_STEPS", ONE_ROUND_OF_STEPS)


def kernels() -> tuple[Kernel, Kernel]:
    kernel = load(PULL, name="source.cu")
    return kernel, applied(kernel, "raise")


def test_a_second_round_of_a_long_loop_is_run_in_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, form = kernels()
    verdict = verify(kernel, form, WORKLOAD)
    assert verdict.status == "TESTED", verdict
    monkeypatch.setattr(fewer_blocks, "in_fewer_blocks", lambda k: None)
    assert verify(kernel, form, WORKLOAD).status == "UNKNOWN"


@pytest.mark.campaign
def test_of_an_original_of_one_round_the_candidate_alone_has_fewer_blocks() -> None:
    verdict = verify(load(ONE_ROUND, name="one.cu"), materialise(kernels()[1]), WORKLOAD)
    assert verdict.status == "TESTED", verdict


def _later_rounds_elsewhere(lowered: Kernel) -> Kernel:
    """A wrong program: what is done from the second round on is another element's."""
    step = 24 * 64

    def wrong(e: Expr) -> Expr:
        match e:
            case Binary("+", Var() as v, Const(value=n)) if n == step:
                return Binary("+", v, Const(step + 64, v.type))  # type: ignore[arg-type]
        return e

    return lowered.with_(body=map_body(lowered.body, lambda s: s, wrong))


def _no_later_rounds(lowered: Kernel) -> Kernel:
    """A wrong program: from the second round on nothing is done."""
    step, loops = 24 * 64, [s for s in walk(lowered.body) if isinstance(s, For)]

    def wrong(s: object) -> object:
        if isinstance(s, For) and s.var == loops[0].var:
            first = Binary("<", Var(s.var), Const(step, s.var.type))  # type: ignore[arg-type]
            return dataclasses.replace(s, body=(If(first, s.body, ()),))
        return s

    return lowered.with_(body=map_body(lowered.body, wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", [_later_rounds_elsewhere, _no_later_rounds])
def test_what_is_wrong_in_later_rounds_alone_is_not_passed(broken: Callable[[Kernel], Kernel]) -> None:
    kernel, form = kernels()
    lowered = materialise(form)
    wrong = broken(lowered)
    assert wrong.body != lowered.body
    verdict = verify(kernel, wrong, WORKLOAD)
    assert not verdict.ok, verdict


def test_only_steps_of_the_grid_become_smaller() -> None:
    small = in_fewer_blocks(materialise(kernels()[1]))
    assert small is not None and geometry_of(small, {"n": 9}).grid == (2, 1, 1)
    steps = [e for s in walk(small.body) if isinstance(s, For) for e in walk_expr(s.step)]
    numbers = {e.value for e in steps if isinstance(e, Const)}
    assert 128 in numbers and 24 * 64 not in numbers
    assert in_fewer_blocks(load(ONE_ROUND, name="one.cu")) is None
