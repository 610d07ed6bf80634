"""Branches of the launcher that no usual instance takes: shown in a launch whose limit is made small."""

from __future__ import annotations

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Expr, Var
from ktc.ir.walk import map_body, walk_expr
from ktc.ir.workload import ArgSpec, Workload
from ktc.search.verification import verify
from tests.passes.checks import applied
from tests.search.verification.gate_samples import _workload, scalar

SPLIT = """
dim3 shape(size_t n) {
  size_t k = (n - 1) / 128 + 1, y = 1;
  if (k > 65535) { y = (k + 65534) / 65535; k = 65535; }
  return dim3(k, y, 1);
}
__global__ void scale(float* a, int n) {
  int i = (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x;
  if (i < n) a[i] *= 2;
}
void run(float* a, int n) { scale<<<shape(n), 128>>>(a, n); }
"""

LIMITED = """
__global__ void rowwise(float* __restrict__ o, const float* __restrict__ a, int rows, int cols) {
  for (int j = blockIdx.x; j < rows; j += gridDim.x)
    for (int t = threadIdx.x; t < cols; t += blockDim.x) o[j * cols + t] = 2 * a[j * cols + t];
}
void run(float* o, const float* a, int rows, int cols) {
  rowwise<<<rows < 65535 ? rows : 65535, cols < 512 ? cols : 512>>>(o, a, rows, cols);
}
"""


def workload(*buffers: str, **sizes: int) -> Workload:
    """Buffers of as many elements as the product of ``sizes``, which are parameters too."""
    args = tuple(ArgSpec(b, "f32", "inout", tuple(sizes), init="normal", noalias=True) for b in buffers)
    return _workload("k", args + tuple(scalar(s, s) for s in sizes), sizes)


def raised(text: str) -> tuple[Kernel, Kernel]:
    kernel = load(text, name="source.cu")
    return kernel, applied(kernel, "raise")


def test_a_grid_split_over_two_axes_is_run_with_a_small_limit() -> None:
    kernel, form = raised(SPLIT)
    verdict = verify(kernel, form, workload("a", n=5000))
    assert verdict.status == "TESTED", verdict
    assert "in every run" not in verdict.reason


def test_what_is_wrong_above_the_limit_alone_is_not_passed() -> None:
    kernel, form = raised(SPLIT)
    wrong = form.with_(body=map_body(form.body, lambda s: s, _rows_of_blocks_apart))
    assert wrong.body != form.body
    verdict = verify(kernel, wrong, workload("a", n=5000))
    assert verdict.status == "UNKNOWN" and "in every run" in verdict.reason, verdict


def _rows_of_blocks_apart(e: Expr) -> Expr:
    """Twice what blocks beyond the first row of the grid add to an index."""
    mine = (
        isinstance(e, Binary)
        and e.op == "*"
        and any(isinstance(x, Var) and x.sym.name == "block_y" for x in walk_expr(e.a))
    )
    return Binary("*", e, Const(2, e.type)) if mine else e  # type: ignore[arg-type]


def test_a_block_of_as_many_threads_as_columns_up_to_a_limit() -> None:
    kernel, form = raised(LIMITED)
    assert verify(kernel, form, workload("o", "a", rows=900, cols=700)).status == "TESTED"
