"""A raised loop does what the launch's threads did, no more: guards, launches and sizes that have nothing in common."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Par, Reduce, Return
from ktc.ir.text import print_expr, print_kernel
from ktc.ir.walk import rename, walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise

SCALE = """
__global__ void scale(const float* x, float* y, int n, int k) {
  TYPE i = blockIdx.x * blockDim.x + threadIdx.x;
  if (GUARD) y[i] = 2 * x[i];
}
void launch(const float* x, float* y, int n, int k, int blocks) { scale<<<GRID, 128>>>(x, y, n, k); }
"""


def source(guard: str, grid: str, type_: str = "int") -> Kernel:
    return load(SCALE.replace("GUARD", guard).replace("GRID", grid).replace("TYPE", type_), name="source.cu")


def raised(kernel: Kernel) -> Kernel:
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    return outcome.kernel


@pytest.mark.parametrize(
    "guard, grid, sizes",
    [
        ("i < n", "blocks", {"n": 900, "k": 1, "blocks": 2}),
        ("i < n", "40", {"n": 6000, "k": 1}),
        ("i < n - k", "(n + 127) / 128", {"n": 100, "k": -700}),
        ("i < n + k", "(n + 127) / 128", {"n": 100, "k": 800}),
        ("i >= k && i < n", "(n + 127) / 128", {"n": 300, "k": -3}),
        ("i >= k && i < n", "(n + 127) / 128", {"n": 300, "k": 129}),
        ("i > k - 9 && i < n", "(n + 127) / 128", {"n": 300, "k": 2}),
    ],
)
def test_no_thread_is_made_up(guard: str, grid: str, sizes: dict[str, int]) -> None:
    kernel = source(guard, grid)
    x = np.arange(1, 8001, dtype=np.float32)
    args = {**sizes, "x": x, "y": np.zeros_like(x)}
    want = run(kernel, args)
    assert want.ok and want.outputs["y"].any()
    form = raised(kernel)
    for other in (form, materialise(form)):
        got = run(other, args)
        assert got.ok, (got.findings, print_kernel(other))
        np.testing.assert_array_equal(got.outputs["y"], want.outputs["y"], print_kernel(other))


@pytest.mark.parametrize("index", ["int", "unsigned", "size_t"])
def test_a_launch_that_covers_the_guard_gives_the_plain_range(index: str) -> None:
    (loop,) = (s for s in walk(raised(source("i < n", "(n + 127) / 128", index)).body) if isinstance(s, Par))
    assert print_expr(loop.lo) in ("0", "0_u32", "0_u64") and "blocks" not in print_expr(loop.hi)
    assert "n" in print_expr(loop.hi) and "128" not in print_expr(loop.hi)


def test_a_block_size_of_the_host_covers_too() -> None:
    text = SCALE.replace("int blocks", "int blocks, int threads").replace("128>>>", "threads>>>")
    text = text.replace("GUARD", "i < n").replace("GRID", "(n + threads - 1) / threads").replace("TYPE", "int")
    (loop,) = (s for s in walk(raised(load(text, name="source.cu")).body) if isinstance(s, Par))
    assert print_expr(loop.hi) == "n"


def test_the_check_itself_sees_a_range_beyond_the_launch() -> None:
    """Whatever guesses: a loop over all n elements is not what ``blocks`` blocks do."""
    kernel = source("i < n", "blocks")
    wrong = raised(source("i < n", "(n + 127) / 128"))
    again = dict(zip([p.sym.name for p in kernel.params], kernel.params))
    body = load_body_with(wrong, again)
    assert "y[" in Reference(kernel).differs(body, ("int",))


def load_body_with(wrong: Kernel, params: dict) -> Kernel:
    """``wrong`` with the parameters of another kernel, by name."""
    names = {p.sym: params[p.sym.name].sym for p in wrong.params if p.sym.name in params}
    return wrong.with_(params=tuple(params.values()), body=rename(wrong.body, names))


EARLY = """
__global__ void limited(const int* a, int* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    for (int j = 0; j < 4; ++j) {
      if (a[i] > 1000000) return;
      b[i] += a[i] + j;
    }
}
void launch(const int* a, int* b, int n) { limited<<<(n + 63) / 64, 64>>>(a, b, n); }
"""


def test_an_early_return_that_no_check_reaches_is_not_left_in_a_loop() -> None:
    outcome = Raise().run(load(EARLY, name="source.cu"))
    if isinstance(outcome, Result):
        loops = [s for s in walk(outcome.kernel.body) if isinstance(s, Par | Reduce)]
        assert not any(isinstance(x, Return) for s in loops for x in walk(s.body)), print_kernel(outcome.kernel)
    else:
        assert "return" in outcome.why


RARE = """
__global__ void rare(const int* a, int* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int v = a[i];
    if (v > 1000000) v = -1;
    if (v * v == 7) v = n;
    b[i] = v;
  }
}
void launch(const int* a, int* b, int n) { rare<<<(n + 63) / 64, 64>>>(a, b, n); }
"""


def test_what_no_check_entered_is_said() -> None:
    outcome = Raise().run(load(RARE, name="source.cu"))
    assert isinstance(outcome, Result)
    assert any("unchecked" in note and "source.cu:7" in note for note in outcome.notes), outcome.notes


ROWS_OF_WARPS = """
__global__ void rows(const float* x, float* y, int n, int c) {
  int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (i >= n) return;
  float s = 0;
  for (int j = threadIdx.x % 32; j < c; j += 32) s += x[i * c + j];
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
  if (threadIdx.x % 32 == 0) y[i] = RESULT;
}
void launch(const float* x, float* y, int n, int c, int threads) {
  rows<<<(n * 32 + threads - 1) / threads, threads>>>(x, y, n, c);
}
"""


def test_warps_are_understood_at_a_block_size_that_the_host_chooses() -> None:
    form = raised(load(ROWS_OF_WARPS.replace("RESULT", "s"), name="source.cu"))
    assert "par i in 0..n @ [thread.y 8, block.x]" in print_kernel(form)
    assert "over j in 0..c @ [thread.x 32, seq]" in print_kernel(form)


def test_a_result_that_depends_on_the_block_size_is_not_taken_at_one() -> None:
    outcome = Raise().run(load(ROWS_OF_WARPS.replace("RESULT", "s + blockDim.x"), name="source.cu"))
    assert not isinstance(outcome, Result), print_kernel(outcome.kernel)


def test_what_is_taken_not_to_overlap_is_said() -> None:
    def said(text: str) -> list[str]:
        outcome = Raise().run(load(text, name="source.cu"))
        assert isinstance(outcome, Result), outcome
        return [n for n in outcome.notes if "assumed" in n]

    plain = SCALE.replace("GUARD", "i < n").replace("GRID", "(n + 127) / 128").replace("TYPE", "int")
    assert said(plain) == ["assumed: 'y' does not overlap 'x' (write __restrict__ to promise it)"]
    assert said(plain.replace("float* y", "float* __restrict__ y")) == []
    assert said(plain.replace("const float* x", "const int* x")) == []


TOTALS = """
__global__ void scale(const float* x, float* y, int n, int k, int* counts) {
  int i = blockIdx.x * 128 + threadIdx.x;
  int total = TOTAL;
  if (i < total) y[i] = 2 * x[i];
}
void launch(const float* x, float* y, int n, int k, int* counts) {
  scale<<<(n * k + 127) / 128, 128>>>(x, y, n, k, counts);
}
"""


def test_a_bound_may_have_a_name() -> None:
    form = raised(load(TOTALS.replace("TOTAL", "n * k"), name="source.cu"))
    assert "par i in 0..n * k @" in print_kernel(form), print_kernel(form)


@pytest.mark.parametrize("total", ["n * k + 1", "counts[0]", "n * k + (int)(threadIdx.x & 1)"])
def test_a_named_bound_that_the_launch_does_not_cover_stays_a_guard(total: str) -> None:
    outcome = Raise().run(load(TOTALS.replace("TOTAL", total), name="source.cu"))
    loops = [s for s in walk(outcome.kernel.body) if isinstance(s, Par)] if isinstance(outcome, Result) else []
    assert all("128" in print_expr(s.hi) for s in loops), outcome


def test_a_bound_that_changes_and_is_never_beyond_what_the_launch_covers_stays_a_guard_inside() -> None:
    form = print_kernel(raised(load(TOTALS.replace("TOTAL", "n * k * (i % 2)"), name="source.cu")))
    assert "par i in 0..n * k @" in form and "if i < total" in form, form


MASKED = """
__global__ void masked(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * n) {
    int row = i / n, column = i % n;
    if (column > row) {
      y[i] = -1.0f;
      return;
    } else if (column == row) {
      y[i] = 0.0f;
      if (row > 3) return;
    }
    y[i] += x[column];
  }
}
void launch(const float* x, float* y, int n) { masked<<<(n * n + 63) / 64, 64>>>(x, y, n); }
"""


@pytest.mark.parametrize("text", [MASKED, MASKED.replace("      if (row > 3) return;\n", "      return;\n")])
def test_ways_that_end_early_are_ways_of_a_condition(text: str) -> None:
    """A return that only one of two ways comes to, with more to do behind both, stays, and so does the kernel."""
    kernel = load(text, name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result) == (text != MASKED), outcome
    if isinstance(outcome, Result):
        assert not any(isinstance(s, Return) for s in walk(outcome.kernel.body))
        assert Reference(kernel, seed=5).differs(materialise(outcome.kernel)) == ""
