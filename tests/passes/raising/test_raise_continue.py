"""Iterations that end early: what follows ``continue`` is what happens where it is not reached."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.arith.counted_loops import count
from ktc.ir.fold import i32, lt
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Body, Continue, For, If, Level, Par, Var, fresh
from ktc.ir.text import print_body, print_kernel
from ktc.ir.types import I32
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.raise_report import threads_left
from ktc.passes.raising.recognise.coordinates import continues_to_guards

GATHER = """
__global__ void gather(const int* __restrict__ id, const float* __restrict__ x, float* __restrict__ y,
                       int* __restrict__ seen, int n, int e) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int at = blockIdx.x * n + i, v = id[at];
    BODY
  }
}
void go(const int* id, const float* x, float* y, int* seen, int n, int e, int rows) {
  gather<<<rows, 64>>>(id, x, y, seen, n, e);
}
"""

BODIES = {
    "twice": "if (v >= e) continue; y[at] = x[v]; if (v < 2) { continue; } seen[at] = v;",
    "after work": "if (v >= e) { seen[at] = -1; continue; } y[at] = x[v]; seen[at] = v;",
    "otherwise": "if (v < e) { y[at] = x[v]; } else continue; seen[at] = v;",
    "in both": "if (v < e) { y[at] = x[v]; continue; } else { seen[at] = v; continue; } seen[at] = 7;",
    "of both": "if (v < e) { if (v < 2) continue; y[at] = x[v]; }",
    "in one way": "if (v < e) { if (v < 2) { seen[at] = 5; continue; } y[at] = x[v]; } seen[at] = v;",
    "deep in one way": "if (v < e) { if (v > 0) { if (v < 3) continue; y[at] = x[v]; } seen[at] = 9; } y[at] += 2;",
    "a loop inside": "float s = 0; for (int k = 0; k < 4; ++k) { if (k == v) continue; s += x[k]; } y[at] = s;",
    "two": "if (v < 1) continue; float s = 0; for (int k = 0; k < v; ++k) { if (k == 2) continue; s += 1; } y[at] = s;",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_loop_over_elements_that_are_skipped(name: str) -> None:
    kernel = load(GATHER.replace("BODY", BODIES[name]), name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    form = outcome.kernel
    loops = [s for s in walk(form.body) if isinstance(s, Par)]
    assert [s.dist[0].kind for s in loops] == ["block", "thread"] and loops[1].dist[-1].kind == "seq"
    rng = np.random.default_rng(3)
    for n, rows, e in ((1, 2, 3), (70, 3, 4), (200, 1, 0)):
        size = n * rows
        args = {"id": rng.integers(0, 6, size).astype(np.int32), "x": np.arange(1, 9, dtype=np.float32), "n": n, "e": e,
                "rows": rows, "y": np.zeros(size, np.float32), "seen": np.zeros(size, np.int32)}  # fmt: skip
        want = run(kernel, args, domain="int")
        assert want.ok, want.findings
        for other in (form, materialise(form)):
            got = run(other, args, domain="int")
            assert got.ok, (got.findings, print_kernel(other))
            assert all((got.outputs[o] == x).all() for o, x in want.outputs.items()), print_kernel(other)


def test_what_comes_after_both_ways_asks_whether_it_is_reached() -> None:
    source = GATHER.replace("BODY", "if (v < e) { if (v < 2) continue; y[at] = x[v]; } seen[at] = v;")
    body = load(source, name="source.cu").body
    after = continues_to_guards(body)
    assert not any(isinstance(s, Continue) for s in walk(after)) and [type(s) for s in walk(after)].count(For) == 1
    assert print_body(after).count("if on\n") == 1


@pytest.mark.parametrize(("inside", "left"), [(False, True), (True, False)])
def test_an_iteration_without_order_is_left_by_no_continue(inside: bool, left: bool) -> None:
    v, k = fresh("v", I32), fresh("k", I32)
    leave: Body = (If(lt(Var(v), i32(3)), (Continue(),)),)
    body = (count(k, i32(4), *leave),) if inside else leave
    said = threads_left((Par(v, i32(0), i32(8), (Level("thread", i32(8), "x"),), body),))
    assert ("'continue' in a loop that has no order" in said) is left
