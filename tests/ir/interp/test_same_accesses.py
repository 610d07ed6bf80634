"""Runs that make the same accesses as one that was looked at: only what they move is looked at."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import RunResult, run
from ktc.ir.interp.same_accesses import same_accesses
from ktc.ir.interp.sanitizer.shadow import Shadow
from ktc.ir.kernel import Kernel


def kernel_of(body: str) -> Kernel:
    return load(
        "__global__ void k(float* y, const float* x, int n) {\n"
        "  __shared__ float s[64];\n  const int t = threadIdx.x;\n"
        f"{body}\n}}\n"
        "void host(float* y, const float* x, int n) { k<<<2, 64>>>(y, x, n); }\n",
        name="k.cu",
    )


def ran(kernel: Kernel, x: object, before: RunResult | None = None, domain: str = "float") -> RunResult:
    args = {"y": np.zeros(128, np.float32), "x": np.full(128, x, np.float32), "n": 40}
    return run(kernel, args, domain=domain, before=before)


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found, touch = list[str](), Shadow.touch
    monkeypatch.setattr(Shadow, "touch", lambda self, *given: (found.append(given[4]), touch(self, *given))[1])
    return found


UNREAD = "float own[2]; if (t < n) own[0] = x[t]; own[1] = own[0] * 2.f; s[t] = t < n ? own[1] : 1.f; __syncthreads();"


def test_other_poison_in_the_same_places_is_not_looked_at(touched: list[str]) -> None:
    found = ran(kernel_of(f"{UNREAD} y[t + 64 * blockIdx.x] = s[63 - t];"), 3.0)
    assert found.ok and touched == ["write", "read", "write"]


def test_what_poison_leads_to_is_found(touched: list[str]) -> None:
    """Only what nobody wrote is large in one run and below zero in the next decides who stores."""
    found = ran(
        kernel_of("float own[2]; if (t < n) own[0] = -1.f; if (own[0] < 0.f) y[t + 64 * blockIdx.x] = 1.f;"), 3.0
    )
    assert {f.kind for f in found.findings} >= {"uninitialised"}
    index = ran(kernel_of("int own[2]; if (t < 0) own[0] = 1; y[own[0] > 50 ? 0 : t + 64 * blockIdx.x] = 1.f;"), 3.0)
    assert "uninitialised" in {f.kind for f in index.findings}


def test_a_branch_that_goes_another_way_is_looked_at(touched: list[str]) -> None:
    kernel = kernel_of("if (x[t] > 2.f) { s[0] = x[t]; } __syncthreads(); y[t + 64 * blockIdx.x] = x[t];")
    before = ran(kernel, 1.0)
    assert before.ok
    alike = ran(kernel, 1.5, before)
    assert alike.ok and same_accesses(kernel, before, alike)
    other = ran(kernel, 3.0, before)
    assert not same_accesses(kernel, before, other)
    assert {f.kind for f in other.findings} == {f.kind for f in ran(kernel, 3.0).findings} != set()


def test_results_that_hang_on_poison_are_found_where_floats_choose() -> None:
    """Which of two variables is read is another one for other floats: what nobody wrote comes through."""
    kernel = kernel_of("float v; if (n < 0) v = 1.f; y[t + 64 * blockIdx.x] = x[t] > 2.f ? v : x[t];")
    before = ran(kernel, 1.0)
    assert before.ok
    assert [f.kind for f in ran(kernel, 3.0, before).findings] == ["uninitialised"]
