"""The audit itself: it passes what is right and sees a loop that does more, less or something else."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Break
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.passes.core.base import Result, Site
from ktc.passes.core.catalogue import PASSES
from ktc.passes.raising.raise_ import Raise

from .compare import audit
from .steps import all_steps

SOURCE = """
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 1;
}
void launch(const float* x, float* y, int n) { scale<<<(n + 127) / 128, 128>>>(x, y, n); }
"""


@pytest.mark.parametrize(
    "old, new", [("", ""), ("0..n", "1..n"), ("0..n", "0..n + 1"), ("x[i]", "x[i / 2 * 2]"), ("2.0 *", "3.0 *")]
)
def test_sees_a_seeded_difference(old: str, new: str) -> None:
    source = load(SOURCE, name="source.cu")
    outcome = Raise().run(source)
    assert isinstance(outcome, Result)
    text = print_kernel(outcome.kernel)
    assert old in text, text
    verdict = audit(source, parse_kernel(text.replace(old, new, 1)), count=6, seed=3, seconds=20)
    assert (verdict.wrong == "") == (old == new), verdict
    assert verdict.clean


TREE = """
__global__ void total(const int* x, int* y) {
  extern __shared__ int part[];
  part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
void launch(const int* x, int* y, int n, int threads) { total<<<n, threads, threads * sizeof(int)>>>(x, y); }
"""


def test_holds_a_kernel_to_what_the_launcher_takes_it_for() -> None:
    source = load(TREE, name="source.cu")
    outcome = Raise().run(source)
    assert isinstance(outcome, Result) and outcome.kernel.assumptions
    assert audit(source, outcome.kernel, count=12, seed=3, seconds=20).wrong == ""
    assert audit(source, outcome.kernel.with_(assumptions=()), count=12, seed=3, seconds=20).wrong


def test_takes_every_suggested_step() -> None:
    found = all_steps(load(SOURCE, name="source.cu"))
    assert found.tried > 10 and not found.bugs


def test_a_pass_that_breaks_its_kernel_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    unroll = PASSES["unroll"]

    def broken(kernel: Kernel, args: object) -> Result:
        return Result(kernel.with_(body=(*kernel.body, Break())))

    def asked(kernel: Kernel) -> list[Site]:
        return [Site(unroll.step(loop="i", factor=2))] if kernel.is_parallel else []

    monkeypatch.setattr(unroll, "apply", broken)
    monkeypatch.setattr(unroll, "sites", asked)
    (bug,) = all_steps(load(SOURCE, name="source.cu")).bugs
    assert bug[0] == "raise | unroll{loop=i factor=2}" and "break outside a loop" in bug[1]


def test_what_the_host_passes_is_no_part_of_the_program() -> None:
    """A size that the host computes of others: the text shows the parameter alone, and reads back to one kernel."""
    source = SOURCE.replace("float* y, int n) { scale", "float* y, int rows, int cols) { int n = rows * cols; scale")
    kernel = load(source, name="source.cu")
    assert kernel.launch is not None and kernel.launch.passed
    assert canonical(parse_kernel(print_kernel(kernel))) == canonical(kernel)
