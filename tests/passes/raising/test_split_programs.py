"""Values of threads that live from one parallel loop to the next."""

from __future__ import annotations

import pytest

from ktc.ir.fold import i32
from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc, Assign, Binary, Const, Decl, Store, Var, fresh
from ktc.ir.types import F32, Array, Scalar
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.recognise.items import Segment, Team
from ktc.passes.raising.recognise.split_programs import Emitter
from ktc.passes.raising.recognise.statement_kinds import Left
from ktc.passes.raising.recognise.threads import ThreadLoops


def test_a_block_of_one_thread_keeps_its_values_in_rows_of_one() -> None:
    number = F32
    assert isinstance(number, Scalar)
    kept = fresh("kept", number)
    first = Decl(kept, Const(1.0, number))
    later = Assign(kept, Binary("+", Var(kept), Const(2.0, number)))
    emitter = Emitter(Team(()), frozenset({kept}))
    body = emitter.emit([Segment([first]), Segment([later])], (first, later))
    rows = [s.sym.type for s in walk(body) if isinstance(s, Alloc)]
    stores = [s for s in walk(body) if isinstance(s, Store)]
    assert len(rows) == 1 and isinstance(rows[0], Array) and len(rows[0].shape) == 1
    assert len(stores) == 2 and all(len(s.index) == 1 for s in stores)


MEETING = """
__global__ void k(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  if (x[threadIdx.x] > 0) {
    y[threadIdx.x] = s[0];
    MEET;
    y[threadIdx.x] += 1;
  }
}
void run(float* y, const float* x) { k<<<1, 64>>>(y, x); }
"""


@pytest.mark.parametrize(
    ("meet", "said"),
    [
        ("__threadfence()", "a memory fence stands under control that differs between threads"),
        (
            "y[0] = __shfl_sync(0xffffffff, s[1], 3)",
            "a warp operation stands under control that differs between threads",
        ),
    ],
)
def test_what_threads_meet_at_under_their_own_control_has_its_name(meet: str, said: str) -> None:
    kernel = load(MEETING.replace("MEET", meet), name="source.cu")
    assert kernel.launch is not None
    with pytest.raises(Left, match=said):
        ThreadLoops(Team((("x", "tx", i32(64)),)), kernel.launch).raised(kernel.body)


WAVE = """
#include <cooperative_groups.h>
__global__ void k(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  auto all = cooperative_groups::this_grid();
  for (int t = 1; t < n; t++) {
    if (i + 1 < n) y[t * n + i] = y[(t - 1) * n + i] + y[(t - 1) * n + i + 1];
    all.sync();
  }
}
void run(float* y, int n) {
  void* args[] = {&y, &n};
  cudaLaunchCooperativeKernel((void*)k, BLOCKS, 64, args);
}
"""


def test_blocks_that_wait_for_each_other_are_no_loop_over_blocks() -> None:
    kernel = load(WAVE.replace("BLOCKS", "(n + 63) / 64"), name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-BARRIER"
    assert outcome.why.startswith("blocks wait for each other here") and outcome.locs[0].line == 8
