"""Rows of warps that go their own ways: serial loops as long as a row says, blocks of a size that the host chooses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from ktc.ir.fold import add
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, For, Par, Stmt, Var, fresh, i32
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import I32
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.raising.check.exact_check import Reference
from tests.passes.raising.test_raise_rows import NARROW, NORM, lowered, outcome

WINDOWS = """
__global__ void suffix(const float* x, float* y, int n) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= n) return;
  for (int k = row; k < n; ++k) {
    float sum = 0.0f;
    for (int i = lane; i <= k; i += 32) sum += x[k * n + i];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (lane == 0) y[row * n + k] = sum;
  }
}
void launch(const float* x, float* y, int n) { suffix<<<(n + 7) / 8, 256>>>(x, y, n); }
"""


def test_warps_go_round_a_loop_as_often_as_their_row_says() -> None:
    form = outcome(WINDOWS).kernel
    text = print_kernel(form)
    assert "par row in 0..n @ [thread.y 8, block.x]" in text and "for k in row..n" in text, text
    assert "barrier" not in lowered(form)


def test_threads_of_a_block_do_not_meet_in_such_a_loop() -> None:
    """64 threads a row: the halves of a sum meet at a barrier, which other rows do not come to."""
    wide = parse_kernel(NARROW.replace("[thread.x 16, seq]", "[thread.x 64, seq]").replace("16, 16)", "64, 16)"))
    body = tuple(_around(s) for s in wide.body)
    with pytest.raises(LoweringError, match="take different ways"):
        materialise(wide.with_(body=body))


def _around(s: Stmt) -> Stmt:
    """``s``, a loop over rows, with its body in a serial loop as long as the row says."""
    assert isinstance(s, Par)
    v = fresh("k", I32)
    loop = For(v, i32(0), Binary("<", Var(v), Var(s.var)), add(Var(v), i32(1)), s.body)
    return dataclasses.replace(s, body=(loop,))


HOST_BLOCKS = NORM.replace("int rows, int d) {\n  norm", "int rows, int d, int size) {\n  norm").replace(
    "<<<(rows + 7) / 8, 256>>>", "<<<(32 * rows + size - 1) / size, size>>>"
)


def test_what_fresh_sizes_refute_may_hold_of_whole_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    afresh = Reference.differs_afresh

    def unlucky(self: Reference, guess: Kernel, domains: Sequence[str], given: Sequence[Assume] = ()) -> str:
        return afresh(self, guess, domains, given) if self.source.assumptions else "it differs"

    monkeypatch.setattr(Reference, "differs_afresh", unlucky)
    found = outcome(HOST_BLOCKS)
    assert any("multiple of 32" in n for n in found.notes), found.notes
    assert "par row in 0..rows" in print_kernel(found.kernel)


LOCKSTEP = """
__global__ void scaled(float* y, int y_stride, const float* x, int x_stride, int d) {
  __shared__ float part[64];
  int row = blockIdx.x, tid = threadIdx.x;
  float sum = 0.0f;
  for (int j = tid; j < d; j += 64) sum += x[row * x_stride + j] * x[row * x_stride + j];
  part[tid] = sum;
  __syncthreads();
  for (int shift = 32; shift > 0; shift /= 2) {
    if (tid < 32) part[tid] += part[tid + shift];
    __syncwarp();
  }
  __syncthreads();
  for (int j = tid; j < d; j += 64) y[row * y_stride + j] = y[row * y_stride + j] * part[0] + x[row * x_stride + j];
}
void launch(float* y, int y_stride, const float* x, int x_stride, int n, int d) {
  scaled<<<n, 64>>>(y, y_stride, x, x_stride, d);
}
"""


def test_rows_of_a_source_that_relies_on_lockstep_are_compared_where_they_do_not_overlap() -> None:
    """Lanes read what others write in the same statement: a race in all launches, which hides the rows' own."""
    found = outcome(LOCKSTEP)
    assert "reduce(+) sum: f32 = 0.0 over j in 0..d" in print_kernel(found.kernel)
    assert any("race: part[" in note and "in all launches" in note for note in found.notes)
