"""Numbers of blocks that the caller passes: what a candidate does with fewer is compared with what the source does."""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import verify
from tests.search.verification.gate_samples import scalar
from tests.search.verification.rungs.test_small_launch_limits import raised, workload

PASSED = """
__global__ void scale(float* a, int n) {
  int i = (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  a[i] *= 2;
}
void run(float* a, int n, int across, int down) { scale<<<dim3(across, down), 128>>>(a, n); }
"""


def _kernels() -> tuple[Kernel, Kernel, Workload]:
    kernel, form = raised(PASSED)
    work = workload("a", n=5000)
    passed = scalar("across", "(n + 127) / 128"), replace(scalar("down", ""), value=1)
    return kernel, form, replace(work, args=(*work.args, *passed))


def test_what_fewer_blocks_leave_is_left_by_both() -> None:
    kernel, form, work = _kernels()
    assert "min(n, 128 * (across * down))" in print_kernel(form)
    verdict = verify(kernel, form, work)
    assert verdict.status == "TESTED", verdict


def test_a_second_row_of_blocks_that_a_candidate_leaves_out() -> None:
    kernel, form, work = _kernels()
    wrong = parse_kernel(print_kernel(form).replace("(across * down)", "across"))
    verdict = verify(kernel, wrong, work)
    assert verdict.status == "UNKNOWN" and "other numbers of blocks" in verdict.reason, verdict


def test_numbers_of_blocks_that_are_promised_stay() -> None:
    kernel, form, work = _kernels()
    fixed = tuple(replace(a, range=(1, 1)) if a.name == "down" else a for a in work.args)
    fixed = tuple(replace(a, range=(1, 1 << 20)) if a.name == "across" else a for a in fixed)
    verdict = verify(kernel, form, replace(work, args=fixed))
    assert verdict.status == "UNKNOWN" and "in every run" in verdict.reason, verdict
