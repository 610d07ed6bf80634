"""Loops that never end are known before the budget is spent; those that end late are not taken for them."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import RunResult, run

FRAME = """
__global__ void k(int* c, const float* x, float* y) {{
  float acc = 0.f;
  int t = threadIdx.x, k = 0, j = 0;
  __shared__ int s[32];
  s[t] = t;
  {loop}
  y[t] = acc + k + j + s[t];
}}
void host(int* c, const float* x, float* y) {{ k<<<1, 32>>>(c, x, y); }}
"""

ENDLESS = {
    "a step that stays": "for (int i = 0; i < 8; i = i & 7) acc += x[i];",
    "a step that comes to stay": "for (int i = 64; i >= 0; i >>= 1) { acc += x[t]; y[t] = acc; }",
    "a flag nobody sets": "while (c[0] == 0) { acc += 1.f; }",
    "a way out never taken": "while (true) { k += 1; if (x[t] > 1e9f) break; }",
    "one thread only": "while (j < t) { acc += 1.f; if (t < 31) j += 1; }",
    "inside a loop that ends": "for (int i = 0; i < 4; ++i) { do { acc += x[i]; } while (j == 0); }",
}

LATE = {
    "counted in memory": "while (c[t] < 900) { c[t] += 1; }",
    "counted by atomics": "while (c[0] < 32 * 300) { atomicAdd(&c[0], 1); __syncthreads(); }",
    "counted in shared memory": "while (s[t] < 600) { s[t] += 1; }",
    "a rare step": "while (j < 5) { k += 1; if (k % 128 == 0) j += 1; }",
    "a way out taken late": "while (true) { k += 1; if (k > 700) break; }",
    "a return": "while (true) { k += 1; if (k > 700) return; }",
    "an inner loop decides": "while (j < 200) { int n = 0; for (int i = 0; i < k / 50; ++i) n += 1; j += n; k += 1; }",
    "a skipped step": "while (j < 5) { k += 1; if (k % 128) continue; j += 1; }",
}


def result(loop: str) -> RunResult:
    args = {"c": np.zeros(32, np.int32), "x": np.zeros(128, np.float32), "y": np.zeros(32, np.float32)}
    return run(load(FRAME.format(loop=loop), name="source.cu"), args)


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_loops_are_known_soon(name: str) -> None:
    done = result(ENDLESS[name])
    assert [f.kind for f in done.findings if f.kind == "fuel"] == ["fuel"] and done.steps < 2_000
    assert "changes nothing that could end it" in done.findings[-1].message and done.findings[-1].loc.line == 7


@pytest.mark.parametrize("name", LATE)
def test_loops_that_end_late_are_waited_for(name: str) -> None:
    done = result(LATE[name])
    assert not [f for f in done.findings if f.kind == "fuel"] and done.steps > 600


def test_a_fatal_finding_ends_the_run() -> None:
    loop = "for (int i = 0; i < 300; ++i) acc += x[i + 1]; y[t + 40] = acc;"
    whole = result(loop)
    kernel = load(FRAME.format(loop=loop), name="source.cu")
    args = {"c": np.zeros(32, np.int32), "x": np.zeros(128, np.float32), "y": np.zeros(32, np.float32)}
    cut = run(kernel, args, fatal=lambda f: f.buffer == "y")
    soon = run(kernel, args, fatal=lambda f: f.buffer == "x")
    assert [f.buffer for f in whole.findings] == ["x", "y"] == [f.buffer for f in cut.findings]
    assert [f.buffer for f in soon.findings] == ["x"] and soon.steps < 300 < cut.steps < whole.steps
    assert str(soon.findings[0]).startswith(str(whole.findings[0]).split(",")[0])
