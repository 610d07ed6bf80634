"""Kernels whose code and whose launch call one number by different names, and guards that the launch does not meet."""

from __future__ import annotations

import numpy as np
import pytest

import ktc
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Binary, If, Par, Var
from ktc.ir.text import print_expr, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.invented_arguments import extreme_arguments, invented_arguments
from ktc.passes.raising.raise_ import Raise

ROWS = """
__global__ void scale(float* y, const float* x, int rows, int width) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  for (int c = 0; c < width; c++) y[r * width + c] = 2.0f * x[r * width + c];
}
void run(float* y, const float* x, int batch, int length, int width) {
  scale<<<(batch * length + 63) / 64, 64>>>(y, x, batch * length, width);
}
"""

GROUPS = """
__global__ void sums(float* out, const float* in, int rows, int width) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int c = lane; c < width; c += 32) sum += in[row * width + c];
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (lane == 0) out[row] = sum;
}
void run(float* out, const float* in, int batch, int length, int width) {
  int n = length * batch;
  sums<<<(batch * length + 3) / 4, 128>>>(out, in, n, width);
}
"""

INSIDE = """
__global__ void scale(float* y, const float* x, int batch, int length) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < batch * length) y[r] = 2.0f * x[r];
}
void run(float* y, const float* x, int batch, int length) {
  int rows = batch * length, blocks = (rows + 63) / 64;
  scale<<<blocks, 64>>>(y, x, batch, length);
}
"""


def raised(kernel: Kernel) -> Kernel:
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    return outcome.kernel


def facts(kernel: Kernel) -> list[tuple[str, str]]:
    return [(print_expr(a.expr), a.origin) for a in kernel.assumptions]


def guards(kernel: Kernel) -> list[str]:
    return [print_expr(s.cond) for s in walk(kernel.body) if isinstance(s, If)]


def outer(kernel: Kernel) -> str:
    return next(print_expr(s.hi) for s in walk(kernel.body) if isinstance(s, Par))


@pytest.mark.parametrize("source", [ROWS, GROUPS])
def test_a_size_that_the_launch_makes_of_others_ends_the_loop(source: str) -> None:
    kernel = load(source, name="k.cu")
    assert kernel.assumptions == ()
    form = raised(kernel)
    assert outer(form) == "rows" and guards(form) == [], print_kernel(form)
    ((fact, origin),) = facts(form)
    assert (fact, origin) in {("rows == batch * length", "observed"), ("rows == length * batch", "observed")}
    x = np.arange(1, 2001, dtype=np.float32)
    names = [p.sym.name for p in kernel.params][:2]
    for batch, length, width in ((1, 1, 3), (3, 23, 7), (2, 64, 1)):
        sizes = {"rows": batch * length, "batch": batch, "length": length, "width": width}
        args = {names[0]: np.zeros_like(x), names[1]: x, **sizes}
        want = run(kernel, args, domain="field").outputs[names[0]]
        for k in (form, materialise(form)):
            got = run(k, args, domain="field")
            assert got.ok and (got.outputs[names[0]] == want).all()


def test_a_launch_over_what_the_code_makes_of_its_parameters_needs_nothing() -> None:
    form = raised(load(INSIDE, name="k.cu"))
    assert facts(form) == [] and guards(form) == [] and outer(form) == "batch * length"


def test_nothing_is_assumed_where_no_guard_hangs_on_it() -> None:
    strided = ROWS.replace("int r = blockIdx.x * blockDim.x + threadIdx.x;\n  if (r >= rows) return;", """
  for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += gridDim.x * blockDim.x)""")  # fmt: skip
    form = raised(load(strided, name="k.cu"))
    assert facts(form) == [] and outer(form) == "rows"


def test_a_launch_of_other_sizes_shows_nothing() -> None:
    other = ROWS.replace("(y, x, batch * length, width)", "(y, x, batch * length + 1, width)")
    form = raised(load(other, name="k.cu"))
    assert facts(form) == [] and guards(form) == []
    assert outer(form) == "min(rows, 64 * ((batch * length + 63) / 64))"


def test_what_the_user_declares_is_used_and_kept() -> None:
    unknown = ROWS.replace("x, batch * length, width", "x, rows, width").replace(
        "width) {\n  s", "width, int rows) {\n  s"
    )
    kernel = load(unknown, name="k.cu")
    names = {p.sym.name: Var(p.sym) for p in kernel.params}
    equal = Assume(Binary("==", Binary("*", names["length"], names["batch"]), names["rows"]))
    form = raised(kernel.with_(assumptions=(equal,)))
    assert outer(form) == "rows" and form.assumptions == (equal,)
    assert outer(raised(kernel)).startswith("min(rows, 64 *")


def test_arguments_are_invented_as_the_equality_has_them() -> None:
    kernel = load(ROWS, name="k.cu")
    names = {p.sym.name: Var(p.sym) for p in kernel.params}
    equal = Assume(Binary("==", names["rows"], Binary("*", names["batch"], names["length"])), "observed")
    kernel = kernel.with_(assumptions=(equal,))
    made = [*invented_arguments(kernel, 4, 1), *extreme_arguments(kernel, 1)]
    assert len(made) > 4 and all(a["rows"] == a["batch"] * a["length"] for a in made)


@pytest.mark.parametrize(
    ("guard", "grid", "ends"),
    [
        ("i < n && j < m", "dim3(blocks, rows)", ["min(m, rows)", "min(n, 64 * blocks)"]),
        ("j < m && x[i] > 0.0f && i < n", "dim3(blocks, rows)", ["min(m, rows)", "min(n, 64 * blocks)"]),
        ("i < n || j < m", "dim3(blocks, rows)", ["rows", "64 * blocks"]),
        ("i < n - j && j < m", "dim3(blocks, rows)", ["min(m, rows)", "64 * blocks"]),
    ],
)
def test_a_guard_that_a_launch_may_not_meet_ends_its_loop(guard: str, grid: str, ends: list[str]) -> None:
    source = f"""
__global__ void scale(float* y, const float* x, int n, int m) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
  if ({guard}) y[j * 512 + i] = 2.0f * x[i];
}}
void run(float* y, const float* x, int n, int m, int blocks, int rows) {{ scale<<<{grid}, 64>>>(y, x, n, m); }}
"""
    kernel = load(source, name="k.cu")
    form = raised(kernel)
    assert [print_expr(s.hi) for s in walk(form.body) if isinstance(s, Par)] == ends and form.assumptions == ()
    x = np.arange(1, 4001, dtype=np.float32)
    for n, m, blocks, rows in ((100, 3, 2, 4), (300, 5, 2, 3), (-4, 2, 1, 2), (64, 0, 1, 2)):
        args = {"y": np.zeros_like(x), "x": x, "n": n, "m": m, "blocks": blocks, "rows": rows}
        want = run(kernel, args).outputs["y"]
        for k in (form, materialise(form)):
            assert (run(k, args).outputs["y"] == want).all()


PAIRS = """
__global__ void swap_halves(float* state, int bit, unsigned long long size) {
  unsigned long long half = size >> 1;
  BODY
    unsigned long long low = (k >> bit << (bit + 1)) + (k & ((1ULL << bit) - 1)), high = low + (1ULL << bit);
    float kept = state[low];
    state[low] = state[high];
    state[high] = kept;
  }
}
void run(float* state, int bit, unsigned long long size, unsigned int most) {
  unsigned long long half = size >> 1;
  unsigned int block = half <= most ? half : most;
  swap_halves<<<(half + block - 1) / block, block>>>(state, bit, size);
}
"""


@pytest.mark.parametrize(("also", "more"), [("", ""), ("int places[2]; ", "k += places[0] = 0;")])
def test_an_index_wider_than_that_of_threads_is_one_loops(also: str, more: str) -> None:
    """Up to what its guard calls by a name, whatever the block is; also where the index changes later on."""
    body = f"{also}unsigned long long k = blockIdx.x * blockDim.x + threadIdx.x; if (k < half) {{ {more}"
    form = raised(load(PAIRS.replace("BODY", body), name="k.cu"))
    (end,) = (print_expr(s.hi) for s in walk(form.body) if isinstance(s, Par))
    assert end.startswith("min(size >> 1_u64, ") and not guards(form)


def test_a_step_that_needs_a_plain_nest_applies() -> None:
    found = ktc.loads(ROWS).apply("raise | tile{loops=r sizes=16} | interchange{outer=r}")
    assert found.refused is None, found.refused


def test_a_form_that_hangs_on_what_is_seen_is_the_only_one_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    own = Raise._checked

    def counted(self: Raise, kernel: Kernel, launch: Launch) -> object:
        asked.append(len(kernel.assumptions))
        return own(self, kernel, launch)

    monkeypatch.setattr(Raise, "_checked", counted)
    monkeypatch.setenv("KTC_RAISE_CACHE", "off")
    assert facts(raised(load(ROWS, name="k.cu"))) and asked == [1]
