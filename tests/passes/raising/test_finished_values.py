"""Values that one thread finishes in the place where threads put them together, in a place of their own."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Reduce
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.staging.finished_values import with_finished_values
from tests.passes.checks import applied

TREE = "for (int d = 16; d > 0; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }"


def kernel_of(finish: str, then: str, before: str = "", after: str = "") -> Kernel:
    return load(
        f"""
__global__ void k(float* y, const float* x, int n) {{
  __shared__ float s[33];
  int t = threadIdx.x, r = blockIdx.x;
  {before}
  float sum = 0.0f;
  for (int i = t; i < n; i += 32) sum += x[r * n + i];
  s[t] = sum;
  __syncthreads();
  {TREE}
  {finish}
  __syncthreads();
  {then}
  {after}
}}
void host(float* y, const float* x, int n, int rows) {{ k<<<rows, 32>>>(y, x, n); }}
""",
        name="k.cu",
    )


MEAN = "if (t == 0) s[0] = s[0] / n;"
REST = "float mean = s[0]; __syncthreads(); "
SQUARES = (
    f"{REST} float q = 0.0f; for (int i = t; i < n; i += 32) q += (x[r * n + i] - mean) * (x[r * n + i] - mean);"
    f" s[t] = q; __syncthreads(); {TREE} if (t == 0) y[r] = s[0] / n;"
)
MOVED = {
    "the last result": (MEAN, "for (int i = t; i < n; i += 32) y[r * n + i] = x[r * n + i] * s[0];", "", ""),
    "another exchange": (MEAN, SQUARES, "", ""),
    "with other work": (
        "if (t == 0) { float m = s[0] * 2.0f; s[0] = m + 1.0f; y[r] = m; }",
        f"{REST} y[99 + t] = mean;",
        "",
        "",
    ),
    "read as the next is brought": (MEAN, f"s[t] = s[0] + t; __syncthreads(); {TREE} y[r] = s[0];", "", ""),
}
KEPT = {
    "another element is read": (MEAN, "y[r * 32 + t] = s[t];", "", ""),
    "not brought anew by the first thread": (
        MEAN,
        f"{REST} if (t > 0) s[t] = mean; __syncthreads(); y[t] = s[t];",
        "",
        "",
    ),
    "brought to another place": (MEAN, f"{REST} s[t + 1] = mean; __syncthreads(); y[t] = s[0];", "", ""),
    "the next round reads it": (
        MEAN,
        f"{REST} y[t] = mean; __syncthreads();",
        "for (int j = 0; j < 2; ++j) {{ y[40] = s[0];",
        "}}",
    ),
    "a number": ("if (t == 0) s[0] = 3.0f;", f"{REST} y[t] = mean;", "", ""),
}


@pytest.mark.parametrize("case", MOVED)
def test_moved(case: str) -> None:
    kernel = kernel_of(*MOVED[case])
    after = with_finished_values(kernel)
    assert "s_own[0] = " in print_kernel(after)
    for n in (1, 5, 40):
        x = np.arange(2 * n, dtype=np.float32) % 7
        args = {"y": np.zeros(200, np.float32), "x": x, "n": n, "rows": 2}
        got = [run(k, args).outputs["y"] for k in (kernel, after)]
        assert got[0].tobytes() == got[1].tobytes()


@pytest.mark.parametrize("case", KEPT)
def test_kept(case: str) -> None:
    finish, then, before, after = KEPT[case]
    kernel = kernel_of(finish, then, before.replace("{{", "{"), after.replace("}}", "}"))
    assert with_finished_values(kernel) is kernel


def test_both_exchanges_are_sums() -> None:
    raised = applied(kernel_of(*MOVED["another exchange"]), "raise")
    assert sum(isinstance(s, Reduce) for s in walk(raised.body)) == 2
