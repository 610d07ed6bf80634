"""Programmatic dependent launch: what waits for the launches before it waits however it is rewritten and printed."""

from __future__ import annotations

import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.grid_dependencies import as_flags, grid_dependencies
from ktc.ir.nodes import GridDependency, InlineAsm
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification.job import Job
from ktc.search.verification.rungs.static import static
from tests.search.verification.rungs.test_static import WIDE, WORKLOAD

BY_CALLS = "cudaGridDependencySynchronize();", "cudaTriggerProgrammaticLaunchCompletion();"
BY_ASSEMBLY = 'asm volatile("griddepcontrol.wait;" ::: "memory");', 'asm volatile("griddepcontrol.launch_dependents;");'
BOTH = frozenset({"wait", "release"})


def doubled(wait: str, release: str):
    return load(
        f"""__global__ void doubled(const float* x, float* y, int n) {{
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              {wait}
              if (i < n) y[i] = 2.f * x[i];
              {release}
            }}
            void go(const float* x, float* y, int n) {{ doubled<<<(n + 255) / 256, 256>>>(x, y, n); }}""",
        name="doubled.cu",
    )


@pytest.mark.parametrize("spelled", [BY_CALLS, BY_ASSEMBLY], ids=["calls", "assembly"])
def test_a_kernel_says_where_it_waits_and_releases(spelled: tuple[str, str]) -> None:
    kernel = doubled(*spelled)
    assert [s.what for s in walk(kernel.body) if isinstance(s, GridDependency)] == ["wait", "release"]
    assert not any(isinstance(s, InlineAsm) for s in walk(kernel.body))
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    text = emit(kernel, "cuda").text
    assert (
        text.index("  grid_dependency_wait();") < text.index("if (i < n)") < text.index("  grid_dependency_release();")
    )
    assert grid_dependencies(load(text, name="again.cu")) == BOTH


def test_a_raised_kernel_waits_before_it_does_anything() -> None:
    raised = apply_script(doubled(*BY_ASSEMBLY), parse_script("raise")).kernel
    assert raised.is_parallel
    assert {"grid_wait", "grid_release"} <= raised.flags
    lines = [line.strip() for line in emit(materialise(raised), "cuda").text.splitlines()]
    body = lines[lines.index("grid_dependency_wait();") - 1 :]
    assert body[0].endswith("{")
    assert body[-2:] == ["grid_dependency_release();", "}"]


@pytest.mark.parametrize("target", ["hip", "opencl", "numba"])
def test_where_launches_do_not_overlap_nothing_is_printed(target: str) -> None:
    for kernel in (doubled(*BY_CALLS), as_flags(doubled(*BY_CALLS))):
        assert "depend" not in emit(kernel, target).text


def test_a_candidate_that_does_not_wait_is_refused() -> None:
    waiting = parse_kernel(WIDE.replace("  for i", "  grid_dependency wait\n  for i"))
    for candidate, status in ((parse_kernel(WIDE), "fail"), (as_flags(waiting), "pass"), (waiting, "pass")):
        outcome = static(Job(waiting, candidate, None, [], WORKLOAD))  # type: ignore[arg-type]
        assert outcome.status == status
        assert status == "pass" or "wait for the launches before it" in outcome.detail
