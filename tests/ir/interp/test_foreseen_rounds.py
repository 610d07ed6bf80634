"""Long loops are over soon where their bounds say so; loops that may end, and runs that a finding may end, are gone
through."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import RunResult, run
from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.kernel import Launch
from ktc.ir.nodes import i32

KERNEL = """
__global__ void k(float* y, const int* x, int n, int m) {
  int t = threadIdx.x;
  float sum = 0.0f;
  LOOP
  y[t] = sum;
}"""
LONG = "for (int i = 0; i < n; ++i) { sum = sum * 3.0f; sum = sum + 1.0f; }"
OTHERS = {
    "a round may leave it": "for (int i = 0; i < n; ++i) { sum += 1.0f; sum += 1.0f; if (i == 100) break; }",
    "a round may end the thread": "for (int i = 0; i < n; ++i) { sum += 1.0f; sum += 1.0f; if (i == 100) return; }",
    "its end comes nearer": "for (int i = 0; i < m; ++i) { sum += 1.0f; sum += 1.0f; m = 100; }",
    "its end is in memory": "for (int i = 0; i < x[0]; ++i) { sum += 1.0f; sum += 1.0f; }",
    "it ends in time": "for (int i = 0; i < 500; ++i) { sum += 1.0f; sum += 1.0f; }",
    "it counts in large steps": "for (int i = 0; i < n; i += 10000) { sum += 1.0f; sum += 1.0f; }",
    "most rounds are cut short": "for (int i = 0; i < 1300; ++i) { if (i > 3) continue; sum += 1.0f; sum += 1.0f; }",
}


def ran(loop: str, fuel: int = 4000, **how: object) -> RunResult:
    args = {"y": np.zeros(4, np.float32), "x": np.full(1, 100, np.int32), "n": 1_000_000, "m": 1_000_000}
    launch = Launch((i32(1), i32(1), i32(1)), (i32(4), i32(1), i32(1)))
    kernel = load(KERNEL.replace("LOOP", loop), name="k.cu").with_(launch=launch)
    return run(kernel, args, domain="float", fuel=fuel, **how)  # type: ignore[arg-type]


def test_a_loop_of_a_million_rounds_is_over_after_a_few() -> None:
    short = ran(LONG)
    assert not short.ended and [f.kind for f in short.findings] == ["fuel"] and not short.findings[0].certain
    assert short.findings[0].message.endswith("within 4000 statements")
    assert short.steps > 1_000_000 > 300 > short.work / 4  # what it would take, and what it took


def test_so_is_one_whose_threads_have_different_ends() -> None:
    loop = "for (int i = 0; i < (t == 2 ? n : 100); ++i) { sum += 1.0f; sum += 1.0f; }"
    short = ran(loop)
    assert not short.ended and short.steps > 1_000_000 > 300 > short.work / 4


@pytest.mark.parametrize("loop", OTHERS.values(), ids=OTHERS)
def test_a_loop_that_ends_in_time_is_gone_through(loop: str) -> None:
    assert ran(loop).ended


def test_a_run_that_a_finding_may_end_is_gone_through() -> None:
    def fatal(f: Finding) -> bool:
        return f.kind == "out-of-bounds"

    wrong = "for (int i = 0; i < n; ++i) { sum += i < 200 ? 1.0f : y[i]; sum += 1.0f; }"
    assert [f.kind for f in ran(wrong, sanitize=True, fatal=fatal).findings] == ["out-of-bounds"]


def test_a_statement_costs_by_its_lanes() -> None:
    """A run is worth a time, and a statement of a large launch takes that of many of a small one."""
    body = "for (int i = 0; i < 500; ++i) { sum += 1.0f; if (i == 1000) break; }"
    steps = []
    for blocks in (1, 8, 64):
        launch = Launch((i32(blocks), i32(1), i32(1)), (i32(256), i32(1), i32(1)))
        kernel = load(KERNEL.replace("LOOP", body), name="k.cu").with_(launch=launch)
        args = {"y": np.zeros(256, np.float32), "x": np.full(1, 1, np.int32), "n": 1, "m": 1}
        assert run(kernel, args, domain="float", sanitize=False).ended
        short = run(kernel, args, domain="float", sanitize=False, most_cost=300.0)
        assert not short.ended
        steps.append(short.steps)
    assert steps[0] > 1.5 * steps[1] > 3 * steps[2]
