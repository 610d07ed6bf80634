"""Block reductions as people write them: each raises to ``reduce``, with no barrier, shuffle or shared array."""

from __future__ import annotations

import subprocess

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc, Barrier, HwIndex, Reduce, WarpOp
from ktc.ir.text import print_kernel
from ktc.ir.types import Array
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
from tests import devices
from tests.passes.raising.raised_once import raised
from tests.passes.raising.reduction_sources import ARGMAX, REDUCTIONS, TREE_BACKWARDS, UNROLLED_WARP, WELFORD

ALGEBRAIC = {"welford"}
"""Equal as rational functions, not by reassociation alone: compared in the finite field."""


@pytest.mark.parametrize("name", REDUCTIONS)
def test_raises_to_a_reduction(name: str) -> None:
    source, ops = REDUCTIONS[name]
    kernel, outcome = raised(source)
    body = outcome.kernel.body
    listing = print_kernel(outcome.kernel)
    arrays = [s.sym.type for s in walk(body) if isinstance(s, Alloc)]
    assert not any(isinstance(t, Array) and t.space == "shared" for t in arrays), listing
    assert not any(isinstance(s, Barrier) for s in walk(body))
    assert not any(isinstance(e, WarpOp | HwIndex) for e in all_exprs(body))
    assert {a.op for s in walk(body) if isinstance(s, Reduce) for a in s.accs} == ops, listing
    assert not any("left:" in note for note in outcome.notes), outcome.notes
    domains = ("field",) if name in ALGEBRAIC else ("int", "field")
    reference = Reference(kernel, instances=5, seed=41)
    given = outcome.kernel.assumptions
    assert reference.differs(outcome.kernel, domains, given=given) == ""
    assert reference.differs(materialise(outcome.kernel), domains, given=given) == ""


@pytest.mark.parametrize(
    "source, old, new",
    [
        (TREE_BACKWARDS, "w > 0; w >>= 1", "w > 1; w >>= 1"),
        (TREE_BACKWARDS, "s[t] += s[t + w]", "s[t] += s[t + w] + s[t]"),
        (UNROLLED_WARP, "s[t] += s[t + 8];", ""),
        (ARGMAX, "si[t + w] < si[t]", "si[t + w] < w"),
        (WELFORD, "d * d * na * nb / nn", "d * d * na / nn"),
    ],
    ids=["short-tree", "doubled", "missing-step", "odd-ties", "wrong-weight"],
)
def test_a_broken_reduction_is_not_one(source: str, old: str, new: str) -> None:
    """Seeded mistakes in the source: no reduction over the threads may be claimed for the broken value."""
    assert old in source
    kernel = load(source.replace(old, new), name="source.cu")
    outcome = Raise().run(kernel)
    if isinstance(outcome, Result):
        assert Reference(kernel, instances=6, seed=17).differs(outcome.kernel, ("field",)) == ""
        assert any("left:" in note for note in outcome.notes), print_kernel(outcome.kernel)


def test_what_is_written_with_cub_compiles_with_cub_itself(tmp_path) -> None:
    """The sources are CUDA as it is, not what the front end's own description of the library lets through."""
    devices.compiler("cuda")
    texts = [source for name, (source, _) in REDUCTIONS.items() if name.startswith("cub-")]
    (tmp_path / "all.cu").write_text("".join(texts))
    command = ["nvcc", "-cubin", "-arch=sm_90", "-std=c++17", "all.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if "No such file" in done.stderr:
        pytest.skip("needs the headers of cub")
    assert done.returncode == 0, done.stderr


PAIRS_WRITTEN_OUT = """
__device__ void reduce(half2 *const v) {
  if (threadIdx.x < 4) v[threadIdx.x] = __hadd2(v[threadIdx.x], v[threadIdx.x + 4]);
  __syncthreads();
  if (threadIdx.x < 2) v[threadIdx.x] = __hadd2(v[threadIdx.x], v[threadIdx.x + 2]);
  __syncthreads();
  if (threadIdx.x < 1) v[threadIdx.x] = __hadd2(v[threadIdx.x], v[threadIdx.x + 1]);
  __syncthreads();
}
__global__ void dot(const half2 *a, const half2 *b, float *r, int n) {
  __shared__ half2 part[8];
  part[threadIdx.x] = __float2half2_rn(0.f);
  half2 value = __float2half2_rn(0.f);
  for (int i = threadIdx.x + blockIdx.x * 8; i < n; i += gridDim.x * 8) value = __hfma2(a[i], b[i], value);
  part[threadIdx.x] = value;
  __syncthreads();
  reduce(part);
  if (threadIdx.x == 0) {
    half2 result = part[0];
    float sum = __low2float(result) + __high2float(result);
    r[blockIdx.x] = sum;
  }
}
void launch(half2 *a, half2 *b, float *r, int n) { dot<<<4, 8>>>(a, b, r, n); }
"""


def test_a_tree_of_pairs_stays_loops_over_threads() -> None:
    """What a thread has for itself before the tree is a vector, of which no total is known."""
    kernel = load("#include <cuda_fp16.h>\n" + PAIRS_WRITTEN_OUT, name="pairs.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result) and any("left:" in note for note in outcome.notes), outcome
    reference = Reference(kernel, instances=3, seed=41)
    assert reference.differs(materialise(outcome.kernel)) == ""
